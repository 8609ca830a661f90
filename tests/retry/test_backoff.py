"""Waits grow, are capped, and never overflow."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.retry import Exponential, Schedule

seconds = st.floats(min_value=0, max_value=1e9)
exponentials = st.builds(
    Exponential, base=seconds, factor=st.floats(min_value=1, max_value=1e6), cap=seconds, jitter=st.booleans()
)
schedules = st.builds(Schedule, st.lists(seconds, min_size=1).map(tuple))
failures = st.integers(min_value=1, max_value=10**6)


def test_an_exponential_wait_doubles_up_to_its_cap() -> None:
    backoff = Exponential(5.0, cap=60.0)
    assert [backoff.delay(n, Random(0)) for n in range(1, 7)] == [5, 10, 20, 40, 60, 60]


def test_full_jitter_draws_from_zero_up_to_the_wait() -> None:
    backoff = Exponential(0.25, jitter=True)
    assert backoff.bounds(3) == (0.0, 1.0)
    random = Random(1)
    drawn = [backoff.delay(3, random) for _ in range(1000)]
    assert min(drawn) < 0.05
    assert max(drawn) > 0.95


def test_a_schedule_repeats_its_last_wait() -> None:
    backoff = Schedule((60, 300, 600))
    assert [backoff.delay(n, Random(0)) for n in (1, 2, 3, 4, 10**6)] == [60, 300, 600, 600, 600]


@given(exponentials | schedules, failures, st.integers())
def test_every_wait_is_finite_and_within_its_bounds(backoff: Exponential | Schedule, n: int, seed: int) -> None:
    low, high = backoff.bounds(n)
    wait = backoff.delay(n, Random(seed))
    assert 0 <= low <= wait <= high
    assert math.isfinite(high)


@given(exponentials, failures)
def test_an_exponential_wait_never_shrinks_nor_passes_its_cap(backoff: Exponential, n: int) -> None:
    assert backoff.bounds(n)[1] <= backoff.bounds(n + 1)[1] <= backoff.cap


def test_whole_numbers_do_not_grow_into_huge_integers() -> None:
    backoff = Exponential(1, factor=3, cap=10)
    assert isinstance(backoff.factor, float)
    assert backoff.delay(10**9, Random(0)) == 10


@pytest.mark.parametrize(
    ("fields", "named"),
    (
        ({"base": -1}, "base"),
        ({"base": math.nan}, "base"),
        ({"base": 1, "factor": 0.5}, "factor"),
        ({"base": 1, "cap": math.inf}, "cap"),
    ),
)
def test_a_number_that_makes_no_sense_is_refused_by_name(fields: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=rf"Exponential\({named}=…\).*at least"):
        Exponential(**fields)  # type: ignore[arg-type]  # a table of single wrong fields


def test_a_schedule_needs_a_wait() -> None:
    with pytest.raises(ValueError, match="at least one wait"):
        Schedule(())
    with pytest.raises(TypeError, match="'soon' is not a number"):
        Schedule(("soon",))  # type: ignore[arg-type]  # that is the point
