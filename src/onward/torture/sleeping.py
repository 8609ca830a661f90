"""Sleepers: crews that are stopped until others have done their work, and then come late with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from onward.ports import Store
from onward.torture.fleet import Crew

LOOK_AROUND = 2.0
"""Seconds within which the others of a fleet write something, if they can."""
PATIENCE = 60.0
"""Seconds that one that was woken gets to come forward with what it holds; it takes a moment."""


class Slept(StrEnum):
    """What came of stopping a crew."""

    IN_VAIN = "it had nothing to do, nobody could take it over, or it died before it came forward"
    REFUSED = "it came late, and was refused"
    UNREFUSED = "it came late, and nobody has refused it"


class Sleeper:
    """A crew that is stopped, while its leases lapse and others take its work over; then it is woken.

    Whether it is a zombie does not depend on its being refused: whoever holds what others have done, and
    lives, has to come forward with it.
    """

    def __init__(
        self, crew: Crew, store: Store, lease: float, diary: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.crew = crew
        self.others_write = False
        """Whether the rest of the fleet goes on; not if it was stopped with the whole store locked."""
        self.cut_off = False
        """A server was killed while it slept: it may not know what it has claimed, or has lost it."""
        self.is_awake = False
        self._store = store
        self._lease = lease
        self._diary = diary
        self._clock = clock
        self._workers = {one.worker: one.pid for one in crew.members(store)}
        self._held: set[tuple[int, int]] = set()
        """Process and row; of the last look at which it held any."""
        self._late: set[tuple[int, int]] = set()
        """Those of them that others have done."""
        self._read_from = 0
        self._before = self._counts()
        self._gives_up = clock() + LOOK_AROUND

    def look(self) -> Slept | None:
        """What came of it; None: that is to be seen."""
        return self._look_awake() if self.is_awake else self._look_asleep()

    def _look_asleep(self) -> Slept | None:
        if not self.others_write and self._counts() != self._before:
            self.others_write = True
            self._gives_up = self._clock() + 7 * self._lease
        if self.others_write:
            # Again at every look: a commit that was under way when it was stopped may settle some by itself.
            held = {(pid, one.row) for worker, pid in self._workers.items() for one in self._store.claimed(worker)}
            if not (held or self._held):
                return Slept.IN_VAIN
            self._held = held or self._held
            if not held and self._find_late():
                self._wake()
                return None
        return Slept.IN_VAIN if self._clock() > self._gives_up else None

    def _find_late(self) -> bool:
        states = self._store.row_states([row for _, row in self._held])
        self._late = {(pid, row) for pid, row in self._held if states.get(row, "done") == "done"}
        return bool(self._late)

    def _wake(self) -> None:
        self._read_from = self._diary.stat().st_size if self._diary.exists() else 0
        self._gives_up = self._clock() + (2 * self._lease if self.cut_off else PATIENCE)
        self.is_awake = True
        self.crew.go_on()

    def _look_awake(self) -> Slept | None:
        # In this order: what one has noted before it died counts.
        alive = {one.pid for one in self.crew.members(self._store)}
        if not self._late.isdisjoint(self._noted()):
            return Slept.REFUSED
        if alive.isdisjoint(pid for pid, _ in self._late):
            return Slept.IN_VAIN
        if self._clock() > self._gives_up:
            return Slept.IN_VAIN if self.cut_off else Slept.UNREFUSED
        return None

    def _noted(self) -> set[tuple[int, int]]:
        """Process and row of what was refused since it was woken."""
        if not self._diary.exists():
            return set()
        lines = self._diary.read_bytes()[self._read_from :].splitlines()
        return {(int(pid), int(row)) for pid, row, *_ in (line.split(b" ") for line in lines)}

    def _counts(self) -> object:
        return self._store.document_counts(), self._store.counts()
