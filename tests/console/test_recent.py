"""What takes long to find out is found out once for all who ask, and again when it may have changed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from onward.console.timed_cache import TimedCache


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def numbers() -> Iterator[int]:
    return count(1)


def test_is_not_asked_again_at_once(clock: Clock, numbers: Iterator[int]) -> None:
    recent = TimedCache[int](10.0, clock.now)
    assert [recent.get("a", lambda: next(numbers)) for _ in range(3)] == [1, 1, 1]
    clock.time = 10.0
    assert recent.get("a", lambda: next(numbers)) == 2, "it may be another by now"


def test_is_asked_again_when_it_is_about_something_else(clock: Clock, numbers: Iterator[int]) -> None:
    recent = TimedCache[int](10.0, clock.now)
    assert [recent.get(about, lambda: next(numbers)) for about in ("a", "b", "b", "a")] == [1, 2, 2, 3]


def test_an_error_is_not_kept(clock: Clock) -> None:
    recent = TimedCache[int](10.0, clock.now)
    with pytest.raises(ZeroDivisionError):
        recent.get("a", lambda: 1 // 0)
    assert recent.get("a", lambda: 5) == 5
