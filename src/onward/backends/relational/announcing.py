"""What a wire is told: which rows are due and not announced yet, which dead letters have no copy on it."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backends.relational.base import RelationalBase, transactional
from onward.backends.relational.letters import read_letter
from onward.model.ledger import BACKGROUND, OVERDUE, TURNS, DeadLetter, RowState


class AnnouncingStore(RelationalBase):
    """See `onward.ports.Announcing`."""

    @transactional
    def to_announce(self, service: str, *, limit: int, window: int) -> list[int]:
        room = min(limit, window - int(self.db.glance("announced_count", service, window)))
        if room <= 0:
            return []
        now = self.now()
        # What has waited in the background for too long has its share here, too.
        rows: list[int] = self.db.read(
            "to_announce_of_level", service, now - OVERDUE, max(1, room // TURNS), BACKGROUND
        )
        rows += [row for row in self.db.read("to_announce", service, now, room) if row not in rows]
        if rows:
            self.db.run("mark_announced", now, rows)
        return rows

    @transactional
    def not_announced(self, rows: Sequence[int]) -> None:
        self.db.run("mark_announced", None, list(rows))

    @transactional
    def announce_again(self, service: str, *, before: float) -> int:
        return self.db.run("announce_again", service, before, self.now())

    @transactional
    def letters_to_copy(self, services: Sequence[str], *, limit: int) -> list[DeadLetter]:
        rows: list[int] = self.db.read("to_copy", list(services), limit)
        if not rows:
            return []
        self.db.run("mark_announced", self.now(), rows)
        queues = {one.service: one.failed_queue for one in self._books().subscriptions()}
        found = self.db.glance("letters", rows, str(RowState.DEAD))
        return sorted((read_letter(values, queues) for values in found), key=lambda one: one.row)
