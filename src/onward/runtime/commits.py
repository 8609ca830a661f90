"""Group commit: the works that are finished share a transaction, and none waits for a slow neighbour."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeVar

from onward.model.ledger import MAX_COMMIT_BYTES, MAX_COMMIT_DOCUMENTS, Settled, Settlement, Verdict
from onward.ports import Store, StoreConflict, StoreFull, StoreUnavailable
from onward.runtime.handling import Call
from onward.runtime.work import Checkpointed, WorkRefused

log = logging.getLogger("onward")
T = TypeVar("T")

MAX_GROUP = 1000


@dataclass(slots=True)
class Finished:
    """A call that is over, or has something to commit on its way."""

    call: Call
    settlement: Settlement
    answer: Future[Verdict] | None = None
    """Somebody waits for this one: a checkpoint, or a careful start."""


Done = list[tuple[Finished, Settled]]
Reported = tuple[Call, Settlement | None, Future[Verdict] | None]


class Commits:
    """Takes finished calls from any thread, and commits them in groups."""

    def __init__(
        self, store: Store, wake: Callable[[], None], told: Callable[[Done], None], *, lease: float = 0.0
    ) -> None:
        self._store = store
        self._lease = lease
        self._wake = wake
        self._told = told
        self._queue: deque[Reported] = deque()
        self._taken: dict[int, list[Reported]] = {}
        """What is being committed just now."""
        self._moving = threading.Lock()
        """What goes from the queue to a commit, or back, is at every moment in one of them."""
        self._abandoned: set[Call] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._queue)

    def rows(self) -> set[int]:
        """The rows whose calls are in here."""
        with self._moving:
            known = [list(self._queue), *self._taken.values()]
        return {call.handling.delivery.row for some in known for call, _, _ in some if not call.handling.lost}

    def whole(self) -> int:
        """How many of what comes next may be committed beside other commits."""
        return sum(1 for _ in takewhile(_is_whole, list(self._queue)))

    def take(self, count: int | None = None) -> list[Reported]:
        """What comes next, all or so many, for `flush`."""
        with self._moving:
            taken = [self._queue.popleft() for _ in range(len(self._queue) if count is None else count)]
            self._taken[id(taken)] = taken
        return taken

    def report(self, call: Call, settlement: Settlement | None) -> None:
        """A call is over; None: nothing can come of it any more."""
        if call not in self._abandoned:
            self._queue.append((call, settlement, None))
            self._wake()

    def abandon(self, call: Call, settlement: Settlement) -> None:
        """Settle a call in its place; whatever it still reports is of no interest."""
        self.report(call, settlement)
        self._abandoned.add(call)

    def is_abandoned(self, call: Call) -> bool:
        return call in self._abandoned

    def checkpoint(self, call: Call, settlement: Settlement) -> Checkpointed:
        """Commit something in the middle of a call, and let the call wait for the answer."""
        if call in self._abandoned:
            # Its delivery may still be this worker's, for its other calls; what is written now would be nobody's.
            raise WorkRefused(f"the delivery of {call.service.name!r} was taken over: its time limit was up")
        settlement.lease = self._lease
        answer: Future[Verdict] = Future()
        # It is under way: a handler that is cancelled while it waits cannot take it back.
        answer.set_running_or_notify_cancel()
        self._queue.append((call, settlement, answer))
        self._wake()
        if self._closed:
            self.close()

        def check(verdict: Verdict) -> None:
            if verdict is not Verdict.COMMITTED:
                raise WorkRefused(f"the delivery of {call.service.name!r} was taken over: {verdict}")
            if call.work is not None:
                call.work.taken()

        async def finish() -> None:
            check(await asyncio.wrap_future(answer))

        if call.service.is_async:
            return Checkpointed(finish)
        check(answer.result())
        return Checkpointed(None)

    def close(self) -> None:
        """Nothing is committed any more; whoever waits for it is told."""
        self._closed = True
        while self._queue:
            call, _, answer = self._queue.popleft()
            if answer is not None:
                answer.set_result(Verdict.FENCED)
            else:
                call.let_go()

    def flush(self, also: Callable[[], T], taken: list[Reported] | None = None) -> T:
        """Commit all that is finished, or what was taken; the last group shares its transaction with `also`.

        When the store fails, what is not committed stays here.
        """
        taken = self.take() if taken is None else taken
        groups = list(self._groups(taken)) or [[]]
        try:
            for group in groups[:-1]:
                self._commit(group, _nothing)
            return self._commit(groups[-1], also)
        except StoreUnavailable as error:
            if not isinstance(error, StoreConflict):
                self._refuse_checkpoints(groups)
            raise
        finally:
            with self._moving:
                for group in reversed(groups):
                    self._put_back(group)
                del self._taken[id(taken)]

    def _commit(self, group: list[Finished], also: Callable[[], T]) -> T:
        """Commit a group together, else one by one; what is committed leaves the list."""

        def commit() -> tuple[list[Settled], T]:
            return self._store.settle([one.settlement for one in group]) if group else [], also()

        try:
            answers, result = self._store.atomically(commit)
        except (StoreUnavailable, StoreFull):
            raise
        except Exception as error:
            if not group:
                raise
            log.debug("a group of %d works failed (%s); they are redone singly", len(group), type(error).__name__)
            while group:
                settled = self._commit_alone(group[0])
                self._answer([] if settled is None else [(group[0], settled)])
                del group[0]
            return also()
        done = list(zip(group, answers, strict=True))
        group.clear()
        self._answer(done)
        return result

    def _commit_alone(self, one: Finished) -> Settled | None:
        """Only the work that fails alone is charged."""
        try:
            return self._store.settle([one.settlement])[0]
        except (StoreUnavailable, StoreFull):
            raise
        except Exception as error:
            problem = one.call.handling.failure(error).message  # without secrets, as it is stored
            log.warning("a work of service %r cannot be committed: %s", one.call.service.name, problem)
            if one.answer is not None:
                one.answer.set_exception(error)  # the handler is still there to fail by it
                return None
            closes = one.settlement.closes
            one.settlement = one.call.failed(error)
            one.settlement.closes = closes
            return self._store.settle([one.settlement])[0]

    def _answer(self, done: Done) -> None:
        for one, settled in done:
            if settled.verdict is not Verdict.COMMITTED:
                one.call.handling.lost = True
            if one.answer is not None:
                one.answer.set_result(settled.verdict)
        if done:
            self._told(done)
        for one, _ in done:
            if one.answer is None:
                one.call.let_go()

    def _refuse_checkpoints(self, groups: Sequence[list[Finished]]) -> None:
        """What may have been committed is fenced when it comes again; a checkpoint is not, and would count twice.

        Its delivery is given back, and goes on from the cursor that was committed, if it was.
        """
        for group in groups:
            for one in [one for one in group if one.answer is not None]:
                one.call.handling.lost = True
                group.remove(one)
                if one.answer is not None:
                    one.answer.set_result(Verdict.FENCED)

    def _put_back(self, group: Sequence[Finished]) -> None:
        for one in reversed(group):
            if one.answer is None:
                one.call.handling.left += 1
            self._queue.appendleft((one.call, one.settlement, one.answer))

    def _groups(self, taken: Iterable[Reported]) -> Iterator[list[Finished]]:
        """What is finished, in groups that one transaction may hold."""
        group: list[Finished] = []
        documents = size = 0
        for call, settlement, answer in taken:
            if settlement is None:
                continue
            if answer is None:
                # The last call of a delivery closes it.
                call.handling.left -= 1
                settlement.closes = call.handling.left == 0
            adds = settlement.adds
            documents += len(adds)
            weight = 0
            for new in adds:
                weight += len(new.body)
            for one in settlement.texts:
                weight += len(one.text)
            size += weight
            full = len(group) >= MAX_GROUP or documents > MAX_COMMIT_DOCUMENTS or size > MAX_COMMIT_BYTES
            if group and full:
                yield group
                group, documents = [], len(adds)
                size = weight
            group.append(Finished(call, settlement, answer))
        if group:
            yield group


def _is_whole(reported: Reported) -> bool:
    """Whether a call is all there is of its delivery; of several, the last one closes it."""
    call, _, answer = reported
    return answer is None and len(call.handling.calls) == 1


def _nothing() -> None:
    """Commit nothing else."""
