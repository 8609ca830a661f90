"""Faults that are injected into a run, at random moments of its progress.

A seed decides which faults are injected, and after how many finished parcels. What the workers do at that moment
depends on the machine.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random

from onward.app import App
from onward.model.ledger import Published
from onward.torture.worker_groups import Fleet, PausedGroup, PauseResult, WorkerGroup
from onward.torture.workload import ParcelArrived, WorkloadPlan

MAX_FAILED_PAUSES = 300  # after this many attempts in which no group could be paused, or in vain, no more are made


@dataclass(frozen=True)
class TortureHooks:
    """Callbacks of tests in a run."""

    # Faults that `onward torture` cannot inject, such as killing the store's server; each is injected once.
    extra_faults: Sequence[Callable[[], None]] = ()
    # Sends an event of another program; by default straight into the store.
    send_foreign: Callable[[App, bytes], Published | None] = App.publish_raw


class Fault(StrEnum):
    KILL_WORKER = "kill a worker process"
    KILL_SUPERVISOR = "kill a supervisor"
    KILL_GROUP = "kill a supervisor with all its worker processes"
    PAUSE_GROUP = "pause a group for longer than its leases last"
    SEND_AGAIN = "send an event again"
    EXTRA = "a fault of the caller's"


_KILLS = {Fault.KILL_WORKER: 0.9, Fault.KILL_SUPERVISOR: 0.05, Fault.KILL_GROUP: 0.05}


@dataclass
class FaultCounts:
    workers_killed: int = 0
    supervisors_killed: int = 0
    groups_killed: int = 0
    extra_faults: int = 0
    zombies: int = 0  # groups that were paused until others did their work, and tried to commit it late
    zombies_unrefused: int = 0  # those of them whose late commits were not refused
    sent_again: int = 0
    duplicates_reported: int = 0  # of those, by the ledger; the others found their document final

    @property
    def kills(self) -> int:
        return self.workers_killed + self.supervisors_killed + self.groups_killed


Schedule = deque[tuple[int, Fault]]  # each fault with the number of finished parcels after which it is due


def draw_schedule(random: Random, plan: WorkloadPlan, *, kills: int, pauses: int, extra: int = 0) -> Schedule:
    faults = random.choices(list(_KILLS), list(_KILLS.values()), k=kills)
    faults += [Fault.EXTRA] * extra + [Fault.PAUSE_GROUP] * pauses
    faults += [Fault.SEND_AGAIN] * max(2, plan.documents // 50)
    random.shuffle(faults)
    # Parcels with a fault end late: the last injected fault must be due while some of them may still be under way.
    last = max(1, (plan.documents - len(plan.faults)) * 9 // 10)
    return deque(zip(sorted(random.randrange(last) for _ in faults), faults, strict=True))


@dataclass
class FaultInjector:
    """Injects the faults of a schedule, each as soon as it is due and possible."""

    schedule: Schedule
    fleet: Fleet
    app: App
    plan: WorkloadPlan
    hooks: TortureHooks
    random: Random
    refusal_log: Path  # where workers record the works that were refused

    def __post_init__(self) -> None:
        self.counts = FaultCounts()
        self.paused: PausedGroup | None = None
        self._failed_pauses = 0

    @property
    def next_at(self) -> int:
        """After how many finished parcels the next fault is due."""
        return self.schedule[0][0] if self.schedule else self.plan.documents

    @property
    def may_block(self) -> bool:
        """Whether a paused group may have locked the store, so that a write could wait for long."""
        return self.paused is not None and not self.paused.others_commit

    @property
    def is_over(self) -> bool:
        return not self.schedule and self.paused is None

    def stop(self) -> None:
        self.schedule.clear()
        self._failed_pauses = MAX_FAILED_PAUSES

    def step(self, finished: int, published: int) -> None:
        """Inject the next fault, if it is due."""
        if self.paused is not None and (result := self.paused.check()) is not None:
            self.paused.group.resume()
            self.paused = None
            if result is PauseResult.IN_VAIN:
                self._postpone_pause(finished)
            else:
                self.counts.zombies += 1
                self.counts.zombies_unrefused += result is PauseResult.NOT_REFUSED
        if self.may_block or not self.schedule or finished < self.schedule[0][0]:
            return
        fault = self.schedule[0][1]
        injected = self._inject(fault, published)
        if injected or fault is Fault.PAUSE_GROUP:
            self.schedule.popleft()
        if not injected and fault is Fault.PAUSE_GROUP:
            self._postpone_pause(finished)

    def _postpone_pause(self, finished: int) -> None:
        """Put a pause behind the next fault: the kills must not wait for a moment in which a pause is possible."""
        self._failed_pauses += 1
        if self._failed_pauses < MAX_FAILED_PAUSES and finished < self.plan.documents * 9 // 10:
            self.schedule.insert(min(1, len(self.schedule)), (finished, Fault.PAUSE_GROUP))

    def _inject(self, fault: Fault, published: int) -> bool:
        """Inject a fault; return False if it is not possible now."""
        if fault is Fault.SEND_AGAIN:
            if not published:
                return False
            number = self.random.randrange(published)
            if (raw := self.plan.foreign_event(number)) is not None:
                result = self.hooks.send_foreign(self.app, raw)
            else:
                (result,) = self.app.publish(ParcelArrived.of(self.plan.parcel(number)))
            self.counts.sent_again += 1
            self.counts.duplicates_reported += result.duplicates if result is not None else 0
            return True
        if fault is Fault.EXTRA:
            if self.paused is not None:
                if self.paused.is_resumed:
                    return False
                self.paused.cut_off = True
            self.hooks.extra_faults[self.counts.extra_faults]()
            self.counts.extra_faults += 1
            return True
        return self._inject_into_group(fault)

    def _inject_into_group(self, fault: Fault) -> bool:
        # A group that was paused is left alone until its result is known.
        groups = [group for group in self.fleet.groups if self.paused is None or group is not self.paused.group]
        if not groups:
            return False
        group = self.random.choice(groups)
        match fault:
            case Fault.KILL_WORKER:
                # Not one that runs a suspect event alone: three kills during one event would be its crash loop.
                pids = [process.pid for process in group.workers(self.app.store) if not process.alone]
                try:
                    os.kill(self.random.choice(pids), signal.SIGKILL)
                except (IndexError, ProcessLookupError):
                    return False  # there is none, or a poison document has killed it already
                self.counts.workers_killed += 1
            case Fault.KILL_SUPERVISOR:
                if not group.workers(self.app.store):
                    return False  # it is starting
                group.process.kill()  # its workers finish what they run and end
                group.process.wait()
                self.counts.supervisors_killed += 1
            case Fault.KILL_GROUP:
                if not self._pause_without_suspect(group):
                    return False
                group.kill()
                self.counts.groups_killed += 1
            case Fault.PAUSE_GROUP:
                if len(groups) == 1 or self.paused is not None or not self._pause_without_suspect(group):
                    return False
                try:
                    self.paused = PausedGroup(group, self.app.store, self.fleet.lease, self.refusal_log)
                except BaseException:
                    group.resume()
                    raise
        return True

    def _pause_without_suspect(self, group: WorkerGroup) -> bool:
        """Pause a group, so that its state stays as it is found; resume one that runs a suspect event."""
        with ExitStack() as stack:
            stack.callback(group.resume)
            group.pause()
            processes = group.workers(self.app.store)
            if processes and not any(process.alone for process in processes):
                stack.pop_all()
                return True
        return False
