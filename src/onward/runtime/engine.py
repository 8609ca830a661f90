"""The engine of a worker process: claims what is due, runs it, commits the outcome and claims what comes next.

    claim (deliveries) -> open (calls) -> slots run them (`FinishedCall`) -> group commit (results) -> report

Each stage hands values to the next; the loop in `Engine` moves them on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from onward.ledger.dialect import Bus
from onward.ledger.store_errors import StoreError, StoreUnavailable
from onward.runtime.breaker_probe import BreakerProbe
from onward.runtime.engine_settings import Ending, EngineSettings
from onward.runtime.group_commit import MAX_BACKGROUND_COMMITS, MAX_GROUP, GroupCommit
from onward.runtime.handler_call import Call, Context, FinishedCall
from onward.runtime.health_calls import HealthCalls
from onward.runtime.housekeeping import Housekeeping
from onward.runtime.observers import Hooks
from onward.runtime.process_identity import describe_process
from onward.runtime.service import Registry, Service
from onward.runtime.slots import InlineSlots, LoopSlots, RunningSlots, ServiceSlots, ThreadSlots, fork_depth

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")

TICK_SECONDS = 1.0
BUSY_TICK_SECONDS = 0.25
CANCEL_GRACE_SECONDS = 2.0
"""A cancelled coroutine that has not ended after this time counts as one that cannot be stopped."""


class Engine:
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
        bus: Bus | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.worker = worker
        self.settings = settings or EngineSettings()
        self.services = list(services)
        self.bus = bus or store.bus()
        self.record = record or RunningSlots(monotonic=monotonic)
        self.context = Context(
            worker=worker,
            version=version,
            reader=store,
            now=store.now,
            ladder=self.settings.ladder,
            time_limit=self.settings.time_limit,
            random=random or Random(),
            health=HealthCalls(registry, store.now),
            newer_alive=self._newer_alive,
        )
        hooks = hooks if hooks is not None else Hooks()
        probe = BreakerProbe(store, self.context.health, self.bus, hooks, inline=self.settings.inline)
        self.housekeeping = Housekeeping(store, worker, self.settings, probe, monotonic)
        threads = store.remote and not self.settings.inline
        self._executor = ThreadPoolExecutor(2 + MAX_BACKGROUND_COMMITS, "onward-store") if threads else None
        self.commits = GroupCommit(
            store,
            self.context,
            self.settings,
            self.record,
            self.housekeeping,
            hooks,
            with_health_call=registry.with_health_call,
            executor=self._executor,
            wake=self._wake,
        )
        self._monotonic = monotonic
        self._draining = self._released = self._stuck = self._ended = False
        self._woken = True
        self._ticked = 0.0
        self._tidying: asyncio.Future[bool] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._awake = asyncio.Event()
        self._listener = threading.Thread(target=self._listen, name="onward-bus", daemon=True)
        self._fork_depth = fork_depth()

    # -- life

    def stop(self) -> None:
        """Drain: claim nothing more, finish what runs. Called twice: give it back at once.

        Callable from any thread, and from a signal handler.
        """
        if self._draining:
            self.release()
        else:
            self.drain()

    def drain(self) -> None:
        """Claim nothing more, and end when what runs is finished."""
        self._draining = True
        self._wake_loop()

    def release(self) -> None:
        """Give back at once what is claimed, running or not."""
        self._draining = self._released = True
        self._wake_loop()

    def renew_leases(self) -> None:
        """Renew this worker's leases here, now that its supervisor is gone."""
        self.settings.renews = True

    def run(self) -> Ending:
        """Work until stopped. Raises `StoreFull` when the store cannot be written any more."""
        # Not asyncio.run(): that waits for every thread that a handler has ever used, hanging or not.
        self._loop = loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(self._run())
        finally:
            self._loop = None
            loop.close()

    async def _run(self) -> Ending:
        try:
            self.start()
            self._listener.start()
            while not self.is_over():
                if not await self._cycle() and await self._may_end():
                    break
        finally:
            await self._end()
        return self.ending

    def is_over(self) -> bool:
        """Give back what has not begun, if it was stopped; return whether nothing is under way any more."""
        return self._released or (self._draining and not self._withdraw_all() and not self.commits.under_way())

    @property
    def ending(self) -> Ending:
        """How the run ended."""
        if self._stuck:
            return Ending.STUCK
        if self.settings.suspects and not self.commits.claim_count:
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
        self.store.register_worker(self.worker, about)
        self.open_slots(self.services)

    def open_slots(self, services: Iterable[Service]) -> None:
        """Open slots for these services, in place of any that were open."""
        self.services = list(services)
        self.commits.slots = [self._slots_of(service) for service in self.services]

    def _slots_of(self, service: Service) -> ServiceSlots:
        given = (self.record, self.commits.finished, self._wake)
        if self.settings.inline:
            return InlineSlots(service, 1, *given, ahead_seconds=0.0)
        count = 1 if self.settings.suspects else service.slots() or self.settings.concurrency
        return (LoopSlots if service.is_async else ThreadSlots)(service, count, *given)

    def _listen(self) -> None:
        """Turn the bus's hints into wake-ups, in a thread of its own: waiting for them blocks."""
        while not self._ended:
            try:
                self.bus.wait(TICK_SECONDS)
            except StoreError as error:
                log.debug("%s; looking for due rows without it", error)
                time.sleep(TICK_SECONDS)
            self.look_again()
            self._wake()

    def _wake(self) -> None:
        """Wake the loop if it rests. Every call that ends does this, so the loop itself is woken once."""
        if not self._woken:
            self._woken = True
            self._wake_loop()

    def _wake_loop(self) -> None:
        # A signal handler runs in the loop's own thread while that sleeps: the loop must be woken then, too.
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(self._awake.set)

    async def _end(self) -> None:
        self.context.stopping = True
        for slots in self.commits.slots:
            slots.stop()
        under_way: list[asyncio.Future[Any]] = [*self.commits.background]
        under_way += [] if self._tidying is None else [self._tidying]
        if under_way:
            await asyncio.wait(under_way)
        await self._end_tasks()
        self.end()
        if self._executor is not None:
            self._executor.shutdown(wait=False)
        self.bus.close()
        if self._listener.is_alive():
            self._listener.join(TICK_SECONDS)
        for error in [future.exception() for future in under_way]:
            # Without the store, it is settled meanwhile, or will be done again.
            if error is not None and not isinstance(error, StoreUnavailable):
                raise error

    def end(self) -> None:
        """Commit what is finished, give back the rest, and unregister the worker."""
        try:
            self.commits.commit_now()
        except StoreError as error:
            log.warning("%s; what was just finished will be done again", error)
        try:
            self.store.release(self.worker)
            self.store.unregister_worker(self.worker)
        except StoreError as error:
            log.warning("%s; the leases of %s will lapse by themselves", error, self.worker)
        self.commits.close()
        self._ended = True

    async def _end_tasks(self) -> None:
        """Let cancelled handlers clean up; then cancel what they have left running on the loop."""
        running = [slots for slots in self.commits.slots if isinstance(slots, LoopSlots)]
        handlers = [task for slots in running for task in slots.tasks.values()]
        if handlers:
            await asyncio.wait(handlers, timeout=CANCEL_GRACE_SECONDS)
        left = asyncio.all_tasks() - {asyncio.current_task(), *handlers}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=CANCEL_GRACE_SECONDS)

    async def _may_end(self) -> bool:
        if self.commits.under_way() or self._stuck:
            return False
        if self._tidying is not None:
            await asyncio.wait([self._tidying])  # it may put back rows that no process works on any more
            return False
        if self.settings.suspects:
            return True
        if not self.settings.until_idle:
            return False
        try:
            due = await self.commits.call_store(self._next_free)
            if due is None or due > self.store.now():
                return True
            await self._rest()  # what is due waits for a breaker
        except StoreUnavailable:
            pass  # the next cycle reports it, and waits
        return False

    def _next_free(self) -> float | None:
        """Return when something falls due next that does not wait for a person to close a breaker."""
        held = {breaker.dependency for breaker in self.store.breakers() if breaker.open and breaker.by_hand}
        return self.store.next_due([service.name for service in self.services if held.isdisjoint(service.needs)])

    # -- the loop

    async def _cycle(self) -> bool:
        """Make a step, then rest until there is something to do. Return whether anything was done."""
        if fork_depth() != self._fork_depth:
            os._exit(0)  # a handler has forked: this is the copy, and it owns nothing here
        try:
            busy = await self.step()
            if self.commits.under_way() or not (busy or self.settings.until_idle or self.settings.suspects):
                await self._rest()
        except StoreUnavailable as error:
            log.error("%s. Nothing is claimed until it is back", error)
            self.after_outage()
            await asyncio.sleep(TICK_SECONDS)
            return True
        return busy

    async def step(self) -> bool:
        """Commit what is finished, claim and begin what there is room for; return whether anything was done."""
        if self.commits.uncertain:
            await self.commits.background_ends()
            await self.commits.call_store(self.commits.give_back_unknown)
        busy = await self.commits.commit_and_claim(claims=not self._draining)
        if self.settings.inline:
            self._run_inline()
        return self._tick() or busy

    def _run_inline(self) -> None:
        """Run the calls that wait, and commit each, or all together in groups."""
        for slots in self.commits.slots:
            while isinstance(slots, InlineSlots) and slots.run_next():
                if not self.settings.groups_inline:
                    self.commits.commit_now()
        self.commits.commit_now()

    def after_outage(self) -> None:
        """Note that the store was away: a commit may have been made without a reply."""
        self.commits.uncertain = True
        self.housekeeping.after_outage()
        self.look_again()

    async def _rest(self) -> None:
        self._awake.clear()
        self._woken = False
        finished = self.commits.finished
        # Checked after `clear`: everything that arrives later wakes the loop.
        if not finished and not self._released and (self._draining or not self.commits.claim_requests()):
            patience = await self._patience()
            try:
                await asyncio.wait_for(self._awake.wait(), patience)
            except TimeoutError:
                self.look_again()
        self._woken = True
        # Calls that end without ever waiting come in a row; one commit for all of them.
        count = -1
        while count < len(finished) < MAX_GROUP:
            count = len(finished)
            await asyncio.sleep(0)

    def look_again(self) -> None:
        """Note that something may be due for any service."""
        for slots in self.commits.slots:
            slots.look_again()

    async def _patience(self) -> float:
        """Return for how many seconds nothing falls due by itself, a tick at most."""
        if self.commits.under_way():
            return BUSY_TICK_SECONDS  # a call will end before long; asking the store each time would cost more
        names = [service.name for service in self.services]
        due = await self.commits.call_store(partial(self.store.next_due, names))
        ahead = due - self.store.now() if due is not None else TICK_SECONDS
        # A due row that was not claimed is held back: for the reasons, see ledger/claim.py.
        return min(TICK_SECONDS, ahead) if ahead > 0 else TICK_SECONDS

    def _withdraw_all(self) -> bool:
        return sum(self.commits.withdraw(slots) for slots in self.commits.slots) > 0

    # -- once in a tick

    def _tick(self) -> bool:
        """Do what is due once in a tick; return whether rows were put back or a breaker was probed."""
        changed = False
        if self._tidying is not None and self._tidying.done():
            tidied, self._tidying = self._tidying, None
            changed = tidied.result()
        now = self._monotonic()
        if now - self._ticked >= (TICK_SECONDS if not self.settings.inline else 0.0):
            self._ticked = now
            self._expire()
            for slots in self.commits.slots:
                if slots.waiting and slots.longest_running(self.store.now()) > TICK_SECONDS:
                    # Another worker may have a free slot for what waits behind a slow call here.
                    self.commits.withdraw(slots)
            changed = self._tidy() or changed
        if changed:
            self.look_again()
        return changed

    def _tidy(self) -> bool:
        """Do the housekeeping; with a remote store in a thread."""
        if self._executor is None:
            return self.housekeeping.run()
        if self._tidying is None:
            self._tidying = asyncio.get_running_loop().run_in_executor(self._executor, self.housekeeping.run)
            self._tidying.add_done_callback(lambda _: self._wake_loop())
        return False

    def _expire(self) -> None:
        """End calls that are past their time limit: an async one is cancelled, any other charged.

        A thread cannot be stopped, nor a coroutine that will not be cancelled; then the process has to
        end. (A coroutine that blocks the loop blocks this, too: its supervisor kills the process.)
        """
        now = self.store.now()
        for slots in self.commits.slots:
            for call in slots.overdue(now):
                in_grace = not call.timed_out or now - call.began < call.time_limit + CANCEL_GRACE_SECONDS
                if isinstance(slots, LoopSlots) and in_grace:
                    slots.expire(call)
                elif not call.abandoned:
                    self._abandon(call)
        running = [call for slots in self.commits.slots for call in list(slots.running.values())]
        if self._stuck and all(call.abandoned for call in running):
            self._released = True

    def _abandon(self, call: Call) -> None:
        """Charge a call that cannot be stopped; this process ends after draining."""
        self.commits.finished.append(FinishedCall(call, call.failed(call.timeout())))
        call.abandoned = True
        log.error("%s; this worker process ends after draining", call.timeout())
        self._stuck = self._draining = True

    def _newer_alive(self, service: str, version: int) -> bool:
        return any(worker.get("services", {}).get(service, 0) >= version for worker in self.store.workers())
