"""The loop of a worker process: it commits finished calls in groups, claims what comes next, and rests.

    claim (deliveries) -> open (calls) -> slots run them (`FinishedCall`) -> group commit (results) -> report

Finished calls share a transaction with each other, and with the claim of what comes next.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, TypeVar

from onward.ledger.due_scan import Pulse
from onward.ledger.store_errors import StoreConflict, StoreFull, StoreUnavailable
from onward.model.ledger import MAX_COMMIT_BYTES, MAX_COMMIT_DOCUMENTS, CommitResult, CommitStatus, Delivery
from onward.runtime import outcomes
from onward.runtime.claim_turns import ClaimTurns
from onward.runtime.group_halving import GroupResult, commit_halves
from onward.runtime.handler_call import Call, Context, FinishedCall, OpenDelivery, open_delivery
from onward.runtime.incoming_publications import move_incoming
from onward.runtime.registry import Registry
from onward.runtime.service_tally import ServiceTally
from onward.runtime.slots import (
    ClaimRequest,
    InlineSlots,
    RunningSlots,
    ServiceSlots,
    fork_depth,
    next_limited_claim,
)

if TYPE_CHECKING:
    from onward.ledger.store import Store
    from onward.runtime.engine import EngineSettings

log = logging.getLogger("onward")
T = TypeVar("T")
Claimed = tuple[ClaimRequest, list[Delivery]]

TICK_SECONDS = 1.0
BUSY_TICK_SECONDS = 0.25
PULSE_SECONDS = 0.25  # the least time between two pulses of a loop that rests again and again
MAX_GROUP = 1000
MAX_BACKGROUND_COMMITS = 2  # one that the database works on, and one that is being prepared for it
BACKGROUND_COMMIT_SIZE = 100  # from this many works on, a remote store commits them while the next are claimed


class WorkLoop:
    """Commits the finished calls of its slots, and claims for them. Its methods run on the event loop.

    `Engine` has the methods that are only declared here: how it starts and ends, and what it does in a tick.
    """

    tally: ServiceTally

    def start(self) -> None: ...
    async def _end(self) -> None: ...
    async def _may_end(self) -> bool | None: ...
    def _tick(self, due: bool) -> bool | None: ...
    def _breakers_moved(self, result: CommitResult) -> None: ...
    def give_back_unknown(self) -> None: ...

    def __init__(
        self,
        store: Store,
        context: Context,
        settings: EngineSettings,
        record: RunningSlots,
        hooks: outcomes.Hooks,
        registry: Registry,
        monotonic: Callable[[], float],
    ) -> None:
        self.store = store
        self.context = context
        self.settings = settings
        self.record = record
        self.settled = 0  # settlements since the ledger was last pruned
        self.slots: list[ServiceSlots] = []
        self.finished: deque[FinishedCall] = deque()
        """Calls to be committed; filled by slots and checkpoints from any thread, emptied by the loop."""
        self.claim_count = 0
        self.claim_turns = ClaimTurns(store)
        self.background: set[asyncio.Future[None]] = set()  # commits that are under way while the loop goes on
        self.uncertain = False  # the store went away during a commit, which may have been made all the same
        self.pulse: Pulse | None = None  # what a loop that rests has read from the store, for the next tick
        self._last_pulse: Pulse | None = None
        threads = store.remote and not settings.inline
        self._executor = ThreadPoolExecutor(2 + MAX_BACKGROUND_COMMITS, "onward-store") if threads else None
        self._hooks = hooks
        self._with_health_call, self._events = registry.with_health_call, registry.events
        self._incoming_seen = -1  # the value of the database's `incoming` when all was moved to the ledger
        self._monotonic = monotonic
        self._draining = self._released = False
        self._woken = True
        self._awake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ticked = self._reclaims_from = self._looked_at = 0.0
        self._tidying: asyncio.Future[bool] | None = None
        self._fork_depth = fork_depth()

    # -- the loop

    async def work(self) -> None:
        """Make steps until it is stopped, or may end."""
        away_since = math.inf
        try:
            self.start()
            while not self.is_over():
                if fork_depth() != self._fork_depth:
                    os._exit(0)  # a handler has forked: this is the copy, and it owns nothing here
                try:
                    busy = await self.step()
                    away_since = math.inf
                    if self.under_way() or not (busy or self.settings.until_idle or self.settings.suspects):
                        await self._rest()
                    if not busy and await self._may_end():
                        break
                except StoreUnavailable as error:
                    away_since = min(away_since, self._monotonic())
                    if self._draining and self._monotonic() - away_since > self.settings.lease:
                        raise  # its leases are over: others do again what it could not commit
                    log.error("%s. Nothing is claimed until it is back", error)
                    self.after_outage()
                    await asyncio.sleep(TICK_SECONDS)
        finally:
            await self._end()

    async def step(self) -> bool:
        """Commit what is finished, claim and begin what there is room for; return whether anything was done."""
        if self.uncertain:
            await self.background_ends()
            await self.call_store(self.give_back_unknown)
        moved = await self._move_incoming()
        busy = await self.commit_and_claim() or moved
        inline = self.settings.inline
        if inline:
            for slots in self.slots:
                while isinstance(slots, InlineSlots) and slots.run_next():
                    if not self.settings.groups_inline:
                        self.commit_now()
            self.commit_now()
        due = self._monotonic() - self._ticked >= (0.0 if inline else TICK_SECONDS)
        if due or (self._tidying is not None and self._tidying.done()):
            busy = bool(self._tick(due)) or busy
        return busy

    async def _move_incoming(self) -> bool:
        """Move what callers have published in their transactions, if there may be any; return whether it was."""
        hints = self.store.db.incoming
        settings = self.settings
        if self._draining or settings.suspects or (hints == self._incoming_seen and not settings.inline):
            return False
        if await self.call_store(partial(move_incoming, self.store, self._events())):
            self.look_again()
            return True  # and there may be more
        self._incoming_seen = hints
        return False

    def is_over(self) -> bool:
        """Give back what has not begun, if it was stopped; return whether nothing is under way any more."""
        if not self._draining or self._released:
            return self._released
        return not sum(slots.withdraw() for slots in self.slots) and not self.under_way()

    def after_outage(self) -> None:
        """Note that the store was away: a commit may have been made without a reply."""
        self.uncertain = True
        # Workers that were cut off from the store get time to renew their leases before they are reclaimed.
        self._reclaims_from = self._monotonic() + self.settings.lease / 2
        self.look_again()

    def under_way(self) -> bool:
        """Return whether a call waits, runs or is to be committed."""
        # In this order: the outcome of a call is in `finished` before the call leaves its slot.
        return any(slots.load for slots in self.slots) or bool(self.finished) or bool(self.background)

    def look_again(self) -> None:
        for slots in self.slots:
            slots.look_again()

    async def _rest(self) -> None:
        self._awake.clear()
        self._woken = False
        finished = self.finished
        # Checked after `clear`: everything that arrives later wakes the loop.
        if not finished and not self._released and (self._draining or not self.claim_requests()):
            patience, pulse = BUSY_TICK_SECONDS, None
            if not self.under_way():  # else a call ends before long; asking the store each time would cost more
                pulse = self._last_pulse
                if pulse is None or not 0 <= self.store.now() - pulse.at < PULSE_SECONDS:
                    names = [slots.service.name for slots in self.slots]
                    pulse = await self.call_store(partial(self.store.pulse, names))
                    self.pulse = self._last_pulse = pulse
                    patience = TICK_SECONDS
                    if pulse.incoming:
                        self._incoming_seen = -1
                        patience = 0.0
                ahead = min(pulse.due.values(), default=math.inf) - self.store.now()
                # A due row that was not claimed is held back: for the reasons, see ledger/claim.py.
                patience = min(patience, ahead) if ahead > 0 else patience
            token = next_limited_claim(self.slots, self.store.now())
            try:
                await asyncio.wait_for(self._awake.wait(), min(patience, token))
            except TimeoutError:
                # Tokens may come often; what they are not for is looked for as usual.
                if patience <= token or self._monotonic() - self._looked_at > BUSY_TICK_SECONDS:
                    now, self._looked_at = self.store.now(), self._monotonic()
                    for slots in self.slots:
                        if pulse is None or pulse.due.get(slots.service.name, math.inf) <= now:
                            slots.look_again()
        self._woken = True
        # Calls that end without ever waiting come in a row; one commit for all of them.
        count = -1
        while count < len(finished) < MAX_GROUP:
            count = len(finished)
            await asyncio.sleep(0)

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

    async def call_store(self, call: Callable[[], T]) -> T:
        """Call the store; a remote one in a thread, so that it does not block the handlers on the loop."""
        if self._executor is None:
            return call()
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    # -- commit and claim

    def claim_requests(self) -> list[ClaimRequest]:
        busy = any(slots.load for slots in self.slots if not slots.service.background)
        requests = self._requests_of(
            slots for slots in self.slots if not slots.found_all_due and not (busy and slots.service.background)
        )
        if sharers := self.claim_turns.sharers(requests, self.slots):
            for slots in sharers:
                if slots.limited is not None:
                    slots.limited.not_before = 0.0
            requests += self._requests_of(sharers)
            requests.sort(key=lambda request: request[0].service.background)  # those are the last
        return requests

    def _requests_of(self, all_slots: Iterable[ServiceSlots]) -> list[ClaimRequest]:
        now = self.store.now()
        requests = [(slots, min(slots.rows_to_claim(now), MAX_GROUP), slots.hints) for slots in all_slots]
        return [request for request in requests if request[1] > 0]

    async def commit_and_claim(self) -> bool:
        """Commit what is finished, claim and begin what there is room for; return whether anything was done."""
        if len(self.background) >= MAX_BACKGROUND_COMMITS and len(self.finished) >= MAX_GROUP:
            # Calls that finish faster than they are committed must not accumulate.
            await asyncio.wait(self.background, return_when=asyncio.FIRST_COMPLETED)
        self._raise_background_failure()
        requests = [] if self._draining else self.claim_requests()
        if not self.finished and not requests:
            return False
        before, committed = self.claim_count, len(self.finished)
        if self._executor is not None and (whole := self._count_beside(requests)) is not None:
            await self._claim_beside_commits(whole, requests)
        else:
            await self.background_ends()
            await self._commit(self._take_groups(), requests)  # one transaction, one sync to disk, for both
        return committed > 0 or self.claim_count > before

    async def _commit(self, groups: list[list[FinishedCall]], requests: Sequence[ClaimRequest] = ()) -> None:
        """Commit groups; the last one in one transaction with a claim."""
        groups = groups or [[]]
        while groups:
            group = groups.pop(0)
            result = await self.call_store(partial(self._commit_group, group, () if groups else requests))
            self._after_commit(result, groups)

    def commit_now(self) -> None:
        """Commit what is finished, in this thread."""
        groups = self._take_groups()
        while groups:
            self._after_commit(self._commit_group(groups.pop(0)), groups)

    def _take_groups(self, count: int | None = None) -> list[list[FinishedCall]]:
        count = len(self.finished) if count is None else count
        return list(groups_of([self.finished.popleft() for _ in range(count)]))

    def _commit_group(self, group: list[FinishedCall], requests: Sequence[ClaimRequest] = ()) -> GroupResult:
        """Commit a group, and claim in the same transaction.

        It raises nothing that the store raises: what was committed before that must be reported all the same.
        """
        result = GroupResult(group)
        # A remote store works elsewhere: handlers go on computing meanwhile.
        with contextlib.nullcontext() if self.store.remote else self.context.turns.committing():
            try:
                self._commit_whole(result, requests)
            except Exception as error:
                result.error = error
        return result

    def _commit_whole(self, result: GroupResult, requests: Sequence[ClaimRequest]) -> None:
        group = result.left
        # A settlement locks keys and breakers, and the claim of each service keys, limits and breakers. In one
        # transaction, two workers could wait for each other.
        locks = any(slots.service.key is not None or slots.limited is not None for slots, _, _ in requests)
        apart = self.store.remote and locks

        def steps() -> tuple[list[CommitResult], list[Claimed] | None]:
            settled = self.store.settle([item.settlement for item in group]) if group else []
            claimed = None if apart or not requests else list[Claimed]()
            if claimed is not None:
                self._claim(requests, claimed)
            return settled, claimed

        try:
            with self.record.commit([item.settlement.row for item in group if item.reply is None]):
                settled, claimed = self.store.atomically(steps)
        except (StoreUnavailable, StoreFull):
            raise
        except Exception as error:
            if not group:
                raise
            log.debug("a group of %d works failed (%s); it is halved", len(group), type(error).__name__)
            commit_halves(self.store, self.record, result, len(group))
            apart = bool(requests)
        else:
            result.done += zip(group, settled, strict=True)
            result.left, result.claimed = [], claimed
        if apart:
            result.claimed = []
            self._claim(requests, result.claimed)

    def _claim(self, requests: Sequence[ClaimRequest], claimed: list[Claimed]) -> None:
        """Add what each request gets to `claimed`."""
        for request in self.claim_turns.in_turn(requests):
            slots, limit, _ = request
            service, suspects = slots.service, self.settings.suspects
            got_any = any(deliveries for _, deliveries in claimed)
            if service.background and got_any:
                break  # it looks again when the others have nothing to do
            if suspects and (self.claim_count or got_any):
                claimed.append((request, []))  # a suspect is alone in its process, not only in its service
                continue
            deliveries = self.store.claim(
                self.context.worker,
                service.name,
                limit=limit,
                lease=self.settings.lease,
                needs=service.needs,
                with_health_call=self._with_health_call() if service.needs else (),
                suspects=suspects,
                key_of=service.key_of if service.key is not None else None,
                ordered=service.ordered,
                limits=slots.claim_limits(),
            )
            claimed.append((request, deliveries))

    def _after_commit(self, result: GroupResult, later: Sequence[list[FinishedCall]]) -> None:
        self._report(result.done)
        if result.error is not None:
            self._put_back([result.left, *later], result.error)
        for (slots, limit, hints), deliveries in result.claimed or ():
            # Unless `look_again` was called meanwhile.
            slots.found_all_due = hints == slots.hints and len(deliveries) < limit
            if slots.limited is not None and slots.limited.wait():
                slots.found_all_due = False  # what is due is claimed when the next token comes
            self.claim_count += len(deliveries)
            if deliveries:
                self.claim_turns.took(slots)
            calls: list[Call] = []
            for delivery in deliveries:
                opened = open_delivery(slots.service, delivery, self.context)
                if opened.opening is not None:
                    self.finished.append(FinishedCall(opened, opened.opening))
                calls += opened.calls
            slots.note_claim(len(deliveries), len(calls))
            if calls:
                slots.feed(calls)
        if result.error is not None:
            raise result.error  # after what was claimed before it was begun

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
                    item.of.opened.lost = True
                    item.reply.set_result(CommitStatus.FENCED)
            left = [item for item in left if item.reply is None]
        self.finished.extendleft(reversed(left))

    def _report(self, done: Sequence[tuple[FinishedCall, CommitResult]]) -> None:
        """Reply to checkpoints, report outcomes, and have slots look for what has become due."""
        if not done:
            return
        due: set[str] = set()
        needs: set[str] = set()
        for item, result in done:
            if result.status is not CommitStatus.COMMITTED:
                item.of.opened.lost = True
            if item.reply is not None:
                item.reply.set_result(result.status)
            due |= result.woken
            needs.update(item.of.service.needs)
        self.settled += len(done)
        outcomes.report(self._hooks, done)
        self.tally.count(done)
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

    # -- in the background

    def _count_beside(self, requests: Sequence[ClaimRequest]) -> int | None:
        """Return how many works may be committed beside other commits; None: claim with the commit.

        Not for a service that needs something: a breaker that one settlement opens holds for the claims with it.
        """
        if any(slots.service.needs for slots, _, _ in requests):
            return None
        # What is all there is of its delivery: of several calls, the last one closes that.
        alone = (
            item.reply is None and len(item.of.opened.calls) == isinstance(item.of, Call)
            for item in list(self.finished)
        )
        whole = sum(takewhile(bool, alone))
        beside = whole >= BACKGROUND_COMMIT_SIZE or (bool(self.background) and whole == len(self.finished))
        return whole if beside else None

    async def _claim_beside_commits(self, whole: int, requests: Sequence[ClaimRequest]) -> None:
        """Claim while others are committed; what is claimed first begins first."""
        starts = whole >= BACKGROUND_COMMIT_SIZE and len(self.background) < MAX_BACKGROUND_COMMITS
        if starts:
            commit = asyncio.ensure_future(self._commit(self._take_groups(whole)))
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
        for commit in [one for one in self.background if one.done()]:
            self.background.discard(commit)
            if (error := commit.exception()) is not None:
                raise error


def groups_of(finished: Iterable[FinishedCall]) -> Iterator[list[FinishedCall]]:
    """Divide finished calls into groups that one transaction may hold."""
    group: list[FinishedCall] = []
    documents = size = 0
    for item in finished:
        settlement, opened = item.settlement, item.of.opened
        if item.reply is None and not item.counted and opened is not item.of:
            # The last call of a delivery closes it.
            opened.left -= 1
            settlement.closes = opened.left == 0
            item.counted = True
        adds = settlement.adds
        named = len(adds)
        if settlement.joins:
            named = max(named, sum(len(join.members) for join in settlement.joins))
        weight = 0
        for new in adds:
            weight += len(new.body)
        for text in settlement.texts:
            weight += len(text.text)
        documents += named
        size += weight
        full = len(group) >= MAX_GROUP or documents > MAX_COMMIT_DOCUMENTS or size > MAX_COMMIT_BYTES
        # If the process dies of a suspect, it must be known that it was the suspect.
        alone = item.reply is None and (opened.delivery.careful or opened.delivery.deaths > 0)
        if group and (full or alone):
            yield group
            group, documents, size = [], named, weight
        group.append(item)
        if alone:
            yield group
            group, documents, size = [], 0, 0
    if group:
        yield group
