"""A source that changes while its old version is still being processed ends as if it had always been new.

Between two submissions any services may have run, for any number of events: whatever the order, what is
left at the end is what the last version alone would have made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.pipeline_runs import STAGES, Pipeline, mail, mbox, scratch_pipeline

Write = Callable[[Path], None]

A, B, C = (mail(id, f"The text of {id}.", subject=id) for id in "abc")
RENAMED_C = mail("c", "The text of c.", subject="c, as another list shows it")
REPLY = mail("r", "A reply to a.", references=["a"])
OTHER_REPLY = mail("s", "Another reply to a.", references=["a"])


def _archive(*mails: str) -> Write:
    return lambda place: _write(place, {"list.mbox": mbox(*mails)})


def _folder(**files: str | bytes) -> Write:
    return lambda place: _write(place, {name.replace("_", "."): text for name, text in files.items()})


def _write(place: Path, files: dict[str, Any]) -> None:
    for old in place.iterdir():
        old.unlink()
    for name, text in files.items():
        (place / name).write_bytes(text if isinstance(text, bytes) else text.encode())


VERSIONS: dict[str, Sequence[Write]] = {
    "a mailbox that grows": [_archive(A, B), _archive(A, B, REPLY)],
    "a mailbox that loses": [_archive(A, B, REPLY), _archive(A, B)],
    "a mailbox that is another": [_archive(A, REPLY), _archive(B, OTHER_REPLY)],
    "a file that changes": [_folder(a_txt="One text."), _folder(a_txt="Another text.")],
    "files that come and go": [_folder(a_txt="One.", b_txt="Two."), _folder(b_txt="Two!", c_txt="Three.")],
    "a file that is renamed": [_folder(a_txt="One text."), _folder(b_txt="One text.")],
    "a mailbox that is renamed": [_folder(a_mbox=mbox(A, REPLY)), _folder(b_mbox=mbox(A, REPLY))],
    "a mail that moves to another mailbox": [
        _folder(a_mbox=mbox(A, REPLY), b_mbox=mbox(B)),
        _folder(a_mbox=mbox(A), b_mbox=mbox(B, REPLY)),
    ],
    "a mail that leaves one of two mailboxes": [
        _folder(a_mbox=mbox(A, C), b_mbox=mbox(B, C)),
        _folder(a_mbox=mbox(A), b_mbox=mbox(B, C)),
    ],
    "a mailbox that goes, and shared a mail": [
        _folder(a_mbox=mbox(A, C), b_mbox=mbox(B, C)),
        _folder(b_mbox=mbox(B, C)),
    ],
    "two mailboxes that share a mail in turn": [
        _folder(a_mbox=mbox(A, C), b_mbox=mbox(B)),
        _folder(a_mbox=mbox(A), b_mbox=mbox(B, C)),
    ],
    "two mailboxes that share a mail in turn, each with its own subject": [
        _folder(a_mbox=mbox(A, C), b_mbox=mbox(B)),
        _folder(a_mbox=mbox(A), b_mbox=mbox(B, RENAMED_C)),
    ],
    "a reply that leaves one of two mailboxes": [
        _folder(a_mbox=mbox(A, REPLY), b_mbox=mbox(B, REPLY)),
        _folder(a_mbox=mbox(A), b_mbox=mbox(B, REPLY)),
    ],
}
HOUR = 3600.0


def _final_state(of: Sequence[Write], order: Sequence[int], steps: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Submit versions in this order, with these services run for so many calls in between."""
    with scratch_pipeline() as (pipeline, place):
        for number, version in enumerate(order):
            of[version](place)
            pipeline.submit(place)
            for service, calls in steps[number] if number < len(steps) else ():
                _run_a_little(pipeline, service, calls)
        pipeline.run(within=60.0)  # threads are compared when nothing is read any more
        pipeline.check_at_rest()
        return _what_it_says(pipeline)


@cache
def _alone(name: str, version: int) -> dict[str, Any]:
    """What a version makes that is the only one there ever was."""
    return _final_state(VERSIONS[name], [version], [])


def _run_a_little(pipeline: Pipeline, service: str, calls: int) -> None:
    for _ in range(calls):
        pipeline.step(service)


def _what_it_says(pipeline: Pipeline) -> dict[str, Any]:
    """What was made of each message; ids depend on where the source lies, and are left out."""
    found: dict[str, Any] = {}
    for name, message in pipeline.messages().items():
        summary = pipeline.summary_of(name)
        assert summary is not None
        chunks = sorted((chunk.position, chunk.text) for chunk in pipeline.chunks_of(name))
        quoted = [one.sentence for one in summary.citations]
        found[name] = (message.subject, message.body, chunks, summary.subject, summary.messages, quoted)
    return found


steps = st.lists(st.tuples(st.sampled_from(STAGES), st.integers(1, 4)), max_size=8)


@pytest.mark.parametrize("name", VERSIONS)
def test_the_new_version_comes_when_the_old_one_is_read_and_again_when_it_is_done(name: str) -> None:
    read = [(stage, 100) for stage in STAGES[:2]]
    done = [(stage, 100) for stage in STAGES]
    assert _final_state(VERSIONS[name], [0, 1, 0, 1], [read, done, read]) == _alone(name, 1)


@pytest.mark.parametrize("name", VERSIONS)
def test_a_worker_may_die_at_a_checkpoint_of_the_new_version(name: str) -> None:
    first, second = VERSIONS[name]
    with scratch_pipeline() as (pipeline, place):
        first(place)
        pipeline.ingest(place)
        second(place)
        pipeline.submit(place)
        with pipeline.crashing_after_checkpoint(1, surely=False):
            pipeline.run(within=60.0)
        pipeline.run(within=2 * HOUR)
        pipeline.check_at_rest()
        assert _what_it_says(pipeline) == _alone(name, 1)


@given(
    name=st.sampled_from(sorted(VERSIONS)),
    plan=st.sampled_from([[0, 1], [1, 0], [0, 1, 0], [1, 0, 1], [0, 1, 0, 1]]),
    between=st.lists(steps, min_size=3, max_size=3),
)
@settings(max_examples=settings().max_examples // 20, suppress_health_check=list(HealthCheck))
@example(name="a mail that moves to another mailbox", plan=[0, 1, 0], between=[[("ingestion", 1)]] * 3)
@example(name="a mail that leaves one of two mailboxes", plan=[0, 1], between=[[(one, 9) for one in STAGES[:2]]])
@example(
    name="a mail that leaves one of two mailboxes",
    plan=[0, 1],
    between=[
        [("ingestion", 1), ("parsing", 1)],
        [("parsing", 1), ("chunking", 1), ("embedding", 1), ("orchestration", 1)],
        [],
    ],
)
@example(
    name="two mailboxes that share a mail in turn, each with its own subject",
    plan=[0, 1],
    between=[[(one, 9) for one in STAGES], [("ingestion", 1), ("parsing", 3)], []],
)
def test_in_whatever_order_the_versions_go_through_the_stages_the_last_one_stays(
    name: str, plan: list[int], between: list[list[tuple[str, int]]]
) -> None:
    assert _final_state(VERSIONS[name], plan, between) == _alone(name, plan[-1])
