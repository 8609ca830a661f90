"""Traces: one trace follows a document through all services and retries, where OpenTelemetry is set up.

The text of a trace, as an event carries it and a failure keeps it, is one W3C `traceparent` or several: the parent
of the next try's span, then the spans of earlier tries, which the next try links to.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from onward.model.documents import DocumentState
from onward.model.failures import Outcome, outcomes
from onward.retry import redact_error

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from onward.model.events import Event
    from onward.runtime.spans import SpanFactory

log = logging.getLogger("onward")

MAX_LINKS = 5
TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
_UNSAMPLED_DIGITS = frozenset("02468ace")


def span_factory() -> SpanFactory | None:
    """Return what makes spans, if this process has a tracer provider; a worker calls this once, when it starts."""
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None  # a program that sets a provider has imported it
    try:
        provider = api.get_tracer_provider()
        return None if isinstance(provider, api.ProxyTracerProvider) else _span_factory(provider)
    except Exception as error:
        log_problem("found", error)
        return None


@lru_cache(maxsize=1)
def _span_factory(provider: TracerProvider) -> SpanFactory | None:
    from opentelemetry.trace import NoOpTracer

    from onward.runtime.spans import SpanFactory

    tracer = provider.get_tracer("onward")
    return None if isinstance(tracer, NoOpTracer) else SpanFactory(tracer)


def published_trace(event: Event) -> str | None:
    """Return the trace of an event that is published here: its caller's, or a new one."""
    factory = span_factory()
    return None if factory is None else factory.published(event)


def valid_trace(trace: object) -> str | None:
    """Return the trace of another program's event, or None if it is not a `traceparent`."""
    return trace if isinstance(trace, str) and TRACEPARENT.fullmatch(trace) else None


def parent_of(trace: str | None) -> str | None:
    """Return the `traceparent` under which the next span belongs."""
    return trace.partition(" ")[0] if trace else None


def is_unsampled(trace: str | None) -> bool:
    """Return whether the program that began a trace decided not to record it; then no span is made."""
    # Called for each event, and the text was checked before it was stored: its shape is enough.
    return (
        trace is not None
        and trace[54:55] in _UNSAMPLED_DIGITS
        and trace[2:3] == trace[35:36] == trace[52:53] == "-"
    )


def requeued_trace(states: Iterable[DocumentState]) -> str | None:
    """Return the trace for documents that are requeued: that of their last failure, linked to what failed.

    Documents of several traces go into the first one's; the others are linked to.
    """
    traces = [trace.split(" ") for state in states if (trace := _last_trace(state.attempts))]
    links = dict.fromkeys(tries[-1] for _, *tries in traces if tries)
    return " ".join([traces[0][0], *list(links)[:MAX_LINKS]]) if traces else None


def _last_trace(attempts: dict[str, Any]) -> str:
    """Return the trace of the last failed try since the document was last processed, or of its event."""
    found = ""
    try:
        for outcome in reversed(outcomes(attempts or None)):
            if outcome.get("outcome") == Outcome.PROCESSED:
                break
            trace = str(outcome.get("trace", ""))
            if valid_trace(parent_of(trace)):
                found = found or trace
                if " " in trace:
                    return trace
    except (AttributeError, LookupError, TypeError):  # other programs may have written anything there
        pass
    return found


def log_problem(what: str, error: Exception) -> None:
    problem = redact_error(f"{type(error).__name__}: {error}")
    log.error("a trace could not be %s; the work goes on: %s", what, problem)
