"""The span of each try, made with OpenTelemetry. Imported only where OpenTelemetry is."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from opentelemetry import context as contexts
from opentelemetry import trace as api
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, TraceFlags, Tracer
from opentelemetry.util.types import AttributeValue

from onward.model.events import Event
from onward.model.failures import Failure
from onward.model.ledger import DeadLettered, Delivery, Expired, InFailedBatch, Processed, Settlement
from onward.retry import redact_error
from onward.runtime.tracing import MAX_LINKS, TRACEPARENT, log_problem, parent_of, valid_trace

MAX_DOCUMENTS = 5  # the most documents, and the most failures, that a span names
_DIGEST = re.compile(r"[0-9a-z]*|[0-9a-f-]*")


@dataclass(frozen=True, slots=True)
class SpanFactory:
    """Makes spans with a tracer."""

    _tracer: Tracer

    def published(self, event: Event) -> str | None:
        """Return the caller's trace, or a new one that begins with this event."""
        try:
            caller = api.get_current_span().get_span_context()
            if caller.is_valid:
                return _text(caller)
            span = self._tracer.start_span(
                "onward.submitted", kind=SpanKind.PRODUCER, attributes={"onward.event_type": event.event_type}
            )
            span.end()
            return _text(span.get_span_context())
        except Exception as error:
            log_problem("begun", error)
            return None

    def start_try(self, service: str, delivery: Delivery, ids: Sequence[str], worker: str) -> TrySpan:
        failed = delivery.failed_trace if valid_trace(parent_of(delivery.failed_trace)) else ""
        trace = delivery.trace or ""
        parent = parent_of(trace or failed) or ""
        remote = _read(parent)
        attributes: dict[str, AttributeValue] = {
            "onward.service": service,
            "onward.event_id": _clean(delivery.event_id),
            "onward.event_type": delivery.event_type,
            "onward.round": delivery.round,
            "onward.try": delivery.tries + 1,
            "onward.row": delivery.row,
            "onward.worker": worker,
        }
        if ids:
            attributes |= {"onward.collection": delivery.collection or "", "onward.documents": _shown(ids)}
            attributes["onward.document_count"] = len(ids)
        # Without the span that is current around the worker: that has nothing to do with the event.
        context = Context() if remote is None else api.set_span_in_context(NonRecordingSpan(remote), Context())
        links = [Link(link) for link in map(_read, (failed or trace).split(" ")[1 : MAX_LINKS + 1]) if link]
        try:
            span = self._tracer.start_span(f"onward.{service}", context, SpanKind.CONSUMER, attributes, links)
        except Exception as error:
            log_problem("begun", error)
            return TrySpan(None, parent, parent_of(delivery.trace))
        own = _text(span.get_span_context())
        return TrySpan(span, parent if remote is not None else own, own)


@dataclass(slots=True, eq=False)
class TrySpan:
    """The span of one try, current while the handler runs; a problem with it never fails the try."""

    _span: Span | None
    _parent: str  # the `traceparent` under which the next try belongs
    trace: str | None  # the `traceparent` of what is emitted in this try
    _token: Any = None
    _ended_at: int | None = None
    _is_over: bool = False

    def __enter__(self) -> Self:
        if self._span is not None:
            self._token = contexts.attach(api.set_span_in_context(self._span))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._token is not None:
            contexts.detach(self._token)
        self._ended_at = self._ended_at or time.time_ns()
        if kind is not None:
            self.end()

    def record(self, settlement: Settlement | None) -> None:
        """Record what the try led to; None: another worker has taken the delivery over.

        A successful try stays open until its commit, which may fail.
        """
        self._ended_at = self._ended_at or time.time_ns()
        if self._span is None or (settlement is not None and _succeeded(settlement)):
            return
        try:
            for part in settlement.parts if settlement is not None else ():
                # The trace is stored with the failures, so that the next try, by any worker, can link to this one.
                if isinstance(part, Processed | Expired):
                    continue
                if part.failure is not None:
                    part.failure = replace(part.failure, trace=f"{self._parent} {self.trace}")
                if isinstance(part, DeadLettered | InFailedBatch) and part.notice is not None:
                    part.notice.trace = self.trace
            if not self._is_over:
                _add_events(self._span, settlement)
        except Exception as error:
            log_problem("ended", error)
        self.end()

    def end(self) -> None:
        """End the span with the time at which the handler ended."""
        if self._span is not None and not self._is_over:
            self._is_over = True
            try:
                self._span.end(self._ended_at)
            except Exception as error:
                log_problem("ended", error)


def _succeeded(settlement: Settlement) -> bool:
    return all(isinstance(part, Processed) for part in settlement.parts)


def _add_events(span: Span, settlement: Settlement | None) -> None:
    if settlement is None:
        span.add_event("onward.dropped")
        return
    failures: list[Failure] = []
    for part in settlement.parts[: 2 * MAX_DOCUMENTS]:
        if isinstance(part, Processed | Expired):
            continue
        attributes: dict[str, AttributeValue] = {"onward.documents": _shown(part.ids)}
        if isinstance(part, DeadLettered):
            name = "onward.given_up"
            attributes["onward.reason"] = str(part.reason)
        elif isinstance(part, InFailedBatch):
            name = "onward.set_aside"
        else:
            name = "onward.waits" if part.failure is None else "onward.retried"
            attributes |= {"onward.after": part.after} if part.until is None else {"onward.until": part.until}
        span.add_event(name, attributes)
        if part.failure is not None and part.failure not in failures:
            failures.append(part.failure)
    for failure in failures[:MAX_DOCUMENTS]:
        # As OpenTelemetry describes exceptions; the failure has no secrets any more.
        described: dict[str, AttributeValue] = {
            "exception.type": failure.error_type,
            "exception.message": failure.message,
            "exception.stacktrace": failure.traceback,
            "onward.fingerprint": failure.fingerprint,
            "onward.kind": failure.kind,
        }
        span.add_event("exception", described)
    if failures:
        description = f"{failures[0].error_type}: {failures[0].message}"
        span.set_status(api.Status(api.StatusCode.ERROR, description))


def _read(text: str) -> SpanContext | None:
    found = TRACEPARENT.fullmatch(text)
    if found is None:
        return None
    trace, span, flags = found.groups()
    return SpanContext(int(trace, 16), int(span, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))


def _text(span: SpanContext) -> str:
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def _shown(ids: Sequence[str]) -> list[str]:
    return [_clean(id) for id in ids[:MAX_DOCUMENTS]]


def _clean(id: str) -> str:
    # To look for secrets takes longer than all the rest, and most ids are digests.
    return id if _DIGEST.fullmatch(id) else redact_error(id)
