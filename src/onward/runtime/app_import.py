"""Notices what is published while a command imports an app: each of its processes would publish it again."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from onward.model.events import Event

log = logging.getLogger("onward")


@dataclass(slots=True)
class AppImport:
    """The import of an app."""

    reference: str
    has_warned: bool = False
    thread: int = field(default_factory=threading.get_ident)


_CURRENT: ContextVar[AppImport | None] = ContextVar("app_import", default=None)


@contextmanager
def importing_app(reference: str) -> Iterator[None]:
    """Warn of events that are published while this runs."""
    token = _CURRENT.set(AppImport(reference))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def warn_of_publishing(events: Sequence[Event]) -> None:
    """Warn if an app is being imported, and publishes these events; once for each import."""
    current = _CURRENT.get()
    if current is None or current.has_warned or not events:
        return
    current.has_warned = True
    # Not refused: a call that has an id, or is unique for a time, does no harm, nor does one of a framework.
    log.warning(
        "%s is published by the import of %s%s. Each worker process imports the app, and publishes it again: move "
        'the call into a function, or below `if __name__ == "__main__":`',
        events[0].event_type,
        current.reference,
        _caller() if current.thread == threading.get_ident() else "",
    )


def _caller() -> str:
    """Return as text where this package was called."""
    frame = sys._getframe(1)
    package = __name__.partition(".")[0]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame = frame.f_back
    return f", line {frame.f_lineno} of {frame.f_code.co_filename}"
