"""Spans and schedules are laid out where they belong, and a watched drawing does not move all the time."""

from __future__ import annotations

import pytest

from onward.console.charts import (
    END_STEP_SECONDS,
    HOUR,
    MIN_SPAN_WIDTH,
    TimeSpan,
    batch_retries,
    breaker_timeline,
    failure_timeline,
    timeline,
)
from onward.model.ledger import FailedBatch
from onward.model.ledger_views import FailureGroup
from onward.recovery.evidence import Evidence, Version
from onward.retry.policy import Ladder

NOW = 1_800_000_000.0


def opening(start: float, end: float | None, name: str = "printer") -> dict[str, object]:
    return {"dependency": name, "opened_at": start, "closed_at": end, "reason": "it burns", "remedy": ""}


def batch(retries: int) -> FailedBatch:
    return FailedBatch("b", "reading", None, [], retries, NOW, NOW, ())


def places(*spans: TimeSpan) -> list[tuple[float, float]]:
    ((_, drawn),) = timeline(0.0, 100.0, [("a", spans)]).rows
    return [(one.x, one.width) for one in drawn]


def test_a_span_is_where_it_was() -> None:
    assert places(TimeSpan(10.0, 30.0, "bad")) == [(10.0, 20.0)]


def test_one_that_lasts_reaches_the_end() -> None:
    assert places(TimeSpan(90.0, None, "bad")) == [(90.0, 10.0)]


def test_what_lies_outside_is_cut_off() -> None:
    assert places(TimeSpan(-50.0, 20.0, "bad"), TimeSpan(-50.0, -10.0, "bad"), TimeSpan(120.0, None, "bad")) == [
        (0.0, 20.0)
    ]


def test_the_shortest_span_can_be_seen_also_at_the_end() -> None:
    assert places(TimeSpan(50.0, 50.0, "bad"), TimeSpan(99.99, 100.0, "bad")) == [
        (50.0, MIN_SPAN_WIDTH),
        (100 - MIN_SPAN_WIDTH, MIN_SPAN_WIDTH),
    ]


def test_without_an_opening_nothing_is_drawn() -> None:
    assert breaker_timeline([], ["printer"], NOW) is None
    long_ago = opening(NOW - 90 * 24 * HOUR, NOW - 89 * 24 * HOUR)
    assert breaker_timeline([long_ago], ["printer"], NOW) is None


@pytest.mark.parametrize(
    ("ago", "hours"), ((0.5 * HOUR, 1), (5 * HOUR, 6), (20 * HOUR, 24), (100 * HOUR, 168), (20 * 24 * HOUR, 720))
)
def test_the_shortest_window_is_taken_that_shows_it_all(ago: float, hours: int) -> None:
    found = breaker_timeline([opening(NOW - ago, NOW)], ["embedder", "printer"], NOW)
    assert found is not None
    assert round((found.end - found.start) / HOUR) == hours
    assert [(label, len(drawn)) for label, drawn in found.rows] == [("embedder", 0), ("printer", 1)]


def test_a_drawing_that_ends_now_moves_rarely() -> None:
    start = NOW - NOW % END_STEP_SECONDS + 1
    drawn = {breaker_timeline([opening(start - 60, None)], ["printer"], start + s) for s in range(0, 50, 10)}
    assert len(drawn) == 1


def test_a_version_runs_until_the_next_one_appears() -> None:
    """The store sees a version when its workers start, not while they run."""
    group = FailureGroup("beef", "reading", "pages", "KeyError", "vat", "", "", NOW - 500, NOW - 400, 3, 3)
    versions = (Version("1.0", NOW - 520, NOW - 520), Version("1.1", NOW - 500, NOW - 500))
    _, (_, (old,)), (_, (new,)) = failure_timeline(Evidence(group, versions=versions), NOW).rows
    assert (old.span.end, new.span.end) == (NOW - 500, None)


def test_retries_made_next_and_to_come() -> None:
    steps = batch_retries(Ladder().failed_batch, batch(3))
    assert [one.minutes for one in steps] == ["1", "5", "10", "20", "40", "60", "60", "60", "60", "60"]
    assert [one.state for one in steps] == ["done"] * 3 + ["next"] + ["later"] * 6
    assert [one.number for one in steps if one.persistent] == [10]
    assert [one.x for one in steps][:2] == [5.0, 15.0]


@pytest.mark.parametrize(("retries", "number", "gap"), ((10, 11, False), (12, 13, True), (500, 501, True)))
def test_after_the_tenth_only_the_next_one_is_added(retries: int, number: int, gap: bool) -> None:
    steps = batch_retries(Ladder().failed_batch, batch(retries))
    assert len(steps) == 11
    assert (steps[-1].number, steps[-1].state, steps[-1].gap, steps[-1].persistent) == (number, "next", gap, True)
