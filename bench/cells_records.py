"""What a run of a cell leaves behind: who offered which event when, and which handler ran for it when.

Both are files of fixed-size records that processes append to with one system call each, so a record survives the
SIGKILL of its writer. They are not in the database on purpose: an effect counts although its work was rolled back.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

EFFECT = np.dtype([("number", "<i8"), ("at", "<f8")])
OFFER = np.dtype([("number", "<i8"), ("at", "<f8"), ("acknowledged", "<f8")])
_EFFECT, _OFFER = struct.Struct("<qd"), struct.Struct("<qdd")

Effect = Callable[[int], None]
"""What a handler does with the number of its event, outside of any transaction."""

Records = NDArray[Any]


def open_effects(file: Path) -> Effect:
    """Return the effect of a handler: it appends the number and the time, which all processes share."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def effect(number: int) -> None:
        os.write(descriptor, _EFFECT.pack(number, time.monotonic()))

    return effect


def count_effects(file: Path) -> int:
    """Return how many effects there are."""
    return file.stat().st_size // EFFECT.itemsize if file.exists() else 0


def read_records(file: Path, kind: np.dtype[Any]) -> Records:
    """Return all records of a file; one that a killed process has not finished is left out."""
    if not file.exists():
        return np.zeros(0, kind)
    whole = file.stat().st_size // kind.itemsize
    return np.fromfile(file, kind, count=whole)


class OfferLog:
    """The events that a producer has offered, and whether the queue has acknowledged them."""

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def add(self, numbers: Sequence[int], at: float, acknowledged: bool) -> None:
        records = (_OFFER.pack(number, at, float(acknowledged)) for number in numbers)
        os.write(self._descriptor, b"".join(records))


@dataclass(slots=True)
class Control:
    """What the producer is to do, in memory that it shares with the run: a rate, or a backlog to keep up."""

    _cells: memoryview[float]

    @classmethod
    def create(cls, file: Path) -> Control:
        file.write_bytes(bytes(8 * 4))
        return cls.open(file)

    @classmethod
    def open(cls, file: Path) -> Control:
        with file.open("r+b") as opened:
            return cls(memoryview(mmap.mmap(opened.fileno(), 0)).cast("d"))

    @property
    def rate(self) -> float:
        """Events per second."""
        return float(self._cells[0])

    @property
    def depth(self) -> int:
        """Offer as fast as possible as long as fewer events than this wait; 0: keep to the rate."""
        return int(self._cells[1])

    def keep(self, rate: float = 0.0, depth: int = 0) -> None:
        self._cells[0], self._cells[1] = rate, float(depth)
        self._cells[2] += 1

    @property
    def changes(self) -> float:
        """How often `keep` was called."""
        return self._cells[2]

    def note_rest(self, changes: float) -> None:
        """Record, in the producer, that it offers nothing any more since this number of changes."""
        self._cells[3] = changes

    @property
    def rests(self) -> bool:
        """Whether the producer offers nothing since the last change; what it was offering then is recorded."""
        return self._cells[3] == self._cells[2]
