"""Group commit: the works that are finished share a transaction, and none waits for a slow neighbour."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from onward.model.ledger import MAX_COMMIT_BYTES, MAX_COMMIT_DOCUMENTS, Settled, Settlement, Verdict
from onward.ports import Store, StoreFull, StoreUnavailable
from onward.runtime.handling import Call
from onward.runtime.work import Checkpointed, WorkRefused

log = logging.getLogger("onward")
T = TypeVar("T")

MAX_GROUP = 256


@dataclass(slots=True)
class Finished:
    """A call that is over, or has something to commit on its way."""

    call: Call
    settlement: Settlement
    answer: Future[Verdict] | None = None
    """Somebody waits for this one: a checkpoint, or a careful start."""


class Commits:
    """Takes finished calls from any thread, and commits them in groups."""

    def __init__(self, store: Store, wake: Callable[[], None]) -> None:
        self._store = store
        self._wake = wake
        self._queue: deque[tuple[Call, Settlement | None, Future[Verdict] | None]] = deque()
        self._abandoned: set[Call] = set()

    def __len__(self) -> int:
        return len(self._queue)

    def report(self, call: Call, settlement: Settlement | None) -> None:
        """A call is over; None: nothing can come of it any more."""
        self._queue.append((call, settlement, None))
        self._wake()

    def abandon(self, call: Call) -> None:
        """Whatever this call still reports is of no interest."""
        self._abandoned.add(call)

    def is_abandoned(self, call: Call) -> bool:
        return call in self._abandoned

    def checkpoint(self, call: Call, settlement: Settlement) -> Checkpointed:
        """Commit something in the middle of a call, and let the call wait for the answer."""
        answer: Future[Verdict] = Future()
        self._queue.append((call, settlement, answer))
        self._wake()

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

    def flush(self, also: Callable[[], T]) -> tuple[list[tuple[Finished, Settled]], T]:
        """Commit all that is finished; the last group shares its transaction with `also`."""
        groups = list(self._groups())
        done: list[tuple[Finished, Settled]] = []
        for position, group in enumerate(groups[:-1]):
            done += self._commit(group, lambda: None, groups[position + 1 :])[0]
        last, result = self._commit(groups[-1] if groups else [], also, [])
        return done + last, result

    def _commit(
        self, group: list[Finished], also: Callable[[], T], rest: Sequence[list[Finished]]
    ) -> tuple[list[tuple[Finished, Settled]], T]:
        try:
            with self._store.transaction():
                answers = self._store.settle([one.settlement for one in group]) if group else []
                result = also()
        except (StoreUnavailable, StoreFull):
            for again in (*reversed(rest), group):
                self._put_back(again)
            raise
        except Exception as error:
            if not group:
                raise
            log.debug("a group of %d works failed (%s); they are redone singly", len(group), error)
            answers, result = [self._commit_alone(one) for one in group], also()
        done = list(zip(group, answers, strict=True))
        for one, settled in done:
            if settled.verdict is not Verdict.COMMITTED:
                one.call.handling.lost = True
            if one.answer is not None:
                one.answer.set_result(settled.verdict)
        return done, result

    def _commit_alone(self, one: Finished) -> Settled:
        """Only the work that fails alone is charged."""
        try:
            return self._store.settle([one.settlement])[0]
        except (StoreUnavailable, StoreFull):
            self._put_back([one])
            raise
        except Exception as error:
            log.warning("a work of service %r cannot be committed: %s", one.call.service.name, error)
            closes = one.settlement.closes
            one.settlement = one.call.failed(error)
            one.settlement.closes = closes
            return self._store.settle([one.settlement])[0]

    def _put_back(self, group: Sequence[Finished]) -> None:
        for one in reversed(group):
            if one.answer is None:
                one.call.handling.left += 1
            self._queue.appendleft((one.call, one.settlement, one.answer))

    def _groups(self) -> Iterator[list[Finished]]:
        """What is finished, in groups that one transaction may hold."""
        group: list[Finished] = []
        documents = size = 0
        for _ in range(len(self._queue)):
            call, settlement, answer = self._queue.popleft()
            if settlement is None or not self._counts(call, settlement, answer):
                continue
            documents += len(settlement.adds)
            size += sum(len(new.body) for new in settlement.adds)
            full = len(group) >= MAX_GROUP or documents > MAX_COMMIT_DOCUMENTS or size > MAX_COMMIT_BYTES
            if group and full:
                yield group
                group, documents, size = [], len(settlement.adds), 0
            group.append(Finished(call, settlement, answer))
        if group:
            yield group

    def _counts(self, call: Call, settlement: Settlement, answer: Future[Verdict] | None) -> bool:
        """Whether a call still has something to say; the last one of a delivery closes it."""
        if answer is not None:
            return True
        if call in self._abandoned:
            self._abandoned.discard(call)
            return False
        call.handling.left -= 1
        settlement.closes = call.handling.left == 0
        return True
