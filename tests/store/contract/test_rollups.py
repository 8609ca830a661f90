"""Roll-ups: each part is counted once, in buckets of several lengths, for a limited time."""

from __future__ import annotations

from dataclasses import replace

from onward.model.rollups import HOUR, MINUTE, STEPS, TEN_MINUTES, ServiceCounts
from tests.support.store_pages import NOON, Stage

START = int(NOON)  # also the beginning of an hour


def done(events: int = 1, *, seconds: float = 0.02) -> ServiceCounts:
    counts = ServiceCounts(events=events, documents=2 * events)
    counts.add_tries([seconds] * events)
    return counts


def add(stage: Stage, at: int, counts: ServiceCounts, service: str = "reading") -> None:
    stage.store.add_counts({(at, service): counts})


def events(stage: Stage, step: int, service: str | None = None, since: float = NOON) -> dict[tuple[int, str], int]:
    return {key: one.events for key, one in stage.store.service_counts(step, since, service).items()}


def test_what_was_counted_can_be_read_at_once_in_every_step(stage: Stage) -> None:
    add(stage, START + MINUTE, done(3))
    add(stage, START + MINUTE, done(4))  # not added up yet: the store has done so a moment ago
    assert events(stage, MINUTE) == {(START + MINUTE, "reading"): 7}
    assert events(stage, TEN_MINUTES) == events(stage, HOUR) == {(START, "reading"): 7}


def test_adding_up_changes_nothing_that_is_read(stage: Stage) -> None:
    for minute in range(25):
        stage.clock.advance(MINUTE)  # so each call adds up the parts before it
        add(stage, START + minute * MINUTE, done(minute))
    assert events(stage, MINUTE) == {(START + n * MINUTE, "reading"): n for n in range(25)}
    assert events(stage, TEN_MINUTES) == {
        (START + part * TEN_MINUTES, "reading"): sum(range(10 * part, min(25, 10 * part + 10)))
        for part in range(3)
    }
    assert events(stage, HOUR) == {(START, "reading"): sum(range(25))}


def test_everything_is_added_and_of_waiting_events_the_most_is_kept(stage: Stage) -> None:
    add(stage, START, replace(done(2), failures=3, retries=2, dead_letters=1, waiting=5))
    stage.clock.advance(2 * MINUTE)
    add(stage, START, replace(done(1, seconds=2.0), waiting=3))
    add(stage, START, done(1, seconds=2.0))
    (counts,) = stage.store.service_counts(MINUTE, NOON).values()
    assert (counts.events, counts.documents, counts.failures, counts.retries, counts.dead_letters) == (
        4,
        8,
        3,
        2,
        1,
    )
    assert counts.waiting == 5
    assert counts.tries == 4
    assert counts.mean_seconds == (2 * 0.02 + 2 * 2.0) / 4


def test_services_are_counted_apart_and_one_can_be_read_alone(stage: Stage) -> None:
    add(stage, START, done(1))
    add(stage, START, done(2), "listening")
    assert events(stage, MINUTE) == {(START, "reading"): 1, (START, "listening"): 2}
    assert events(stage, MINUTE, "listening") == {(START, "listening"): 2}
    assert events(stage, MINUTE, "nobody") == {}


def test_what_comes_late_is_counted_in_its_own_minute(stage: Stage) -> None:
    stage.clock.advance(2 * HOUR)
    add(stage, START + 2 * HOUR, done(1))
    stage.clock.advance(2 * MINUTE)
    add(stage, START, done(5))  # of a process that did not reach the store for two hours
    assert events(stage, HOUR) == {(START, "reading"): 5, (START + 2 * HOUR, "reading"): 1}


def test_a_time_before_the_first_bucket_is_not_read(stage: Stage) -> None:
    add(stage, START, done(1))
    add(stage, START + MINUTE, done(2))
    assert events(stage, MINUTE, since=NOON + MINUTE + 59) == {(START + MINUTE, "reading"): 2}


def test_old_buckets_are_removed_by_those_that_follow(stage: Stage) -> None:
    add(stage, START, done(1))
    for step, kept in STEPS.items():
        stage.clock.time = NOON + kept
        add(stage, int(stage.clock.time), done(1))
        assert (START, "reading") in events(stage, step)
        stage.clock.advance(step)
        add(stage, int(stage.clock.time), done(1))
        assert (START, "reading") not in events(stage, step)


def test_one_process_a_minute_counts_waiting_events(stage: Stage) -> None:
    stage.bring("a")
    stage.bring("b")
    assert stage.store.count_waiting(["reading", "listening"]) == {"reading": 2, "listening": 0}
    add(stage, START, ServiceCounts(waiting=2))
    assert stage.store.count_waiting(["reading", "listening"]) == {"listening": 0}
    stage.clock.advance(MINUTE)
    add(stage, START + MINUTE, ServiceCounts(waiting=None))  # that part and the one before are added up
    assert stage.store.count_waiting(["reading"]) == {"reading": 2}
    stage.clock.advance(-MINUTE)
    assert stage.store.count_waiting(["reading"]) == {}
