"""A run: parcels go in, mischief is done, and when all has come to rest it is counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from onward.app import App
from onward.model.documents import FINAL, Status
from onward.ports import Store, StoreUnavailable
from onward.torture.counting import count
from onward.torture.fleet import Fleet, crew_environ
from onward.torture.mischief import Done, Mischief, draw
from onward.torture.plan import Plan
from onward.torture.report import Report
from onward.torture.scratch import Scratch
from onward.torture.workload import Label, Parcel, ParcelArrived, Piece, build

LEASE = 3.0
"""Seconds; short, so that what a dead or stopped crew held comes back soon."""
STALL_SECONDS = 180.0
"""If nothing moves for so long, nothing will."""
AHEAD = 250
"""How many parcels are fed beyond those that are finished: what is killed must have something to do."""
AT_ONCE = 50
POLL = 0.05
STOP_EVERY = 25
"""For every so many kills, one crew is stopped for longer than its leases last."""


@dataclass(frozen=True, slots=True)
class Order:
    """What somebody asks for."""

    documents: int = 20_000
    kills: int = 300
    server_kills: int = 20
    minutes: float | None = None
    processes: int = 2
    workers: int = 2
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """How a run goes, for whoever watches."""

    elapsed: float
    documents: int
    fed: int = 0
    finished: int = 0
    kills: int = 0
    asked_kills: int = 0
    done: Done = field(default_factory=Done)
    note: str = ""


class _Feeder:
    """Sends the parcels of a plan in, some as a program would that knows nothing of Onward."""

    def __init__(self, app: App, plan: Plan) -> None:
        self._app = app
        self._plan = plan
        self.fed = 0

    def feed(self, up_to: int) -> None:
        """Send parcels in, up to this many in all; what fails halfway is sent again."""
        while self.fed < min(up_to, self._plan.documents):
            numbers = range(self.fed, min(self.fed + AT_ONCE, up_to, self._plan.documents))
            strange = [raw for number in numbers if (raw := self._plan.announcement(number)) is not None]
            # Before its parcel is there: whoever announces it early must not be too early.
            for raw in strange:
                self._app.publish_raw(raw)
            ours = [number for number in numbers if self._plan.announcement(number) is None]
            self._app.publish(
                *(ParcelArrived.of(self._plan.parcel(number)) for number in ours),
                documents=[self._plan.parcel(number) for number in numbers],
            )
            self.fed = numbers.stop


@dataclass(frozen=True, slots=True)
class _Standing:
    """How far the parcels are, as the store tells it."""

    finished: int
    waiting: int
    """Documents that are not final, and rows that are not settled."""

    @classmethod
    def of(cls, store: Store) -> _Standing:
        documents = store.document_counts()
        final = {
            kind.collection: {
                status: times for status, times in documents.get(kind.collection, {}).items() if status in FINAL
            }
            for kind in (Parcel, Piece, Label)
        }
        pending = sum(documents.get(kind.collection, {}).get(Status.PENDING, 0) for kind in (Parcel, Piece, Label))
        failed = sum(
            times
            for kind in (Parcel, Piece)
            for status, times in final[kind.collection].items()
            if status != Status.PROCESSED
        )
        live = sum(states.get("waiting", 0) + states.get("claimed", 0) for states in store.counts().values())
        return cls(sum(final[Label.collection].values()) + failed, pending + live)


def torture(order: Order, scratch: Scratch, show: Callable[[Seen], None]) -> Report:
    """Run the workload, do the mischief, and count."""
    began = time.monotonic()
    plan = Plan(order.documents, order.seed)
    app = build(scratch.settings, scratch.prefix)
    try:
        _ = app.store  # before anybody else: making the tables is no race to be run here
        fleet = Fleet(scratch.folder, crew_environ(scratch.environ), order.workers, order.processes, LEASE)
        with fleet:
            return _Run(order, scratch, plan, app, fleet, began, show).go()
    finally:
        app.close()


class _Run:
    def __init__(
        self,
        order: Order,
        scratch: Scratch,
        plan: Plan,
        app: App,
        fleet: Fleet,
        began: float,
        show: Callable[[Seen], None],
    ) -> None:
        random = Random(order.seed)
        schedule = draw(
            random,
            plan,
            kills=order.kills,
            server_kills=order.server_kills if scratch.servers else 0,
            stops=-(-order.kills // STOP_EVERY) if order.workers > 1 else 0,
        )
        self._order, self._scratch, self._plan, self._app, self._fleet = order, scratch, plan, app, fleet
        self._mischief = Mischief(schedule, fleet, app, plan, scratch.servers, random, scratch.diary)
        self._feeder = _Feeder(app, plan)
        self._began = began
        self._show = show
        self._moved: tuple[object, ...] = ()
        self._moved_at = began
        self._standing = _Standing(0, 0)
        self._enough = False

    def go(self) -> Report:
        pause = threading.Event()
        note, stalled = "", False
        while not stalled:
            self._fleet.fill()
            try:
                if self._step():
                    break
                note = ""
            except StoreUnavailable as error:
                note = str(error)
            stalled = self._is_stalled()
            self._tell(note)
            pause.wait(POLL)
        self._tell("all is at rest; ending and counting")
        seconds = time.monotonic() - self._began
        ended_well = self._fleet.end()
        return Report(
            where=self._scratch.where,
            seed=self._order.seed,
            asked=self._order.documents,
            seconds=seconds,
            count=count(self._app.store, self._plan, self._feeder.fed),
            done=self._mischief.done,
            refused=self._refused(),
            stalled=stalled,
            ended_well=ended_well,
            kept=self._scratch.kept,
            kills_servers=bool(self._scratch.servers),
        )

    def _step(self) -> bool:
        """Look, feed, and do what is due; answer whether all has come to rest."""
        self._standing = _Standing.of(self._app.store)
        minutes = self._order.minutes
        if minutes is not None and time.monotonic() - self._began > minutes * 60 and not self._enough:
            self._enough = True
            self._mischief.stop()
        self._mischief.go_on(self._standing.finished, self._feeder.fed)
        if self._mischief.holds_breath:
            return False
        if not self._enough:
            self._feeder.feed(min(self._standing.finished, self._mischief.next_at) + AHEAD)
        all_in = self._enough or self._feeder.fed == self._plan.documents
        return all_in and self._mischief.is_over and not _Standing.of(self._app.store).waiting

    def _is_stalled(self) -> bool:
        now = (self._standing, self._feeder.fed, self._mischief.done.kills, self._mischief.done.sent_again)
        if now != self._moved:
            self._moved, self._moved_at = now, time.monotonic()
        return time.monotonic() - self._moved_at > STALL_SECONDS

    def _refused(self) -> int:
        diary = self._scratch.diary
        return len(diary.read_bytes().splitlines()) if diary.exists() else 0

    def _tell(self, note: str) -> None:
        done = self._mischief.done
        self._show(
            Seen(
                elapsed=time.monotonic() - self._began,
                documents=self._order.documents,
                fed=self._feeder.fed,
                finished=self._standing.finished,
                kills=done.kills,
                asked_kills=self._order.kills,
                done=done,
                note=note,
            )
        )
