"""The board: which events a worker process is running right now, readable after its death."""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.reduction import DupFd
from typing import Any, Self

_PARTED = struct.Struct("=q")
_TIMES = struct.Struct("=dd")
"""When the slot's last call began, when its time limit is up; on the machine's monotonic clock."""
_ROW = struct.Struct("=q")
"""The ledger row that the slot is at; 0: none. Written last, so that a reader finds its times in place."""
_SLOT = struct.Struct("=ddq")
_SLOTS = 1024
_SIZE = _PARTED.size + _SLOT.size * _SLOTS


class Board:
    """A page of memory shared by a worker process and its supervisor.

    A process that is killed has no last words, so it keeps its state where another one can read it.
    """

    def __init__(self, handle: int = -1) -> None:
        self._handle = handle
        self._memory = mmap.mmap(handle, _SIZE)  # -1: memory of this process alone
        self._reserved = 0

    @classmethod
    def shared(cls) -> Self:
        """A board that can be handed to a process about to be spawned."""
        if hasattr(os, "memfd_create"):
            handle = os.memfd_create("onward-board")
        else:  # pragma: no cover - not on Linux
            with tempfile.TemporaryFile() as file:
                handle = os.dup(file.fileno())
        os.ftruncate(handle, _SIZE)
        return cls(handle)

    def __reduce__(self) -> tuple[Any, ...]:
        return _inherited, (DupFd(self._handle),)

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

    # -- written by the worker process

    def begin(self, slot: int, row: int, time_limit: float) -> None:
        now = time.monotonic()
        # The row comes last: until it is there, nothing runs.
        _SLOT.pack_into(self._memory, _PARTED.size + slot * _SLOT.size, now, now + time_limit, row)

    def end(self, slot: int) -> None:
        _ROW.pack_into(self._memory, _PARTED.size + slot * _SLOT.size + _TIMES.size, 0)

    def part(self, code: int) -> None:
        """The process ends because it wants to; whatever its exit code will be, nothing has crashed."""
        _PARTED.pack_into(self._memory, 0, code + 1)

    # -- read by its supervisor

    def parted(self) -> int | None:
        """The code that the process parted with, if it did."""
        (word,) = _PARTED.unpack_from(self._memory)
        return int(word) - 1 if word else None

    def running(self) -> list[int]:
        """The rows that are running now, or were when the process died."""
        return [row for _, _, row in self._slots() if row]

    def overdue(self, grace: float) -> list[int]:
        """The rows that have been running for longer than their limit and some grace."""
        now = time.monotonic()
        return [row for _, limit, row in self._slots() if row and now > limit + grace]

    def has_finished_any(self) -> bool:
        """Whether a call has ended here: the process got as far as doing its work."""
        return any(began and not row for began, _, row in self._slots())

    def _slots(self) -> Iterator[tuple[float, float, int]]:
        return _SLOT.iter_unpack(self._memory[_PARTED.size :])

    def close(self) -> None:
        self._memory.close()
        if self._handle >= 0:
            os.close(self._handle)


def _inherited(handle: Any) -> Board:
    return Board(handle.detach())
