"""A worker group that is paused until others have done its work, and then tries to commit late."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from onward.torture.worker_groups import WorkerGroup

if TYPE_CHECKING:
    from onward.ledger.store import Store

OTHERS_SECONDS = 2.0
"""The other groups commit something within this time, unless the store is locked."""
LATE_COMMIT_SECONDS = 60.0
"""A resumed group tries to commit what it holds within this time."""


class PauseResult(StrEnum):
    """The result of pausing a group."""

    IN_VAIN = "it held nothing, nobody could take over, or it died before it tried to commit"
    REFUSED = "its late commit was refused"
    NOT_REFUSED = "its late commit was not refused"


class PausedGroup:
    """A paused group: its leases lapse, others take its rows over, then it is resumed.

    A group that holds rows which others have settled, and lives, must try to commit them, and must be refused.
    """

    def __init__(
        self,
        group: WorkerGroup,
        store: Store,
        lease: float,
        refusal_log: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.group = group
        self.others_commit = False
        """Whether the other groups go on; they cannot if this one was paused with the store locked."""
        self.cut_off = False
        """A fault hit the store during the pause: the group may have lost what it claimed."""
        self.is_resumed = False
        self._store = store
        self._lease = lease
        self._refusal_log = refusal_log
        self._clock = clock
        self._workers = {process.worker: process.pid for process in group.workers(store)}
        self._held: set[tuple[int, int]] = set()
        """Process and row of what it held when it last held anything."""
        self._late: set[tuple[int, int]] = set()
        """Those of them that others have settled."""
        self._log_read_from = 0
        self._counts_before = self._counts()
        self._gives_up_at = clock() + OTHERS_SECONDS

    def check(self) -> PauseResult | None:
        """Return the result, or None while it is not known."""
        return self._check_resumed() if self.is_resumed else self._check_paused()

    def _check_paused(self) -> PauseResult | None:
        if not self.others_commit and self._counts() != self._counts_before:
            self.others_commit = True
            self._gives_up_at = self._clock() + 7 * self._lease
        if self.others_commit:
            # At every check: a commit that was under way at the pause may still settle some rows.
            claims = ((pid, self._store.claimed(worker)) for worker, pid in self._workers.items())
            held = {(pid, delivery.row) for pid, deliveries in claims for delivery in deliveries}
            if not (held or self._held):
                return PauseResult.IN_VAIN
            self._held = held or self._held
            if not held and self._find_late():
                self._resume()
                return None
        return PauseResult.IN_VAIN if self._clock() > self._gives_up_at else None

    def _find_late(self) -> bool:
        states = self._store.row_states([row for _, row in self._held])
        self._late = {(pid, row) for pid, row in self._held if states.get(row, "done") == "done"}
        return bool(self._late)

    def _resume(self) -> None:
        self._log_read_from = self._refusal_log.stat().st_size if self._refusal_log.exists() else 0
        self._gives_up_at = self._clock() + (2 * self._lease if self.cut_off else LATE_COMMIT_SECONDS)
        self.is_resumed = True
        self.group.resume()

    def _check_resumed(self) -> PauseResult | None:
        # In this order: a refusal that a process recorded before it died counts.
        alive = {process.pid for process in self.group.workers(self._store)}
        if not self._late.isdisjoint(self._refused()):
            return PauseResult.REFUSED
        if alive.isdisjoint(pid for pid, _ in self._late):
            return PauseResult.IN_VAIN
        if self._clock() > self._gives_up_at:
            return PauseResult.IN_VAIN if self.cut_off else PauseResult.NOT_REFUSED
        return None

    def _refused(self) -> set[tuple[int, int]]:
        """Return process and row of each work that was refused since the group was resumed."""
        if not self._refusal_log.exists():
            return set()
        lines = self._refusal_log.read_bytes()[self._log_read_from :].splitlines()
        return {(int(pid), int(row)) for pid, row, *_ in (line.split(b" ") for line in lines)}

    def _counts(self) -> object:
        return self._store.document_counts(), self._store.counts()
