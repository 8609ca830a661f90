"""One simulated outage: the engine, the store and the retry job as they are, with calls that take simulated time.

A load of many thousand documents is scaled down: one document stands for `scale` of them. Its call ends after its
real duration, so that waits and breakers see real times, but its slot stays occupied for the time that `scale`
calls take. While a breaker holds calls back during an outage, few are made, and each stands for itself.
"""

from __future__ import annotations

import heapq
import logging
import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from random import Random

from onward.app import App
from onward.backend_urls import open_store
from onward.model.breaker import Breaker
from onward.model.documents import Document, Status
from onward.model.events import Event, names
from onward.recovery.retry_decision import RetryJobRules
from onward.recovery.retry_job import RetryJob
from onward.retry import Unavailable, classify
from onward.runtime.engine import Engine
from onward.runtime.handler_call import Call
from onward.runtime.service import Service
from onward.runtime.slots import InlineSlots, run_guarded
from onward.settings import Settings
from onward.testing import SimulatedClock

SAMPLES = 120  # How often the waiting work is counted during an outage, at least
LEASE_SECONDS = 1e9  # Simulated workers do not die
DRAINED_SHARE = 0.01  # Of the largest backlog: what still waits when it counts as drained
MAX_PUBLISHED = 500
TICKS = 1500  # Of the time up to the end of the outage
DOOMED = "doomed-"  # How the ids of documents begin that fail whatever the dependency does
_in_simulation: ContextVar[bool] = ContextVar("in_simulation", default=False)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What is simulated; times in seconds."""

    service: Service
    settings: Settings
    per_second: float  # Events that arrive
    duration: float  # Of a call, while the dependency works
    failed_duration: float  # Of a call during the outage
    slots: int  # Calls at once, in all worker processes
    pace: float  # The least time between two calls of a slot: a rate limit
    health: bool  # Whether the dependency has a health call
    failing: float  # The share of documents that fail whatever the dependency does
    outage: float
    lead: float  # The time before the outage
    horizon: float  # The time after it, at most
    scale: float
    seed: int = 0


@dataclass(slots=True)
class RunResult:
    """What happened; times count from the beginning of the outage. Counts are scaled up."""

    calls: list[float]  # In each second, from `-lead` on
    waiting: list[tuple[float, float]]  # Documents that are not finished and are to be, by time
    calls_in_outage: float = 0.0
    health_calls: int = 0
    resumed: float | None = None  # When the first call after the outage succeeded
    drained: float | None = None  # When the backlog was drained; None: not within the horizon
    given_up: float = 0.0
    needlessly: float = 0.0  # Of these, documents that would have been processed
    probes: list[float] = field(default_factory=list)  # When calls were made that a breaker held back


class _TimedSlots(InlineSlots):
    """Slots whose calls take simulated time. Each has a time of its own, up to a tick behind the clock."""

    run: OutageRun

    def __post_init__(self) -> None:
        InlineSlots.__post_init__(self)
        self.ended = 0
        self.slots = [(-math.inf, slot) for slot in range(self._first, self._first + self.count)]
        """Slots without a call, with the time at which each is free."""
        self.under_way: list[tuple[float, int, bool, float, Call]] = []  # By the time at which each call ends

    def rows_to_claim(self, now: float) -> int:
        free = sum(free_at <= now for free_at, _ in self.slots)
        room = free - len(self.waiting)
        breaker = self.run.breaker
        if breaker is not None and breaker.limit is not None:
            # The store counts claimed events, but a slot that is occupied stands for more of them.
            room = min(room, breaker.limit - (self.count - free) - len(self.waiting))
        return max(0, room)

    def run_next(self) -> bool:
        """Begin the calls that there are slots for; end one whose time has come; return whether there was one."""
        now = self.run.clock.now()
        while (free := self._next_free(now)) and (call := self._begin(free[1])) is not None:
            self.slots.remove(free)
            free_at, slot = free
            begins = max(free_at, self.run.began, now - self.run.tick)
            fails, seconds, occupied = self.run.begin_call(begins)
            heapq.heappush(self.under_way, (begins + seconds, slot, fails, begins + occupied, call))
        if not self.under_way or self.under_way[0][0] > now:
            return False
        _, slot, self.run.fails, free_at, call = heapq.heappop(self.under_way)
        self._end(slot, call, run_guarded(call))
        self.ended += 1
        self.slots.append((free_at, slot))
        return True

    def _next_free(self, now: float) -> tuple[float, int] | None:
        """Return a free slot; if a breaker limits how many run, the one that was free last, to use few of them."""
        free = [slot for slot in self.slots if slot[0] <= now]
        limited = self.run.breaker is not None and self.run.breaker.limit is not None
        return (max(free) if limited else min(free)) if free else None


class _TimedEngine(Engine):
    run_of: OutageRun

    def start(self) -> None:
        given = (self.record, self.finished, self._wake)
        self.timed = _TimedSlots(self.services[0], self.run_of.plan.slots, *given)
        self.timed.run = self.run_of
        self.slots = [self.timed]


class OutageRun:
    """Runs one plan in a store in memory."""

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        self.clock = SimulatedClock()
        self.fails = False  # Whether the call that ends now began while the dependency was down
        self.tick = (plan.lead + plan.outage) / TICKS if plan.scale > 1 else 0.0
        """The least time between two steps: scaled down, the engine's work counts more than the exact moment."""
        self.began = self.clock.now()
        self._begins = self.began + plan.lead  # the outage
        self._store = open_store("sqlite://:memory:", self.clock)
        self._app = App(store=self._store, settings=plan.settings)
        if plan.service.needs and plan.health:
            self._app.dependency(plan.service.needs[0], health=self._health)
        self._document, self._event = _document_and_event(plan.service)
        service = replace(
            plan.service,
            handler=self._handle,
            on=self._event,
            finishes=self._document,
            batch=None,
            concurrency=None,
            time_limit=None,
            background=False,
            classify=classify,
            requeue=None,
            was=(),
        )
        self._app.registry.add(service)
        self._engine = _TimedEngine(
            self._app.store,
            self._app.registry,
            [service],
            worker="simulation",
            settings=self._app.engine_settings(
                inline=True, groups_inline=True, renews=False, lease=LEASE_SECONDS, keep_completed_count=0
            ),
            random=Random(plan.seed),
            monotonic=self.clock.now,
        )
        self._engine.run_of = self
        self._engine.start()
        rules = RetryJobRules.of(plan.settings, self._app.registry.subscriptions())
        self._retry_job = RetryJob(self._store, self._app.registry, rules, holder="simulation")
        self.breaker: Breaker | None = None
        self._unfinished: set[str] = set()  # Documents that would be processed, and are not yet
        self._arrived = 0
        self._given_up_count = 0
        self._owed = 0.0  # Documents that calls stood for without processing them
        self._most_before = self._most = 0
        self._calls: dict[int, float] = defaultdict(float)  # In each second
        self._calls_more: dict[int, float] = defaultdict(float)  # In each second and all later ones
        self.result = RunResult([], [])

    def run(self) -> RunResult:
        with _without_logs():
            try:
                self._loop()
            finally:
                self._store.close()
        return self._finish()

    @property
    def time(self) -> float:
        """The time since the outage began."""
        return self.clock.now() - self._begins

    def is_down(self) -> bool:
        return 0 <= self.time < self.plan.outage

    # -- calls

    def begin_call(self, begins: float) -> tuple[bool, float, float]:
        """Return whether a call fails, its duration, and how long its slot is occupied."""
        plan, at = self.plan, begins - self._begins
        fails = 0 <= at < plan.outage
        seconds = plan.failed_duration if fails else plan.duration
        pace = max(seconds, plan.pace)
        held_back = bool(plan.service.needs) and (fails or (self.breaker is not None and self.breaker.open))
        occupied = pace * (1.0 if held_back else plan.scale)
        if not held_back and at < plan.outage:
            # Calls on this side of the change only: on the other side they end differently.
            occupied = min(occupied, max(pace, (0.0 if at < 0 else plan.outage) - at))
        weight = occupied / pace
        if fails:
            self.result.calls_in_outage += weight
        else:
            self._owed += 1.0 - weight / plan.scale
        if held_back:
            self.result.probes.append(at)
        self._count(at + plan.lead, occupied, weight)
        return fails, seconds, occupied

    def _count(self, at: float, seconds: float, calls: float) -> None:
        """Count calls that are spread over some time."""
        first, last = int(at), int(at + seconds)
        if first == last:
            self._calls[first] += calls
            return
        rate = calls / seconds
        self._calls[first] += rate * (first + 1 - at)
        self._calls[last] += rate * (at + seconds - last)
        self._calls_more[first + 1] += rate
        self._calls_more[last] -= rate

    def _handle(self, document: Document, work: object) -> None:
        if self.fails:
            raise Unavailable((*self.plan.service.needs, "dependency")[0], "simulated outage")
        if document.id.startswith(DOOMED):
            raise RuntimeError("fails whatever the dependency does")
        self._unfinished.discard(document.id)
        if self.result.resumed is None and self.time >= self.plan.outage:
            self.result.resumed = self.time

    def _health(self) -> bool:
        self.result.health_calls += self.is_down()
        return not self.is_down()

    # -- time

    def _loop(self) -> None:
        plan, step = self.plan, (self.plan.lead + self.plan.outage) / SAMPLES
        arrival = sample = -plan.lead
        while True:
            arrival = self._arrive(arrival)
            if self._retry_job.is_due():
                self._retry_job.run()
            while self._step():
                pass
            if self.time >= sample:
                sample += step
                self._drop_given_up()
                self.result.waiting.append((self.time, len(self._unfinished) * plan.scale))
            if self._is_over():
                return
            moments = [sample + self._begins, *self._next_moments()]
            if self.breaker is None or not self.breaker.open:
                moments.append(arrival + self._begins)  # else it only waits for the next probe
            now = self.clock.now()
            next_probe = self._store.next_change() or math.inf
            self.clock.advance(min(max(min(moments), now + self.tick), max(next_probe, now)) - now + 1e-6)

    def _step(self) -> bool:
        """Let the engine commit, claim and run what is due; return whether it did anything."""
        ended_before = self._engine.timed.ended
        self.breaker = next(iter(self._store.breakers()), None)
        self._engine.look_again()
        try:
            self._engine.step().send(None)
        except StopIteration as ended:
            return bool(ended.value) or self._engine.timed.ended > ended_before
        raise AssertionError("the engine waits for something; a simulation runs everything inline")

    def _next_moments(self) -> Iterator[float]:
        """Return when something may happen, apart from arrivals; what is past waits for something else."""
        now, slots = self.clock.now(), self._engine.timed
        due = self._store.next_due([self.plan.service.name])
        moments = [due, self._retry_job.next_due(), slots.under_way[0][0] if slots.under_way else None]
        if due is not None and due <= now and slots.slots:
            moments.append(min(slots.slots)[0])
        return (moment for moment in moments if moment is not None and moment > now)

    def _arrive(self, arrival: float) -> float:
        """Publish what has arrived by now; return when the next document arrives."""
        plan, new = self.plan, list[Document]()
        while arrival <= self.time:
            self._arrived += 1
            doomed = int(self._arrived * plan.failing) > int((self._arrived - 1) * plan.failing)
            new.append(self._document(id=f"{DOOMED if doomed else ''}{self._arrived}"))
            arrival += plan.scale / plan.per_second
        while self._owed >= 1.0:
            self._owed -= 1.0
            self._arrived += 1
            new.append(self._document(id=str(self._arrived)))
        for start in range(0, len(new), MAX_PUBLISHED):
            some = new[start : start + MAX_PUBLISHED]
            events = [self._event.model_validate({"document_id": one.id}) for one in some]
            self._app.publish(*events, documents=some)
        self._unfinished.update(one.id for one in new if not one.id.startswith(DOOMED))
        return arrival

    def _drop_given_up(self) -> None:
        counts = self._store.document_counts().get(self._document.collection, {})
        if counts.get(Status.FAILED_MAX_RETRIES, 0) == self._given_up_count:
            return
        self._given_up_count = counts[Status.FAILED_MAX_RETRIES]
        statuses = self._store.statuses(self._document, list(self._unfinished))
        given_up = {id for id, status in statuses.items() if status == Status.FAILED_MAX_RETRIES}
        self.result.needlessly += len(given_up) * self.plan.scale
        self._unfinished -= given_up

    def _is_over(self) -> bool:
        plan, left = self.plan, len(self._unfinished)
        self._most = max(self._most, left)
        if self.time < 0:
            self._most_before = max(self._most_before, left)
        if self.time < plan.outage:
            return False
        drained = left <= max(self._most_before, self._most * DRAINED_SHARE)
        if drained:
            self.result.drained = self.time
        return drained or self.time > plan.outage + plan.horizon

    def _finish(self) -> RunResult:
        plan, result = self.plan, self.result
        length, more = int(self.time + plan.lead) + 1, 0.0
        for second in range(length):
            more += self._calls_more[second]
            result.calls.append(self._calls[second] + more)
        # Of those that arrived in the outage, so that it is the same number however long the rest takes.
        doomed = 0.0 if plan.service.sets_aside else plan.failing * plan.per_second * plan.outage
        result.given_up = result.needlessly + doomed
        result.waiting.append((self.time, len(self._unfinished) * plan.scale))
        return result


def _document_and_event(service: Service) -> tuple[type[Document], type[Event]]:
    """Return a document of the service's collection, whose rounds are those of it, and an event that names one."""
    finishes = service.finishes
    assert finishes is not None, "only services that finish documents are simulated"

    class SimulatedDocument(Document, collection=finishes.collection):
        """Stands for one or more documents."""

    SimulatedDocument.round_rules = finishes.round_rules

    class DocumentArrived(Event):
        """A document is to be processed."""

        document_id: str = names(SimulatedDocument)

    return SimulatedDocument, DocumentArrived


@contextmanager
def _without_logs() -> Iterator[None]:
    """Drop the log records of this thread: what is simulated has not happened."""
    log, token = logging.getLogger("onward"), _in_simulation.set(True)
    log.addFilter(_is_real)
    try:
        yield
    finally:
        _in_simulation.reset(token)
        log.removeFilter(_is_real)


def _is_real(record: logging.LogRecord) -> bool:
    return not _in_simulation.get()
