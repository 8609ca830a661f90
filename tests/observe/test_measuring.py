"""What happens to deliveries is counted, in the names that alerts and dashboards know."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onward import App, Permanent, Settings, Work
from onward.runtime.metrics import Distribution
from onward.testing import Simulation
from tests.support.page_app import Page, PagesFound, bring, statuses


class Reading:
    """A service that reads pages; `failures` says how often each fails first."""

    def __init__(self, **settings: str) -> None:
        self.app = App(settings=Settings.model_validate(settings))
        self.failures: dict[str, int] = {}
        self.world = Simulation(self.app)

        @self.app.service("reading", on=PagesFound, finishes=Page)
        def read(page: Page, work: Work) -> None:
            if self.failures.get(page.id):
                self.failures[page.id] -= 1
                raise ConnectionError("it broke")
            if page.id == "bad":
                raise Permanent("it will never do")

    def counter(self, name: str, **labels: str) -> float:
        return self.app.metrics.counted().counters.get((name, tuple(sorted(labels.items()))), 0.0)

    def histogram(self, name: str) -> Distribution:
        return self.app.metrics.counted().histograms[name, (("service", "reading"),)]

    def names(self) -> set[str]:
        return {name for name, _ in self.app.metrics.counted().counters}


@pytest.fixture
def reading() -> Iterator[Reading]:
    found = Reading()
    with found.world:
        yield found


def test_a_success_is_counted_and_timed(reading: Reading) -> None:
    bring(reading.world, "a")
    reading.world.drain()
    assert reading.counter("events_processed_total", service="reading") == 1
    assert sum(reading.histogram("processing_duration_seconds").counts) == 1
    assert reading.names() == {"events_processed_total"}, "nothing failed, nothing was retried"


def test_a_success_after_failures_says_after_how_many_and_how_long(reading: Reading) -> None:
    reading.failures["a"] = 2
    bring(reading.world, "a")
    reading.world.run_for(600.0)
    assert reading.counter("failures_total", service="reading", error_type="ConnectionError") == 2
    assert reading.counter("event_retry_success_total", service="reading", attempt="3") == 1
    assert reading.histogram("event_retry_latency_seconds").sum > 1.0, "time passed between the tries"
    tries = reading.histogram("event_retry_attempt_count")
    assert (sum(tries.counts), tries.sum) == (1, 3.0)


def test_what_is_given_up_is_counted_by_its_reason(reading: Reading) -> None:
    bring(reading.world, "bad")
    reading.world.drain()
    assert reading.counter("event_retry_dlq_total", service="reading", reason="non_retryable") == 1
    assert reading.counter("failures_total", service="reading", error_type="Permanent") == 1
    assert reading.counter("events_processed_total", service="reading") == 0


def test_switched_off_nothing_is_counted_and_the_work_is_done() -> None:
    reading = Reading(metrics_backend="noop")
    with reading.world:
        bring(reading.world, "a")
        reading.world.drain()
        reading.app.metrics.increment("mine_total")
        assert statuses(reading.world, "a") == {"a": "processed"}
    assert not reading.app.metrics.counted()
