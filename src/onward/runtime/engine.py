"""The engine of a worker process: claims what is due, runs it, and commits what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import TypeVar

from onward.model.ledger import Settled, Verdict
from onward.ports import Bus, Store, StoreError, StoreUnavailable, Wire
from onward.runtime import signals
from onward.runtime.board import Board
from onward.runtime.claiming import Claimed, Claiming
from onward.runtime.commits import MAX_GROUP, Commits, Done
from onward.runtime.flights import MOST_FLIGHTS, Flights
from onward.runtime.handling import Call, Context
from onward.runtime.lanes import Lane, LoopLane, ThreadLane
from onward.runtime.machine import describe_process, generation
from onward.runtime.orders import Ending, EngineSettings
from onward.runtime.outcomes import log_outcome, tell
from onward.runtime.probes import Prober
from onward.runtime.service import Registry, Service
from onward.runtime.tidying import TICK, Tidying
from onward.runtime.wiring import STRANGERS_AT_ONCE, Wiring

log = logging.getLogger("onward")
T = TypeVar("T")

BUSY_TICK = 0.25
MANY = 100
"""So many works are settled beside the next claims, where the store can do several things at once."""
CANCEL_GRACE = 2.0
"""Seconds that a cancelled coroutine gets to end before it counts as one that cannot be stopped."""


class Engine:
    """Runs services until it is told to stop. One per process.

    It lives on the event loop, beside the `async def` handlers; `def` handlers have threads.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        services: Sequence[Service],
        *,
        worker: str,
        version: str = "",
        settings: EngineSettings | None = None,
        board: Board | None = None,
        hooks: signals.Hooks | None = None,
        random: Random | None = None,
        bus: Bus | None = None,
        wire: Wire | None = None,
    ) -> None:
        self.store = store
        self.worker = worker
        self.settings = settings or EngineSettings()
        self.registry = registry
        self.services = services
        self.hooks = hooks if hooks is not None else signals.Hooks()
        self.bus = wire or bus or store.bus()
        self._wiring = Wiring(store, registry, wire) if wire is not None else None
        self._commits = Commits(store, self._wake, self._told, lease=self.settings.lease)
        self.context = Context(
            worker=worker,
            version=version,
            registry=registry,
            reader=store,
            now=store.now,
            ladder=self.settings.ladder,
            time_limit=self.settings.time_limit,
            random=random or Random(),
            hooks=self.hooks,
            checkpoint=self._commits.checkpoint,
            newer_alive=self._newer_alive,
        )
        self._board = board or Board()
        self._draining = self._released = self._stuck = self._ended = False
        self._woken = True
        self._ticked = 0.0
        self._claiming = Claiming(store, self.context, self.settings)
        self._uncertain = False
        """The store went away in the middle of a commit, which may have been made all the same."""
        # Calls of the store that take a while must not keep the handlers on the loop waiting.
        self._asker = ThreadPoolExecutor(2 + MOST_FLIGHTS, "onward-store") if store.remote else None
        self._flights = Flights(self._wake_loop)
        self._tidying = Tidying(
            store,
            worker,
            self.settings,
            prober=Prober(store, registry, self.bus, self.hooks),
            wiring=self._wiring,
            asker=self._asker,
            landed=self._wake_loop,
        )
        self._withdrawing = threading.Lock()
        """A commit that opens a breaker takes calls back, too, in a thread of its own."""
        self._lanes: list[Lane] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._awake = asyncio.Event()
        self._listener = threading.Thread(target=self._listen, name="onward-bus", daemon=True)
        self._generation = generation()

    @property
    def trouble(self) -> str:
        """What keeps the wire from being heard, if anything does."""
        return self._wiring.wire.trouble if self._wiring is not None else ""

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
        """From now on nobody else renews this worker's leases."""
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
            self._start()
            while not self._released:
                if self._draining and not self._withdraw_all() and not self._under_way():
                    break
                if not await self._cycle() and await self._may_end():
                    break
        finally:
            await self._end()
        while (error := self._flights.failure() or self._tidying.failure()) is not None:
            if not isinstance(error, StoreUnavailable):  # else it is settled meanwhile, or will be done again
                raise error
        if self._stuck:
            return Ending.STUCK
        if self.settings.suspects and not self._claiming.count:
            return Ending.IDLE
        return Ending.RELEASED if self._released else Ending.DRAINED

    def _start(self) -> None:
        about = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": self.store.now(),
            "version": self.context.version,
            "services": {service.name: service.on.version for service in self.services},
            "alone": self.settings.suspects,
            **describe_process(),
        }
        self.store.enlist(self.worker, about)
        for service in self.services:
            slots = 1 if self.settings.suspects else service.slots() or self.settings.concurrency
            kind = LoopLane if service.is_async else ThreadLane
            self._lanes.append(kind(service, slots, self._board, self._commits.report))
        if self._wiring is not None:
            self._wiring.start(self._lanes)
        self._listener.start()

    def _listen(self) -> None:
        """Turn the bus's hints into wake-ups, in a thread of its own: waiting for them blocks."""
        while not self._ended:
            try:
                self.bus.wait(TICK)
            except StoreError as error:
                log.debug("%s; looking again without being told", error)
                time.sleep(TICK)
            for lane in self._lanes:
                lane.look_again()
            self._wake()

    def _wake(self) -> None:
        """There is something to do; said by every call that ends, so the loop is told once."""
        if not self._woken:
            self._woken = True
            self._wake_loop()

    def _wake_loop(self) -> None:
        # A signal handler runs in the loop's own thread while that sleeps: it, too, must be woken.
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(self._awake.set)

    async def _end(self) -> None:
        self.context.stopping = True
        if self._wiring is not None:
            self._wiring.stop()
        for lane in self._lanes:
            lane.stop()
        await self._flights.land()
        await self._tidying.land()
        await self._end_tasks()
        try:
            self._commits.flush(lambda: None)
        except StoreError as error:
            log.warning("%s; what was just finished will be done again", error)
        try:
            self.store.release(self.worker)
            self.store.retire(self.worker)
        except StoreError as error:
            log.warning("%s; the leases of %s will lapse by themselves", error, self.worker)
        self._commits.close()
        self._ended = True
        if self._asker is not None:
            self._asker.shutdown(wait=False)
        self.bus.close()
        if self._listener.is_alive():
            self._listener.join(TICK)

    async def _end_tasks(self) -> None:
        """Let cancelled handlers clean up; then cancel what they have left running on the loop."""
        handlers = [task for lane in self._lanes if isinstance(lane, LoopLane) for task in lane.tasks.values()]
        if handlers:
            await asyncio.wait(handlers, timeout=CANCEL_GRACE)
        left = asyncio.all_tasks() - {asyncio.current_task(), *handlers}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=CANCEL_GRACE)

    def _under_way(self) -> bool:
        # In this order: a call is reported before it leaves its lane.
        return any(lane.load for lane in self._lanes) or bool(self._commits) or bool(self._flights)

    async def _ask(self, call: Callable[[], T]) -> T:
        """What the store answers."""
        if self._asker is None:
            return call()
        return await asyncio.get_running_loop().run_in_executor(self._asker, call)

    async def _may_end(self) -> bool:
        if self._under_way() or self._stuck:
            return False
        if self._tidying:
            await self._tidying.land()  # what nobody works at any more may be put back by it
            return False
        if self.settings.suspects:
            return True
        if not self.settings.until_idle:
            return False
        try:
            due = await self._ask(self._next_free)
        except StoreUnavailable:
            return False
        return due is None or due > self.store.now()

    def _next_free(self) -> float | None:
        """When something falls due next that does not wait for a person to close a breaker."""
        held = {one.dependency for one in self.store.breakers() if one.open and one.by_hand}
        free = [lane.service for lane in self._lanes if held.isdisjoint(lane.service.needs)]
        return self.store.next_due([service.name for service in free])

    # -- the cycle

    async def _cycle(self) -> bool:
        """Settle what is finished, claim what there is room for; then wait. True: something was done."""
        if generation() != self._generation:
            os._exit(0)  # a handler has forked: this is the copy, and it owns nothing here
        try:
            if self._uncertain:
                await self._flights.land()
                await self._ask(self._give_back_unknown)
                self._uncertain = False
            if self._wiring is not None and not self._draining:
                await self._take_in_strangers(self._wiring)
            busy = await self._settle_and_claim()
            self._tick()
            if self._under_way() or not (busy or self.settings.until_idle or self.settings.suspects):
                await self._rest()
        except StoreUnavailable as error:
            log.error("%s. Nothing is claimed until it is back", error)
            self._uncertain = True
            self._tidying.after_an_outage()
            self._look_again()
            await asyncio.sleep(TICK)
            return True
        return busy

    def _give_back_unknown(self) -> None:
        """Rows that were claimed by a commit nobody heard of would be held, and renewed, for ever."""
        claimed = {delivery.row for delivery in self.store.claimed(self.worker)}
        # Asked afterwards: what is claimed does not come in meanwhile, and what is settled does no harm.
        if unknown := sorted(claimed - self._known_rows()):
            log.info("%d rows that were claimed when the store went away are given back", len(unknown))
            self.store.release(self.worker, unknown)

    async def _rest(self) -> None:
        self._awake.clear()
        self._woken = False
        if not self._commits and not self._told_meanwhile():  # asked after that: whoever comes now will say so
            patience = await self._patience()
            try:
                await asyncio.wait_for(self._awake.wait(), patience)
            except TimeoutError:
                self._look_again()
        self._woken = True
        # Calls that end without ever waiting come in a row; one commit for all of them.
        count = -1
        while count < len(self._commits) < MAX_GROUP:
            count = len(self._commits)
            await asyncio.sleep(0)

    def _told_meanwhile(self) -> bool:
        return self._released or (not self._draining and bool(self._wanting()))

    def _look_again(self) -> None:
        for lane in self._lanes:
            lane.look_again()

    async def _patience(self) -> float:
        """For how long nothing falls due by itself, a tick at most."""
        if self._under_way():
            return BUSY_TICK  # a call will end before long; asking the store each time would cost more
        if self._wiring is not None:
            return TICK  # the wire says when something is due
        due = await self._ask(self._next_due)
        ahead = due - self.store.now() if due is not None else TICK
        # What is due and was not claimed is held back, by a breaker or by its service's slots.
        return min(TICK, ahead) if ahead > 0 else TICK

    def _next_due(self) -> float | None:
        return self.store.next_due([lane.service.name for lane in self._lanes])

    async def _settle_and_claim(self) -> bool:
        if len(self._flights) >= MOST_FLIGHTS and len(self._commits) >= MAX_GROUP:
            # What is claimed and handled faster than it is committed must not pile up.
            await self._flights.land(all_of_them=False)
        if (error := self._flights.failure()) is not None:
            raise error
        wanting = [] if self._draining else self._wanting()
        if not self._commits and not wanting:
            return False
        settled = bool(self._commits)
        wiring = self._wiring
        among = {lane: wiring.announced(lane, room) if wiring is not None else None for lane, room in wanting}
        claim = self._claiming.attempt(wanting, among)

        # One transaction, one sync to disk, for both.
        def flush() -> Claimed:
            # A store elsewhere does its work elsewhere: handlers go on meanwhile.
            with contextlib.nullcontext() if self.store.remote else self.context.turns.committing():
                return self._commits.flush(claim)

        if self._much_to_do(wanting):
            failed = await self._side_by_side(claim if wanting else None)
        else:
            await self._flights.land()
            _feed(await self._ask(flush))
            failed = None
        if wiring is not None:
            # Not before the commit: what is not claimed after all is to be offered again.
            for lane, deliveries in claim.told_of:
                wiring.claimed(lane, deliveries)
            wiring.acknowledge_all_but(self._known_rows())
        for handling, answer in claim.openings:
            if handling.opening is not None:
                log_outcome(handling, handling.opening)
                tell(self.hooks, handling, handling.opening, answer)
        if failed is not None:
            raise failed
        return settled or bool(claim)

    def _much_to_do(self, wanting: Sequence[tuple[Lane, int]]) -> bool:
        """Whether what is to be settled is worth a transaction of its own, or others are under way already.

        Not for what needs something: a breaker that one settlement opens holds for the claims with it.
        """
        if not self.store.remote or any(lane.service.needs for lane, _ in wanting):
            return False
        whole = self._commits.whole()
        return whole >= MANY or (bool(self._flights) and whole == len(self._commits))

    async def _side_by_side(self, claim: Callable[[], Claimed] | None) -> BaseException | None:
        """Claim while others settle; what is claimed first begins first. Answers why settling failed."""
        whole = self._commits.whole()
        starts = whole >= MANY and len(self._flights) < MOST_FLIGHTS
        if starts:
            commit = partial(self._commits.flush, _nothing, self._commits.take(whole))
            self._flights.start(asyncio.get_running_loop().run_in_executor(self._asker, commit))
        try:
            if claim is not None:
                _feed(await self._ask(partial(self.store.atomically, claim)))
            elif not starts:
                await self._flights.land(all_of_them=False)
        except BaseException as error:
            await self._flights.land()
            raise self._flights.failure() or error from None
        if self._wiring is not None:
            await self._flights.land()  # what they settle is acknowledged next
            return self._flights.failure()
        return None

    def _wanting(self) -> list[tuple[Lane, int]]:
        now = self.store.now()
        rooms = [(lane, min(lane.room(now), MAX_GROUP)) for lane in self._lanes if not lane.dry]
        return [(lane, room) for lane, room in rooms if room > 0]

    def _known_rows(self) -> set[int]:
        """The rows that are under way here."""
        # In this order: a call is reported before it leaves its lane.
        running = set[int]().union(*(lane.rows() for lane in self._lanes))
        return running | self._commits.rows()

    def _told(self, done: Done) -> None:
        self._tidying.settled(len(done))
        for one, settled in done:
            if settled.verdict is not Verdict.COMMITTED:
                log.info("%s: a work was dropped, its delivery is %s", one.call.service.name, settled.verdict)
            elif one.answer is None:
                log_outcome(one.call, one.settlement)
            # Of a checkpoint, only that it was refused: its call comes back with nothing to commit.
            if self.hooks and (one.answer is None or settled.verdict is not Verdict.COMMITTED):
                tell(self.hooks, one.call, one.settlement, settled)
            if settled.opened or settled.closed:
                self._breakers_moved(settled)
        woken: set[str] = set()
        moved: set[str] = set()
        for one, settled in done:
            if settled.woken:
                woken |= settled.woken
            if one.call.service.needs:
                moved.update(one.call.service.needs)
        for lane in self._lanes:
            # What needs the same may be claimed more freely after each success, while that recovers.
            if lane.service.name in woken or moved & set(lane.service.needs):
                lane.look_again()

    def _breakers_moved(self, settled: Settled) -> None:
        for dependency in settled.opened:
            log.warning("the breaker of %s opened: what needs it waits, and loses no tries", dependency)
            self.hooks(signals.BreakerMoved(dependency, True))
        for dependency in settled.closed:
            log.info("the breaker of %s closed", dependency)
            self.hooks(signals.BreakerMoved(dependency, False))
        for lane in self._lanes:
            if set(lane.service.needs) & set(settled.opened):
                self._withdraw(lane)

    # -- taking back

    def _withdraw(self, lane: Lane) -> bool:
        with self._withdrawing:
            deliveries: dict[int, list[Call]] = {}
            for call in lane.withdraw():
                # By hand-over, not by row: a worker that slept past its lease may hold a row twice.
                deliveries.setdefault(id(call.handling), []).append(call)
            for first, *others in deliveries.values():
                # Together: settled one by one they would come back as so many events.
                first.ids = [*first.ids, *(id for call in others for id in call.ids)]
                first.handling.left -= len(others)
                self._commits.report(first, first.released())
            return bool(deliveries)

    def _withdraw_all(self) -> bool:
        return sum(self._withdraw(lane) for lane in self._lanes) > 0

    # -- now and then

    def _tick(self) -> None:
        self._tidying.tick()
        now = time.monotonic()
        if now - self._ticked < TICK:
            return
        self._ticked = now
        self._expire()
        for lane in self._lanes:
            if lane.waiting and lane.slowest(self.store.now()) > TICK:
                # Somebody else may have a free slot for what waits behind a slow call here.
                self._withdraw(lane)

    async def _take_in_strangers(self, wiring: Wiring) -> None:
        for _ in range(STRANGERS_AT_ONCE):
            stranger = wiring.next_stranger()
            if stranger is None:
                break
            await self._ask(partial(wiring.take_in, stranger))
            self._look_again()

    def _expire(self) -> None:
        """End calls that are past their time limit: an async one is cancelled, any other charged.

        A thread cannot be stopped, nor a coroutine that will not be cancelled; then the process has to
        end. (A coroutine that blocks the loop blocks this, too: that is for the supervisor.)
        """
        now = self.store.now()
        for lane in self._lanes:
            for call in lane.overdue(now):
                in_grace = not call.timed_out or now - call.began < call.time_limit + CANCEL_GRACE
                if isinstance(lane, LoopLane) and in_grace:
                    lane.expire(call)
                elif not self._commits.is_abandoned(call):
                    self._give_up_on(call)
        running = [call for lane in self._lanes for call in list(lane.running.values())]
        if self._stuck and all(self._commits.is_abandoned(call) for call in running):
            self._released = True

    def _give_up_on(self, call: Call) -> None:
        self._commits.abandon(call, call.failed(call.timeout()))
        log.error("%s; this worker process ends after draining", call.timeout())
        self._stuck = self._draining = True

    def _newer_alive(self, service: str, version: int) -> bool:
        return any(worker.get("services", {}).get(service, 0) >= version for worker in self.store.workers())


def _nothing() -> None:
    """Claim nothing."""


def _feed(claimed: Claimed) -> None:
    for lane, calls in claimed:
        if calls:
            lane.feed(calls)
