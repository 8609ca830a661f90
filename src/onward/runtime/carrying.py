"""Which messages of a wire a worker holds, until all that they tell of is settled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from onward.ports import Wire


@dataclass(slots=True)
class _Held:
    """A message that is not acknowledged."""

    tag: Any
    rows: set[int] = field(default_factory=set)


class Carrier:
    """Takes announcements from a wire, and acknowledges each when none of its rows is under way any more.

    Called by one thread at a time.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._held: dict[int, list[_Held]] = {}
        """By row; one may have been announced twice."""
        self._offered: dict[str, list[int]] = {}
        """Rows of each service that were handed out, and of which no claim has told yet what became of them."""

    def take(self, service: str, limit: int) -> list[int]:
        """Rows of a service that were announced, those first that a claim could not hold or did not get to."""
        rows = dict.fromkeys(self._offered.get(service, ()))
        for announcement in self._wire.take(service, limit - len(rows)):
            held = _Held(announcement.tag, set(announcement.rows))
            if not held.rows:
                self._wire.done([held.tag])
            for row in announcement.rows:
                self._held.setdefault(row, []).append(held)
                rows[row] = None
        self._offered[service] = list(rows)
        return list(rows)

    def claimed(self, service: str, rows: Iterable[int]) -> None:
        """Of what was handed out, a claim got these; if it got none, there is nothing more to be had."""
        got = set(rows)
        self._offered[service] = [row for row in self._offered.get(service, ()) if row not in got] if got else []

    def release(self, rows: Iterable[int]) -> None:
        """These rows are settled, or somebody else's: their messages have said all they had to."""
        done: list[Any] = []
        for row in rows:
            for held in self._held.pop(row, ()):
                held.rows.discard(row)
                if not held.rows:
                    done.append(held.tag)
        if done:
            self._wire.done(done)

    def rows(self) -> set[int]:
        """The rows whose messages are held, without those that are still to be claimed."""
        return set(self._held).difference(*self._offered.values())
