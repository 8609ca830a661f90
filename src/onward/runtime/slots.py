"""The slots of a worker process: where calls wait and run, and a record of them that survives the process."""

from __future__ import annotations

import asyncio
import logging
import math
import mmap
import os
import struct
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.reduction import DupFd
from queue import SimpleQueue
from typing import Any, Self

from onward.model.dependency_limits import ClaimLimits
from onward.model.ledger import Settlement
from onward.runtime.handler_call import Call, FinishedCall
from onward.runtime.limited_claims import LimitedClaims
from onward.runtime.outcomes import log_start
from onward.runtime.service import Service

log = logging.getLogger("onward")

AHEAD_SECONDS = 0.25
"""Calls are claimed ahead of the slots: as many as the slots finish in this time, at most `MAX_AHEAD`."""
MAX_AHEAD = 1000  # more, and the last of a backlog wait in one process while another has nothing to do
YIELD_EVERY = 32
"""Calls after which an `async def` slot yields, so that handlers that never await do not block the loop."""

_forks: list[None] = []
os.register_at_fork(after_in_child=partial(_forks.append, None))


def fork_depth() -> int:
    """Return the number of forks between this process and the first one. `os.getpid` would be a system call."""
    return len(_forks)


@dataclass(eq=False)
class ServiceSlots:
    """The slots of one service. Calls that have not begun can be withdrawn."""

    service: Service
    count: int
    record: RunningSlots
    finished: deque[FinishedCall]
    wake: Callable[[], None]
    ahead_seconds: float = AHEAD_SECONDS
    limited: LimitedClaims | None = None  # if what the service needs has limits

    def __post_init__(self) -> None:
        self.waiting: deque[Call] = deque()
        self.running: dict[int, Call] = {}  # the call of each slot; only the slot itself writes its entry
        self.found_all_due = False  # by the last claim: no more is claimed until `look_again`
        self.hints = 0  # how often `look_again` was called
        self.turn = 0  # the number of the last claim that got something, counted over all services of the process
        self._moving = threading.Lock()
        """Held while a call goes from `waiting` to `running`: at every moment it is in one of them."""
        self._busy: set[int] = set()  # slots that run a call or look for one
        self._fork_depth = fork_depth()
        self._seconds_per_call = AHEAD_SECONDS
        self._calls_per_row = 1.0
        self._ended = 0
        self._first = self.record.reserve(self.count)

    @property
    def load(self) -> int:
        """The number of calls that wait or run. A call is in `finished` before it leaves here."""
        return len(self.waiting) + len(self._busy)

    def rows_to_claim(self, now: float) -> int:
        """Return how many more rows to claim: for the free slots, and ahead where calls are quick."""
        pace = max(self._seconds_per_call, self.longest_running(now), 1e-6)
        seconds = self.ahead_seconds if self.limited is None else self.limited.ahead_seconds(self.ahead_seconds)
        ahead = min(MAX_AHEAD, int(seconds / pace) * self.count)
        room = self.count + ahead - self.load
        # Claiming a handful at a time would cost a transaction each.
        if room <= 0 or (room * 4 < self.count + ahead and self.waiting):
            return 0
        if self.limited is not None:
            return min(room, self.limited.room(len(self.waiting), now))
        # An event about many documents is many calls; other workers wait for work, too.
        return math.ceil(room / self._calls_per_row)

    def claim_limits(self) -> ClaimLimits | None:
        """Return the limits for the next claim, if what the service needs has limits."""
        return None if self.limited is None else self.limited.begin(self.count - self.load)

    def note_claim(self, rows: int, calls: int) -> None:
        """Note how many calls the claimed rows are."""
        if rows:
            self._calls_per_row += (max(1.0, calls / rows) - self._calls_per_row) / 2

    def look_again(self) -> None:
        """Note that something may be due. Callable from any thread, also while a claim is under way."""
        self.hints += 1
        self.found_all_due = False

    def rows(self) -> set[int]:
        with self._moving:
            calls = [*self.waiting, *self.running.values()]
        return {call.delivery.row for call in calls if not call.opened.lost}

    def longest_running(self, now: float) -> float:
        return max((now - call.began for call in list(self.running.values()) if call.began), default=0.0)

    def overdue(self, now: float) -> list[Call]:
        calls = list(self.running.values())
        return [call for call in calls if call.began and now - call.began > call.time_limit]

    def withdraw(self) -> bool:
        """Give back the calls that have not begun; return whether there were any."""
        deliveries: dict[int, list[Call]] = {}
        for call in self._take_waiting():
            # By delivery, not by row: a worker that slept past its lease may hold a row twice.
            deliveries.setdefault(id(call.opened), []).append(call)
        for first, *others in deliveries.values():
            # Together: settled singly, each would come back as an event of its own.
            first.ids = [*first.ids, *(id for call in others for id in call.ids)]
            first.opened.left -= len(others)
            self.finished.append(FinishedCall(first, first.released()))
        return bool(deliveries)

    def _take_waiting(self) -> list[Call]:
        with self._moving:  # else a slot that has just seen a waiting call would find none
            return [self.waiting.pop() for _ in range(len(self.waiting))]

    def _begin(self, slot: int) -> Call | None:
        """Return the next call for a slot, without those whose delivery was lost."""
        self._busy.add(slot)
        while self.waiting:
            with self._moving:
                if not self.waiting:
                    break  # another slot was faster
                call = self.waiting.popleft()
                if not call.opened.lost:
                    self.running[slot] = call
            if not call.opened.lost:
                self.record.begin(slot, call.delivery.row, call.time_limit)
                if log.isEnabledFor(logging.DEBUG):
                    log_start(call)
                return call
        self._busy.discard(slot)
        return None

    def _end(self, slot: int, call: Call, settlement: Settlement | None) -> None:
        if len(_forks) != self._fork_depth:
            os._exit(0)  # the handler has forked: this is the copy, and it owns nothing here
        self.record.end(slot)
        if self.limited is None or not self.limited.note_start(call):
            self._ended += 1
            # The first calls count fully: they show what kind of work this is.
            self._seconds_per_call += (call.seconds - self._seconds_per_call) * max(0.1, 1 / self._ended)
        if settlement is not None and not call.abandoned:
            self.finished.append(FinishedCall(call, settlement))
        del self.running[slot]
        self._busy.discard(slot)
        self.wake()

    def feed(self, calls: Iterable[Call]) -> None:
        self.waiting.extend(calls)

    def stop(self) -> None:
        self._take_waiting()


ClaimRequest = tuple[ServiceSlots, int, int]  # the most rows to claim, and the slots' `hints` when the claim began


class ThreadSlots(ServiceSlots):
    """Run `def` handlers, each in a thread."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._tokens: SimpleQueue[bool] = SimpleQueue()
        for n in range(self.count):
            name, slot = f"{self.service.name}-{n}", self._first + n
            threading.Thread(target=self._work, args=(slot,), name=name, daemon=True).start()

    def feed(self, calls: Iterable[Call]) -> None:
        for call in calls:
            self.waiting.append(call)
            self._tokens.put(True)

    def stop(self) -> None:
        """Begin nothing more. What runs cannot be stopped, and its outcome is ignored."""
        super().stop()
        for _ in range(self.count):
            self._tokens.put(False)

    def _work(self, slot: int) -> None:
        while self._tokens.get():
            call = self._begin(slot)
            if call is not None:  # else it was withdrawn
                self._end(slot, call, run_guarded(call))


class LoopSlots(ServiceSlots):
    """Run `async def` handlers, on the engine's event loop."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._fed = asyncio.Event()
        self._stopped = False
        slots = range(self._first, self._first + self.count)
        self.tasks = {slot: asyncio.create_task(self._work(slot)) for slot in slots}

    def feed(self, calls: Iterable[Call]) -> None:
        super().feed(calls)
        self._fed.set()

    def stop(self) -> None:
        """Cancel what is running; each call returns a settlement that releases its delivery."""
        self._stopped = True
        super().stop()
        for task in self.tasks.values():
            task.cancel()

    def expire(self, call: Call) -> None:
        """Cancel a call whose time limit is up; it returns a settlement for a failed try."""
        slot = next((slot for slot, running in self.running.items() if running is call), None)
        if slot is not None and not call.timed_out:
            call.timed_out = True
            self.tasks[slot].cancel()

    async def _work(self, slot: int) -> None:
        calls = 0
        while not self._stopped:
            call = self._begin(slot)
            if call is None:
                self._fed.clear()
                await self._fed.wait()
                continue
            try:
                settlement = await call.run_async()
            except asyncio.CancelledError:  # the handler had returned, and its outcome was not judged yet
                settlement = call.failed(call.timeout()) if call.timed_out else call.released()
            except Exception:
                log.exception("a call of %s could not be made; it is given back", call.service.name)
                settlement = call.released()
            if call.timed_out and (task := asyncio.current_task()) is not None:
                task.uncancel()  # else the next call of this slot would begin cancelled
            self._end(slot, call, settlement)
            calls += 1
            if calls % YIELD_EVERY == 0:
                await asyncio.sleep(0)


class InlineSlots(ServiceSlots):
    """Run handlers one after the other in the engine's own thread: for simulations, which must be repeatable."""

    def run_next(self) -> bool:
        """Run a call that waits; return whether there was one."""
        call = self._begin(self._first)
        if call is None:
            return False
        settlement = asyncio.run(call.run_async()) if self.service.is_async else run_guarded(call)
        if call.seconds > call.time_limit:
            # Simulated time passes within a call, so that no look at the clock could end it.
            settlement = call.failed(call.timeout())
        self._end(self._first, call, settlement)
        return True


def next_limited_claim(all_slots: Iterable[ServiceSlots], now: float) -> float:
    """Return after how many seconds the next token comes for due rows; infinity if none is waited for."""
    claims = [slots.limited for slots in all_slots if slots.limited is not None and not slots.found_all_due]
    return min((one.not_before - now for one in claims if one.not_before > now), default=math.inf)


def run_guarded(call: Call) -> Settlement | None:
    """Run a `def` handler; whatever goes wrong around it, the slot survives."""
    try:
        return call.run()
    except Exception:  # not the handler's: that is judged in there
        log.exception("a call of %s could not be made; it is given back", call.service.name)
        return call.released()


# -- the record of what runs

_WORD = struct.Struct("=q")
_SLOT = struct.Struct("=ddqq")
"""When the slot's last call began, when its time limit is up (both on the machine's monotonic clock), the ledger
row that it runs, and the row whose call returned last and is not committed; 0: none."""
_ROWS = struct.Struct("=qq")
_MAX_SLOTS = 1024
_FIRST_SLOT = 2 * _WORD.size  # behind the exit code and the number of slots in use
_COMMITTING = _FIRST_SLOT + _SLOT.size * _MAX_SLOTS
"""The offset of the rows that are being committed: their number, then each of them."""
MAX_COMMITTING = 4096
_SIZE = _COMMITTING + _WORD.size * (1 + MAX_COMMITTING)


class RunningSlots:
    """Memory shared by a worker process and its supervisor: which rows are running.

    A process that is killed cannot report anything, so it keeps its state where another process can read it.
    """

    def __init__(self, handle: int = -1, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._handle = handle
        self._memory = mmap.mmap(handle, _SIZE)  # -1: memory of this process alone
        self._monotonic = monotonic
        self._reserved = 0
        self._commits: dict[int, list[int]] = {}  # the rows that each thread is committing
        self._lock = threading.Lock()

    @classmethod
    def shared(cls) -> Self:
        """Return a record that can be given to a process about to be spawned."""
        if hasattr(os, "memfd_create"):
            handle = os.memfd_create("onward-slots")
        else:  # pragma: no cover - not on Linux
            with tempfile.TemporaryFile() as file:
                handle = os.dup(file.fileno())
        os.ftruncate(handle, _SIZE)
        return cls(handle)

    @property
    def handle(self) -> int:
        """The file descriptor of the memory."""
        return self._handle

    def __reduce__(self) -> tuple[Any, ...]:
        return _inherited, (DupFd(self._handle),)

    # -- written by the worker process

    def reserve(self, slots: int) -> int:
        """Reserve slots; return the number of the first."""
        first = self._reserved
        self._reserved += slots
        if self._reserved > _MAX_SLOTS:
            many = f"{self._reserved} slots in one worker process; at most {_MAX_SLOTS} fit"
            raise ValueError(f"{many}: lower the concurrency, or start more processes")
        _WORD.pack_into(self._memory, _WORD.size, self._reserved)
        return first

    def begin(self, slot: int, row: int, time_limit: float) -> None:
        now = self._monotonic()
        _SLOT.pack_into(self._memory, _FIRST_SLOT + slot * _SLOT.size, now, now + time_limit, row, 0)

    def end(self, slot: int) -> None:
        """Note that the slot's call has returned; what it did is still to be committed."""
        place = _FIRST_SLOT + (slot + 1) * _SLOT.size - _ROWS.size
        row, _ = _ROWS.unpack_from(self._memory, place)
        _ROWS.pack_into(self._memory, place, 0, row)

    @contextmanager
    def commit(self, rows: list[int]) -> Iterator[None]:
        """Show which rows are being committed: if the process dies of it, one of them is the reason."""
        thread = threading.get_ident()
        try:
            self._show_commit(thread, rows)
            yield
        finally:
            self._show_commit(thread, [])
        self.committed(set(rows))

    def _show_commit(self, thread: int, rows: list[int]) -> None:
        with self._lock:
            self._commits[thread] = rows
            some = [row for rows in self._commits.values() for row in rows][:MAX_COMMITTING]
            struct.pack_into(f"={1 + len(some)}q", self._memory, _COMMITTING, len(some), *some)

    def committed(self, rows: Collection[int]) -> None:
        """Note that these rows are committed: a death is not charged to them any more."""
        for slot in range(self._reserved or _MAX_SLOTS):
            # The slot's own thread may begin its next call just now: only the row that returned is written here.
            place = _FIRST_SLOT + (slot + 1) * _SLOT.size - _WORD.size
            if _WORD.unpack_from(self._memory, place)[0] in rows:
                _WORD.pack_into(self._memory, place, 0)

    def set_exit_code(self, code: int) -> None:
        """Note that the process ends on purpose: whatever its exit status will be, nothing has crashed."""
        _WORD.pack_into(self._memory, 0, code + 1)

    # -- read by its supervisor

    def exit_code(self) -> int | None:
        """Return the code that the process ended with on purpose, if it did."""
        (word,) = _WORD.unpack_from(self._memory)
        return int(word) - 1 if word else None

    def running(self) -> list[int]:
        """Return the rows that are running now, or were when the process died."""
        return [row for _, _, row, _ in self._slots() if row]

    def finished(self) -> list[int]:
        """Return the rows whose calls had returned, and which were not committed yet."""
        (count,) = _WORD.unpack_from(self._memory, _COMMITTING)
        committing = struct.unpack_from(f"={count}q", self._memory, _COMMITTING + _WORD.size)
        return list({*committing, *(returned for *_, returned in self._slots() if returned)})

    def overdue(self, grace: float) -> list[int]:
        """Return the rows that have been running for longer than their limit and some grace."""
        now = self._monotonic()
        return [row for _, limit, row, _ in self._slots() if row and now > limit + grace]

    def has_finished_any(self) -> bool:
        """Return whether a call has ended here: the process was able to do its work."""
        return any(began and not row for began, _, row, _ in self._slots())

    def _slots(self) -> Iterator[tuple[float, float, int, int]]:
        (used,) = _WORD.unpack_from(self._memory, _WORD.size)
        end = _FIRST_SLOT + (used or _MAX_SLOTS) * _SLOT.size
        return _SLOT.iter_unpack(self._memory[_FIRST_SLOT:end])

    def close(self) -> None:
        self._memory.close()
        if self._handle >= 0:
            os.close(self._handle)


def _inherited(handle: Any) -> RunningSlots:
    return RunningSlots(handle.detach())
