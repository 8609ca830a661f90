"""Where a submitted source stands: derived from what the ledger and its documents say, at every moment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from onward import DocumentState, Permanent, Work
from onward.ops.queries.document_details import CANCELLED, DocumentProgress, ProgressReader
from onward.pipeline.documents import Message, source_id
from onward.recovery.next_step import NextStep, NextStepKind, NextSteps
from tests.support.pipeline_runs import Pipeline, mail, mbox

MAILS = mbox(mail("a", "The first letter."), mail("b", "An answer.", references=["a"]))
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    with Pipeline(tmp_path / "home").running() as running:
        yield running


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    place = tmp_path / "list.mbox"
    place.write_bytes(MAILS)
    return place


def look(pipeline: Pipeline, archive: Path) -> DocumentProgress:
    """Where the source stands, as somebody sees it who knows that workers are alive."""
    pipeline.app.store.register_worker("somebody", {})
    state = pipeline.app.state("archives", source_id(pipeline.source(archive)))
    assert state is not None
    return ProgressReader(pipeline.app).of(state)


@contextmanager
def failing(pipeline: Pipeline, service: str, error: Exception) -> Iterator[None]:
    real = pipeline.services[service]

    def handle(given: object, work: Work) -> None:
        raise error

    pipeline.services[service] = replace(real, handler=handle)
    try:
        yield
    finally:
        pipeline.services[service] = real


def test_it_goes_through_every_stage_to_its_end(pipeline: Pipeline, archive: Path) -> None:
    pipeline.submit(archive)
    seen = [look(pipeline, archive).status]
    with pipeline.meanwhile("ingestion", lambda: seen.append(look(pipeline, archive).status)):
        pipeline.run("ingestion")
    for service in ("parsing", "chunking", "embedding"):
        seen.append(look(pipeline, archive).status)
        pipeline.run(service)
    seen.append(look(pipeline, archive).status)
    pipeline.run()
    seen.append(look(pipeline, archive).status)
    assert look(pipeline, archive).attempts_made == 1
    assert seen == ["queued", "fetching", "extracting", "chunking", "embedding", "indexing", "done"]


def test_a_failing_fetch_is_queued_with_its_error_until_it_is_given_up(pipeline: Pipeline, archive: Path) -> None:
    pipeline.submit(archive)
    with failing(pipeline, "ingestion", ConnectionError("no route to host")):
        for tries in (1, 2):
            assert pipeline.step("ingestion")
            now = look(pipeline, archive)
            assert (now.status, now.tries, now.rounds, now.attempts_made) == ("queued", tries, 1, tries)
            assert now.error == "ConnectionError: no route to host"
            assert now.next_retry is not None
            assert now.next_retry == pytest.approx(pipeline.world.clock.now() + 2.0 * 2 ** (tries - 1), abs=0.01)
            pipeline.world.clock.advance(now.next_retry - pipeline.world.clock.now())
        assert pipeline.step("ingestion")
        now = look(pipeline, archive)  # the round was given up, and the retry job begins another
        assert (now.status, now.tries, now.attempts_made) == ("queued", 3, 3)
        assert now.next_retry == pytest.approx(pipeline.world.clock.now() + 300.0, abs=1)
        pipeline.run(within=DAY)
    now = look(pipeline, archive)
    assert (now.status, now.tries, now.rounds, now.next_retry) == ("failed", 9, 3, None)
    assert now.attempts_made == 3, "those of the last round"
    assert now.error == "ConnectionError: no route to host"


def test_what_can_never_succeed_is_failed_at_once(pipeline: Pipeline, archive: Path) -> None:
    pipeline.submit(archive)
    with failing(pipeline, "ingestion", Permanent("that is no archive")):
        pipeline.run("ingestion")
    now = look(pipeline, archive)
    assert (now.status, now.tries, now.error) == ("failed", 1, "Permanent: that is no archive")


@pytest.mark.parametrize(("service", "due"), (("parsing", 5.0), ("embedding", 5.0)))
def test_a_source_whose_documents_wait_is_queued_with_their_error(
    pipeline: Pipeline, archive: Path, service: str, due: float
) -> None:
    pipeline.submit(archive)
    stages = ("ingestion", "parsing", "chunking", "embedding")
    pipeline.run(*stages[: stages.index(service)])
    with failing(pipeline, service, ConnectionError("not now")):
        while look(pipeline, archive).status != "queued":
            assert pipeline.step(service)
    now = look(pipeline, archive)
    assert now.error == "ConnectionError: not now"
    assert now.next_retry == pytest.approx(pipeline.world.clock.now() + due, abs=0.01)
    pipeline.run(within=HOUR)
    assert look(pipeline, archive).status == "done"


@pytest.mark.parametrize(
    ("kinds", "told"),
    (
        (("due", "due"), ("queued", 30.0)),  # the one that is tried first speaks for both
        (("due", "failed"), ("queued", 60.0)),  # what is over is tried no more
        (("due", "working"), ("chunking", None)),  # whoever is at work says where the source is
        (("due", "silent"), ("chunking", None)),
    ),
)
def test_of_several_documents_the_one_whose_turn_is_next_speaks_for_the_source(
    pipeline: Pipeline,
    archive: Path,
    kinds: tuple[str, str],
    told: tuple[str, float | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline.submit(archive)
    pipeline.run("ingestion", "parsing")
    first, _ = sorted(one.id for one in pipeline.app.store.states(Message))
    real = NextSteps.of

    def of(steps: NextSteps, state: DocumentState) -> NextStep:
        if state.collection != "messages":
            return real(steps, state)
        is_first = state.id == first
        at = steps.now + (60.0 if is_first else 30.0)
        return NextStep(NextStepKind(kinds[not is_first]), state, steps.now, at)

    monkeypatch.setattr(NextSteps, "of", of)
    now = look(pipeline, archive)
    after = None if now.next_retry is None else round(now.next_retry - pipeline.world.clock.now(), 1)
    assert (now.status, after) == told


def test_what_is_set_aside_is_queued_until_its_batch_is_retried(pipeline: Pipeline, archive: Path) -> None:
    pipeline.submit(archive)
    pipeline.run("ingestion", "parsing", "chunking")
    with failing(pipeline, "embedding", ConnectionError("not now")):
        pipeline.run(within=MINUTE)
        now = look(pipeline, archive)
    assert (now.status, now.set_aside, now.error) == ("queued", 2, "ConnectionError: not now")
    assert now.next_retry is not None
    assert now.next_retry > pipeline.world.clock.now()


def test_an_outage_is_told_and_costs_no_try(pipeline: Pipeline, archive: Path) -> None:
    pipeline.submit(archive)
    pipeline.run("ingestion", "parsing", "chunking")
    pipeline.app.store.open_breaker("embedder", "maintenance", by_hand=True)
    now = look(pipeline, archive)
    assert (now.status, now.tries) == ("queued", 0)
    assert "waiting for embedder" in now.error


def test_a_source_of_which_something_failed_is_done_and_says_so(pipeline: Pipeline, archive: Path) -> None:
    pipeline.submit(archive)
    with failing(pipeline, "summarization", Permanent("too long")):
        pipeline.run()
    now = look(pipeline, archive)
    assert (now.status, now.failed, now.error) == ("done", 1, "Permanent: too long")


def test_without_a_worker_it_is_queued(pipeline: Pipeline, archive: Path) -> None:
    pipeline.submit(archive)
    pipeline.run("ingestion")
    for one in pipeline.app.store.workers():
        pipeline.app.store.unregister_worker(one["worker"])
    state = pipeline.app.state("archives", source_id(pipeline.source(archive)))
    assert state is not None
    alone = ProgressReader(pipeline.app).of(state)
    assert (alone.status, alone.next_retry) == ("queued", None)
    assert look(pipeline, archive).status == "extracting"


def test_what_was_cancelled_is_failed(pipeline: Pipeline, archive: Path) -> None:
    pipeline.submit(archive)
    pipeline.app.store.discard("archives", source_id(pipeline.source(archive)))
    now = look(pipeline, archive)
    assert (now.status, now.error) == ("failed", CANCELLED)


def test_any_other_document_tells_its_own_state(pipeline: Pipeline, archive: Path) -> None:
    pipeline.submit(archive)
    pipeline.run("ingestion", "parsing")
    message = pipeline.all(Message)[0]

    def status() -> str:
        state = pipeline.app.state(Message, message.id)
        assert state is not None
        return ProgressReader(pipeline.app).of(state).status

    seen = [status()]
    with pipeline.meanwhile("chunking", lambda: seen.append(status())):
        pipeline.run("chunking")
    seen.append(status())
    assert seen == ["queued", "chunking", "done"]
