"""A policy decides: try again after so long, or give up because of this."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.retry import (
    Classified,
    Exponential,
    GiveUp,
    Kind,
    Ladder,
    Malformed,
    NotReady,
    Permanent,
    Reason,
    Retry,
    RetryConfig,
    RetryPolicy,
    Unavailable,
)

random = Random(0)
doubling = Exponential(5.0, cap=60.0)
three_tries = RetryPolicy(doubling, max_tries=3)

tries = st.integers(min_value=1, max_value=10**6)
times = st.floats(min_value=0, max_value=1e12)
policies = st.builds(
    RetryPolicy,
    st.builds(Exponential, st.floats(0, 1e6), cap=st.floats(0, 1e6), jitter=st.booleans()),
    max_tries=st.none() | st.integers(1, 20),
    max_elapsed=st.none() | st.floats(min_value=0, max_value=1e6),
    max_hint=st.floats(0, 1e6),
)


def test_three_tries_are_two_waits() -> None:
    assert three_tries.decide(1, random=random) == Retry(after=5.0, last=False)
    assert three_tries.decide(2, random=random) == Retry(after=10.0, last=True)
    assert three_tries.decide(3, random=random) == GiveUp(Reason.MAX_ATTEMPTS_EXCEEDED)


def test_without_limits_it_never_gives_up() -> None:
    assert RetryPolicy(doubling).decide(10**6, elapsed=1e9, random=random) == Retry(60.0, last=False)


def test_it_gives_up_when_its_time_is_over_or_would_be_after_the_wait() -> None:
    policy = RetryPolicy(doubling, max_elapsed=30.0)
    assert policy.decide(1, elapsed=24.9, random=random) == Retry(5.0, last=False)
    assert policy.decide(1, elapsed=25.0, random=random) == Retry(5.0, last=True)
    assert policy.decide(1, elapsed=25.1, random=random) == GiveUp(Reason.TTL_EXCEEDED)
    assert policy.decide(1, elapsed=30.0, hint=0.0, random=random) == GiveUp(Reason.TTL_EXCEEDED)


@pytest.mark.parametrize(
    ("hint", "after"),
    (
        (120.0, 120.0),
        (0.0, 0.0),
        (-3.0, 0.0),
        (1e9, 3600.0),
        (math.inf, 3600.0),
        (-math.inf, 0.0),
        (math.nan, 5.0),
        (None, 5.0),
    ),
)
def test_the_dependency_s_own_wish_wins_within_reason(hint: float | None, after: float) -> None:
    assert three_tries.decide(1, hint=hint, random=random) == Retry(after, last=False)


@pytest.mark.parametrize(
    ("error", "decision"),
    (
        (Permanent("no"), GiveUp(Reason.NON_RETRYABLE)),
        (Malformed("no"), GiveUp(Reason.MALFORMED)),
        (KeyError("x"), GiveUp(Reason.NON_RETRYABLE)),
        (NotReady("soon"), Retry(5.0, last=False)),
        (Unavailable("embedder", retry_after=42.0), Retry(42.0, last=False)),
        (Classified(Kind.PERMANENT), GiveUp(Reason.NON_RETRYABLE)),
        (Classified(Kind.TRANSIENT, retry_after=7.0), Retry(7.0, last=False)),
    ),
)
def test_the_error_decides_whether_and_perhaps_when(
    error: BaseException | Classified, decision: Retry | GiveUp
) -> None:
    assert three_tries.decide(1, error=error, random=random) == decision


def test_a_given_hint_wins_over_the_error_s() -> None:
    error = Unavailable("embedder", retry_after=42.0)
    assert three_tries.decide(1, error=error, hint=1.0, random=random) == Retry(1.0, last=False)


@given(policies, tries, times, st.none() | st.floats())
def test_no_decision_breaks_a_limit(policy: RetryPolicy, n: int, elapsed: float, hint: float | None) -> None:
    decision = policy.decide(n, elapsed=elapsed, hint=hint, random=Random(n))
    if isinstance(decision, Retry):
        assert math.isfinite(decision.after)
        assert decision.after >= 0
        assert policy.max_tries is None or n < policy.max_tries
        assert policy.max_elapsed is None or elapsed + decision.after <= policy.max_elapsed
    else:
        assert decision.reason in (Reason.MAX_ATTEMPTS_EXCEEDED, Reason.TTL_EXCEEDED)


@given(policies, tries, times)
def test_after_last_comes_the_end(policy: RetryPolicy, n: int, elapsed: float) -> None:
    decision = policy.decide(n, elapsed=elapsed, random=Random(n))
    if isinstance(decision, Retry) and decision.last:
        following = policy.decide(n + 1, elapsed=elapsed + decision.after, random=Random(n))
        assert isinstance(following, GiveUp)


@given(policies, tries, times, st.integers())
def test_the_same_question_gets_the_same_answer(policy: RetryPolicy, n: int, elapsed: float, seed: int) -> None:
    assert policy.decide(n, elapsed=elapsed, random=Random(seed)) == policy.decide(
        n, elapsed=elapsed, random=Random(seed)
    )


def test_the_schedule_shows_the_waits_there_are() -> None:
    assert three_tries.schedule(5) == ((5.0, 5.0), (10.0, 10.0))
    assert RetryPolicy(Exponential(0.25, jitter=True)).schedule(2) == ((0.0, 0.25), (0.0, 0.5))


def test_no_time_to_retry_means_one_try() -> None:
    policy = RetryPolicy(doubling, max_tries=9, max_elapsed=0)
    assert policy.decide(1, random=random) == GiveUp(Reason.TTL_EXCEEDED)
    assert policy.schedule(9) == ()


def test_a_retry_config_makes_a_policy() -> None:
    """The numbers of the event-retry design, by name or by their defaults."""
    assert RetryPolicy(RetryConfig()) == Ladder().not_ready
    config = RetryConfig(max_attempts=8, base_delay_ms=250, backoff_factor=2.0, max_delay_seconds=4, ttl_minutes=5)
    policy = RetryPolicy(config)
    assert [high for _, high in policy.schedule(99)] == [0.25, 0.5, 1, 2, 4, 4, 4, 4]
    assert (policy.max_tries, policy.max_elapsed) == (9, 300)
    assert isinstance(policy.decide(8, elapsed=290, random=random), Retry)
    assert policy.decide(9, random=random) == GiveUp(Reason.MAX_ATTEMPTS_EXCEEDED)


def test_an_argument_of_the_policy_wins_over_its_retry_config() -> None:
    policy = RetryPolicy(RetryConfig(), max_tries=3, max_elapsed=0, name="own")
    assert (policy.max_tries, policy.max_elapsed, policy.name) == (3, 0, "own")
    assert policy.backoff == Exponential(0.25, cap=60.0, jitter=True)


def test_a_retry_config_is_a_backoff_by_itself() -> None:
    assert RetryConfig().bounds(3) == (0.0, 1.0)
    assert 0 <= RetryConfig().delay(3, random) <= 1


def test_many_retries_call_for_an_operator() -> None:
    policy = RetryPolicy(doubling, persistent_from=10)
    assert not policy.persistent(9)
    assert policy.persistent(10)
    assert not three_tries.persistent(10**6)


@pytest.mark.parametrize(
    "wrong",
    (
        {"max_tries": 0},
        {"max_tries": True},
        {"max_tries": 2.5},
        {"persistent_from": 0},
        {"max_elapsed": -1.0},
        {"max_elapsed": math.nan},
        {"max_hint": -1.0},
        {"max_hint": math.inf},
    ),
)
def test_a_limit_that_makes_no_sense_is_refused_by_name(wrong: dict[str, float]) -> None:
    [(name, value)] = wrong.items()
    with pytest.raises(ValueError, match=rf"RetryPolicy\({name}={value!r}\): must be"):
        RetryPolicy(doubling, **wrong)  # type: ignore[arg-type]  # a table of single wrong fields


def test_tries_are_counted_from_one() -> None:
    with pytest.raises(ValueError, match="counted from 1"):
        three_tries.decide(0, random=random)
