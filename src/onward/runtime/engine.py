"""The engine of a worker process: how its work loop starts, keeps to time limits, stops and ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING, Any

from onward.ledger.store_errors import StoreError, StoreUnavailable
from onward.model.breaker import is_health_probe_due
from onward.model.ledger import CommitResult, CommitStatus, Settlement
from onward.retry import Ladder
from onward.runtime import work_loop
from onward.runtime.dependency import HealthCalls
from onward.runtime.handler_call import Call, Context, FinishedCall
from onward.runtime.limited_claims import LimitedClaims
from onward.runtime.middleware import with_middleware
from onward.runtime.outcomes import BreakerMoved, Hooks
from onward.runtime.process_identity import describe_process
from onward.runtime.registry import Registry
from onward.runtime.service import Service
from onward.runtime.service_tally import ServiceTally
from onward.runtime.slots import InlineSlots, LoopSlots, RunningSlots, ThreadSlots

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")

LEASE_SECONDS = 60.0
CANCEL_GRACE_SECONDS = 2.0
JOIN_SWEEP_SECONDS = 60.0  # How often a process looks for members of joins that were not counted
PACK_SECONDS = 1.0  # How often a process looks whether texts and vectors are to be packed for search
"""A cancelled coroutine that has not ended after this time counts as one that cannot be stopped."""


class Ending(StrEnum):
    """How a run of the engine ended."""

    DRAINED = "drained"
    RELEASED = "released"
    STUCK = "stuck"  # a handler exceeded its time limit and cannot be stopped: the process has to end
    IDLE = "idle"  # it was to run a suspect event, and found none that it may run


@dataclass(slots=True)
class EngineSettings:
    """The settings of an engine."""

    ladder: Ladder = field(default_factory=Ladder)
    concurrency: int = 3
    time_limit: float = 600.0
    lease: float = LEASE_SECONDS
    keep_completed_seconds: float = 3600.0
    keep_completed_count: int = 1000
    renews: bool = True  # renew the leases itself; under a supervisor, that does it
    suspects: bool = False  # run one suspect event, alone, and end
    until_idle: bool = False  # end when nothing is due and nothing is under way
    inline: bool = False
    """Run handlers, health calls and calls of the store in the caller's thread: for simulations."""
    groups_inline: bool = False  # commit the calls of a step together, as a worker does that is busy


class Engine(work_loop.WorkLoop):
    """Runs services until it is stopped. One per process.

    It lives on the event loop, beside the `async def` handlers; `def` handlers have threads. A simulation calls
    `start`, `step` and `end` instead of `run`, with everything inline in its own thread.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        services: Iterable[Service],
        *,
        worker: str,
        version: str = "",
        settings: EngineSettings | None = None,
        record: RunningSlots | None = None,
        hooks: Hooks | None = None,
        random: Random | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        settings, hooks = settings or EngineSettings(), hooks or Hooks()
        health = HealthCalls(registry, store.now)
        context = Context(worker, version, store, store.now, settings.ladder, settings.time_limit, health)
        context.random, context.newer_alive = random or Random(), self._newer_alive
        context.commit = self.commit_for
        self.bus = store.bus()
        record = record or RunningSlots(monotonic=monotonic)
        super().__init__(store, context, settings, record, hooks, registry, monotonic)
        self._limits_of = registry.limits_of
        registry.check_middleware()
        chosen = [with_middleware(service, registry.middleware) for service in services]
        self.services = sorted(chosen, key=lambda service: service.background)
        # A process for one suspect event is there for a moment only.
        self.tally = ServiceTally([] if settings.suspects else [service.name for service in self.services])
        self._renewed = self._packed = self._swept_joins = 0.0
        self._stuck = self._ended = self._closed = self._waits_for_others = False
        self._listener = threading.Thread(target=self._listen, name="onward-bus", daemon=True)

    # -- life

    def drain(self) -> None:
        """Claim nothing more, and end when what runs is finished. Callable from any thread and signal handler."""
        self._draining = self.context.draining = True
        self._wake_loop()

    def release(self) -> None:
        """Give back at once what is claimed, running or not."""
        self._draining = self._released = self.context.draining = True
        self._wake_loop()

    def run(self) -> Ending:
        """Work until stopped. Raises `StoreFull` when the store cannot be written any more.

        Ctrl-C gives back what is claimed, and is raised here after that; a second one interrupts a handler that
        blocks the loop, and a third one ends at once.
        """
        # Not asyncio.run(): that waits for every thread that a handler has ever used, hanging or not.
        self._loop = loop = asyncio.new_event_loop()
        work = loop.create_task(self.work())
        try:
            with self._released_by_interrupt():
                try:
                    loop.run_until_complete(work)
                except (KeyboardInterrupt, SystemExit):
                    self.release()
                    if not work.done():
                        loop.run_until_complete(work)
                    raise
                finally:
                    if work.done() and not work.cancelled():
                        work.exception()  # it was raised here, or Ctrl-C was
            if self.context.interrupted:
                raise KeyboardInterrupt
        finally:
            self._loop = None
            loop.close()
        return self.ending

    @contextmanager
    def _released_by_interrupt(self) -> Iterator[None]:
        """Give back what is claimed at the first Ctrl-C.

        Raised as usual, it would end the loop, or be the failure of a handler. Who handles the signal keeps it.
        """

        def interrupt(number: int, _: object) -> None:
            self.context.interrupted = True
            signal.signal(number, signal.default_int_handler)
            self.release()

        is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if not is_usual or threading.current_thread() is not threading.main_thread():
            yield
            return
        signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    @property
    def ending(self) -> Ending:
        if self._stuck:
            return Ending.STUCK
        if self.settings.suspects and not self.claim_count:
            return Ending.IDLE
        return Ending.RELEASED if self._released else Ending.DRAINED

    def start(self) -> None:
        """Register the worker, and open the slots of its services."""
        about = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": self.store.now(),
            "version": self.context.version,
            "services": {service.name: service.on.version for service in self.services},
            "alone": self.settings.suspects,
            **({} if self.settings.inline else describe_process()),
        }
        self.store.register_worker(self.context.worker, about)
        given = (self.record, self.finished, self._wake)
        if self.settings.inline:
            self.slots = [InlineSlots(service, 1, *given, ahead_seconds=0.0) for service in self.services]
        else:
            for service in self.services:
                count = 1 if self.settings.suspects else service.slots() or self.settings.concurrency
                self.slots.append((LoopSlots if service.is_async else ThreadSlots)(service, count, *given))
        limited = set[str]()
        for slots in self.slots:
            if limits := self._limits_of(slots.service):
                slots.limited = LimitedClaims(slots.service, limits, slots.count)
                limited |= {one.dependency for one in limits}
        self.claim_turns.declare(self.services, limited)
        if not self.settings.inline:
            self._listener.start()

    def _listen(self) -> None:
        """Turn the bus's hints into wake-ups, in a thread of its own: waiting for them blocks."""
        while not self._ended:
            try:
                if not self.bus.wait(work_loop.TICK_SECONDS):
                    continue
            except StoreError as error:
                log.debug("%s; looking for due rows without it", error)
                time.sleep(work_loop.TICK_SECONDS)
            self.look_again()
            self._wake()

    async def _end(self) -> None:
        self.context.stopping = True
        for slots in self.slots:
            slots.stop()
        under_way: list[asyncio.Future[Any]] = [*self.background, *([self._tidying] if self._tidying else [])]
        if under_way:
            await asyncio.wait(under_way)
        # Let cancelled handlers clean up; then cancel what they have left running on the loop.
        loops = [slots for slots in self.slots if isinstance(slots, LoopSlots)]
        handlers = [task for slots in loops for task in slots.tasks.values()]
        if handlers:
            await asyncio.wait(handlers, timeout=CANCEL_GRACE_SECONDS)
        left = asyncio.all_tasks() - {asyncio.current_task(), *handlers}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=CANCEL_GRACE_SECONDS)
        self.end()
        if self._executor is not None:
            self._executor.shutdown(wait=False)
        self.bus.close()
        if self._listener.is_alive():
            self._listener.join(work_loop.TICK_SECONDS)
        for error in [future.exception() for future in under_way]:
            # Without the store, it is settled meanwhile, or will be done again.
            if error is not None and not isinstance(error, StoreUnavailable):
                raise error

    def end(self) -> None:
        """Commit what is finished, give back the rest, and unregister the worker."""
        worker = self.context.worker
        try:
            self.commit_now()
        except StoreError as error:
            log.warning("%s; what was just finished will be done again", error)
        try:
            self.store.release(worker)
            self.store.unregister_worker(worker)
        except StoreError as error:
            log.warning("%s; the leases of %s will lapse by themselves", error, worker)
        try:
            self.tally.roll(self.store.now())
            self.tally.write(self.store)
        except StoreError as error:
            log.warning("%s; the roll-ups lack the last seconds of %s", error, worker)
        self.close()
        self._ended = True

    def close(self) -> None:
        """Refuse what is left: nothing is committed any more."""
        self._closed = True
        while self.finished:
            item = self.finished.popleft()
            if item.reply is not None:
                item.reply.set_result(CommitStatus.FENCED)
            elif isinstance(item.of, Call):
                item.of.close()

    async def _may_end(self) -> bool:
        if self.under_way() or self._stuck:
            return False
        if self._tidying is not None:
            await asyncio.wait([self._tidying])  # it may put back rows that no process works on any more
            return False
        if self.settings.suspects or not self.settings.until_idle:
            return self.settings.suspects

        def next_free() -> float | None:  # when something falls due that does not wait for a person
            held = {breaker.dependency for breaker in self.store.breakers() if breaker.open and breaker.by_hand}
            free = [service.name for service in self.services if held.isdisjoint(service.needs)]
            return self.store.next_due(free)

        def claimed() -> int:
            return self.store.claimed_count([service.name for service in self.services])

        self._incoming_seen = -1
        if await self._move_incoming():
            return False
        # Counted before and after: a row may be claimed and returned, or lead to others, in between.
        others = await self.call_store(claimed)
        due = await self.call_store(next_free)
        if not (others := others or await self.call_store(claimed)) and (due is None or due > self.store.now()):
            return True
        if others and not self._waits_for_others:
            self._waits_for_others = True
            log.info("%d events are claimed by other workers: this run ends when they are done", others)
        await self._rest()  # what is due waits for a breaker, or others have claimed it
        return False

    # -- once in a tick

    def _tick(self, due: bool) -> bool:
        """Do what is due once in a tick; return whether rows were put back or a breaker was probed."""
        changed = False
        if self._tidying is not None and self._tidying.done():
            tidied, self._tidying = self._tidying, None
            changed = tidied.result()
        if due:
            self._ticked = self._monotonic()
            self.tally.roll(self.store.now())
            self._expire()
            for slots in self.slots:
                if slots.waiting and slots.longest_running(self.store.now()) > work_loop.TICK_SECONDS:
                    # Another worker may have a free slot for what waits behind a slow call here.
                    slots.withdraw()
            if self._executor is None:
                changed = self._tidy() or changed
            elif self._tidying is None:  # a remote store is tidied in a thread
                self._tidying = asyncio.get_running_loop().run_in_executor(self._executor, self._tidy)
                self._tidying.add_done_callback(lambda _: self._wake_loop())
        if changed:
            self.look_again()
        return changed

    def _tidy(self) -> bool:
        """Do what is due for the store that workers share; return whether anything may be claimed again."""
        settings, store, now = self.settings, self.store, self._monotonic()
        if settings.renews and now - self._renewed > settings.lease / 3:
            self._renewed = now
            store.renew(self.context.worker, settings.lease)
        pulse, self.pulse = self.pulse, None  # a worker that rests has just read it
        if pulse is None or store.now() - pulse.at > work_loop.TICK_SECONDS:
            pulse = store.pulse([])
        if pulse.incoming:
            self._incoming_seen = -1  # the loop moves it, even if nothing has notified it
        changed = pulse.lapsed and now > self._reclaims_from and bool(store.reclaim())
        self.claim_turns.recovering = {one.dependency for one in pulse.breakers if one.limits_claims}
        # One process of the whole fleet probes a dependency at a time.
        due = [one.dependency for one in pulse.breakers if is_health_probe_due(one, store.now())]
        for name in due:
            if self.context.health.has(name) and store.claim_probe(name):
                self._in_thread(self._probe, name)
                changed = True
        if any(service.key is not None for service in self.services):
            changed = bool(store.release_lost_keys()) or changed
        if now - self._packed > PACK_SECONDS:
            self._packed = now
            store.pack_index()
        if now - self._swept_joins > JOIN_SWEEP_SECONDS:
            self._swept_joins = now
            changed = bool(store.sweep_joins()) or changed
        if self.tally.is_due(store.now()):
            self.tally.write(store)
        if self.settled:
            self.settled = 0
            store.prune(keep_seconds=settings.keep_completed_seconds, keep_count=settings.keep_completed_count)
        return changed

    def _expire(self) -> None:
        """End calls that are past their time limit: an async one is cancelled, any other charged.

        A thread cannot be stopped, nor a coroutine that will not be cancelled; then the process has to
        end. (A coroutine that blocks the loop blocks this, too: its supervisor kills the process.)
        """
        now = self.store.now()
        for slots in self.slots:
            for call in slots.overdue(now):
                in_grace = not call.timed_out or now - call.began < call.time_limit + CANCEL_GRACE_SECONDS
                if isinstance(slots, LoopSlots) and in_grace:
                    slots.expire(call)
                elif not call.abandoned:
                    self._abandon(call)
        running = [call for slots in self.slots for call in list(slots.running.values())]
        if self._stuck and all(call.abandoned for call in running):
            self._released = True

    def _abandon(self, call: Call) -> None:
        """Charge a call that cannot be stopped; this process ends after draining."""
        self.finished.append(FinishedCall(call, call.failed(call.timeout())))
        call.abandoned = True
        log.error("%s; this worker process ends after draining", call.timeout())
        self._stuck = self._draining = True

    # -- breakers

    def _breakers_moved(self, result: CommitResult) -> None:
        """Log and signal the breakers that a commit has opened or closed."""
        for dependency in result.opened:
            log.warning("the breaker of %s opened: what needs it waits, and loses no tries", dependency)
            self._hooks(BreakerMoved(dependency, True))
        for dependency in result.closed:
            log.info("the breaker of %s closed", dependency)
            self._hooks(BreakerMoved(dependency, False))
            self._in_thread(self._check_health_call, dependency)
        for slots in self.slots:
            if not set(slots.service.needs).isdisjoint(result.opened):
                slots.withdraw()

    def _in_thread(self, call: Callable[[str], None], dependency: str) -> None:
        """Call something in a thread, because a health call may hang; in a simulation in the caller's."""

        def run() -> None:
            try:
                call(dependency)
            except StoreError as error:  # without the store, nothing is claimed either
                log.warning("the breaker of %s stays as it is: %s", dependency, error)

        if self.settings.inline:
            run()
        else:
            threading.Thread(target=run, daemon=True).start()

    def _check_health_call(self, dependency: str) -> None:
        """Record it if the health call says no although a document has just succeeded with the dependency."""
        if problem := self.context.health.ask(dependency):
            log.warning("%s works, but its health call says: %s", dependency, problem)
            self.store.record_health_doubt(dependency)

    def _probe(self, dependency: str) -> None:
        """Close the breaker of a dependency if its health call says that it is well."""
        problem = self.context.health.ask(dependency)
        if problem != "":
            log.info("%s is still unavailable: %s", dependency, problem)
        elif self.store.close_breaker(dependency, probed=True):
            log.info("%s is back, its breaker closed", dependency)
            self._hooks(BreakerMoved(dependency, False))
            self.bus.wake()

    # -- for calls

    def _newer_alive(self, service: str, version: int) -> bool:
        return any(worker.get("services", {}).get(service, 0) >= version for worker in self.store.workers())

    def commit_for(self, call: Call, settlement: Settlement) -> Future[CommitStatus]:
        """Commit something in the middle of a call, which waits for the reply."""
        settlement.lease = self.settings.lease
        reply: Future[CommitStatus] = Future()
        # It is under way: a handler that is cancelled while it waits cannot take it back.
        reply.set_running_or_notify_cancel()
        self.finished.append(FinishedCall(call, settlement, reply))
        self._wake()
        if self.settings.inline:
            with contextlib.suppress(StoreUnavailable):  # then it was refused
                self.commit_now()  # the loop cannot: it runs this call
        if self._closed:
            self.close()
        return reply

    def give_back_unknown(self) -> None:
        """Release rows that a commit without a reply has claimed: they would be held, and renewed, for ever."""
        worker = self.context.worker
        claimed = {delivery.row for delivery in self.store.claimed(worker)}
        # Asked afterwards: nothing is claimed meanwhile, and what is settled meanwhile does no harm.
        # In this order: the outcome of a call is in `finished` before the call leaves its slot.
        known = set[int]().union(*(slots.rows() for slots in self.slots))
        known |= {item.settlement.row for item in list(self.finished) if not item.of.opened.lost}
        if unknown := sorted(claimed - known):
            log.info("%d rows that were claimed when the store went away are given back", len(unknown))
            self.store.release(worker, unknown)
        self.uncertain = False
