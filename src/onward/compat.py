"""The code names of the seeds, each an alias of a name of Onward or a thin adapter over one.

For programs that were written to the designs which `docs/reference/seeds.md` lists. New code needs none of them:

  here                                  new code uses
  DocumentNotFoundError                 onward.NotReady
  RetryConfig, RetryPolicy              onward.RetryPolicy with a backoff; the RETRY_… variables
  handle_event_with_retry               a service: @app.service(…)
  EventPublisher                        app.publish(…)
  EventSubscriber                       @app.service(name, on=…)
  MetricsCollector,                     app.metrics
  create_metrics_collector
  NoOpMetricsCollector                  METRICS_BACKEND=noop
  ErrorReporter, create_error_reporter  app.report_error(…)
  calculate_next_retry_after            onward.Ladder().failed_batch
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from onward.app import App
    from onward.model.events import Event
    from onward.model.ledger import Published
    from onward.retry.errors import NotReady as DocumentNotFoundError
    from onward.retry.policy import RetryConfig, RetryPolicy
    from onward.retry.retry_call import handle_event_with_retry
    from onward.runtime.metrics import Metrics
    from onward.runtime.work import Work

__all__ = ["DocumentNotFoundError", "ErrorReporter", "EventPublisher", "EventSubscriber", "MetricsCollector"]
__all__ += ["NoOpMetricsCollector", "RetryConfig", "RetryPolicy", "calculate_next_retry_after"]
__all__ += ["create_error_reporter", "create_metrics_collector", "handle_event_with_retry"]

EXCHANGE = "copilot.events"  # the only exchange of the gateway

# The aliases are imported when they are first used, as those of `onward` are.
_ALIASES = {
    "DocumentNotFoundError": ("onward.retry.errors", "NotReady"),
    "RetryConfig": ("onward.retry.policy", "RetryConfig"),
    "RetryPolicy": ("onward.retry.policy", "RetryPolicy"),
    "handle_event_with_retry": ("onward.retry.retry_call", "handle_event_with_retry"),
}


def __getattr__(name: str) -> object:
    if name not in _ALIASES:
        raise AttributeError(f"module 'onward.compat' has no attribute {name!r}")
    module, real = _ALIASES[name]
    return getattr(importlib.import_module(module), real)


# -- events


class EventPublisher:
    """Publishes events that are dictionaries, with `event_type` and `data`."""

    def __init__(self, app: App) -> None:
        self._app = app

    def publish(self, event: Mapping[str, Any]) -> Published:
        """Put an event on the ledger, as `app.publish` does; its id and its timestamp are made there.

        Data that the class of a declared event type does not accept raise `Malformed`.
        """
        import json  # not at the top: a program that only needs an alias does not wait for this

        from onward.model.events import decode, read_event
        from onward.retry.errors import Malformed

        try:
            raw = json.dumps(event, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise Malformed(f"the event cannot be written as JSON: {error}; give plain values") from error
        envelope = decode(raw)
        kind = _event_class(self._app, envelope["event_type"])
        # An event that names more documents than one may is several: the first stands for all of them.
        return self._app.publish(read_event(kind, json.dumps(envelope.get("data", {}))))[0]


class EventSubscriber:
    """Declares services of an app whose handlers are callbacks that take the event as a dictionary."""

    def __init__(self, app: App, service_name: str) -> None:
        self._app = app
        self._service_name = service_name

    def subscribe(
        self,
        event_type: str,
        callback: Callable[[dict[str, Any]], Any],
        routing_key: str = "",
        exchange: str = EXCHANGE,
    ) -> None:
        """Declare a service that calls `callback` with each event of this type; the app's workers run it.

        The dictionary has `event_type`, `version`, `data` and `idempotency_key`. If the callback raises, the event
        waits for its next try or becomes a dead letter of `SERVICE_NAME.failed`; there is nothing to acknowledge.
        """
        from onward.runtime.service import RegistrationError

        if exchange != EXCHANGE:
            raise RegistrationError(
                f"{self._service_name!r} subscribes to the exchange {exchange!r}; the gateway has one, "
                f"{EXCHANGE!r}"
            )
        given: object = event_type  # A program without type checks may give anything
        if not (isinstance(given, str) and given):
            raise RegistrationError(
                f"{self._service_name!r} subscribes to {given!r:.100}; give the name of an event type"
            )
        if not callable(callback):
            raise RegistrationError(
                f"{self._service_name!r} subscribes to {event_type} with the callback {callback!r:.100}; give a "
                "function that takes the event"
            )
        kind = _event_class(self._app, event_type, routing_key)
        if routing_key and kind.routing_key != routing_key:
            raise RegistrationError(
                f"{self._service_name!r} subscribes to {event_type} with the routing key {routing_key!r}, which "
                f"is declared with {kind.routing_key!r}; give that one, or none"
            )

        def handle(event: Event, work: Work) -> Any:
            returned = callback(_as_dictionary(event, work))
            # A coroutine that nobody awaits did nothing: returned from here, it fails the call.
            return returned if inspect.iscoroutine(returned) else None

        async def handle_async(event: Event, work: Work) -> None:
            await callback(_as_dictionary(event, work))

        from onward.model.events import dotted

        is_async = inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(type(callback).__call__)
        self._app.service(
            f"{self._service_name}.{dotted(event_type)}", on=kind, failed_queue=f"{self._service_name}.failed"
        )(handle_async if is_async else handle)


def _as_dictionary(event: Event, work: Work) -> dict[str, Any]:
    return {
        "event_type": event.event_type,
        "version": event.version,
        "data": event.model_dump(mode="json"),
        "idempotency_key": work.key,
    }


def _event_class(app: App, event_type: str, routing_key: str = "") -> type[Event]:
    """Return the class of an event type that the app declares, or one that takes any data."""
    known = (kind for kind in app.registry.events() if kind.event_type == event_type)
    return next(known, None) or _open_event_class(event_type, routing_key)


@functools.lru_cache(maxsize=1000)
def _open_event_class(event_type: str, routing_key: str) -> type[Event]:
    from pydantic import ConfigDict, create_model

    from onward.model.events import Event

    class AnyEvent(Event):
        model_config = ConfigDict(extra="allow")

    return create_model(
        event_type, __base__=AnyEvent, __cls_kwargs__={"type": event_type, "routing_key": routing_key or None}
    )


# -- metrics and errors


Tags: TypeAlias = Mapping[str, str] | str | None


def _labels(tags: Tags, labels: dict[str, str]) -> dict[str, str]:
    return {**labels, "tags": tags} if isinstance(tags, str) else {**labels, **(tags or {})}


class MetricsCollector:
    """The metrics of an app, with labels given as `tags`."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    # Labels as keywords are what `handle_event_with_retry` gives; so a label may be called `tags`, too.
    def increment(self, name: str, value: float = 1.0, /, *, tags: Tags = None, **labels: str) -> None:
        """Count something that happened."""
        self._metrics.increment(name, value, **_labels(tags, labels))

    def observe(self, name: str, value: float, /, *, tags: Tags = None, **labels: str) -> None:
        """Add a value to a distribution."""
        self._metrics.observe(name, value, **_labels(tags, labels))

    def gauge(self, name: str, value: float, /, *, tags: Tags = None, **labels: str) -> None:
        """Say how much there is of something now."""
        self._metrics.gauge(name, value, **_labels(tags, labels))


class NoOpMetricsCollector(MetricsCollector):
    """Metrics that are switched off, for tests."""

    def __init__(self) -> None:
        from onward.runtime.metrics import NoMetrics

        super().__init__(NoMetrics())


def create_metrics_collector(app: App) -> MetricsCollector:
    """Return the metrics of an app, whose worker exposes or pushes them as `METRICS_BACKEND` says."""
    return MetricsCollector(app.metrics)


class ErrorReporter:
    """Reports errors as `app.report_error` does: it neither waits nor raises."""

    def __init__(self, app: App) -> None:
        self._app = app

    def report(self, error: BaseException, context: Mapping[str, Any] | None = None) -> None:
        """Report an error, with what was known of its circumstances."""
        self._app.report_error(error, context=context)


def create_error_reporter(app: App | None = None) -> ErrorReporter:
    """Return a reporter to where `ERROR_REPORTER_TYPE` says; without an app, the environment alone decides."""
    from onward.app import App

    return ErrorReporter(App() if app is None else app)


# -- failed batches


def calculate_next_retry_after(retry_count: int, *, now: datetime | None = None) -> datetime:
    """Return when a failed batch with this many retries is retried: after 1, 5, 10, 20, 40, then each 60 min."""
    from onward.retry.policy import Ladder

    if retry_count < 0:
        raise ValueError(f"calculate_next_retry_after({retry_count}): retries are counted from 0")
    wait, _ = Ladder().failed_batch.backoff.bounds(retry_count + 1)
    return (now or datetime.now(UTC)) + timedelta(seconds=wait)
