"""How long tries took is estimated from a few counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.model.rollups import LATENCY_LIMITS, ServiceCounts


def of(*seconds: float) -> ServiceCounts:
    counts = ServiceCounts()
    counts.add_tries(seconds)
    return counts


def test_without_a_try_there_is_no_latency() -> None:
    assert of().mean_seconds is None
    assert of().quantile_seconds(0.95) is None


def test_a_try_that_took_very_long_counts_as_the_last_limit() -> None:
    assert of(10_000.0).quantile_seconds(0.95) == LATENCY_LIMITS[-1]


@given(st.lists(st.floats(0, LATENCY_LIMITS[-1]), min_size=1, max_size=200))
def test_the_estimate_lies_in_the_bucket_of_the_true_value(seconds: list[float]) -> None:
    counts, true = of(*seconds), sorted(seconds)[-(-95 * len(seconds) // 100) - 1]
    estimate = counts.quantile_seconds(0.95)
    upper = next(limit for limit in LATENCY_LIMITS if true <= limit)
    lower = max((limit for limit in LATENCY_LIMITS if limit < upper), default=0.0)
    assert estimate is not None
    assert lower <= estimate <= upper * (1 + 1e-9)
    assert counts.mean_seconds == pytest.approx(sum(seconds) / len(seconds))
