"""Mischief: what is done to a run, at random moments of its progress.

What is done, and after how many finished parcels, is drawn from a seed. How far the workers are at that
moment within what they do is up to the machine.
"""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from os import kill
from pathlib import Path
from random import Random
from typing import Protocol

from onward.app import App
from onward.torture.fleet import Crew, Fleet
from onward.torture.plan import Plan
from onward.torture.sleeping import Sleeper, Slept
from onward.torture.workload import ParcelArrived

TRIES = 300
"""How often a moment is looked for, in all, in which a crew can be stopped; then the rest is left out."""
LONGEST_OUTAGE = 1.0


class Act(StrEnum):
    """What can be done to a run."""

    KILL_WORKER = "kill a worker process"
    KILL_SUPERVISOR = "kill a supervisor"
    KILL_CREW = "kill a supervisor with all its worker processes"
    KILL_SERVER = "kill a server and start it again"
    STOP_CREW = "stop a crew for longer than its leases last"
    SEND_AGAIN = "send an event again"


_KILLS = {Act.KILL_WORKER: 0.9, Act.KILL_SUPERVISOR: 0.05, Act.KILL_CREW: 0.05}


class Server(Protocol):
    """A server of our own, which may be killed."""

    def kill(self) -> None: ...
    def start(self) -> object: ...


@dataclass
class Done:
    """How much mischief was done."""

    workers_killed: int = 0
    supervisors_killed: int = 0
    crews_killed: int = 0
    servers_killed: int = 0
    stopped: int = 0
    """Crews that slept while others did their work, and came late with it."""
    unrefused: int = 0
    """Those of them whose late works nobody has refused."""
    sent_again: int = 0
    reported: int = 0
    """Events of those that the ledger knew and reported as duplicates; the others found their document final."""

    @property
    def kills(self) -> int:
        return self.workers_killed + self.supervisors_killed + self.crews_killed


Schedule = deque[tuple[int, Act]]
"""What is to be done, each once so many parcels are finished."""


def draw(random: Random, plan: Plan, *, kills: int, server_kills: int, stops: int) -> Schedule:
    """Draw a schedule: kinds and moments."""
    acts = random.choices(list(_KILLS), list(_KILLS.values()), k=kills)
    acts += [Act.KILL_SERVER] * server_kills + [Act.STOP_CREW] * stops
    acts += [Act.SEND_AGAIN] * max(2, plan.documents // 50)
    random.shuffle(acts)
    # What is trouble ends late: the last act must be due while some of it may still be under way.
    last = max(1, (plan.documents - len(plan.troubles)) * 9 // 10)
    return deque(zip(sorted(random.randrange(last) for _ in acts), acts, strict=True))


class Mischief:
    """Does what is on a schedule, as far as the moment allows."""

    def __init__(
        self,
        schedule: Schedule,
        fleet: Fleet,
        app: App,
        plan: Plan,
        servers: Sequence[Server],
        random: Random,
        diary: Path,
    ) -> None:
        """`diary`: where workers note what was refused."""
        self.schedule = schedule
        self.done = Done()
        self.sleeper: Sleeper | None = None
        self._fleet = fleet
        self._app = app
        self._plan = plan
        self._servers = servers
        self._random = random
        self._diary = diary
        self._vain = 0
        """How often no crew could be stopped, or one was in vain: with the store locked, or with nothing to do."""

    @property
    def next_at(self) -> int:
        """After how many finished parcels the next act is due; none left: after all."""
        return self.schedule[0][0] if self.schedule else self._plan.documents

    @property
    def holds_breath(self) -> bool:
        """A crew was stopped, and may have the store locked: whoever writes now might wait for long."""
        return self.sleeper is not None and not self.sleeper.others_write

    @property
    def is_over(self) -> bool:
        return not self.schedule and self.sleeper is None

    def stop(self) -> None:
        """Leave out what is still to come."""
        self.schedule.clear()
        self._vain = TRIES

    def go_on(self, finished: int, fed: int) -> None:
        """Do what is due."""
        self._look_at_sleeper(finished)
        if self.holds_breath or not self.schedule or finished < self.schedule[0][0]:
            return
        act = self.schedule[0][1]
        if self._attempt(act, fed):
            self.schedule.popleft()
        elif act is Act.STOP_CREW:
            self.schedule.popleft()
            self._put_off(finished)

    def _look_at_sleeper(self, finished: int) -> None:
        if self.sleeper is None or (answer := self.sleeper.look()) is None:
            return
        self.sleeper.crew.go_on()
        self.sleeper = None
        if answer is Slept.IN_VAIN:
            self._put_off(finished)
        else:
            self.done.stopped += 1
            self.done.unrefused += answer is Slept.UNREFUSED

    def _put_off(self, finished: int) -> None:
        """Kills are promised. To stop a crew a moment has to be found, and others are due meanwhile."""
        self._vain += 1
        if self._vain < TRIES and finished < self._plan.documents * 9 // 10:
            self.schedule.insert(min(1, len(self.schedule)), (finished, Act.STOP_CREW))

    def _attempt(self, act: Act, fed: int) -> bool:
        match act:
            case Act.SEND_AGAIN:
                return self._send_again(fed)
            case Act.KILL_SERVER:
                return self._kill_server()
        # Whoever was woken is left in peace until it has answered.
        crews = [one for one in self._fleet.crews if self.sleeper is None or one is not self.sleeper.crew]
        if not crews:
            return False
        crew = self._random.choice(crews)
        match act:
            case Act.STOP_CREW:
                return self._stop_crew(crew, len(crews))
            case Act.KILL_SUPERVISOR:
                return self._kill_supervisor(crew)
            case Act.KILL_CREW:
                return self._kill_crew(crew)
        return self._kill_worker(crew)

    def _kill_worker(self, crew: Crew) -> bool:
        """Not one that runs a suspect alone: who kills the same event three times in a row is its crash loop."""
        at_work = [one.pid for one in crew.members(self._app.store) if not one.alone]
        if not at_work:
            return False
        try:
            kill(self._random.choice(at_work), signal.SIGKILL)
        except ProcessLookupError:  # poison was faster
            return False
        self.done.workers_killed += 1
        return True

    def _kill_supervisor(self, crew: Crew) -> bool:
        if not crew.members(self._app.store):
            return False  # it is only starting
        crew.kill_supervisor()
        self.done.supervisors_killed += 1
        return True

    def _kill_crew(self, crew: Crew) -> bool:
        if not self._halted_without_suspect(crew):
            return False
        crew.kill()
        self.done.crews_killed += 1
        return True

    def _stop_crew(self, crew: Crew, awake: int) -> bool:
        if self.sleeper is not None or awake < 2 or not self._halted_without_suspect(crew):
            return False
        try:
            self.sleeper = Sleeper(crew, self._app.store, self._fleet.lease, self._diary)
        except BaseException:
            crew.go_on()
            raise
        return True

    def _halted_without_suspect(self, crew: Crew) -> bool:
        """Stop a crew, so that it stays as it is found; one that runs a suspect goes on."""
        crew.halt()
        try:
            members = crew.members(self._app.store)
        except BaseException:
            crew.go_on()
            raise
        if members and not any(one.alone for one in members):
            return True
        crew.go_on()
        return False

    def _kill_server(self) -> bool:
        if self.sleeper is not None:
            if self.sleeper.is_awake:
                return False
            self.sleeper.cut_off = True
        server = self._servers[self.done.servers_killed % len(self._servers)]  # all of them, in turn
        server.kill()
        threading.Event().wait(self._random.uniform(0.0, LONGEST_OUTAGE))
        server.start()
        self.done.servers_killed += 1
        return True

    def _send_again(self, fed: int) -> bool:
        if not fed:
            return False
        number = self._random.randrange(fed)
        raw = self._plan.announcement(number)
        if raw is None:
            answers = self._app.publish(ParcelArrived.of(self._plan.parcel(number)))
        else:
            answers = [one for one in [self._app.publish_raw(raw)] if one is not None]
        self.done.sent_again += 1
        self.done.reported += sum(one.duplicates for one in answers)
        return True
