"""The same mails are the same threads, in whatever order, batches and files they come, and whatever crashes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onward.pipeline.app import build
from onward.pipeline.mail_threads import find_threads, thread_mail
from onward.pipeline.sources import submit
from onward.pipeline.stages import parsing
from onward.settings import load_settings
from onward.testing.fleet import Fleet
from tests.support.mail_forests import WrittenMail, assert_threads_are_right, forests
from tests.support.pipeline_runs import _static, mbox, scratch_pipeline

seeds = st.integers(0, 2**32)
few = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "CHECKPOINT_MESSAGES", 2)


def deliver(mails: list[WrittenMail], folder: Path, chance: random.Random) -> None:
    """Write these mails to files of a folder, in any order; some come twice, some files have others already."""
    mails = chance.sample(mails, len(mails)) + chance.choices(mails, k=chance.randrange(2))
    kept = {path: path.read_bytes() for path in folder.iterdir()}
    while mails:
        size = chance.randint(1, len(mails))
        path = folder / f"{chance.randrange(4)}.mbox"
        kept[path] = kept.get(path, b"") + mbox(*(mail.text() for mail in mails[:size]))
        mails = mails[size:]
    for path, content in kept.items():
        path.write_bytes(content)


@given(forests(most=14), st.randoms(use_true_random=False))
def test_threads_are_a_function_of_a_set_of_mails(mails: list[WrittenMail], chance: random.Random) -> None:
    known = [
        thread_mail(
            id=f"{mail.number}/{mail.body}",
            source="s",
            message_id=str(mail.number),
            references=[str(one) for one in mail.references if one != mail.number]
            + ([str(mail.reply_to)] if mail.reply_to is not None else []),
            subject=mail.subject,
            date=mail.day * 86_400,
        )
        for mail in mails
    ]
    right = find_threads(known)
    assert find_threads(chance.sample(known, len(known))) == right
    assert {mail.id for mail in known} == right.keys()
    for mail in known:
        same = {right[other.id] for other in known if set(other.nodes) & set(mail.nodes)}
        assert same == {right[mail.id]}, "a link does not join"


@pytest.mark.prove
@few
@given(forests(), seeds)
def test_mails_come_in_any_order_and_in_any_files(mails: list[WrittenMail], seed: int) -> None:
    chance = random.Random(seed)
    with scratch_pipeline() as (pipeline, folder):
        rest = chance.sample(mails, len(mails))
        while rest:
            size = chance.randint(1, len(rest))
            deliver(rest[:size], folder, chance)
            rest = rest[size:]
            pipeline.submit(folder)
            while chance.random() < 0.7:
                pipeline.step(chance.choice(["ingestion", "parsing", "chunking", "embedding", "parsing.threads"]))
        pipeline.run(within=3_600)
        pipeline.check_at_rest()
        assert_threads_are_right(pipeline.app)


@pytest.mark.prove
@few
@given(forests(), seeds)
def test_mails_that_vanish_are_missing_ones(mails: list[WrittenMail], seed: int) -> None:
    chance = random.Random(seed)
    with scratch_pipeline() as (pipeline, folder):
        deliver(mails, folder, chance)
        pipeline.ingest(folder)
        pipeline.run(within=3_600)
        for path in sorted(folder.iterdir()):
            path.unlink()
        left = chance.sample(mails, len(mails) // 2)
        deliver([*left, mails[0]], folder, chance)
        pipeline.ingest(folder)
        pipeline.run(within=3_600)
        pipeline.check_at_rest()
        assert_threads_are_right(pipeline.app)


@pytest.mark.prove
@few
@given(forests(), seeds)
def test_workers_that_read_at_the_same_time_and_crash(mails: list[WrittenMail], seed: int) -> None:
    chance = random.Random(seed)
    with scratch_pipeline() as (pipeline, folder):
        home = pipeline.home / "fleet"
        home.mkdir()
        app = build(load_settings({"ONWARD_HOME": str(home)}))
        with Fleet(app, workers=3, seed=seed) as fleet:
            app._opened["embedder"] = _static()
            fleet.crash_at_random(0.03)
            for part in (mails[::2], mails[1::2]):
                if part:
                    deliver(part, folder, chance)
                    submit(app, str(folder))
                    fleet.run_until_idle()
            assert not fleet.lost
            assert_threads_are_right(app)
