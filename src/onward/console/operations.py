"""Changes that take a while: they run beside the page that began them, which shows how they go."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from onward.retry import redact_error

log = logging.getLogger("onward")

KEPT = 100
"""So many operations are remembered after they have ended."""


class Stopped(Exception):
    """Somebody does not want an operation to go on."""


@dataclass(slots=True, eq=False)
class Operation:
    """Something that is under way, and how far it has come."""

    title: str
    back: str
    """Where it was begun."""
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    began: float = field(default_factory=time.time)
    ended: float | None = None
    done: int = 0
    total: int = 0
    text: str = ""
    """What it does just now, or what came of it."""
    problem: str = ""
    _stop: threading.Event = field(default_factory=threading.Event)
    _ended: threading.Event = field(default_factory=threading.Event)

    @property
    def running(self) -> bool:
        return self.ended is None

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def stop(self) -> None:
        self._stop.set()

    def join(self) -> None:
        """Wait until it has ended."""
        self._ended.wait()

    def sleep(self, seconds: float) -> None:
        """Wait; raises if somebody wants it to end."""
        if self._stop.wait(seconds):
            raise Stopped


class Operations:
    """All that run or have run, the newest first."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Operation] = OrderedDict()

    def begin(self, title: str, back: str, work: Callable[[Operation], str]) -> Operation:
        """Run something in a thread of its own; it answers what came of it."""
        operation = Operation(title, back)
        self._known[operation.id] = operation
        for old in [one for one in self._known.values() if not one.running][: max(0, len(self._known) - KEPT)]:
            del self._known[old.id]
        threading.Thread(target=_run, args=(operation, work), name="onward-operation", daemon=True).start()
        return operation

    def get(self, id: str) -> Operation | None:
        return self._known.get(id)

    def all(self) -> list[Operation]:
        return list(reversed(self._known.values()))

    def stop(self) -> None:
        for one in self._known.values():
            one.stop()


def _run(operation: Operation, work: Callable[[Operation], str]) -> None:
    try:
        operation.text = work(operation)
    except Stopped:
        operation.problem = "Stopped by hand; what was done stays done."
    except Exception as error:
        operation.problem = redact_error(f"{type(error).__name__}: {error}")
        log.error("%s failed: %s", operation.title, operation.problem)
    finally:
        operation.ended = time.time()
        operation._ended.set()
