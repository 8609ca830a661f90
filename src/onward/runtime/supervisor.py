"""The supervisor: keeps worker processes alive, their leases renewed, and lays deaths at the right door."""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from onward.model.ledger import Delivery, Standing
from onward.ports import Store, StoreError, StoreFull, StoreUnavailable
from onward.retry import OnwardError, redact
from onward.runtime.board import Board
from onward.runtime.handling import Call, Context, Handling
from onward.runtime.machine import is_gone
from onward.runtime.outcomes import log_outcome
from onward.runtime.service import Service

log = logging.getLogger("onward")

POLL = 0.2
MOURNING = 5.0
"""Seconds between two looks for workers that died together with their supervisor."""
HANG_GRACE = 2.0
"""Seconds past its time limit before a handler counts as one that its own process cannot stop."""
DRAIN_GRACE = 5.0
"""Seconds that a process gets to finish its other calls once one hangs, or to be gone once it parted."""
RELEASE_GRACE = 2.0
HEARING_GRACE = 0.5
"""Seconds in which the last words of a dead process must have been heard."""
COMPLAINT = 30.0
"""Seconds between two complaints that the store is away."""
FIRST_RESTART = 0.1
SLOWEST_RESTART = 10.0
MAX_FAILED_STARTS = 6


class WorkersFail(OnwardError):
    """Worker processes end before they do anything, over and over."""


class ExitCode(IntEnum):
    """How a worker process that ends by itself tells its supervisor why."""

    DRAINED = 0
    FAILED = 70
    """Something failed that was no handler: the store is unreachable, the app cannot be imported."""
    STORE_FULL = 74
    STUCK = 75
    IDLE = 76
    """It was to run a suspect event, and found none that it may run."""


@dataclass(slots=True)
class Child:
    """A worker process, as its supervisor sees it."""

    process: BaseProcess
    pipe: Connection
    board: Board
    worker: str
    alone: bool = False
    """It runs one suspect event and ends."""
    told: str = ""
    """The last word that it was told: `drain` or `release`."""
    told_at: float = 0.0
    hung: list[int] = field(default_factory=list)
    """Rows that are past their time limit, and that the process has not ended by itself."""
    hung_at: float = 0.0
    killed: bool = False
    """By its supervisor: its death says nothing about what it was running."""
    hearing: threading.Thread | None = None

    def tell(self, word: str) -> None:
        if self.told in (word, "release"):
            return
        try:
            self.pipe.send(word)
        except OSError:
            log.debug("%s is gone already", self.worker)
        self.told, self.told_at = word, time.monotonic()

    def kill(self) -> None:
        self.killed = True
        self.process.kill()


@dataclass(slots=True)
class Backoff:
    """When something that keeps failing may be started again: ever later, up to a limit."""

    failures: int = 0
    ready_at: float = 0.0

    @property
    def delay(self) -> float:
        if not self.failures:
            return 0.0
        return min(FIRST_RESTART * 2.0 ** min(self.failures - 1, 20), SLOWEST_RESTART)

    def count(self, failures: int) -> None:
        self.failures = failures
        self.ready_at = time.monotonic() + self.delay

    @property
    def is_ready(self) -> bool:
        return time.monotonic() >= self.ready_at


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
        also_due: Callable[[], float | None] | None = None,
        hears: Callable[[str, Any], None] | None = None,
    ) -> None:
        """`hears`: is given whatever worker processes say, each in a thread of its own; None: it is dead."""
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
        self._also_due = also_due
        self._hears = hears
        self._trouble = ""
        self._renewed_at = -math.inf
        self._stopping = self._announced = 0
        self._hangup = False
        self._ended = threading.Event()
        self._restarts = Backoff()
        self._suspects = Backoff()
        self._looked = 0.0
        self._began = store.now()
        self._mourned = self._complained = -math.inf
        self._fatal: OnwardError | None = None

    @property
    def trouble(self) -> str:
        """Why leases are not renewed, if they are not."""
        silent = time.monotonic() - self._renewed_at
        if self._trouble or silent < self._lease / 2:
            return self._trouble
        return "no leases were renewed yet" if silent == math.inf else f"no lease was renewed for {silent:.0f} s"

    # -- life

    def stop(self) -> None:
        """Drain the workers. Called again: give everything back at once."""
        self._stopping += 1

    def run(self) -> None:
        """Supervise until stopped, or until nothing is due within `idle_within` seconds."""
        threading.Thread(target=self._renew_leases, name="onward-leases", daemon=True).start()
        try:
            while True:
                now = time.monotonic()
                self._bury_dead()
                if self._stopping:
                    self._end_children(now)
                    if not self.children:
                        break
                else:
                    self._start_missing()
                self._look_after(now)
                self._tell()
                wait([child.process.sentinel for child in self.children], timeout=POLL)
        finally:
            self._ended.set()
            for child in self.children:
                child.kill()
                child.process.join()
                self._bury(child)
        if self._fatal is not None:
            raise self._fatal

    def _tell(self) -> None:
        try:
            if self._on_poll is not None:
                self._on_poll()
        except StoreUnavailable as error:
            self._complain(error)

    def _hear(self, child: Child) -> None:
        """Listen to a worker process; one that stops in the middle of a word keeps nobody else waiting."""
        while True:
            try:
                word = child.pipe.recv()
                if self._hears is not None:
                    self._hears(child.worker, word)
            except (EOFError, OSError):
                return  # it is dead, or about to be
            except Exception as error:
                log.debug("what %s says cannot be understood: %s", child.worker, type(error).__name__)

    def install_signals(self, on_stop: Callable[[], None] | None = None) -> None:
        """SIGTERM and SIGINT drain, a second one gives back at once; SIGHUP reads settings again."""

        def stop(*_: object) -> None:
            self.stop()
            if on_stop is not None:
                on_stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        signal.signal(signal.SIGHUP, lambda *_: setattr(self, "_hangup", True))

    # -- children

    def _start_missing(self) -> None:
        """Keep the number of processes; those that are on their way out have their successors already."""
        regular = sum(not child.alone and not child.told for child in self.children)
        if self._restarts.is_ready:
            for _ in range(self._processes - regular):
                self._start(alone=False)

    def _start(self, *, alone: bool) -> None:
        worker, board = self._name(), Board.shared()
        try:
            process, pipe = self._spawn(worker, board, alone)
        except OSError as error:
            board.close()
            backoff = self._suspects if alone else self._restarts
            backoff.count(backoff.failures + 1)
            log.error("no worker process can be started: %s; again in %.1f s", error, backoff.delay)
            return
        child = Child(process, pipe, board, worker, alone)
        child.hearing = threading.Thread(target=self._hear, args=(child,), name="onward-hearing", daemon=True)
        child.hearing.start()
        self.children.append(child)
        log.debug("worker %s started%s", worker, " for a suspect event" if alone else "")

    def _end_children(self, now: float) -> None:
        if self._stopping > self._announced:
            self._announced = self._stopping
            log.info(
                "ending: what runs is finished; a signal once more gives it back"
                if self._stopping == 1
                else "ending: what runs is given back"
            )
        for child in self.children:
            child.tell("release" if self._stopping > 1 else "drain")
            if self._stopping > 2 or (child.told == "release" and now - child.told_at > RELEASE_GRACE):
                child.kill()

    def _bury_dead(self) -> None:
        for child in [one for one in self.children if not one.process.is_alive()]:
            self.children.remove(child)
            child.process.join()
            self._bury(child)

    def _bury(self, child: Child) -> None:
        """Give back what a dead process held, and charge what is to blame."""
        parted = child.board.parted()
        explained = parted is not None or child.killed or bool(child.hung)
        running = [] if explained else child.board.running()
        self._count_failures(child, parted, explained)
        if child.hearing is not None:
            child.hearing.join(HEARING_GRACE)  # what it said last
        if self._hears is not None:
            self._hears(child.worker, None)
        child.board.close()
        child.pipe.close()
        if parted == ExitCode.STORE_FULL:
            self._fatal = StoreFull("a worker could not write to the store; see its message above")
            self._stopping = max(1, self._stopping)
        if not explained:
            log.error(
                "worker process %s died (%s) with %d events running; they are tried again, and alone from the "
                "second time on",
                child.worker,
                _cause(child.process.exitcode),
                len(running),
            )
        try:
            if child.hung:
                self._charge_hung(child)
            self.store.bury(child.worker, running)
        except StoreError as error:
            log.error("%s; the leases of %s will lapse by themselves", error, child.worker)

    def _count_failures(self, child: Child, parted: int | None, explained: bool) -> None:
        backoff = self._suspects if child.alone else self._restarts
        if parted in (ExitCode.FAILED, ExitCode.IDLE) or not (explained or child.board.has_finished_any()):
            backoff.count(backoff.failures + 1)
            hopeless = self._restarts.failures >= MAX_FAILED_STARTS and self._fatal is None
            if hopeless and self._idle_within is not None:
                # Somebody waits for this run to end. A service goes on trying: its trouble may pass.
                self._fatal = WorkersFail(
                    f"worker processes ended {self._restarts.failures} times in a row before they had done "
                    "anything; their messages above say why"
                )
                self._stopping = max(1, self._stopping)
        else:
            # It got to work. One that crashed over and over would still be a busy loop of starts.
            backoff.count(0 if explained else 1)

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

    def _look_after(self, now: float) -> None:
        for child in self.children:
            self._check_hung(child, now)
        if self._hangup:
            self._hangup = False
            self._roll()
        if now - self._mourned > MOURNING and not self._stopping:
            self._mourned = now
            self._mourn()
        if now - self._looked > 2 * POLL and not self._stopping:
            self._looked = now
            self._look_at_store()

    def _mourn(self) -> None:
        """Take over from workers of this machine that nobody saw die: whoever watched them is dead, too."""
        own = {child.worker for child in self.children}
        try:
            # Again and again: a service by another name may have had their duty, and is gone now.
            known = {one.service for one in self.store.subscriptions()}
            missing = [one.subscription() for one in self.services.values() if one.name not in known]
            if missing:
                self.store.subscribe(missing)
            for about in self.store.workers(alive_within=math.inf):
                if about["worker"] not in own and is_gone(about):
                    returned = self.store.reap(about["worker"])
                    log.info("worker %s is gone; %d events it held are tried again", about["worker"], returned)
        except StoreFull:
            raise
        except StoreError as error:
            self._complain(error)

    def _complain(self, error: StoreError) -> None:
        """Say that the store is away, but not several times a second."""
        now = time.monotonic()
        if now - self._complained > COMPLAINT:
            self._complained = now
            log.error("%s", error)

    def _renew_leases(self) -> None:
        """Keep the workers' leases, in a thread of its own: what else waits for the store must not end them."""
        pause = 0.0
        while not self._ended.wait(pause):
            pause, trouble = self._lease / 3, ""
            for child in list(self.children):
                try:
                    self.store.renew(child.worker, self._lease)
                except Exception as error:
                    said = str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
                    trouble = self._trouble = f"leases cannot be renewed: {redact(said)}"
                    log.error("%s", trouble)
                    pause = min(1.0, pause)
            if self._trouble and not trouble and self._renewed_at > -math.inf:
                log.info("leases are renewed again")
            self._trouble = trouble
            self._renewed_at = self._renewed_at if trouble else time.monotonic()

    def _check_hung(self, child: Child, now: float) -> None:
        if child.board.parted() is not None:
            child.tell("release")  # a thread may keep it from ending
            if now - child.told_at > DRAIN_GRACE:
                child.kill()
            return
        overdue = child.board.overdue(HANG_GRACE)
        if overdue and not child.hung:
            log.error("worker %s hangs: an event is past its time limit; it is drained and ended", child.worker)
            child.hung_at = now
            child.tell("drain")
        elif overdue and now - child.hung_at > DRAIN_GRACE:
            child.kill()
        child.hung = overdue

    def _look_at_store(self) -> None:
        names = list(self.services)
        try:
            alone = any(child.alone for child in self.children)
            if not alone and self._suspects.is_ready and self.store.overdue_suspects(names):
                self._start(alone=True)
            if self._idle_within is not None and self._is_idle(names, self._idle_within):
                log.info("nothing falls due within %g s", self._idle_within)
                self._stopping = self._announced = 1
        except StoreFull:
            raise
        except StoreError as error:
            self._complain(error)

    def _is_idle(self, names: list[str], within: float) -> bool:
        if self.store.under_way(names):
            return False
        now = self.store.now()
        if self._also_due is not None and (at := self._also_due()) is not None and at <= now + within:
            return False
        down = {one.dependency for one in self.store.breakers() if one.open}
        free = [name for name in names if down.isdisjoint(self.services[name].needs)]
        if (due := self.store.next_due(free, suspects=True)) is not None and due <= now + within:
            return False
        held_up = self.store.next_due([name for name in names if name not in free], suspects=True)
        # What is due waits for a breaker; that may take longer than anybody watches, but it was given a chance.
        given_up = held_up is None or held_up > now + within or now - max(held_up, self._began) > within
        # All at once: what was waiting at the first look and claimed at the second would be seen by neither.
        return given_up and self.store.is_quiet(names, free, until=now + within)

    def _roll(self) -> None:
        """Read the settings again, and let processes that know them take over."""
        if self._reload is not None:
            try:
                self._reload()
            except Exception as error:
                log.error("the settings stay as they are: %s", error)
                return
        log.info("the settings were read again; new worker processes take over")
        for child in self.children:
            child.tell("drain")


def _call_of(service: Service, delivery: Delivery, context: Context) -> Call:
    handling = Handling(service, delivery, context, left=1)
    return Call(handling, [one for one in delivery.inputs if one.standing is Standing.READY])


def _cause(code: int | None) -> str:
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):  # a real-time signal has no name
            return signal.Signals(-code).name
    return f"exit code {code}"
