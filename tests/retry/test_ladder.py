"""The numbers of the ladder, rung by rung."""

from __future__ import annotations

import pickle
from random import Random

import pytest

from onward.retry import GiveUp, Ladder, Reason, Retry

ladder = Ladder()


def test_not_ready_waits_with_full_jitter_for_eight_retries_within_half_an_hour() -> None:
    assert [high for _, high in ladder.not_ready.schedule(99)] == [0.25, 0.5, 1, 2, 4, 8, 16, 32]
    assert all(low == 0 for low, _ in ladder.not_ready.schedule(99))
    assert isinstance(ladder.not_ready.decide(8, random=Random(0)), Retry)
    assert ladder.not_ready.decide(9, random=Random(0)) == GiveUp(Reason.MAX_ATTEMPTS_EXCEEDED)
    assert ladder.not_ready.decide(1, elapsed=1800, random=Random(0)) == GiveUp(Reason.TTL_EXCEEDED)


def test_transient_errors_get_three_tries_and_fetching_starts_sooner() -> None:
    assert ladder.transient.schedule(99) == ((5, 5), (10, 10))
    assert ladder.fetching.schedule(99) == ((2, 2), (4, 4))


def test_a_failed_batch_is_retried_for_ever_and_shown_from_the_tenth_retry_on() -> None:
    minutes = [high / 60 for _, high in ladder.failed_batch.schedule(8)]
    assert minutes == [1, 5, 10, 20, 40, 60, 60, 60]
    assert isinstance(ladder.failed_batch.decide(10**6, random=Random(0)), Retry)
    assert not ladder.failed_batch.persistent(9)
    assert ladder.failed_batch.persistent(10)


def test_the_retry_job_waits_five_minutes_after_the_first_round() -> None:
    minutes = [high / 60 for _, high in ladder.retry_job.schedule(6)]
    assert minutes == [5, 10, 20, 40, 60, 60]


@pytest.mark.parametrize(
    ("collection", "rounds"),
    (("archives", 3), ("messages", 3), ("chunks", 5), ("threads", 5), ("summaries", 5), ("invoices", 5)),
)
def test_rounds_depend_on_the_collection(collection: str, rounds: int) -> None:
    assert ladder.max_rounds(collection) == rounds


def test_a_ladder_crosses_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(ladder)) == ladder
    assert hash(ladder) == hash(Ladder())
