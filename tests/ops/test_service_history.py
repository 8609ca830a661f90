"""What services did over time: buckets with gaps where no worker ran, with outages and deploys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from onward.backend_urls import open_store
from onward.model.rollups import HOUR, MINUTE, TEN_MINUTES, ServiceCounts
from onward.ops.bad_input import NotFound
from onward.ops.queries.service_history import RANGES, ServiceHistory, read_history
from onward.ops.text.service_history import history_sentences, latency, point_text, rate
from tests.support.store_pages import LISTENING, NOON, READING, Clock, Stage

START = int(NOON)


@pytest.fixture
def stage() -> Iterator[Stage]:
    clock = Clock(NOON + 30)
    store = open_store("sqlite://:memory:", clock)
    yield Stage(store, clock)
    store.close()


def add(stage: Stage, at: int, service: str = "reading", **counted: int) -> None:
    counts = ServiceCounts()
    for name, value in counted.items():
        setattr(counts, name, value)
    counts.add_tries([0.2] * counts.events)
    stage.store.add_counts({(at, service): counts})


def read(stage: Stage, name: str = "1h", service: str | None = None) -> ServiceHistory:
    return read_history(stage.store, RANGES[name], service)


@pytest.mark.parametrize(
    ("name", "step", "count"), (("1h", MINUTE, 60), ("24h", TEN_MINUTES, 144), ("7d", HOUR, 168))
)
def test_a_range_has_all_its_buckets_and_ends_with_the_present_one(
    stage: Stage, name: str, step: int, count: int
) -> None:
    add(stage, START, events=3, documents=30)
    history = read(stage, name)
    assert len(history.points) == count
    assert [one.start for one in history.points][-2:] == [START - step, START]
    last = history.points[-1]
    assert last.counts is not None
    assert last.counts.events == 3
    assert last.rate("documents") == 1.0, "30 seconds of the bucket have passed"
    assert all(one.counts is None for one in history.points[:-1])


def test_no_worker_is_a_gap_and_nothing_to_do_is_a_zero(stage: Stage) -> None:
    add(stage, START - 2 * MINUTE, events=6, documents=6)
    add(stage, START - MINUTE)
    *_, gap, busy, idle, now = read(stage).points
    assert (gap.counts, now.counts) == (None, None)
    assert (busy.rate("events"), idle.rate("events"), gap.rate("events")) == (0.1, 0.0, None)


def test_all_services_together_and_one_alone(stage: Stage) -> None:
    add(stage, START, events=1, documents=2, waiting=5, failures=1)
    add(stage, START, "listening", events=10, waiting=7)
    both, one = read(stage).points[-1].counts, read(stage, service="listening").points[-1].counts
    assert both is not None
    assert one is not None
    assert (both.events, both.documents, both.waiting, both.failures) == (11, 2, 12, 1)
    assert (one.events, one.waiting) == (10, 7)
    assert (read(stage).unit, read(stage, service="listening").unit) == ("documents", "events")


def test_an_unknown_service_is_refused_by_name(stage: Stage) -> None:
    with pytest.raises(NotFound, match="there is no service 'writing'; there are: listening, reading"):
        read(stage, service="writing")


def test_outages_of_what_a_service_needs_and_deploys_are_marked(stage: Stage) -> None:
    stage.store.subscribe([replace(READING, needs=("model",)), replace(LISTENING, needs=("radio",))])
    stage.clock.time = NOON - 2 * HOUR
    stage.store.register_worker("anna", {"version": "shop 1"})
    stage.store.open_breaker("model", "long ago")
    stage.clock.time = NOON - 90 * MINUTE
    stage.store.close_breaker("model")
    stage.clock.time = NOON - 30 * MINUTE
    stage.store.register_worker("anna", {"version": "shop 2"})
    stage.store.open_breaker("model", "password=secret refused")
    stage.store.open_breaker("radio", "noise")
    stage.clock.time = NOON + 30
    assert [(one.dependency, one.closed_at) for one in read(stage).outages] == [("model", None), ("radio", None)]
    (outage,) = read(stage, service="reading").outages
    assert "secret" not in outage.reason
    assert [one.version for one in read(stage).deploys] == ["shop 2"]
    assert len(read(stage, "24h", "reading").outages) == 2


def test_it_is_summed_up_in_sentences(stage: Stage) -> None:
    assert history_sentences(read(stage)) == ["No worker has run in the last hour."]
    add(stage, START - MINUTE, events=120, documents=120, failures=2, dead_letters=1, waiting=3)
    history = read(stage)
    assert history_sentences(history) == [
        "In the last hour, 120 documents were finished, at most 2 a second.",
        "A try took 200 ms on average, 95 % took at most 242 ms.",
        "2 failed tries, 1 dead letter.",
        "At most 3 events waited.",
        "No worker ran for about 59 min of it.",
    ]
    assert point_text(history, history.points[-2]) == (
        "120 documents finished, 2 a second; a try took 200 ms on average, 95 % took at most 242 ms; "
        "2 failed tries, 1 dead letter; 3 events waiting"
    )
    assert point_text(history, history.points[0]) == "no worker ran"


def test_rates_and_latencies_are_readable_at_every_size() -> None:
    assert [rate(one) for one in (0.0, 0.005, 0.5, 1.5, 2.0, 1234.0)] == [
        "0 a minute", "0.3 a minute", "30 a minute", "1.5 a second", "2 a second", "1 234 a second",
    ]  # fmt: skip
    assert [latency(one) for one in (0.0, 0.003, 0.25, 1.5, 30.0, 600.0)] == [
        "under 1 ms", "3 ms", "250 ms", "1.5 s", "30 s", "10 min",
    ]  # fmt: skip
