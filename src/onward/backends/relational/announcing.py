"""What a wire is told: which rows are due and not announced yet, which dead letters have no copy on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onward.backends.relational.base import RelationalBase, transactional
from onward.backends.relational.database import Database
from onward.backends.relational.letters import read_letter
from onward.model.ledger import BACKGROUND, OVERDUE, TURNS, DeadLetter, RowState
from onward.ports import Clock

_HIGHEST = 2**31
_LOOKED_AT = 10_000
"""How many of the foremost rows are looked through for those that were announced long ago."""


class AnnouncingStore(RelationalBase):
    """See `onward.ports.Announcing`."""

    def __init__(self, db: Database, clock: Clock) -> None:
        super().__init__(db, clock)
        self._announced: dict[str, int] = {}
        """Rows of each service that were announced since what waits in the background last had its turn."""

    @transactional
    def to_announce(self, service: str, *, limit: int, window: int) -> list[int]:
        now = self.now()
        levels = list(self._levels(service))
        room = min(limit, window - self._out(service, levels, now, window))
        if room <= 0:
            return []
        turns = self._announced.get(service, 0)
        overdue: list[int] = []
        # What has waited in the background for too long has its share here, too: every tenth turn.
        if BACKGROUND in levels and (share := (turns + room) // TURNS):
            overdue = self.db.read("to_announce", service, BACKGROUND, now - OVERDUE, share)
        rows: list[int] = []
        for level in levels:
            left = room - len(overdue) - len(rows)
            if left <= 0:
                break
            found = self.db.read("to_announce", service, level, now, left + len(overdue))
            rows += [row for row in found if row not in overdue][:left]
        for position, row in enumerate(overdue):
            rows.insert((position + 1) * TURNS - 1 - turns, row)
        self._announced[service] = (turns + len(rows)) % TURNS
        if rows:
            self.db.send("mark_announced", now, rows)
        return rows

    def _levels(self, service: str) -> Iterator[int]:
        level = self.db.glance("next_priority", service, _HIGHEST)
        while level is not None:
            yield level
            level = self.db.glance("next_priority", service, level)

    def _out(self, service: str, levels: Sequence[int], now: float, window: int) -> int:
        """How many due rows were announced and are not claimed yet; what is out is foremost."""
        out = 0
        for level in levels:
            out += sum(map(bool, self.db.glance("foremost", service, level, now, window)))
        return out

    @transactional
    def not_announced(self, rows: Sequence[int]) -> None:
        self.db.send("mark_announced", None, list(rows))

    @transactional
    def announce_again(self, service: str, *, before: float) -> int:
        now = self.now()
        return sum(
            self.db.run("announce_again", service, level, now, before, _LOOKED_AT)
            for level in self._levels(service)
        )

    @transactional
    def letters_to_copy(self, services: Sequence[str], *, limit: int) -> list[DeadLetter]:
        rows: list[int] = self.db.read("to_copy", list(services), limit)
        if not rows:
            return []
        self.db.send("mark_copied", self.now(), rows)
        queues = {one.service: one.failed_queue for one in self._books().subscriptions()}
        found = self.db.glance("letters", rows, str(RowState.DEAD))
        return sorted((read_letter(values, queues) for values in found), key=lambda one: one.row)

    @transactional
    def not_copied(self, rows: Sequence[int]) -> None:
        self.db.send("mark_copied", None, list(rows))
