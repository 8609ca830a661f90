"""The board: which events a worker process is running right now, readable after its death."""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import time
from pathlib import Path

_SLOT = struct.Struct("=qdd")
"""Ledger row (0: idle), when it began, when its time limit is up; on the machine's monotonic clock."""
_SLOTS = 1024


class Board:
    """A page of memory shared by a worker process and its supervisor.

    A process that is killed has no last words, so it keeps its state where another one can read it.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        if path is None:
            handle, name = tempfile.mkstemp(prefix="onward-board-")
            os.truncate(handle, _SLOT.size * _SLOTS)
            self.owner = True
        else:
            name = str(path)
            handle = os.open(name, os.O_RDWR)
            self.owner = False
        self.path = name
        self._memory = mmap.mmap(handle, _SLOT.size * _SLOTS)
        os.close(handle)
        self._reserved = 0

    def reserve(self, slots: int) -> int:
        """The first of so many slots that nobody else uses."""
        first = self._reserved
        self._reserved += slots
        if self._reserved > _SLOTS:
            raise ValueError(
                f"{self._reserved} slots in one worker process; at most {_SLOTS} fit: "
                "lower the concurrency, or start more processes"
            )
        return first

    def begin(self, slot: int, row: int, time_limit: float) -> None:
        now = time.monotonic()
        _SLOT.pack_into(self._memory, slot * _SLOT.size, row, now, now + time_limit)

    def end(self, slot: int) -> None:
        _SLOT.pack_into(self._memory, slot * _SLOT.size, 0, 0.0, 0.0)

    def running(self) -> list[int]:
        """The rows that are running now, or were when the process died."""
        return [row for row, _, _ in _SLOT.iter_unpack(self._memory[:]) if row]

    def overdue(self, grace: float) -> list[int]:
        """The rows that have been running for longer than their limit and some grace."""
        now = time.monotonic()
        return [row for row, _, limit in _SLOT.iter_unpack(self._memory[:]) if row and now > limit + grace]

    def clear(self) -> None:
        self._memory[:] = bytes(len(self._memory))

    def close(self) -> None:
        self._memory.close()
        if self.owner:
            Path(self.path).unlink(missing_ok=True)
