"""The cast of the tests on PostgreSQL: callers who meet, and waiting for what happens elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from onward.ledger.postgres import PostgresStore

T = TypeVar("T")
U = TypeVar("U")
Opener = Callable[..., PostgresStore]
Asker = Callable[[str], list[tuple[Any, ...]]]

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'onward' AND wait_event_type = 'Lock'"


def eventually(ask: Callable[[], T], what: str, seconds: float = 60) -> T:
    """Ask again and again until the answer is yes; a machine may be slow, but not that slow."""
    ends = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < ends, f"waited in vain: {what}"
        time.sleep(0.005)
    return answer


class Meeting:
    """Two callers of one store, the second in the middle of the first one's transaction.

    The first has done its part and has not committed. The second begins, and goes on until it is done or has to
    wait for the first; only then the first commits. So whoever relies on what it has read without locking it
    relies, here every time, on what is no longer true.
    """

    def __init__(self, store: PostgresStore, ask: Asker) -> None:
        self._store = store
        self._ask = ask
        self.waited = False
        """Whether the second had to wait."""

    def __call__(self, first: Callable[[], T], second: Callable[[], U]) -> tuple[T, U]:
        with ThreadPoolExecutor(1) as pool:
            with self._store.transaction():
                one = first()
                other = pool.submit(second)
                eventually(lambda: other.done() or self._somebody_waits(), "the second is done, or waits")
                self.waited = not other.done()
            return one, other.result(60)

    def _somebody_waits(self) -> bool:
        return bool(self._ask(WAITING)[0][0])


def at_once(steps: Sequence[Callable[[], T]]) -> list[T]:
    """Let threads begin at the same moment; answer what each of them answers."""
    barrier = threading.Barrier(len(steps))

    def begin(step: Callable[[], T]) -> T:
        barrier.wait(60)
        return step()

    with ThreadPoolExecutor(len(steps)) as pool:
        return [one.result() for one in [pool.submit(begin, step) for step in steps]]
