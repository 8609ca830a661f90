"""Tracing: one trace follows a document through all services and retries, where OpenTelemetry is set up.

The text of a trace, as an event carries it and a failure keeps it, is one W3C `traceparent` or several: the
span that a try hangs under, then the tries before it, which it links to.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from onward.model.documents import DocumentState
from onward.model.failures import outcomes
from onward.retry import redact_error

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from onward.model.events import Event
    from onward.runtime.spans import Tracing

log = logging.getLogger("onward")

MAX_LINKS = 5
PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
_EVEN = frozenset("02468ace")
"""The last digit of a traceparent whose trace is not recorded."""


def in_use() -> Tracing | None:
    """Tracing, if this process has a tracer provider that does something; a worker asks once, when it starts."""
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None  # whoever sets a provider has imported it
    try:
        provider = api.get_tracer_provider()
        return None if isinstance(provider, api.ProxyTracerProvider) else _tracing(provider)
    except Exception as error:
        complain("found", error)
        return None


@lru_cache(maxsize=1)
def _tracing(provider: TracerProvider) -> Tracing | None:
    from opentelemetry.trace import NoOpTracer

    from onward.runtime.spans import Tracing

    tracer = provider.get_tracer("onward")
    return None if isinstance(tracer, NoOpTracer) else Tracing(tracer)


def submitted(event: Event) -> str | None:
    """The trace of an event that is published here: its caller's, or a new one."""
    tracing = in_use()
    return None if tracing is None else tracing.submitted(event)


def accepted(trace: object) -> str | None:
    """What a stranger's event says of its trace, if that can be read."""
    return trace if isinstance(trace, str) and PARENT.fullmatch(trace) else None


def handed_on(trace: str | None) -> str | None:
    """The trace of what a try leads to that has no span of its own."""
    return trace.partition(" ")[0] if trace else None


def is_left_out(trace: str | None) -> bool:
    """Whether whoever began a trace has decided not to record it: then nobody else does, and it costs nothing."""
    # Asked of each event, and of what was read before it was stored: its shape is enough.
    return trace is not None and trace[54:55] in _EVEN and trace[2:3] == trace[35:36] == trace[52:53] == "-"


def resumed(states: Iterable[DocumentState]) -> str | None:
    """The trace in which documents are put back: that of the last failure, linked to what failed.

    Where documents of several traces go back with one event, that is the first one's; the others are linked to.
    """
    parent, earlier = "", dict[str, None]()
    for state in states:
        if kept := last_kept(state.attempts):
            first, *tries = kept.split(" ")
            parent = parent or first
            earlier |= dict.fromkeys(tries[-1:])
    return " ".join([parent, *list(earlier)[:MAX_LINKS]]) if parent else None


def last_kept(history: dict[str, Any]) -> str:
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


def complain(what: str, error: Exception) -> None:
    log.error(
        "a trace could not be %s; the work goes on: %s", what, redact_error(f"{type(error).__name__}: {error}")
    )
