"""The code names of the seeds work, and lead to what Onward has."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import onward
from onward import App, Event, Ladder, NotReady, Settings, Work, compat, names
from onward.compat import (
    DocumentNotFoundError,
    EventPublisher,
    EventSubscriber,
    MetricsCollector,
    NoOpMetricsCollector,
    RetryConfig,
    RetryPolicy,
    calculate_next_retry_after,
    create_error_reporter,
    create_metrics_collector,
    handle_event_with_retry,
)
from onward.gateway.outbox import EXCHANGE
from onward.retry import Malformed
from onward.runtime.service import RegistrationError
from onward.testing import Simulation
from tests.support.page_app import Noticed, Page

MINUTE = 60.0


@pytest.fixture
def app() -> Iterator[App]:
    app = App(store="sqlite://:memory:")
    yield app
    app.close()


def test_each_name_is_here_and_only_here() -> None:
    for name in compat.__all__:
        assert getattr(compat, name).__doc__, name
    assert set(compat.__all__) & set(onward.__all__) == {"RetryPolicy"}, "one place for each name"
    with pytest.raises(AttributeError, match=r"'onward\.compat' has no attribute 'DocumentStore'"):
        _ = compat.DocumentStore


def test_importing_it_brings_in_no_app() -> None:
    loaded = "import onward.compat, sys; print(*(m for m in sys.modules if m.startswith(('onward.', 'pydantic'))))"
    found = subprocess.run([sys.executable, "-c", loaded], check=True, capture_output=True, text=True)
    assert found.stdout.split() == ["onward.compat"]


def test_the_aliases_are_the_real_things() -> None:
    assert DocumentNotFoundError is NotReady
    assert RetryPolicy is onward.RetryPolicy
    assert RetryPolicy(RetryConfig()) == Ladder().not_ready


# -- events


def subscribed(app: App, received: list[dict[str, Any]], *errors: Exception) -> None:
    failing = list(errors)

    def receive(event: dict[str, Any]) -> None:
        received.append(event)
        if failing:
            raise failing.pop(0)

    EventSubscriber(app, "chunking").subscribe(
        event_type="TriggerEvent", callback=receive, routing_key="trigger.event", exchange="copilot.events"
    )


def test_a_callback_gets_what_a_publisher_publishes(app: App) -> None:
    received: list[dict[str, Any]] = []
    subscribed(app, received)
    published = EventPublisher(app).publish(
        {"event_type": "TriggerEvent", "data": {"ids": ["m1"], "by": {"a": 1}}}
    )
    assert published.rows == 1
    app.work_until_idle()
    (event,) = received
    assert (event["event_type"], event["data"]) == ("TriggerEvent", {"ids": ["m1"], "by": {"a": 1}})
    assert event["idempotency_key"]
    (service,) = app.registry.services.values()
    assert (service.name, service.on.routing_key) == ("chunking.trigger.event", "trigger.event")


def test_a_callback_may_be_async(app: App) -> None:
    received: list[dict[str, Any]] = []

    async def receive(event: dict[str, Any]) -> None:
        received.append(event["data"])

    EventSubscriber(app, "chunking").subscribe("TriggerEvent", receive)
    EventPublisher(app).publish({"event_type": "TriggerEvent", "data": {"ids": []}})
    app.work_until_idle()
    assert received == [{"ids": []}]


def test_a_callback_may_be_an_object_that_is_called_with_await(app: App) -> None:
    received: list[dict[str, Any]] = []

    class Receiver:
        async def __call__(self, event: dict[str, Any]) -> None:
            received.append(event["data"])

    EventSubscriber(app, "chunking").subscribe("TriggerEvent", Receiver())
    EventPublisher(app).publish({"event_type": "TriggerEvent", "data": {"ids": []}})
    app.work_until_idle()
    assert received == [{"ids": []}]


def test_a_callback_whose_coroutine_nobody_awaits_is_a_failure(app: App) -> None:
    async def receive(event: dict[str, Any]) -> None: ...

    def begin(event: dict[str, Any]) -> Any:
        return receive(event)

    EventSubscriber(app, "chunking").subscribe("TriggerEvent", begin)
    EventPublisher(app).publish({"event_type": "TriggerEvent", "data": {}})
    app.work_until_idle()
    (letter,) = app.store.find_dead_letters()
    assert "a handler that awaits is declared with `async def`" in letter.last_error


def test_an_event_with_many_ids_is_published(app: App) -> None:
    class PageFound(Event):
        page_ids: list[str] = names(Page)

    read: list[str] = []
    app.service("reading", on=PageFound, finishes=Page)(lambda page, work: read.append(page.id))
    app.add(*(Page(id=f"{number}") for number in range(1_200)))
    ids = [f"{number}" for number in range(1_200)]
    assert EventPublisher(app).publish({"event_type": "PageFound", "data": {"page_ids": ids}}).rows == 1
    app.work_until_idle()
    assert len(read) == 1_200


def test_a_callback_that_raises_is_tried_again_and_then_a_dead_letter() -> None:
    app = App(store="sqlite://:memory:")
    received: list[dict[str, Any]] = []
    subscribed(app, received, DocumentNotFoundError("no m1"), *[OSError("down")] * 3)
    with Simulation(app, retry_job=False) as world:
        EventPublisher(app).publish({"event_type": "TriggerEvent", "data": {}})
        world.run_for(10 * MINUTE)
        assert len(received) == 4, "one time too early, and three tries"
        (letter,) = app.store.find_dead_letters()
        assert (letter.failed_queue, letter.error_type) == ("chunking.failed", "OSError")


def test_one_subscriber_may_subscribe_to_several_types(app: App) -> None:
    received: list[str] = []
    subscriber = EventSubscriber(app, "reporting")
    for event_type in ("ParsingFailed", "ChunkingFailed"):
        subscriber.subscribe(event_type, lambda event: received.append(event["event_type"]))
        EventPublisher(app).publish({"event_type": event_type, "data": {}})
    app.work_until_idle()
    assert sorted(received) == ["ChunkingFailed", "ParsingFailed"]


def test_an_event_that_nobody_declares_is_published_too(app: App) -> None:
    assert EventPublisher(app).publish({"event_type": "SomethingElse", "data": {"a": 1}}).rows == 0


def test_a_declared_event_keeps_its_class(app: App) -> None:
    @app.service("listening", on=Noticed)
    def listen(event: Noticed, work: Work) -> None: ...

    received: list[dict[str, Any]] = []
    EventSubscriber(app, "chunking").subscribe("Noticed", received.append)
    assert EventPublisher(app).publish({"event_type": "Noticed", "data": {"what": "rain"}}).rows == 2
    app.work_until_idle()
    assert received[0]["data"] == {"what": "rain"}
    with pytest.raises(Malformed, match="what"):
        EventPublisher(app).publish({"event_type": "Noticed", "data": {"what": ["rain"]}})


@pytest.mark.parametrize(
    ("event", "problem"),
    (
        ({"data": {}}, "event_type"),
        ({"event_type": "TriggerEvent", "data": [1]}, "'data' is not an object"),
        ({"event_type": "TriggerEvent", "data": {"at": datetime.now(UTC)}}, "datetime is not JSON serializable"),
        ({"event_type": "TriggerEvent", "data": {"size": float("nan")}}, "JSON"),
    ),
)
def test_an_event_that_cannot_be_stored_is_refused(app: App, event: dict[str, Any], problem: str) -> None:
    with pytest.raises(Malformed, match=problem):
        EventPublisher(app).publish(event)


def test_another_exchange_or_routing_key_is_refused(app: App) -> None:
    assert compat.EXCHANGE == EXCHANGE
    subscriber = EventSubscriber(app, "chunking")
    with pytest.raises(RegistrationError, match=r"the exchange 'mine'; the gateway has one, 'copilot\.events'"):
        subscriber.subscribe("TriggerEvent", print, exchange="mine")
    subscriber.subscribe("TriggerEvent", print)
    with pytest.raises(RegistrationError, match=r"'other\.key', which is declared with 'trigger\.event'"):
        EventSubscriber(app, "embedding").subscribe("TriggerEvent", print, "other.key")


# -- metrics and errors


@pytest.mark.parametrize(("event_type", "callback"), ((None, print), ("", print), ("TriggerEvent", None)))
def test_a_wrong_subscription_is_refused(app: App, event_type: Any, callback: Any) -> None:
    with pytest.raises(RegistrationError, match=r"'chunking' subscribes to .*; give "):
        EventSubscriber(app, "chunking").subscribe(event_type, callback)


def test_metrics_are_those_of_the_app(app: App) -> None:
    collector = create_metrics_collector(app)
    collector.increment("failures_total", 1, tags={"service": "chunking", "error_type": "TimeoutError"})
    collector.increment("chunks_created_total", 3)
    collector.observe("chunk_size_tokens", 120)
    collector.gauge("letters_waiting", 7, tags={"queue": "chunking"})
    taken = app.metrics.take()
    assert taken.counters == {
        ("failures_total", (("error_type", "TimeoutError"), ("service", "chunking"))): 1,
        ("chunks_created_total", ()): 3,
    }
    assert [name for name, _ in taken.histograms] == ["chunk_size_tokens"]
    assert taken.gauges == {("letters_waiting", (("queue", "chunking"),)): 7}


def test_the_wrapper_of_one_event_takes_a_collector(app: App) -> None:
    errors = [DocumentNotFoundError("no m1")]
    done = handle_event_with_retry(
        lambda event: errors and (_ for _ in ()).throw(errors.pop()),
        {},
        idempotency_key="k",
        service_name="chunking",
        metrics_collector=create_metrics_collector(app),
        sleep=lambda seconds: None,
    )
    assert done
    assert (
        "event_retry_success_total",
        (("attempt", "2"), ("service", "chunking")),
    ) in app.metrics.take().counters


def test_metrics_can_be_switched_off() -> None:
    collector: MetricsCollector = NoOpMetricsCollector()
    collector.increment("events_processed_total", 1, tags={"service": "chunking"})
    switched_off = App(store="sqlite://:memory:", settings=Settings(metrics_backend="noop"))
    create_metrics_collector(switched_off).increment("events_processed_total")
    assert not switched_off.metrics.take()


def test_an_error_is_reported(app: App) -> None:
    create_error_reporter(app).report(ValueError("no such currency"), context={"retry_count": 3})
    app.stop_reporting()
    (group,) = app.store.failure_groups()
    assert group.error_type == "ValueError"


def test_without_an_app_the_environment_says_where_errors_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    address = f"sqlite:///{tmp_path_factory.mktemp('store') / 'onward.db'}"
    monkeypatch.setenv("ONWARD_STORE", address)
    reporter = create_error_reporter()
    reporter.report(ValueError("no such currency"))
    reporter._app.close()
    store = App(store=address)
    assert [group.error_type for group in store.store.failure_groups()] == ["ValueError"]
    store.close()


# -- failed batches


def test_failed_batches_are_retried_on_their_schedule() -> None:
    now = datetime(2026, 1, 17, 5, tzinfo=UTC)
    waits = [calculate_next_retry_after(count, now=now) - now for count in range(7)]
    assert [wait.total_seconds() / MINUTE for wait in waits] == [1, 5, 10, 20, 40, 60, 60]
    assert calculate_next_retry_after(0) > datetime.now(UTC)
    with pytest.raises(ValueError, match="-1"):
        calculate_next_retry_after(-1)
