"""The supervisor: restarts worker processes, renews their leases, attributes each crash to what was running.

It reports the rows that a dead process was running; `ledger/requeue.py` counts the deaths on them.
"""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import IntEnum
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from onward.ledger.store_errors import StoreError, StoreFull, StoreGone, StoreUnavailable
from onward.model.ledger import PerKey
from onward.retry import Exponential, OnwardError, redact
from onward.runtime.engine import LEASE_SECONDS, Ending
from onward.runtime.handler_call import Call, Context, FinishedCall, OpenDelivery
from onward.runtime.outcomes import Hooks, report_outcome
from onward.runtime.process_identity import is_gone
from onward.runtime.service import Service
from onward.runtime.service_tally import ServiceTally
from onward.runtime.slots import RunningSlots

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")

POLL_SECONDS = 0.2
ORPHAN_CHECK_SECONDS = 5.0  # how often it looks for workers that died together with their supervisor
_KEPT = {"": 0, PerKey.ONE: 1, PerKey.ORDERED: 2}  # What is kept by a value of `Subscription.per_key`
HANG_GRACE_SECONDS = 2.0  # a handler this long past its time limit counts as one that its own process cannot stop
DRAIN_GRACE_SECONDS = 5.0
"""A process gets this long to finish its other calls once one hangs, or to end once it has said that it ends."""
RELEASE_GRACE_SECONDS = 2.0
LAST_MESSAGE_SECONDS = 0.5  # the last messages of a dead process must have been read within this time
COMPLAINT_SECONDS = 30.0  # between two log lines that the store is away
MAX_FAILED_STARTS = 6
FIRST_RESTART_SECONDS = 0.1
SLOWEST_RESTART_SECONDS = 10.0


class WorkersFail(OnwardError):
    """Worker processes end before they do anything, over and over."""


class ExitCode(IntEnum):
    """Why a worker process ended by itself."""

    DRAINED = 0
    FAILED = 70  # something failed that was no handler: the store is unreachable, the app cannot be imported
    STORE_FULL = 74
    STUCK = 75
    IDLE = 76  # it was to run a suspect event, and found none that it may run


EXIT_CODES = dict.fromkeys(Ending, ExitCode.DRAINED) | {Ending.STUCK: ExitCode.STUCK, Ending.IDLE: ExitCode.IDLE}


@dataclass(slots=True)
class Child:
    """A worker process, as its supervisor sees it."""

    process: BaseProcess
    pipe: Connection
    record: RunningSlots
    worker: str
    alone: bool = False  # it runs one suspect event and ends
    order: str = ""  # the last order that it was sent: `drain` or `release`
    ordered_at: float = 0.0
    hung: list[int] = field(default_factory=list)
    """Rows that are past their time limit, and that the process has not ended by itself."""
    hung_at: float = 0.0
    killed: bool = False  # by its supervisor: its death says nothing about what it was running
    reader: threading.Thread | None = None

    def send(self, order: str, now: float) -> None:
        if self.order in (order, "release"):
            return
        try:
            self.pipe.send(order)
        except OSError:
            log.debug("%s is gone already", self.worker)
        self.order, self.ordered_at = order, now

    def kill(self) -> None:
        self.killed = True
        self.process.kill()

    @property
    def cause(self) -> str:
        """The cause of the end of the process: a signal, or its exit code."""
        code = self.process.exitcode
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):  # a real-time signal has no name
                return signal.Signals(-code).name
        return f"exit code {code}"


@dataclass(slots=True)
class RestartBackoff:
    """The time from which a process that keeps failing may be started again: later each time, up to a limit."""

    failures: int = 0
    ready_at: float = 0.0

    @property
    def delay(self) -> float:
        backoff = Exponential(FIRST_RESTART_SECONDS, cap=SLOWEST_RESTART_SECONDS)
        return backoff.bounds(self.failures)[1] if self.failures else 0.0

    def count(self, failures: int, now: float) -> None:
        self.failures = failures
        self.ready_at = now + self.delay


Spawn = Callable[[str, RunningSlots, bool], tuple[BaseProcess, Connection]]
"""Starts a worker process: its name, the record of its slots, whether it runs a suspect alone."""


@dataclass(eq=False)
class Supervisor:
    """Runs worker processes until it is stopped.

    A crash, a kill for memory or a hung handler of one process ends neither the run nor the others.
    """

    store: Store
    services: Sequence[Service]
    context: Context
    spawn: Spawn
    _: KW_ONLY
    name: Callable[[], str]
    processes: int = 1
    lease: float = LEASE_SECONDS
    idle_within: float | None = None
    reload: Callable[[], object] = lambda: None
    on_poll: Callable[[], object] = lambda: None
    also_due: Callable[[], float | None] = lambda: None
    on_message: Callable[[str, Any], None] | None = None
    """It is given what worker processes send, each in a thread of its own; None: the process is dead."""
    record: Callable[[], RunningSlots] = RunningSlots.shared
    monotonic: Callable[[], float] = time.monotonic
    poll: float = POLL_SECONDS

    def __post_init__(self) -> None:
        self.children: list[Child] = []
        self.suspects = RestartBackoff()
        self._restarts = RestartBackoff()
        self._by_name = {service.name: service for service in self.services}
        self._trouble = ""
        self._renewed_at = -math.inf
        self._stopping = self._announced = 0
        self._hangup = False
        self._ended = threading.Event()
        self._began = self.store.now()
        self._looked = self._orphans_checked = self._complained = -math.inf
        self._fatal: OnwardError | None = None
        self._without_events: set[str] = set()  # services of which it was logged that they get no events

    @property
    def trouble(self) -> str:
        """Why leases are not renewed, if they are not."""
        silent = self.monotonic() - self._renewed_at
        if self._trouble or silent < self.lease / 2:
            return self._trouble
        return "no leases were renewed yet" if silent == math.inf else f"no lease was renewed for {silent:.0f} s"

    # -- life

    def stop(self) -> None:
        """Drain the workers. Called again: give everything back at once."""
        self._stopping += 1

    def run(self) -> None:
        """Supervise until stopped, or until nothing is due within `idle_within` seconds."""
        threading.Thread(target=self._keep_leases, name="onward-leases", daemon=True).start()
        try:
            while self.step():
                wait([child.process.sentinel for child in self.children], timeout=self.poll)
        finally:
            self._ended.set()
            for child in self.children:
                child.kill()
                child.process.join()
                self._after_exit(child)
        if self._fatal is not None:
            raise self._fatal

    def step(self) -> bool:
        """Look after the worker processes once; return whether to go on."""
        now = self.monotonic()
        for child in [child for child in self.children if not child.process.is_alive()]:
            self.children.remove(child)
            child.process.join()
            self._after_exit(child)
        if self._stopping:
            self._end_children(now)
            if not self.children:
                return False
        elif now >= self._restarts.ready_at:
            # Processes that are about to end have their successors already.
            regular = sum(not child.alone and not child.order for child in self.children)
            for _ in range(self.processes - regular):
                self._start(alone=False)
        for child in self.children:
            self._check_hung(child, now)
        if self._hangup:
            self._hangup = False
            self._roll(now)
        try:
            if not self._stopping:
                self._look_at_store(now)
        except StoreFull:
            raise
        except StoreError as error:
            self._complain(error, now)
        try:
            self.on_poll()
        except StoreUnavailable as error:
            self._complain(error, now)
        return True

    def _complain(self, error: StoreError, now: float) -> None:
        if now - self._complained > COMPLAINT_SECONDS:
            self._complained = now
            log.error("%s", error)

    def _read_messages(self, child: Child) -> None:
        """Read from a worker process; one that stops in the middle of a message blocks nobody else."""
        while True:
            try:
                message = child.pipe.recv()
                if self.on_message is not None:
                    self.on_message(child.worker, message)
            except (EOFError, OSError):
                return  # it is dead, or about to be
            except Exception as error:
                log.debug("a message of %s cannot be read: %s", child.worker, type(error).__name__)

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

    @property
    def restarts_at(self) -> float:
        """From when on worker processes are started in place of those that died."""
        return self._restarts.ready_at

    def _start(self, *, alone: bool) -> None:
        worker, record = self.name(), self.record()
        try:
            process, pipe = self.spawn(worker, record, alone)
        except OSError as error:
            record.close()
            backoff = self.suspects if alone else self._restarts
            backoff.count(backoff.failures + 1, self.monotonic())
            log.error("no worker process can be started: %s; again in %.1f s", error, backoff.delay)
            return
        child = Child(process, pipe, record, worker, alone)
        if self.on_message is not None:
            child.reader = threading.Thread(target=self._read_messages, args=(child,), daemon=True)
            child.reader.name = "onward-messages"
            child.reader.start()
        self.children.append(child)

    def _end_children(self, now: float) -> None:
        if self._stopping > self._announced:
            self._announced = self._stopping
            if self._stopping == 1:
                log.info("stopping: running handlers are finished first; a second signal releases their events")
            else:
                log.info("stopping: the events of running handlers are released")
        for child in self.children:
            child.send("release" if self._stopping > 1 else "drain", now)
            if self._stopping > 2 or (child.order == "release" and now - child.ordered_at > RELEASE_GRACE_SECONDS):
                child.kill()

    def _after_exit(self, child: Child) -> None:
        """Give back what a dead process held, and count a death of what was running when it crashed."""
        code = child.record.exit_code()
        explained = code is not None or child.killed or bool(child.hung)
        running, finished = ([], []) if explained else (child.record.running(), child.record.finished())
        self._count_failures(child, code, explained)
        if child.reader is not None:
            child.reader.join(LAST_MESSAGE_SECONDS)
        if self.on_message is not None:
            self.on_message(child.worker, None)
        child.record.close()
        child.pipe.close()
        if code == ExitCode.STORE_FULL:
            self._fail(StoreFull("a worker could not write to the store; see its message above"))
        if not explained:
            held = "no event running"
            if running:
                events = "1 event" if len(running) == 1 else f"{len(running)} events"
                held = f"{events} running: tried again, and alone from the second time on"
            log.error("worker process %s died (%s) with %s", child.worker, child.cause, held)
        try:
            if child.hung:
                self._charge_hung(child)
            self.store.record_crash(child.worker, running, finished)
        except StoreGone as error:
            self._fail(error)
        except StoreError as error:
            log.error("%s; the leases of %s will lapse by themselves", error, child.worker)

    def _count_failures(self, child: Child, code: int | None, explained: bool) -> None:
        backoff, now = self.suspects if child.alone else self._restarts, self.monotonic()
        if code in (ExitCode.FAILED, ExitCode.IDLE) or not (explained or child.record.has_finished_any()):
            backoff.count(backoff.failures + 1, now)
            hopeless = self._restarts.failures >= MAX_FAILED_STARTS and self._fatal is None
            if hopeless and self.idle_within is not None:
                # A caller waits for this run to end. A service keeps trying: the cause may pass.
                ended = f"worker processes ended {self._restarts.failures} times in a row"
                self._fail(WorkersFail(f"{ended} before they had done anything; their messages above say why"))
        else:
            # It was able to work. If it crashes over and over, it is still not restarted in a busy loop.
            backoff.count(0 if explained else 1, now)

    def _fail(self, error: OnwardError) -> None:
        """Drain the workers, and raise this at the end of the run."""
        self._fatal = error
        self._stopping = max(1, self._stopping)

    def _charge_hung(self, child: Child) -> None:
        """Charge a failed try to the events that exceeded their time limit, and to no others."""
        tally = ServiceTally([])
        for delivery in self.store.claimed(child.worker):
            service = self._by_name.get(delivery.service)
            if delivery.row in child.hung and service is not None:
                opened = OpenDelivery(service, delivery, self.context, left=1)
                call = Call(opened, opened.ready)
                call.seconds = call.time_limit
                item = FinishedCall(call, call.failed(call.timeout()))
                (settled,) = self.store.settle([item.settlement])
                report_outcome(Hooks(), item, settled)
                tally.count([(item, settled)])
        tally.roll(self.store.now())
        tally.write(self.store)

    # -- looking after them

    def _look_at_store(self, now: float) -> None:
        names = list(self._by_name)
        if now - self._orphans_checked > ORPHAN_CHECK_SECONDS:
            self._orphans_checked = now
            self._take_over_names()
            self._restore_keys()
            # Put back what workers of this machine held whose supervisor died with them.
            own = {child.worker for child in self.children}
            for about in self.store.workers(alive_within=math.inf):
                if about["worker"] not in own and is_gone(about):
                    returned = self.store.reclaim(about["worker"])
                    log.info("worker %s is gone; %d events it held are tried again", about["worker"], returned)
        # A caller waits for the end of a run that ends when it is idle.
        if now - self._looked >= self.poll * (5 if self.idle_within is None else 2):
            self._looked = now
            alone = any(child.alone for child in self.children)
            if not alone and now >= self.suspects.ready_at and self.store.overdue_suspects(names):
                self._start(alone=True)
            if self.idle_within is not None and self._is_idle(names, self.idle_within):
                log.info("nothing falls due within %g s", self.idle_within)
                self._stopping = self._announced = 1

    def _take_over_names(self) -> None:
        """Subscribe renamed services; one takes over when no worker runs its former name any more."""

        def missing() -> list[str]:
            known = {subscription.service for subscription in self.store.subscriptions()}
            return [name for name in self._by_name if name not in known]

        if names := missing():
            self.store.subscribe([self._by_name[name].subscription() for name in names])
            for name in set(missing()) - self._without_events:
                self._without_events.add(name)
                log.warning("%s gets no events while a service of another name has them: onward services", name)

    def _restore_keys(self) -> None:
        """Subscribe services with a key again that a process of an older release has subscribed without it."""
        stored = {subscription.service: subscription.per_key for subscription in self.store.subscriptions()}
        own = [service.subscription() for service in self._by_name.values() if service.key is not None]
        # The stricter one holds: two releases would take turns otherwise.
        if lost := [one for one in own if _KEPT[stored.get(one.service, one.per_key)] < _KEPT[one.per_key]]:
            self.store.subscribe(lost)

    def _keep_leases(self) -> None:
        """Renew the workers' leases, in a thread of its own: what else waits for the store must not end them."""
        pause = 0.0
        while not self._ended.wait(pause):
            pause = self.lease / 3 if self.renew_leases() else min(1.0, self.lease / 3)

    def renew_leases(self) -> bool:
        """Renew the leases of all workers; return whether that succeeded."""
        trouble = ""
        for child in list(self.children):
            try:
                self.store.renew(child.worker, self.lease)
            except Exception as error:
                kind = "" if isinstance(error, StoreError) else f"{type(error).__name__}: "
                trouble = self._trouble = f"leases cannot be renewed: {redact(f'{kind}{error}')}"
                log.error("%s", trouble)
        if self._trouble and not trouble and self._renewed_at > -math.inf:
            log.info("leases are renewed again")
        self._trouble = trouble
        self._renewed_at = self._renewed_at if trouble else self.monotonic()
        return not trouble

    def _check_hung(self, child: Child, now: float) -> None:
        if child.record.exit_code() is not None:
            child.send("release", now)  # a thread may keep it from ending
            if now - child.ordered_at > DRAIN_GRACE_SECONDS:
                child.kill()
            return
        overdue = child.record.overdue(HANG_GRACE_SECONDS)
        if overdue and not child.hung:
            log.error("worker %s hangs: an event is past its time limit; it is drained and ended", child.worker)
            child.hung_at = now
            child.send("drain", now)
        elif overdue and now - child.hung_at > DRAIN_GRACE_SECONDS:
            child.kill()
        child.hung = overdue

    def _is_idle(self, names: list[str], within: float) -> bool:
        if self.store.claimed_count(names):
            return False
        also_due = self.also_due()
        # Read after that: what was published before it, and is due since, is not to be taken for later work.
        now = self.store.now()
        if also_due is not None and also_due <= now + within:
            return False
        down = {breaker.dependency for breaker in self.store.breakers() if breaker.open}
        free = [name for name in names if down.isdisjoint(self._by_name[name].needs)]
        if (due := self.store.next_due(free, suspects=True)) is not None and due <= now + within:
            return False
        held_up = self.store.next_due([name for name in names if name not in free], suspects=True)
        # What is due waits for a breaker. That may take long; it had `within` seconds to close.
        given_up = held_up is None or held_up > now + within or now - max(held_up, self._began) > within
        # In one query: a row that waits at the first look and is claimed at the second would be seen by neither.
        return given_up and self.store.is_idle(names, free, until=now + within)

    def _roll(self, now: float) -> None:
        """Read the settings again, and replace the processes by ones that know them."""
        try:
            self.reload()
        except Exception as error:
            log.error("the settings stay as they are: %s", error)
            return
        log.info("the settings were read again; new worker processes take over")
        for child in self.children:
            child.send("drain", now)
