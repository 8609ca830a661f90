"""Lanes: where the calls of one service wait for a slot and run."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from queue import SimpleQueue

from onward.model.ledger import Settlement
from onward.runtime.board import Board
from onward.runtime.handling import Call
from onward.runtime.machine import generation
from onward.runtime.service import Service

log = logging.getLogger("onward")

AHEAD_SECONDS = 0.25
"""How much work is claimed ahead of the slots: as much as they get done in this time."""
MAX_AHEAD = 2000
QUICKLY = 0.05
YIELD_EVERY = 32
"""Handlers that never wait for anything must not keep the loop from the others."""

Report = Callable[[Call, Settlement | None], None]


class Lane:
    """The slots of one service. Calls that have not begun can be taken back."""

    def __init__(self, service: Service, slots: int, board: Board, report: Report) -> None:
        self.service = service
        self.slots = slots
        self.waiting: deque[Call] = deque()
        self._moving = threading.Lock()
        """A call that goes from waiting to running is at every moment in one of them."""
        self.running: dict[int, Call] = {}
        """What each slot is at; only its own slot writes an entry."""
        self._busy: set[int] = set()
        """Slots that are at something, or about to be."""
        self._generation = generation()
        self.dry = False
        """The last claim found nothing more that was due."""
        self.hints = 0
        """How often somebody said that there may be something."""
        self._pace = AHEAD_SECONDS
        self._ended = 0
        self._board = board
        self._report = report

    @property
    def load(self) -> int:
        """How many calls wait or run. A call is reported before it leaves here."""
        return len(self.waiting) + len(self._busy)

    def room(self, now: float) -> int:
        """How many more rows to claim: for the free slots, and ahead where calls are quick."""
        pace = max(self._pace, self.slowest(now), 1e-6)
        ahead = min(MAX_AHEAD, int(AHEAD_SECONDS / pace) * self.slots)
        room = self.slots + ahead - self.load
        # Claiming a handful at a time would cost a transaction each.
        return room if room * 4 >= self.slots + ahead or not self.waiting else 0

    def quickly(self) -> int:
        """How many calls are over before anybody else would have had a chance to take them."""
        return int(QUICKLY / max(self._pace, 1e-6))

    def look_again(self) -> None:
        """There may be something due; said from any thread, also while a claim is under way."""
        self.hints += 1
        self.dry = False

    def rows(self) -> set[int]:
        """The rows whose calls wait or run here."""
        with self._moving:
            calls = [*self.waiting, *self.running.values()]
        return {call.handling.delivery.row for call in calls if not call.handling.lost}

    def slowest(self, now: float) -> float:
        """For how long the longest running call has been at it."""
        return max((now - call.began for call in list(self.running.values()) if call.began), default=0.0)

    def overdue(self, now: float) -> list[Call]:
        """Running calls that have passed their time limit."""
        return [one for one in list(self.running.values()) if one.began and now - one.began > one.time_limit]

    def withdraw(self) -> list[Call]:
        """Take back the calls that have not begun."""
        taken: list[Call] = []
        with self._moving:  # else a slot that has just seen one waiting would find none
            while self.waiting:
                taken.append(self.waiting.pop())
        return taken

    def _begin(self, slot: int) -> Call | None:
        """The next call for a slot, if there is one that still matters."""
        self._busy.add(slot)
        while self.waiting:
            with self._moving:
                if not self.waiting:
                    break  # another slot was quicker
                call = self.waiting.popleft()
                if not call.handling.lost:
                    self.running[slot] = call
            if not call.handling.lost:
                self._board.begin(slot, call.handling.delivery.row, call.time_limit)
                return call
        self._busy.discard(slot)
        return None

    def _end(self, slot: int, call: Call, settlement: Settlement | None) -> None:
        if generation() != self._generation:
            os._exit(0)  # the handler has forked: this is the copy, and it owns nothing here
        self._board.end(slot)
        self._ended += 1
        # The first ones say at once what kind of work this is.
        self._pace += (call.took - self._pace) * max(0.1, 1 / self._ended)
        self._report(call, settlement)
        del self.running[slot]
        self._busy.discard(slot)

    def feed(self, calls: Iterable[Call]) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError


class ThreadLane(Lane):
    """`def` handlers, each in a thread."""

    def __init__(self, service: Service, slots: int, board: Board, report: Report) -> None:
        super().__init__(service, slots, board, report)
        self._tokens: SimpleQueue[bool] = SimpleQueue()
        first = board.reserve(slots)
        self._threads = [
            threading.Thread(target=self._work, args=(first + n,), name=f"{service.name}-{n}", daemon=True)
            for n in range(slots)
        ]
        for thread in self._threads:
            thread.start()

    def feed(self, calls: Iterable[Call]) -> None:
        for call in calls:
            self.waiting.append(call)
            self._tokens.put(True)

    def stop(self) -> None:
        """Begin nothing more. What runs cannot be stopped; what it reports finds nobody."""
        self.withdraw()
        for _ in self._threads:
            self._tokens.put(False)

    def _work(self, slot: int) -> None:
        while self._tokens.get():
            call = self._begin(slot)
            if call is not None:  # else it was taken back
                self._end(slot, call, _guarded(call))


class LoopLane(Lane):
    """`async def` handlers, on the engine's own loop."""

    def __init__(self, service: Service, slots: int, board: Board, report: Report) -> None:
        super().__init__(service, slots, board, report)
        self._wake = asyncio.Event()
        self._stopped = False
        first = board.reserve(slots)
        loop = asyncio.get_running_loop()
        self.tasks = {slot: loop.create_task(self._work(slot)) for slot in range(first, first + slots)}

    def feed(self, calls: Iterable[Call]) -> None:
        self.waiting.extend(calls)
        self._wake.set()

    def stop(self) -> None:
        """Cancel what is running; the calls answer that they were released."""
        self._stopped = True
        self.withdraw()
        for task in self.tasks.values():
            task.cancel()

    def expire(self, call: Call) -> None:
        """Cancel a call whose time limit is up; it will answer that it failed."""
        slot = next((slot for slot, running in self.running.items() if running is call), None)
        if slot is not None and not call.timed_out:
            call.timed_out = True
            self.tasks[slot].cancel()

    async def _work(self, slot: int) -> None:
        calls = 0
        while not self._stopped:
            call = self._begin(slot)
            if call is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            self._end(slot, call, await self._run(call))
            calls += 1
            if calls % YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def _run(self, call: Call) -> Settlement | None:
        try:
            settlement = await call.run_async()
        except asyncio.CancelledError:  # while the handler was over already, but not yet judged
            settlement = call.failed(call.timeout()) if call.timed_out else call.released()
        except Exception:
            log.exception("a call of %s could not be made; it is given back", call.service.name)
            settlement = call.released()
        if call.timed_out and (task := asyncio.current_task()) is not None:
            task.uncancel()  # the next call of this slot begins with a clean slate
        return settlement


def _guarded(call: Call) -> Settlement | None:
    try:
        return call.run()
    except Exception:
        # Not the handler's: that is judged in there. A slot must not be lost over it.
        log.exception("a call of %s could not be made; it is given back", call.service.name)
        return call.released()
