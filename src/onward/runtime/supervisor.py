"""The supervisor: keeps worker processes alive, their leases renewed, and lays deaths at the right door."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from onward.model.ledger import Delivery, Standing
from onward.ports import Store, StoreError, StoreFull, StoreUnavailable
from onward.runtime.board import Board
from onward.runtime.handling import Call, Context, Handling
from onward.runtime.outcomes import log_outcome
from onward.runtime.service import Service

log = logging.getLogger("onward")

POLL = 0.2
HANG_GRACE = 2.0
"""Seconds past its time limit before a handler counts as one that its own process cannot stop."""
DRAIN_GRACE = 5.0
SLOWEST_RESTART = 10.0


class ExitCode(IntEnum):
    """How a worker process tells its supervisor why it ended."""

    DRAINED = 0
    STORE_FULL = 74
    STUCK = 75


@dataclass(slots=True)
class Child:
    """A worker process, as its supervisor sees it."""

    process: BaseProcess
    pipe: Connection
    board: Board
    worker: str
    alone: bool = False
    """It runs one suspect event and ends."""
    began: float = field(default_factory=time.monotonic)
    ending: float | None = None
    """When it was told to end."""
    hung: list[int] = field(default_factory=list)

    def tell(self, word: str) -> None:
        try:
            self.pipe.send(word)
        except (BrokenPipeError, OSError):
            log.debug("%s is gone already", self.worker)
        self.ending = self.ending or time.monotonic()


Spawn = Callable[[str, Board, bool], tuple[BaseProcess, Connection]]
"""Starts a worker process: its name, its board, whether it runs a suspect alone."""


class Supervisor:
    """Runs worker processes until it is told to stop.

    A crash, a kill for memory or a hung handler of one process ends neither the run nor the others.
    """

    def __init__(
        self,
        store: Store,
        services: Sequence[Service],
        context: Context,
        spawn: Spawn,
        *,
        name: Callable[[], str],
        processes: int = 1,
        lease: float = 60.0,
        idle_within: float | None = None,
        reload: Callable[[], object] | None = None,
        on_poll: Callable[[], None] | None = None,
    ) -> None:
        self.store = store
        self.services = {service.name: service for service in services}
        self.context = context
        self.children: list[Child] = []
        self._spawn = spawn
        self._name = name
        self._processes = processes
        self._lease = lease
        self._idle_within = idle_within
        self._reload = reload
        self._on_poll = on_poll
        self._stopping = 0
        self._hangup = False
        self._renewed = time.monotonic()
        self._failures = 0
        self._restart_at = 0.0
        self._looked = 0.0
        self._fatal: StoreFull | None = None

    # -- life

    def stop(self) -> None:
        """Drain the workers. Called again: give everything back at once."""
        self._stopping += 1

    def run(self) -> None:
        """Supervise until stopped, or until nothing is due within `idle_within` seconds."""
        try:
            while True:
                self._bury_dead()
                if self._stopping:
                    self._end_children()
                    if not self.children:
                        break
                else:
                    self._start_missing()
                self._look_after()
                if self._on_poll is not None:
                    self._on_poll()
                wait([child.process.sentinel for child in self.children], timeout=POLL)
        finally:
            for child in self.children:
                child.process.kill()
                child.process.join()
                self._bury(child)
        if self._fatal is not None:
            raise self._fatal

    def install_signals(self) -> None:
        """SIGTERM and SIGINT drain, a second one gives back at once; SIGHUP reads settings again."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop())
        signal.signal(signal.SIGHUP, lambda *_: setattr(self, "_hangup", True))

    # -- children

    def _start_missing(self) -> None:
        regular = sum(not child.alone for child in self.children)
        if regular < self._processes and time.monotonic() >= self._restart_at:
            for _ in range(self._processes - regular):
                self._start(alone=False)

    def _start(self, *, alone: bool) -> None:
        worker, board = self._name(), Board()
        process, pipe = self._spawn(worker, board, alone)
        self.children.append(Child(process, pipe, board, worker, alone))
        log.debug("worker %s started%s", worker, " for a suspect event" if alone else "")

    def _end_children(self) -> None:
        for child in self.children:
            if child.ending is None:
                child.tell("drain")
            elif self._stopping > 1:
                child.process.kill()

    def _bury_dead(self) -> None:
        for child in [one for one in self.children if not one.process.is_alive()]:
            self.children.remove(child)
            child.process.join()
            self._bury(child)

    def _bury(self, child: Child) -> None:
        """Give back what a dead process held, and charge what is to blame."""
        code = child.process.exitcode
        explained = code in tuple(ExitCode) or self._stopping > 1 or bool(child.hung)
        running = child.board.running()
        child.board.close()
        child.pipe.close()
        self._failures = (
            0 if explained or time.monotonic() - child.began > SLOWEST_RESTART else self._failures + 1
        )
        self._restart_at = time.monotonic() + (0.05 * 2**self._failures if self._failures else 0.0)
        self._restart_at = min(self._restart_at, time.monotonic() + SLOWEST_RESTART)
        if code == ExitCode.STORE_FULL:
            self._fatal = StoreFull("a worker could not write to the store; see its message above")
            self._stopping = max(1, self._stopping)
        try:
            if child.hung:
                self._charge_hung(child)
            self.store.bury(child.worker, [] if explained else running)
        except StoreError as error:
            log.error("%s; the leases of %s will lapse by themselves", error, child.worker)
            return
        if not explained:
            log.error(
                "worker process %s died (%s) with %d events running; they are tried again, and alone from the "
                "second time on",
                child.worker,
                _cause(code),
                len(running),
            )

    def _charge_hung(self, child: Child) -> None:
        """The time limit is the handler's: exceeding it is a failed try of that event alone."""
        for delivery in self.store.claimed(child.worker):
            service = self.services.get(delivery.service)
            if delivery.row not in child.hung or service is None:
                continue
            call = _call_of(service, delivery, self.context)
            settlement = call.failed(call.timeout())
            self.store.settle([settlement])
            log_outcome(call, settlement)

    # -- looking after them

    def _look_after(self) -> None:
        now = time.monotonic()
        if now - self._renewed > self._lease / 3:
            self._renewed = now
            self._renew()
        for child in self.children:
            self._check_hung(child, now)
        if self._hangup:
            self._hangup = False
            self._roll()
        if now - self._looked > 2 * POLL and not self._stopping:
            self._looked = now
            self._look_at_store()

    def _renew(self) -> None:
        try:
            for child in self.children:
                self.store.renew(child.worker, self._lease)
        except StoreUnavailable as error:
            log.error("leases cannot be renewed: %s", error)

    def _check_hung(self, child: Child, now: float) -> None:
        overdue = child.board.overdue(HANG_GRACE)
        if overdue and child.ending is None:
            log.error(
                "worker %s hangs: an event is past its time limit; it is drained and ended", child.worker
            )
            child.hung = overdue
            child.tell("drain")
        elif child.hung and child.ending is not None and now - child.ending > DRAIN_GRACE:
            child.hung = overdue or child.hung
            child.process.kill()

    def _look_at_store(self) -> None:
        names = list(self.services)
        try:
            if not any(child.alone for child in self.children) and self.store.overdue_suspects(names):
                self._start(alone=True)
            if self._idle_within is not None and self._is_idle(names, self._idle_within):
                self.stop()
        except StoreUnavailable as error:
            log.error("%s", error)

    def _is_idle(self, names: list[str], within: float) -> bool:
        if self.store.under_way(names):
            return False
        due = self.store.next_due(names, suspects=True)
        if due is None or due > self.store.now() + within:
            return True
        # What is due but not claimed waits for a breaker; that may take longer than anybody watches.
        blocked = [one for one in self.store.breakers() if one.open]
        return bool(blocked) and due < self.store.now() - within

    def _roll(self) -> None:
        """Settings were read again: end the processes one after the other's replacement."""
        if self._reload is not None:
            try:
                self._reload()
            except Exception as error:
                log.error("the settings stay as they are: %s", error)
                return
        for child in self.children:
            child.tell("drain")


def _call_of(service: Service, delivery: Delivery, context: Context) -> Call:
    handling = Handling(service, delivery, context, left=1)
    return Call(handling, [one for one in delivery.inputs if one.standing is Standing.READY])


def _cause(code: int | None) -> str:
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"
