"""Turns: handlers that compute, and commits, take the interpreter one after the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 0.25
"""Seconds that a commit waits for a computation to end; then it goes ahead beside it."""
LONGEST_TURN = 10.0
"""Seconds that a computation waits for another; one that hangs must not use up the time limits of all others."""


class Turns:
    """Who may compute in this process.

    Threads that compute side by side gain nothing: they take the interpreter lock from each other. Worse,
    they take it from a commit at each of its statements, while that holds the lock of the whole store.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._no_commit = threading.Event()
        self._no_commit.set()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Wait for a turn; whoever wants to commit goes first."""
        self._no_commit.wait(PATIENCE)
        mine = self._turn.acquire(timeout=LONGEST_TURN)
        try:
            yield
        finally:
            if mine:
                self._turn.release()

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Keep others from beginning to compute, and wait for who does, but not for long."""
        self._no_commit.clear()
        mine = self._turn.acquire(timeout=PATIENCE)
        try:
            yield
        finally:
            if mine:
                self._turn.release()
            self._no_commit.set()
