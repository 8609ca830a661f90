"""Group commit: finished calls share a transaction with each other, and with the claim of what comes next."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from onward.ledger.store_errors import StoreConflict, StoreFull, StoreUnavailable
from onward.model.ledger import (
    MAX_COMMIT_BYTES,
    MAX_COMMIT_DOCUMENTS,
    CommitResult,
    CommitStatus,
    Delivery,
    Settlement,
)
from onward.runtime import outcome_log
from onward.runtime.engine_settings import EngineSettings
from onward.runtime.group_halving import GroupResult, commit_halves
from onward.runtime.handler_call import Call, Context, FinishedCall, OpenDelivery, open_delivery
from onward.runtime.housekeeping import Housekeeping
from onward.runtime.observers import Hooks
from onward.runtime.slots import RunningSlots, ServiceSlots

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")
T = TypeVar("T")

MAX_GROUP = 1000
MAX_BACKGROUND_COMMITS = 2  # one that the database works on, and one that is being prepared for it
BACKGROUND_COMMIT_SIZE = 100  # from this many works on, a remote store commits them while the next are claimed


class ClaimRequest(NamedTuple):
    """The request to claim rows for a service, up to a limit."""

    slots: ServiceSlots
    limit: int
    hints: int  # the `hints` of the slots when the claim began


class GroupCommit:
    """Commits the finished calls of an engine, and claims for its slots. It belongs to the engine's loop."""

    def __init__(
        self,
        store: Store,
        context: Context,
        settings: EngineSettings,
        record: RunningSlots,
        housekeeping: Housekeeping,
        hooks: Hooks,
        *,
        with_health_call: Callable[[], Sequence[str]],
        executor: Executor | None,
        wake: Callable[[], None],
    ) -> None:
        self.finished: deque[FinishedCall] = deque()
        """Calls to be committed; filled by slots and checkpoints from any thread, emptied by the loop."""
        self.slots: list[ServiceSlots] = []
        self.claim_count = 0
        self.background: set[asyncio.Future[None]] = set()  # commits that are under way while the loop goes on
        context.commit = self.commit_for
        self._store = store
        self._context = context
        self._settings = settings
        self._record = record
        self._housekeeping = housekeeping
        self._hooks = hooks
        self._with_health_call = with_health_call
        self._executor = executor
        self._wake = wake
        self.uncertain = False  # the store went away during a commit, which may have been made all the same
        self._closed = False

    def under_way(self) -> bool:
        """Return whether a call waits, runs or is to be committed."""
        # In this order: the outcome of a call is in `finished` before the call leaves its slot.
        return any(slots.load for slots in self.slots) or bool(self.finished) or bool(self.background)

    async def call_store(self, call: Callable[[], T]) -> T:
        """Call the store; a remote one in a thread, so that it does not block the handlers on the loop."""
        if self._executor is None:
            return call()
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    # -- commit and claim

    def claim_requests(self) -> list[ClaimRequest]:
        """Return for which services to claim, and how much."""
        now = self._store.now()
        requests = [
            ClaimRequest(slots, min(slots.rows_to_claim(now), MAX_GROUP), slots.hints)
            for slots in self.slots
            if not slots.found_all_due
        ]
        return [request for request in requests if request.limit > 0]

    async def commit_and_claim(self, *, claims: bool = True) -> bool:
        """Commit what is finished, claim and begin what there is room for; return whether anything was done."""
        if len(self.background) >= MAX_BACKGROUND_COMMITS and len(self.finished) >= MAX_GROUP:
            # Calls that finish faster than they are committed must not accumulate.
            await asyncio.wait(self.background, return_when=asyncio.FIRST_COMPLETED)
        self._raise_background_failure()
        requests = self.claim_requests() if claims else []
        if not self.finished and not requests:
            return False
        before, committed = self.claim_count, bool(self.finished)
        if self._executor is not None and self._goes_beside(whole := self._whole_count(), requests):
            await self._claim_beside_commits(whole, requests)
        else:
            await self.background_ends()
            await self._commit(self._take(), requests)  # one transaction, one sync to disk, for both
        return committed or self.claim_count > before

    def _take(self, count: int | None = None) -> list[FinishedCall]:
        return [self.finished.popleft() for _ in range(len(self.finished) if count is None else count)]

    async def _commit(self, taken: list[FinishedCall], requests: Sequence[ClaimRequest] = ()) -> None:
        """Commit what was taken, in groups; the last one in one transaction with a claim."""
        groups = list(groups_of(taken)) or [[]]
        while groups:
            group = groups.pop(0)
            result = await self.call_store(partial(self._commit_group, group, () if groups else requests))
            self._after_commit(requests, result, groups)

    def commit_now(self) -> None:
        """Commit what is finished, in this thread."""
        groups = list(groups_of(self._take()))
        while groups:
            group = groups.pop(0)
            self._after_commit((), self._commit_group(group), groups)

    def _after_commit(
        self, requests: Sequence[ClaimRequest], result: GroupResult, later: Sequence[list[FinishedCall]]
    ) -> None:
        self._report(result.done)
        if result.error is not None:
            self._put_back([result.left, *later], result.error)
            raise result.error
        if result.claimed is not None:
            self._begin(requests, result.claimed)

    def _commit_group(self, group: list[FinishedCall], requests: Sequence[ClaimRequest] = ()) -> GroupResult:
        """Commit a group, and claim in the same transaction.

        It raises nothing that the store raises: what was committed before that must be reported all the same.
        """
        result = GroupResult(group)
        # A remote store works elsewhere: handlers go on computing meanwhile.
        with contextlib.nullcontext() if self._store.remote else self._context.turns.committing():
            try:
                self._commit_whole(result, requests)
            except Exception as error:
                result.error = error
        return result

    def _commit_whole(self, result: GroupResult, requests: Sequence[ClaimRequest]) -> None:
        group = result.left

        def steps() -> list[CommitResult]:
            settled = self._store.settle([item.settlement for item in group]) if group else []
            result.claimed = self._claim(requests) if requests else None
            return settled

        try:
            with self._record.commit([item.settlement.row for item in group if item.reply is None]):
                settled = self._store.atomically(steps)
        except (StoreUnavailable, StoreFull):
            result.claimed = None
            raise
        except Exception as error:
            result.claimed = None
            if not group:
                raise
            log.debug("a group of %d works failed (%s); it is halved", len(group), type(error).__name__)
            commit_halves(self._store, self._record, result, len(group))
            if requests:
                result.claimed = self._store.atomically(partial(self._claim, requests))
        else:
            result.done += zip(group, settled, strict=True)
            result.left = []

    def _claim(self, requests: Sequence[ClaimRequest]) -> list[list[Delivery]]:
        claimed: list[list[Delivery]] = []
        for request in requests:
            service, suspects = request.slots.service, self._settings.suspects
            if suspects and (self.claim_count or any(claimed)):
                claimed.append([])  # a suspect is alone in its process, not only in its service
                continue
            claimed.append(
                self._store.claim(
                    self._context.worker,
                    service.name,
                    limit=request.limit,
                    lease=self._settings.lease,
                    needs=service.needs,
                    with_health_call=self._with_health_call() if service.needs else (),
                    suspects=suspects,
                )
            )
        return claimed

    def _begin(self, requests: Sequence[ClaimRequest], claimed: list[list[Delivery]]) -> None:
        """Open what was claimed, and feed the slots."""
        for (slots, limit, hints), deliveries in zip(requests, claimed, strict=True):
            # Unless `look_again` was called meanwhile.
            slots.found_all_due = hints == slots.hints and len(deliveries) < limit
            self.claim_count += len(deliveries)
            calls: list[Call] = []
            for delivery in deliveries:
                opened = open_delivery(slots.service, delivery, self._context)
                if opened.opening is not None:
                    self.finished.append(FinishedCall(opened, opened.opening))
                calls += opened.calls
            if calls:
                slots.feed(calls)

    def _put_back(self, groups: Sequence[list[FinishedCall]], error: Exception) -> None:
        """Keep what is not committed, in its order.

        What may have been committed is fenced when it comes again. A checkpoint is not, and would count twice: it
        is refused, so that its delivery is given back, and goes on from the cursor that was committed, if it was.
        """
        left = [item for group in groups for item in group]
        if isinstance(error, StoreUnavailable) and not isinstance(error, StoreConflict):
            self.uncertain = True
            for item in left:
                if item.reply is not None:
                    item.opened.lost = True
                    item.reply.set_result(CommitStatus.FENCED)
            left = [item for item in left if item.reply is None]
        self.finished.extendleft(reversed(left))

    # -- in the background

    def _whole_count(self) -> int:
        """Return how many of what comes next may be committed beside other commits."""
        return sum(1 for _ in takewhile(_is_whole, list(self.finished)))

    def _goes_beside(self, whole: int, requests: Sequence[ClaimRequest]) -> bool:
        """Return whether to claim beside commits: there is much to commit, or commits are under way already.

        Not for a service that needs something: a breaker that one settlement opens holds for the claims with it.
        """
        if any(request.slots.service.needs for request in requests):
            return False
        return whole >= BACKGROUND_COMMIT_SIZE or (bool(self.background) and whole == len(self.finished))

    async def _claim_beside_commits(self, whole: int, requests: Sequence[ClaimRequest]) -> None:
        """Claim while others are committed; what is claimed first begins first."""
        starts = whole >= BACKGROUND_COMMIT_SIZE and len(self.background) < MAX_BACKGROUND_COMMITS
        if starts:
            commit = asyncio.ensure_future(self._commit(self._take(whole)))
            self.background.add(commit)
            commit.add_done_callback(lambda _: self._wake())
        try:
            if requests:
                await self._commit([], requests)
            elif not starts:
                await asyncio.wait(self.background, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await self.background_ends()
            raise

    async def background_ends(self) -> None:
        """Wait for the commits in the background; raise what has failed."""
        if self.background:
            await asyncio.wait(self.background)
        self._raise_background_failure()

    def _raise_background_failure(self) -> None:
        """Raise why a commit in the background failed; each failure once."""
        for commit in [commit for commit in self.background if commit.done()]:
            self.background.discard(commit)
            if (error := commit.exception()) is not None:
                raise error

    # -- checkpoints

    def commit_for(self, call: Call, settlement: Settlement) -> Future[CommitStatus]:
        """Commit something in the middle of a call, which waits for the reply."""
        settlement.lease = self._settings.lease
        reply: Future[CommitStatus] = Future()
        # It is under way: a handler that is cancelled while it waits cannot take it back.
        reply.set_running_or_notify_cancel()
        self.finished.append(FinishedCall(call, settlement, reply))
        self._wake()
        if self._settings.inline:
            with contextlib.suppress(StoreUnavailable):  # then it was refused
                self.commit_now()  # the loop cannot: it runs this call
        if self._closed:
            self.close()
        return reply

    def close(self) -> None:
        """Refuse what is left: nothing is committed any more."""
        self._closed = True
        while self.finished:
            item = self.finished.popleft()
            if item.reply is not None:
                item.reply.set_result(CommitStatus.FENCED)
            elif isinstance(item.of, Call):
                item.of.close()

    # -- after the commit

    def _report(self, done: Sequence[tuple[FinishedCall, CommitResult]]) -> None:
        """Reply to checkpoints, report outcomes, and have slots look for what has become due."""
        if not done:
            return
        due: set[str] = set()
        needs: set[str] = set()
        for item, result in done:
            if result.status is not CommitStatus.COMMITTED:
                item.opened.lost = True
            if item.reply is not None:
                item.reply.set_result(result.status)
            due |= result.woken
            needs.update(item.of.service.needs)
        self._housekeeping.settled += len(done)
        outcome_log.report(self._hooks, done)
        for item, result in done:
            if result.opened or result.closed:
                self._breakers_moved(result)
            if isinstance(item.of, OpenDelivery):
                due.add(item.of.service.name)
            elif item.reply is None:
                item.of.close()
        for slots in self.slots:
            # What needs the same may be claimed more freely after each success, while that recovers.
            if slots.service.name in due or not needs.isdisjoint(slots.service.needs):
                slots.look_again()

    def _breakers_moved(self, result: CommitResult) -> None:
        outcome_log.report_breakers(self._hooks, result)
        for dependency in result.closed:
            self._housekeeping.probe.check_later(dependency)
        for slots in self.slots:
            if not set(slots.service.needs).isdisjoint(result.opened):
                self.withdraw(slots)

    # -- giving back

    def withdraw(self, slots: ServiceSlots) -> bool:
        """Give back the calls of a service that have not begun; return whether there were any."""
        deliveries: dict[int, list[Call]] = {}
        for call in slots.withdraw():
            # By delivery, not by row: a worker that slept past its lease may hold a row twice.
            deliveries.setdefault(id(call.opened), []).append(call)
        for first, *others in deliveries.values():
            # Together: settled singly, each would come back as an event of its own.
            first.ids = [*first.ids, *(id for call in others for id in call.ids)]
            first.opened.left -= len(others)
            self.finished.append(FinishedCall(first, first.released()))
        return bool(deliveries)

    def give_back_unknown(self) -> None:
        """Release rows that a commit without a reply has claimed: they would be held, and renewed, for ever."""
        worker = self._context.worker
        claimed = {delivery.row for delivery in self._store.claimed(worker)}
        # Asked afterwards: nothing is claimed meanwhile, and what is settled meanwhile does no harm.
        # In this order: the outcome of a call is in `finished` before the call leaves its slot.
        known = set[int]().union(*(slots.rows() for slots in self.slots))
        known |= {item.settlement.row for item in list(self.finished) if not item.opened.lost}
        if unknown := sorted(claimed - known):
            log.info("%d rows that were claimed when the store went away are given back", len(unknown))
            self._store.release(worker, unknown)
        self.uncertain = False


def groups_of(finished: Iterable[FinishedCall]) -> Iterator[list[FinishedCall]]:
    """Divide finished calls into groups that one transaction may hold."""
    group: list[FinishedCall] = []
    documents = size = 0
    for item in finished:
        settlement, opened = item.settlement, item.opened
        if item.reply is None and not item.counted and opened is not item.of:
            # The last call of a delivery closes it.
            opened.left -= 1
            settlement.closes = opened.left == 0
            item.counted = True
        adds = settlement.adds
        weight = 0
        for new in adds:
            weight += len(new.body)
        for text in settlement.texts:
            weight += len(text.text)
        documents += len(adds)
        size += weight
        full = len(group) >= MAX_GROUP or documents > MAX_COMMIT_DOCUMENTS or size > MAX_COMMIT_BYTES
        # If the process dies of a suspect, it must be known that it was the suspect.
        alone = item.reply is None and (opened.delivery.careful or opened.delivery.deaths > 0)
        if group and (full or alone):
            yield group
            group, documents, size = [], len(adds), weight
        group.append(item)
        if alone:
            yield group
            group, documents, size = [], 0, 0
    if group:
        yield group


def _is_whole(item: FinishedCall) -> bool:
    """Return whether this is all there is of its delivery. Of several calls, the last one closes it."""
    return item.reply is None and len(item.opened.calls) == isinstance(item.of, Call)


def run_inline(steps: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, in this thread."""
    try:
        steps.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    raise RuntimeError("the engine waits for something; a simulation runs everything inline")
