"""A rate as it is written, and a token bucket that keeps it in every window, however late its calls begin."""

from __future__ import annotations

import bisect
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.model.dependency_limits import Bucket, Rate, next_grant, refilled

DAY = 86_400.0
START = 1_800_000_000.0


@pytest.mark.parametrize(
    ("text", "count", "seconds"),
    (
        ("10/s", 10, 1.0),
        ("10/sec", 10, 1.0),
        ("10/second", 10, 1.0),
        ("60/min", 60, 60.0),
        ("60/minute", 60, 60.0),
        ("5000/h", 5000, 3600.0),
        ("5000/hour", 5000, 3600.0),
        ("1/day", 1, DAY),
        ("100/15min", 100, 900.0),
        ("3/2s", 3, 2.0),
    ),
)
def test_a_rate_is_a_number_per_time(text: str, count: int, seconds: float) -> None:
    assert Rate.parse(text) == Rate(count, seconds)


@pytest.mark.parametrize(
    "text",
    (
        "", "60", "60/", "/min", "0/min", "-1/min", "1.5/min", "60/0min", "60 / min", "60/fortnight", "60/ms",
        "60/Min", "60/min/s", "1e3/min", "٣/min", "99999999999/s", "1/99999day",
    ),
)  # fmt: skip
def test_anything_else_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match="such as '10/s', '60/min'"):
        Rate.parse(text)


@pytest.mark.parametrize("text", ("1/s", "10/s", "200/s", "60/min", "6000/min", "100/15min", "1000000/s"))
def test_most_of_a_rate_is_used(text: str) -> None:
    rate = Rate.parse(text)
    assert rate.refill(rate.least_slack) * rate.seconds >= 0.93 * rate.count
    assert rate.burst <= max(1, 0.02 * rate.count)


rates = st.builds(
    Rate, st.one_of(st.integers(1, 5), st.integers(1, 400)), st.sampled_from([0.5, 1.0, 3.0, 60.0, 900.0])
)
shares = st.floats(0, 1, allow_subnormal=False)


def most_in_a_window(times: list[float], seconds: float) -> int:
    """Return the most of these times that lie in a window of this length, which does not include its end."""
    times = sorted(times)
    return max((bisect.bisect_left(times, one + seconds) - n for n, one in enumerate(times)), default=0)


@given(rates, st.data())
def test_no_window_has_more_calls_than_the_rate(rate: Rate, data: st.DataObject) -> None:
    """Claims come at any time and take what there is; their calls begin at any time within their slack."""
    bucket: Bucket | None = None
    now, began = START, list[float]()
    for _ in range(data.draw(st.integers(1, 60))):
        # Mostly at the moment of the next token, which fills windows most.
        if bucket is not None and data.draw(st.booleans()):
            now = max(now, next_grant(rate, bucket))
        else:
            now += data.draw(shares) * rate.seconds * data.draw(st.sampled_from([0.01, 0.3, 3.0]))
        slack = data.draw(st.sampled_from([0.0, 0.0, 0.1, 0.5, 2.0])) * rate.seconds
        before = refilled(rate, bucket, now, slack)
        slack = max(slack, rate.least_slack)
        assert before.slack >= slack
        calls = math.floor(before.tokens)
        if calls > 0:
            calls = data.draw(st.sampled_from([1, calls]))
            late = data.draw(st.sampled_from([0.0, 1.0])) if data.draw(st.booleans()) else data.draw(shares)
            began += [now + late * slack] * calls
            bucket = before.taken(calls)
    assert most_in_a_window(began, rate.seconds) <= rate.count


@pytest.mark.parametrize("text", ("1/s", "7/s", "200/s", "60/min", "100/15min"))
def test_a_claim_at_each_token_keeps_and_uses_the_rate(text: str) -> None:
    rate = Rate.parse(text)
    bucket, began, now = None, list[float](), START
    while now < START + 20 * rate.seconds:
        bucket = refilled(rate, bucket, now, 0.0)
        calls = math.floor(bucket.tokens)
        assert calls >= 1 or not began, "the time of the next token was right"
        began += [now] * calls
        bucket = bucket.taken(calls)
        now = next_grant(rate, bucket)
    assert most_in_a_window(began, rate.seconds) <= rate.count
    assert len(began) >= 20 * 0.93 * rate.count


def test_the_slack_grows_at_once_and_shrinks_when_its_calls_are_past() -> None:
    rate = Rate(60, 60.0)
    bucket = refilled(rate, None, START, 0.0)
    assert bucket.slack == 1.0
    bucket = refilled(rate, bucket, START + 1, 8.0)
    assert (bucket.slack, bucket.slack_at) == (8.0, START + 1)
    assert refilled(rate, bucket, START + 69, 0.0).slack == 8.0
    bucket = refilled(rate, bucket, START + 69.1, 0.0)
    assert (bucket.slack, bucket.slack_at) == (4.0, START + 69.1)
    assert refilled(rate, bucket, START + 69.2, 3.0).slack_at == START + 69.2, "more than the half is needed"


def test_a_clock_that_was_set_back_stops_nothing() -> None:
    rate = Rate(60, 60.0)
    bucket = refilled(rate, None, START, 0.0).taken(1)
    bucket = refilled(rate, bucket, START - 3600, 0.0)
    assert (bucket.tokens, bucket.at) == (0.0, START - 3600)
    assert refilled(rate, bucket, START - 3598, 0.0).tokens == 1.0


def test_claims_that_commit_in_another_order_than_they_began_gain_nothing() -> None:
    rate = Rate(60, 60.0)
    bucket = refilled(rate, None, START, 0.0).taken(1)
    assert refilled(rate, bucket, START - 0.5, 0.0) == bucket


def test_fast_tokens_are_taken_together() -> None:
    rate = Rate(6000, 60.0)
    bucket = refilled(rate, None, START, 0.0).taken(rate.burst)
    later = refilled(rate, bucket, next_grant(rate, bucket), 0.0)
    assert math.floor(later.tokens) == rate.burst // 2 == 5
