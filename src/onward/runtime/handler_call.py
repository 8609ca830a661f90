"""Calls of handlers: from a claimed delivery to the settlements that end it."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from onward.ledger.reader import Reader
from onward.model.documents import Document
from onward.model.events import Event, read_event
from onward.model.ledger import MAX_DEATHS, CommitStatus, InputStatus, Processed, RetryLater, Settlement
from onward.retry import Ladder, Malformed, NotReady, Permanent
from onward.runtime import failure_policy
from onward.runtime.dependency import HealthCalls
from onward.runtime.service import Service
from onward.runtime.tracing import is_unsampled, parent_of, span_factory
from onward.runtime.work import Checkpointed, GilTurns, Work, WorkRefused

if TYPE_CHECKING:
    from onward.model.ledger import Delivery, Input, SettlementPart
    from onward.runtime.spans import SpanFactory, TrySpan

log = logging.getLogger("onward")

CURRENT: ContextVar[Call | None] = ContextVar("onward_call", default=None)
"""The call that is running here, in its thread or task and what that starts; read by logs and traces."""


class HandlerTimeout(TimeoutError):
    """A handler took longer than its time limit."""


class HandlerReturned(Permanent):
    """A handler returned something, where only its work counts."""


@dataclass(slots=True)
class Context:
    """The parts of a worker process that calls need."""

    worker: str
    version: str
    reader: Reader
    now: Callable[[], float]
    ladder: Ladder
    time_limit: float
    health: HealthCalls
    random: Random = field(default_factory=Random)
    newer_alive: Callable[[str, int], bool] = lambda service, version: False
    """Returns whether a live worker has a service with at least this event version."""
    commit: Callable[[Call, Settlement], Future[CommitStatus]] | None = None
    """Commits a settlement in the middle of a call; None: no calls are made here."""
    interrupted: bool = False  # by Ctrl-C
    draining: bool = False  # nothing more is claimed; handlers that run are waited for
    stopping: bool = False
    turns: GilTurns = field(default_factory=GilTurns)
    spans: SpanFactory | None = field(default_factory=span_factory)


@dataclass(slots=True)
class OpenDelivery:
    """A claimed delivery that is not settled yet, with its calls."""

    service: Service
    delivery: Delivery
    context: Context
    calls: list[Call] = field(default_factory=list)
    opening: Settlement | None = None
    """The settlement before any call: documents that cannot be read yet, an event for a newer worker."""
    left: int = 0  # the number of calls whose outcome is not on its way to a commit
    lost: bool = False  # the delivery is no longer this worker's
    cursors: dict[str, Any] = field(default_factory=dict)
    event: Event | None = None
    unreadable: Malformed | None = None  # why the event cannot be read
    reading: threading.Lock = field(default_factory=threading.Lock)
    last_chances: list[SettlementPart] = field(default_factory=list)  # after these waits, a failure is the last
    seconds: float = 0.0  # no handler ran for it, as for a call

    @property
    def opened(self) -> OpenDelivery:
        return self

    @property
    def ids(self) -> list[str]:
        return [given.id for given in self.delivery.inputs]

    @property
    def ready(self) -> list[Input]:
        return [given for given in self.delivery.inputs if given.status is InputStatus.READY]

    def read_event(self) -> Event:
        """Return the event, read once for all calls, or raise why it cannot be read.

        A slot reads it, not the claim: its validators may raise, hang or end the process.
        """
        with self.reading:
            if self.event is None and self.unreadable is None:
                try:
                    self.event = read_event(self.service.on, self.delivery.data)
                except Malformed as error:
                    self.unreadable = error
                    raise
            if self.event is None:
                raise Malformed("the event cannot be read; the call that tried first settles the delivery")
            return self.event

    def settlement(self, parts: Sequence[SettlementPart], **more: Any) -> Settlement:
        delivery, by = self.delivery, self.context
        more |= {"worker": by.worker, "version": by.version, "service": self.service.name}
        return Settlement(delivery.row, delivery.token, delivery.collection, parts=parts, **more)


def open_delivery(service: Service, delivery: Delivery, context: Context) -> OpenDelivery:
    """Divide a claimed delivery into calls; what must wait, or is over already, is settled before them."""
    opened = OpenDelivery(service, delivery, context)
    on = service.on
    if delivery.expired and delivery.deaths < MAX_DEATHS:
        opened.opening = failure_policy.expired(opened)
        return opened
    if delivery.deaths >= MAX_DEATHS or delivery.version > on.version or delivery.event_type != on.event_type:
        opened.opening = failure_policy.refusal(opened)
        return opened
    if service.finishes is None:
        opened.calls = [Call(opened, [])]
    else:
        ready = opened.ready
        missing: list[str] = []
        for given in delivery.inputs:
            if given.status is InputStatus.MISSING:
                missing.append(given.id)
            elif given.status is not InputStatus.READY:
                log.debug("%s: %s/%s is %s, skipped", service.name, delivery.collection, given.id, given.status)
        size = min(service.batch_size(), delivery.batch or len(ready) or 1)
        opened.calls = [Call(opened, ready[start : start + size]) for start in range(0, len(ready), size)]
        waiting = _over_limit(opened)
        if missing or waiting or not ready:
            parts = [*failure_policy.missing(opened, missing), *waiting]
            opened.opening = opened.settlement(parts, closes=not ready)
    opened.cursors = json.loads(delivery.cursor) if delivery.cursor else {}
    opened.left = len(opened.calls)
    return opened


def _over_limit(opened: OpenDelivery) -> list[RetryLater]:
    """Drop the calls that the limits of a dependency do not allow now; their documents return to the queue.

    In halves: where few calls are allowed at a time, a document returns only as often as its event can be halved.
    """
    allowed = opened.delivery.calls
    if allowed is None or len(opened.calls) <= allowed:
        return []
    over, opened.calls = opened.calls[allowed:], opened.calls[:allowed]
    middle = (len(over) + 1) // 2
    halves = [half for half in (over[:middle], over[middle:]) if half]
    return [RetryLater([id for call in half for id in call.ids]) for half in halves]


class Call:
    """One call of a handler, for one document, a batch of them, or an event."""

    __slots__ = (
        "abandoned", "began", "delivery", "ids", "inputs", "opened", "seconds", "service", "span", "time_limit",
        "timed_out", "work",
    )  # fmt: skip

    def __init__(self, opened: OpenDelivery, inputs: Sequence[Input]) -> None:
        self.opened = opened
        self.delivery = opened.delivery
        self.service = opened.service
        self.inputs = inputs
        self.ids = [given.id for given in inputs]
        self.time_limit = self.service.time_limit or opened.context.time_limit
        self.work: Work | None = None
        self.began = 0.0
        self.seconds = 0.0  # how long the handler took
        self.timed_out = False  # it was cancelled because its time limit was up
        self.abandoned = False  # it was settled in its place: what it still returns is ignored
        self.span: TrySpan | None = None

    def close(self) -> None:
        """Free what the call read and wrote, without waiting for the garbage collector."""
        self.work = None
        if self.span is not None:
            self.span.end()
        for given in self.inputs:  # its ids stay: a thread that goes on after its time limit is checked by them
            given.body = None
        if self.opened.left == 0:
            self.opened.calls = []

    # -- running

    def run(self) -> Settlement | None:
        """Run a `def` handler; return the settlement, or None if the delivery was taken over."""
        spans = self.opened.context.spans
        if spans is None or is_unsampled(self.delivery.trace):
            return self._run()
        self.span = spans.start_try(self.service.name, self.delivery, self.ids, self.opened.context.worker)
        with self.span as span:
            span.record(settlement := self._run())
            return settlement

    def _run(self) -> Settlement | None:
        CURRENT.set(self)
        self.began = self.opened.context.now()
        try:
            if self.delivery.careful:  # it is recorded that the handler is about to run
                self._commit(self.opened.settlement((), closes=False, starts=True))
            argument, work = self._prepare()
            if self._is_late():
                return self.released()
            return self._succeeded(self.service.handler(argument, work))
        except BaseException as error:  # a handler may raise anything at all; the worker goes on
            self.seconds = max(0.0, self.opened.context.now() - self.began)
            return None if isinstance(error, WorkRefused) else self.failed(error)
        finally:
            CURRENT.set(None)

    async def run_async(self) -> Settlement | None:
        """Run an `async def` handler; return the settlement, or None if the delivery was taken over."""
        spans = self.opened.context.spans
        if spans is None or is_unsampled(self.delivery.trace):
            return await self._run_async()
        self.span = spans.start_try(self.service.name, self.delivery, self.ids, self.opened.context.worker)
        with self.span as span:
            span.record(settlement := await self._run_async())
            return settlement

    async def _run_async(self) -> Settlement | None:
        CURRENT.set(self)
        self.began = self.opened.context.now()
        try:
            if self.delivery.careful:
                await self._commit(self.opened.settlement((), closes=False, starts=True))
            argument, work = self._prepare()
            if self._is_late():
                return self.released()
            returned = await self.service.handler(argument, work)
            # Judging what failed may ask a health call, which must not block the loop.
            return await asyncio.to_thread(self._succeeded, returned) if work.failed else self._succeeded(returned)
        except asyncio.CancelledError as error:
            if self._stopped():
                return self.released()
            return await self._failed_async(self.timeout() if self.timed_out else error)
        except BaseException as error:  # a handler may raise anything at all; the worker goes on
            if isinstance(error, KeyboardInterrupt) and self.opened.context.interrupted:
                raise  # a second Ctrl-C, while it blocks the loop
            return await self._failed_async(error)
        finally:
            CURRENT.set(None)

    def _is_late(self) -> bool:
        """Return whether the time is over in which the rate of a dependency allowed the call to begin."""
        if self.delivery.begin_by is None:
            return False
        self.began = self.opened.context.now()
        return self.began > self.delivery.begin_by

    def _stopped(self) -> bool:
        return self.opened.context.stopping and not self.timed_out

    async def _failed_async(self, error: BaseException) -> Settlement | None:
        self.seconds = max(0.0, self.opened.context.now() - self.began)
        found = failure_policy.classified(self, error)
        problem: str | None = None
        if failure_policy.asks_health(self, found):
            try:
                found, problem = await asyncio.to_thread(failure_policy.ask_health, self, found)
            except asyncio.CancelledError:  # out of time; then the failure is judged by itself
                if self._stopped():
                    return self.released()
        return None if isinstance(error, WorkRefused) else failure_policy.settled(self, error, found, problem)

    def _prepare(self) -> tuple[Any, Work]:
        event = self.opened.read_event()
        if self.service.finishes is None:
            self._check_key()
            self.work = Work(self, event, ())
            return event, self.work
        documents = self._documents(self.service.finishes)
        self._check_key()
        self.work = Work(self, event, documents)
        return (documents if self.service.batch else documents[0]), self.work

    def _check_key(self) -> None:
        """Raise why the claim could not compute the key, as the failure of this call."""
        if self.delivery.key_error is not None:
            raise self.delivery.key_error

    def _documents(self, kind: type[Document]) -> list[Document]:
        unread = [given.id for given in self.inputs if given.body is None]
        if unread:
            found = {id: body for id, _, body in self.opened.context.reader.read_bodies(kind.collection, unread)}
            gone = [id for id in unread if id not in found]
            if gone:
                raise NotReady(f"{kind.collection} not found: {', '.join(gone[:5])}", ids=tuple(gone))
            for given in self.inputs:
                given.body = found.get(given.id, given.body)
        return [kind.from_json(given.body) for given in self.inputs if given.body is not None]

    # -- for its work

    def trace(self) -> str | None:
        return parent_of(self.delivery.trace) if self.span is None else self.span.trace

    def key(self) -> str:
        """Return a name of what is asked for, not of how it was delivered: splits and later rounds keep it."""
        inputs = sorted((given.id, given.revision) for given in self.inputs)
        named = [self.service.name, self.delivery.collection, inputs]
        if self.service.finishes is None:
            named.append(self.delivery.event_id)
        return hashlib.blake2b(json.dumps(named).encode(), digest_size=16).hexdigest()

    @property
    def cursor(self) -> Any:
        """The cursor of the last checkpoint of an earlier try, or None."""
        return self.opened.cursors.get(self._cursor_name())

    def _cursor_name(self) -> str:
        """Name a cursor by all ids: a batch's cursor is of no use to its halves."""
        return json.dumps(self.ids) if len(self.ids) > 1 else "".join(self.ids)

    def checkpoint(self, work: Work, cursor: Any) -> Checkpointed:
        self.opened.cursors[self._cursor_name()] = cursor
        settlement = self.written(work, (), closes=False)
        settlement.cursor = json.dumps(self.opened.cursors)
        return self._commit(settlement)

    def _commit(self, settlement: Settlement) -> Checkpointed:
        """Commit a settlement in the middle of the call: at once in a `def` handler, else when it is awaited."""
        if self.abandoned:
            # Its delivery may still be this worker's, for its other calls; its later writes are dropped.
            raise WorkRefused(f"the delivery of {self.service.name!r} was taken over: its time limit was up")
        commit = self.opened.context.commit
        assert commit is not None, "who makes calls commits for them"
        reply = commit(self, settlement)

        def check(verdict: CommitStatus) -> None:
            if verdict is not CommitStatus.COMMITTED:
                raise WorkRefused(f"the delivery of {self.service.name!r} was taken over: {verdict}")
            if self.work is not None:
                self.work.clear()

        async def finish() -> None:
            check(await asyncio.wrap_future(reply))

        if self.service.is_async:
            return Checkpointed(finish)
        check(reply.result())
        return Checkpointed(None)

    def __str__(self) -> str:
        if not self.ids:
            return f"service {self.service.name!r}"
        more = f" and {len(self.ids) - 1} more" if len(self.ids) > 1 else ""
        return f"service {self.service.name!r}, document {self.delivery.collection}/{self.ids[0]}{more}"

    # -- its outcome

    def _succeeded(self, returned: object) -> Settlement:
        self.seconds = max(0.0, self.opened.context.now() - self.began)
        work = self.work
        assert work is not None, "a call that ran has begun"
        work.close()
        if returned is not None:
            raise HandlerReturned(f"{self} returned {_shown(returned)}")
        if work.failed or work.aside or self.service.needs or work.waits_until is not None:
            return failure_policy.mixed(self, work)
        return self.written(work, [Processed(self.ids)])  # as nearly always

    def written(self, work: Work, parts: Sequence[SettlementPart], *, closes: bool = True) -> Settlement:
        # Not by `opened.settlement`: this is made for each event, and keywords that are passed on cost time.
        delivery, context = self.delivery, self.opened.context
        return Settlement(
            delivery.row,
            delivery.token,
            delivery.collection,
            [(given.id, given.revision) for given in self.inputs],
            adds=work.adds,
            replaces=work.replaces,
            removes=work.removes,
            emits=work.emits,
            texts=work.texts,
            vectors=work.vectors,
            joins=work.joins,
            parts=parts,
            closes=closes,
            worker=context.worker,
            version=context.version,
            service=self.service.name,
        )

    def failed(self, error: BaseException) -> Settlement:
        found, problem = failure_policy.ask_health(self, failure_policy.classified(self, error))
        settlement = failure_policy.settled(self, error, found, problem)
        if self.span is not None:
            self.span.record(settlement)
        return settlement

    def timeout(self) -> HandlerTimeout:
        return HandlerTimeout(f"{self} took longer than its time limit of {self.time_limit:g} s")

    def released(self) -> Settlement:
        """Return a settlement that is neither a success nor a failure: back to the queue, uncharged."""
        return self.opened.settlement([RetryLater(self.ids)])


@dataclass(slots=True)
class FinishedCall:
    """A settlement on its way to the commit: the outcome of a call, or a checkpoint in the middle of it."""

    of: Call | OpenDelivery  # a delivery: for a settlement before its calls
    settlement: Settlement
    reply: Future[CommitStatus] | None = None
    """Set for a checkpoint and for a careful start: the call waits for the result of the commit."""
    counted: bool = False  # it was decided whether this closes its delivery


def _shown(returned: object) -> str:
    """Describe what a handler returned, and what it should do instead."""
    kind = f"{returned!r:.100} ({type(returned).__name__})"
    if inspect.iscoroutine(returned):
        returned.close()
        return f"{kind}; a handler that awaits is declared with `async def`"
    what = "yields" if inspect.isgenerator(returned) or inspect.isasyncgen(returned) else "returns"
    return f"{kind}; a handler {what} nothing: what it wants written goes through work.add and work.emit"
