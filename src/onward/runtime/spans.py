"""Spans: each try has one, made with the tracer that this process has set up.

To make a span takes about as long as all else that is done for a small event, and longer where other code runs in
between. So it is made when somebody asks for it: the handler's own spans, what it emits, or a failure. Otherwise
it is made after the commit, in a row with those of the whole group, and says when the try began and ended.

Imported only where OpenTelemetry is.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from opentelemetry import context as contexts
from opentelemetry import trace as api
from opentelemetry.context import Context
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, TraceFlags, Tracer
from opentelemetry.util.types import AttributeValue

from onward.model.events import Event
from onward.model.failures import Failure
from onward.model.ledger import Aside, Dead, Delivery, Done, Settlement
from onward.retry import redact_error
from onward.runtime.tracing import MAX_LINKS, PARENT, complain, handed_on, last_kept

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_keys, dict_values

MAX_DOCUMENTS = 5
"""So many ids are told of a try, and so many failures."""
_NOTHING = Context()
_DIGEST = re.compile(r"[0-9a-z]*|[0-9a-f-]*")


class Tracing:
    """Makes spans with an OpenTelemetry tracer."""

    __slots__ = ("_tracer", "making")

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self.making = threading.RLock()

    def trying(self, service: str, delivery: Delivery, ids: Sequence[str], worker: str) -> Trying:
        """One try, which begins now."""
        return Trying(self, service, delivery, ids, worker)

    def submitted(self, event: Event) -> str | None:
        """The caller's trace, or a new one that begins with this event."""
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
            complain("begun", error)
            return None

    def start(
        self, service: str, delivery: Delivery, ids: Sequence[str], worker: str, began: int
    ) -> tuple[Span, str]:
        """Begin the span of a try; answer it with the text of where it hangs, or else the next try will."""
        kept = last_kept(delivery.errors) if delivery.errors else ""
        trace = delivery.trace or ""
        parent = handed_on(trace or kept) or ""
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
            attributes["onward.collection"] = delivery.collection or ""
            attributes["onward.documents"] = _shown(ids)
            attributes["onward.document_count"] = len(ids)
        # Not what happens to be under way around a worker: that has nothing to do with the event.
        under = _NOTHING if remote is None else api.set_span_in_context(NonRecordingSpan(remote), _NOTHING)
        span = self._tracer.start_span(
            f"onward.{service}", under, SpanKind.CONSUMER, attributes, _links(kept or trace), began
        )
        return span, parent if remote is not None else _text(span.get_span_context())


class Trying:
    """One try and its span. Whatever goes wrong with the span, the try goes on."""

    # Not the call: what refers to each other waits for the collector.
    __slots__ = (
        "_began",
        "_delivery",
        "_ended",
        "_hangs_under",
        "_ids",
        "_made",
        "_over",
        "_service",
        "_span",
        "_token",
        "_tracing",
        "_worker",
    )

    def __init__(
        self, tracing: Tracing, service: str, delivery: Delivery, ids: Sequence[str], worker: str
    ) -> None:
        self._tracing = tracing
        self._service = service
        self._delivery = delivery
        self._ids = ids
        self._worker = worker
        self._began = time.time_ns()
        self._ended: int | None = None
        self._span: Span | None = None
        self._made = False
        """Its span was made, or is being made, or cannot be."""
        self._over = False
        self._token: Any = None
        self._hangs_under = ""

    @property
    def span(self) -> Span | None:
        """Its span, made by the first who asks."""
        if self._span is None:
            with self._tracing.making:
                if not self._made:
                    self._made = True  # an observer of its beginning may ask what is under way: nothing yet
                    self._make()
        return self._span

    def _make(self) -> None:
        try:
            self._span, self._hangs_under = self._tracing.start(
                self._service, self._delivery, self._ids, self._worker, self._began
            )
        except Exception as error:
            complain("begun", error)

    @property
    def trace(self) -> str | None:
        """What is emitted in this try belongs here."""
        span = self.span
        return handed_on(self._delivery.trace) if span is None else _text(span.get_span_context())

    def __enter__(self) -> Self:
        try:
            self._token = contexts.attach(Within(contexts.get_current(), self))
        except Exception as error:
            complain("begun", error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._token is not None:
                contexts.detach(self._token)
                self._token = None
            if self._ended is None:
                self._ended = time.time_ns()
            if kind is not None or self._span is not None:
                self.end()
        except Exception as broken:
            complain("ended", broken)

    def end(self) -> None:
        """Nothing more becomes of it: its span is made now, if it was not."""
        if self._over:
            return
        try:
            if (span := self.span) is not None:
                self._over = True
                span.end(self._ended)
        except Exception as error:
            complain("ended", error)

    def told(self, settlement: Settlement | None) -> None:
        """The try is over, and this is what it leads to; None: nobody's business any more.

        Asked again when something else becomes of it, it is the failures alone that are told where they
        happened: a span that has ended stays as it is.
        """
        if self._ended is None:
            self._ended = time.time_ns()
        if settlement is not None and _went_well(settlement):
            return  # there is nothing to tell
        if (span := self.span) is None:
            return
        try:
            if settlement is not None:
                self._keep(settlement)
            if not self._over:
                _tell(span, settlement)
                self.end()
        except Exception as error:
            complain("ended", error)

    def _keep(self, settlement: Settlement) -> None:
        """Let failures remember the span, so that the next try, here or anywhere, can link to it."""
        trace = self.trace
        for part in settlement.parts:
            if isinstance(part, Done):
                continue
            if part.failure is not None:
                part.failure = replace(part.failure, trace=f"{self._hangs_under} {trace}")
            if isinstance(part, Dead | Aside) and part.notice is not None:
                part.notice.trace = trace


class Within(Context):
    """What is under way in a handler: the span of its try, which is made when somebody looks."""

    __slots__ = ("_trying",)

    def __init__(self, around: Context, trying: Trying) -> None:
        super().__init__(around)
        self._trying: Trying | None = trying

    def _look(self) -> None:
        if self._trying is not None:
            if (span := self._trying.span) is not None:
                dict.update(self, api.set_span_in_context(span, _NOTHING))
            self._trying = None

    def get(self, key: str, default: Any = None) -> Any:
        self._look()
        return super().get(key, default)

    def copy(self) -> dict[str, object]:
        self._look()
        return super().copy()

    def __getitem__(self, key: str) -> object:
        self._look()
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._look()
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self._look()
        return super().__iter__()

    def keys(self) -> dict_keys[str, object]:
        self._look()
        return super().keys()

    def values(self) -> dict_values[str, object]:
        self._look()
        return super().values()

    def items(self) -> dict_items[str, object]:
        self._look()
        return super().items()


def _went_well(settlement: Settlement) -> bool:
    for part in settlement.parts:  # noqa: SIM110 -- asked of each try, and a generator takes as long as the rest
        if not isinstance(part, Done):
            return False
    return True


def _tell(span: Span, settlement: Settlement | None) -> None:
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
        description = f"{failures[0].error_type}: {failures[0].message}"
        span.set_status(api.Status(api.StatusCode.ERROR, description))


def _described(failure: Failure) -> dict[str, AttributeValue]:
    """A failure as OpenTelemetry describes exceptions; secrets are gone from it already."""
    return {
        "exception.type": failure.error_type,
        "exception.message": failure.message,
        "exception.stacktrace": failure.traceback,
        "onward.fingerprint": failure.fingerprint,
        "onward.kind": failure.kind,
    }


def _links(trace: str) -> Sequence[Link]:
    if " " not in trace:
        return ()
    earlier = [_read(one) for one in trace.split(" ")[1 : MAX_LINKS + 1]]
    return [Link(one) for one in earlier if one is not None]


def _read(text: str) -> SpanContext | None:
    found = PARENT.fullmatch(text)
    if found is None:
        return None
    trace, span, flags = found.groups()
    return SpanContext(int(trace, 16), int(span, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))


def _text(span: SpanContext) -> str:
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"


def _shown(ids: Sequence[str]) -> list[str]:
    return [_clean(id) for id in ids[:MAX_DOCUMENTS]]


def _clean(id: str) -> str:
    # Looking for secrets takes longer than all the rest, and most ids are digests.
    return id if _DIGEST.fullmatch(id) else redact_error(id)
