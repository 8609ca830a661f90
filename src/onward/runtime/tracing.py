"""Tracing: one trace follows a document through all services and retries, where OpenTelemetry is set up.

The text of a trace, as an event carries it and a failure keeps it, is one W3C `traceparent` or several: the
span that a try hangs under, then the tries before it, which it links to.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from onward.model.documents import DocumentState
from onward.model.failures import Failure, outcomes
from onward.model.ledger import Aside, Dead, Done, Settlement
from onward.retry import redact_error

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, SpanContext, Tracer, TracerProvider
    from opentelemetry.util.types import AttributeValue

    from onward.model.events import Event
    from onward.runtime.handling import Call

log = logging.getLogger("onward")

MAX_DOCUMENTS = 5
"""So many ids are told of a try, and so many failures."""
MAX_LINKS = 5
_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
_EVEN = frozenset("02468ace")
"""The last digit of a traceparent whose trace is not recorded."""
_DIGEST = re.compile(r"[0-9a-z]*|[0-9a-f-]*")


def in_use() -> Tracing | None:
    """Tracing, if this process has a tracer provider that does something; a worker asks once, when it starts."""
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None  # whoever sets a provider has imported it
    try:
        provider = api.get_tracer_provider()
        return None if isinstance(provider, api.ProxyTracerProvider) else _tracing(provider)
    except Exception as error:
        _complain("found", error)
        return None


@lru_cache(maxsize=1)
def _tracing(provider: TracerProvider) -> Tracing | None:
    from opentelemetry.trace import NoOpTracer

    tracer = provider.get_tracer("onward")
    return None if isinstance(tracer, NoOpTracer) else Tracing(tracer)


def submitted(event: Event) -> str | None:
    """The trace of an event that is published here: its caller's, or a new one."""
    tracing = in_use()
    return None if tracing is None else tracing.submitted(event)


def accepted(trace: object) -> str | None:
    """What a stranger's event says of its trace, if that can be read."""
    return trace if isinstance(trace, str) and _PARENT.fullmatch(trace) else None


def handed_on(trace: str | None) -> str | None:
    """The trace of what a try leads to that has no span of its own."""
    return trace.partition(" ")[0] if trace else None


def is_left_out(trace: str | None) -> bool:
    """Whether whoever began a trace has decided not to record it: then nobody else does, and it costs nothing."""
    return trace is not None and trace[54:55] in _EVEN and accepted(handed_on(trace)) is not None


def resumed(states: Iterable[DocumentState]) -> str | None:
    """The trace in which documents are put back: that of the last failure, linked to what failed.

    Where documents of several traces go back with one event, that is the first one's; the others are linked to.
    """
    parent, earlier = "", dict[str, None]()
    for state in states:
        if kept := _last_kept(state.attempts):
            first, *tries = kept.split(" ")
            parent = parent or first
            earlier |= dict.fromkeys(tries[-1:])
    return " ".join([parent, *list(earlier)[:MAX_LINKS]]) if parent else None


def _last_kept(history: dict[str, Any]) -> str:
    """The trace that the last failed try has kept in a history; else that of an event which never came to one."""
    found = ""
    try:
        for outcome in reversed(outcomes(history or None)):
            if outcome.get("outcome") == "processed":
                break  # what failed before is another story
            kept = str(outcome.get("trace", ""))
            if accepted(handed_on(kept)):
                found = found or kept
                if " " in kept:
                    return kept
    except (AttributeError, LookupError, TypeError):  # others may have written anything there
        pass
    return found


def _complain(what: str, error: Exception) -> None:
    log.error(
        "a trace could not be %s; the work goes on: %s", what, redact_error(f"{type(error).__name__}: {error}")
    )


class Tracing:
    """Makes spans with an OpenTelemetry tracer."""

    __slots__ = ("_api", "_context", "_tracer")

    def __init__(self, tracer: Tracer) -> None:
        from opentelemetry import context, trace

        self._tracer = tracer
        self._api = trace
        self._context = context

    def trying(self, call: Call) -> Trying:
        """Make a span of what is done within."""
        call.trying = trying = Trying(self, handed_on(call.handling.delivery.trace))
        trying.begin(call)
        return trying

    def submitted(self, event: Event) -> str | None:
        """The caller's trace, or a new one that begins with this event."""
        try:
            caller = self._api.get_current_span().get_span_context()
            if caller.is_valid:
                return _text(caller)
            span = self._tracer.start_span(
                "onward.submitted",
                kind=self._api.SpanKind.PRODUCER,
                attributes={"onward.event_type": event.event_type},
            )
            span.end()
            return _text(span.get_span_context())
        except Exception as error:
            _complain("begun", error)
            return None

    def start(self, call: Call) -> tuple[Span, str]:
        """Begin the span of a try; answer it with the text of where it hangs, or else the next try will."""
        delivery = call.handling.delivery
        kept = _last_kept(delivery.errors)
        parent = handed_on(delivery.trace) or handed_on(kept)
        remote = self._read(parent)
        attributes: dict[str, AttributeValue] = {
            "onward.service": call.service.name,
            "onward.event_id": _clean(delivery.event_id),
            "onward.event_type": delivery.event_type,
            "onward.documents": _shown(call.ids),
            "onward.document_count": len(call.ids),
            "onward.collection": delivery.collection or "",
            "onward.round": delivery.round,
            "onward.try": delivery.tries + 1,
            "onward.row": delivery.row,
            "onward.worker": call.handling.context.worker,
        }
        span = self._tracer.start_span(
            f"onward.{call.service.name}",
            # Not what happens to be under way around a worker: that has nothing to do with the event.
            self._hanging_under(remote),
            self._api.SpanKind.CONSUMER,
            attributes,
            self._links(kept or delivery.trace or ""),
        )
        return span, (parent or "") if remote is not None else _text(span.get_span_context())

    def _hanging_under(self, parent: SpanContext | None) -> Any:
        nothing = self._context.Context()
        if parent is None:
            return nothing
        return self._api.set_span_in_context(self._api.NonRecordingSpan(parent), nothing)

    def _links(self, trace: str) -> list[Link]:
        earlier = [self._read(one) for one in trace.split(" ")[1 : MAX_LINKS + 1]]
        return [self._api.Link(one) for one in earlier if one is not None]

    def _read(self, text: str | None) -> SpanContext | None:
        found = _PARENT.fullmatch(text) if text else None
        if found is None:
            return None
        trace, span, flags = (int(one, 16) for one in found.groups())
        return self._api.SpanContext(trace, span, is_remote=True, trace_flags=self._api.TraceFlags(flags))

    def enter(self, span: Span) -> Any:
        """Let the handler's own spans hang under this one."""
        return self._context.attach(self._api.set_span_in_context(span))

    def leave(self, token: Any) -> None:
        self._context.detach(token)

    def failed(self, span: Span, description: str) -> None:
        span.set_status(self._api.Status(self._api.StatusCode.ERROR, description))


class Trying:
    """One try and its span. Whatever goes wrong with the span, the try goes on."""

    # Not the call: what refers to each other waits for the collector.
    __slots__ = ("_hangs_under", "_over", "_span", "_token", "_tracing", "trace")

    def __init__(self, tracing: Tracing, trace: str | None) -> None:
        self._tracing = tracing
        self._span: Span | None = None
        self._token: Any = None
        self._over = False
        self._hangs_under = ""
        self.trace = trace
        """What is emitted in this try belongs here."""

    def begin(self, call: Call) -> None:
        """Begin its span."""
        try:
            self._span, self._hangs_under = self._tracing.start(call)
            self.trace = _text(self._span.get_span_context())
        except Exception as error:
            _complain("begun", error)

    def __enter__(self) -> Self:
        try:
            if self._span is not None:
                self._token = self._tracing.enter(self._span)
        except Exception as error:
            _complain("begun", error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._token is not None:
                self._tracing.leave(self._token)
            self._end()
        except Exception as broken:
            _complain("ended", broken)

    def _end(self) -> None:
        if self._span is not None and not self._over:
            self._over = True
            self._span.end()

    def told(self, settlement: Settlement | None) -> None:
        """The try is over, and this is what it leads to; None: nobody's business any more.

        Asked again when something else becomes of it, it is the failures alone that are told where they
        happened: a span that has ended stays as it is.
        """
        if self._span is None:
            return
        try:
            if settlement is not None:
                self._keep(settlement)
            if not self._over:
                self._tell(self._span, settlement)
                self._end()
        except Exception as error:
            _complain("ended", error)

    def _keep(self, settlement: Settlement) -> None:
        """Let failures remember the span, so that the next try, here or anywhere, can link to it."""
        for part in settlement.parts:
            if isinstance(part, Done):
                continue
            if part.failure is not None:
                part.failure = replace(part.failure, trace=f"{self._hangs_under} {self.trace}")
            if isinstance(part, Dead | Aside) and part.notice is not None:
                part.notice.trace = self.trace

    def _tell(self, span: Span, settlement: Settlement | None) -> None:
        if not span.is_recording():
            return
        if settlement is None:
            span.add_event("onward.dropped")
            return
        failures: list[Failure] = []
        for part in settlement.parts[: 2 * MAX_DOCUMENTS]:
            if isinstance(part, Done):
                continue
            about: dict[str, AttributeValue] = {"onward.documents": _shown(part.ids)}
            if isinstance(part, Dead):
                name = "onward.given_up"
                about["onward.reason"] = str(part.reason)
            elif isinstance(part, Aside):
                name = "onward.set_aside"
            else:
                name = "onward.waits" if part.failure is None else "onward.retried"
                about |= {"onward.after": part.after} if part.until is None else {"onward.until": part.until}
            span.add_event(name, about)
            if part.failure is not None and part.failure not in failures:
                failures.append(part.failure)
        for failure in failures[:MAX_DOCUMENTS]:
            span.add_event("exception", _described(failure))
        if failures:
            self._tracing.failed(span, f"{failures[0].error_type}: {failures[0].message}")


def _described(failure: Failure) -> dict[str, AttributeValue]:
    """A failure as OpenTelemetry describes exceptions; secrets are gone from it already."""
    return {
        "exception.type": failure.error_type,
        "exception.message": failure.message,
        "exception.stacktrace": failure.traceback,
        "onward.fingerprint": failure.fingerprint,
        "onward.kind": failure.kind,
    }


def _shown(ids: Sequence[str]) -> list[str]:
    return [_clean(id) for id in ids[:MAX_DOCUMENTS]]


def _clean(id: str) -> str:
    # Looking for secrets takes longer than all the rest, and most ids are digests.
    return id if _DIGEST.fullmatch(id) else redact_error(id)


def _text(span: SpanContext) -> str:
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
