"""Backoff: how long to wait after the n-th failure in a row."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Protocol


class Backoff(Protocol):
    """A pure function from the number of failures to a wait in seconds."""

    def delay(self, n: int, random: Random) -> float:
        """Return the wait after failure `n`, which counts from 1."""
        ...

    def bounds(self, n: int) -> tuple[float, float]:
        """Return the shortest and the longest wait that `delay` may return."""
        ...


@dataclass(frozen=True, slots=True)
class Exponential:
    """Wait `base` seconds, then `factor` times as long each time, never longer than `cap`.

    With `jitter` the wait is drawn evenly from zero to that value, so that clients that failed together do
    not retry together.
    """

    base: float
    factor: float = 2.0
    cap: float = 60.0
    jitter: bool = False

    def __post_init__(self) -> None:
        # As floats, so that a large power overflows at once instead of growing into a huge integer.
        for name, least in (("base", 0.0), ("factor", 1.0), ("cap", 0.0)):
            object.__setattr__(self, name, _number(f"Exponential({name}=…)", getattr(self, name), least))

    def delay(self, n: int, random: Random) -> float:
        longest = self._longest(n)
        return longest * random.random() if self.jitter else longest

    def bounds(self, n: int) -> tuple[float, float]:
        longest = self._longest(n)
        return (0.0 if self.jitter else longest, longest)

    def _longest(self, n: int) -> float:
        try:
            return min(self.base * self.factor ** (n - 1), self.cap)
        except OverflowError:
            return self.cap if self.base else 0.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """Wait as listed, in seconds; the last wait repeats."""

    delays: tuple[float, ...]

    def __post_init__(self) -> None:
        given: Iterable[float] = self.delays
        delays = tuple(_number("Schedule(delays=…)", delay, 0.0) for delay in given)
        if not delays:
            raise ValueError("Schedule(delays=()): name at least one wait in seconds")
        object.__setattr__(self, "delays", delays)

    def delay(self, n: int, random: Random) -> float:
        return self.delays[min(n, len(self.delays)) - 1]

    def bounds(self, n: int) -> tuple[float, float]:
        wait = self.delays[min(n, len(self.delays)) - 1]
        return (wait, wait)


def _number(what: str, value: float, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what}: {value!r} is not a number")
    if not math.isfinite(value) or value < least:
        raise ValueError(f"{what}: {value!r} must be a finite number of at least {least:g}")
    return float(value)
