"""A run: parcels are published, faults are injected, and when all work is done it is counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from onward.app import App
from onward.ledger.store_errors import StoreUnavailable
from onward.model.documents import FINAL, Status
from onward.torture.fault_injection import FaultCounts, FaultInjector, Hooks, draw_schedule
from onward.torture.final_count import FinalCount, count_documents
from onward.torture.scratch import Scratch
from onward.torture.worker_groups import Fleet
from onward.torture.workload import Label, Parcel, ParcelArrived, Piece, WorkloadPlan, build

if TYPE_CHECKING:
    from onward.ledger.store import Store

LEASE_SECONDS = 3.0  # short, so that others soon take over what a killed or paused group held
STALL_SECONDS = 180.0  # a run in which nothing changes for this long is ended
# Parcels that are published beyond the finished ones: a group that is killed must have something to do.
MAX_AHEAD = 250
PUBLISHED_AT_ONCE = 50
POLL_SECONDS = 0.05
KILLS_PER_PAUSE = 25
MAX_EXAMPLES = 5  # documents that are named of each kind of error


@dataclass(frozen=True, slots=True)
class TortureOptions:
    documents: int = 20_000
    kills: int = 300
    minutes: float | None = None
    processes: int = 2
    workers: int = 2
    seed: int = 0


@dataclass(frozen=True, slots=True)
class TortureProgress:
    """How far a run is, for a display."""

    elapsed: float
    documents: int
    finished: int = 0
    kills_wanted: int = 0
    counts: FaultCounts = field(default_factory=FaultCounts)
    note: str = ""


@dataclass
class TortureReport:
    where: str
    seed: int
    seconds: float
    count: FinalCount
    faults: FaultCounts
    refused: int = 0  # late works of paused workers
    stalled: bool = False  # nothing changed for `STALL_SECONDS`, although some work was left
    ended_well: bool = True  # all supervisors ended on a signal
    kept: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return self.count.is_clean and not self.stalled and self.ended_well

    @property
    def kills_a_minute(self) -> float:
        return self.faults.kills / self.seconds * 60 if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        count, faults = self.count, self.faults
        return {
            "store": self.where,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            **vars(count),
            **{kind: len(ids) for kind, ids in count.errors().items()},
            "kills": faults.kills,
            "workers_killed": faults.workers_killed,
            "supervisors_killed": faults.supervisors_killed,
            "groups_killed": faults.groups_killed,
            "extra_faults": faults.extra_faults,
            "kills_a_minute": round(self.kills_a_minute, 1),
            "zombies": faults.paused,
            "zombies_unrefused": faults.not_refused,
            "late_works_refused": self.refused,
            "sent_again": faults.sent_again,
            "duplicates_reported": faults.duplicates,
            "stalled": self.stalled,
            "ended_well": self.ended_well,
            "examples": {kind: ids[:MAX_EXAMPLES] for kind, ids in count.errors().items() if ids},
            "kept": self.kept,
            "clean": self.is_clean,
        }


def torture(
    options: TortureOptions, scratch: Scratch, show: Callable[[TortureProgress], None], hooks: Hooks | None = None
) -> TortureReport:
    """Run the workload, inject faults, and count."""
    app = build(scratch.settings)
    try:
        _ = app.store  # first: that several processes make the tables at once is not tested here
        folder, environ = scratch.folder, scratch.environ
        with Fleet(folder, environ, options.workers, options.processes, LEASE_SECONDS) as fleet:
            return _Run(options, scratch, app, fleet, show, hooks or Hooks()).run()
    finally:
        app.close()


@dataclass
class _Run:
    _options: TortureOptions
    _scratch: Scratch
    _app: App
    _fleet: Fleet
    _show: Callable[[TortureProgress], None]
    _hooks: Hooks

    def __post_init__(self) -> None:
        options, hooks, log = self._options, self._hooks, self._scratch.refusal_log
        plan = self._plan = WorkloadPlan(options.documents, options.seed)
        random = Random(options.seed)
        pauses = -(-options.kills // KILLS_PER_PAUSE) if options.workers > 1 else 0
        schedule = draw_schedule(random, plan, kills=options.kills, pauses=pauses, extra=len(hooks.extra_faults))
        self._faults = FaultInjector(schedule, self._fleet, self._app, plan, hooks, random, log)
        self._published = self._finished = self._unsettled = 0
        self._began = time.monotonic()
        self._time_is_up = False

    def run(self) -> TortureReport:
        pause, counts = threading.Event(), self._faults.counts
        last_state: tuple[int, ...] = ()
        changed_at, stalled = self._began, False
        while not stalled:
            self._fleet.fill()
            note = ""
            try:
                if self._step():
                    break
            except StoreUnavailable as error:
                note = str(error)
            state = (self._finished, self._unsettled, self._published, counts.kills, counts.sent_again)
            if state != last_state:
                last_state, changed_at = state, time.monotonic()
            stalled = time.monotonic() - changed_at > STALL_SECONDS
            self._report_progress(note)
            pause.wait(POLL_SECONDS)
        self._report_progress("all work is done; ending and counting")
        seconds = time.monotonic() - self._began
        ended_well = self._fleet.end()
        log = self._scratch.refusal_log
        return TortureReport(
            where=self._scratch.where,
            seed=self._options.seed,
            seconds=seconds,
            count=count_documents(self._app.store, self._plan, self._published),
            faults=counts,
            refused=len(log.read_bytes().splitlines()) if log.exists() else 0,
            stalled=stalled,
            ended_well=ended_well,
            kept=self._scratch.kept,
        )

    def _step(self) -> bool:
        """Publish parcels and inject due faults; return whether all work is done."""
        self._finished, self._unsettled = _read_progress(self._app.store)
        minutes = self._options.minutes
        if minutes is not None and not self._time_is_up and time.monotonic() - self._began > minutes * 60:
            self._time_is_up = True
            self._faults.stop()
        self._faults.step(self._finished, self._published)
        if self._faults.may_block:
            return False
        if not self._time_is_up:
            self._publish(min(self._finished, self._faults.next_at) + MAX_AHEAD)
        all_published = self._time_is_up or self._published == self._plan.documents
        return all_published and self._faults.is_over and not _read_progress(self._app.store)[1]

    def _publish(self, up_to: int) -> None:
        """Publish parcels, up to this many in all; a group of them that fails halfway is published again."""
        up_to = min(up_to, self._plan.documents)
        while self._published < up_to:
            numbers = range(self._published, min(self._published + PUBLISHED_AT_ONCE, up_to))
            foreign = {number: self._plan.foreign_event(number) for number in numbers}
            # Before its parcel is stored: an event that comes too early has to wait for its document.
            for raw in foreign.values():
                if raw is not None:
                    self._hooks.send_foreign(self._app, raw)
            parcels = {number: self._plan.parcel(number) for number in numbers}
            own = [ParcelArrived.of(parcels[number]) for number in numbers if foreign[number] is None]
            self._app.publish(*own, documents=list(parcels.values()))
            self._published = numbers.stop

    def _report_progress(self, note: str) -> None:
        elapsed = time.monotonic() - self._began
        options, counts = self._options, self._faults.counts
        self._show(TortureProgress(elapsed, options.documents, self._finished, options.kills, counts, note))


def _read_progress(store: Store) -> tuple[int, int]:
    """Return how many parcels are finished, and how many documents and rows are not settled."""
    documents = store.document_counts()
    parcels, pieces, labels = (documents.get(kind.collection, {}) for kind in (Parcel, Piece, Label))
    finished = sum(labels.get(status, 0) for status in FINAL)
    finished += sum(kind.get(status, 0) for kind in (parcels, pieces) for status in FINAL - {Status.PROCESSED})
    pending = sum(counts.get(Status.PENDING, 0) for counts in (parcels, pieces, labels))
    rows = sum(states.get("waiting", 0) + states.get("claimed", 0) for states in store.counts().values())
    return finished, pending + rows
