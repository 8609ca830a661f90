"""Handling a delivery: from the claimed row to the settlements that end it."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any

from onward.model.documents import Document
from onward.model.events import Event, read_event
from onward.model.failures import Failure
from onward.model.ledger import (
    MAX_DEATHS,
    Delivery,
    Done,
    Input,
    Part,
    Settlement,
    Standing,
    Wait,
)
from onward.ports import Reader, StoreUnavailable
from onward.retry import Classified, Ladder, Malformed, NotReady, Permanent, classify
from onward.runtime.current import CURRENT
from onward.runtime.judging import Judge, Judgement, combined, dependency_of, halved
from onward.runtime.service import Dependency, Registry, Service
from onward.runtime.signals import Hooks
from onward.runtime.tracing import handed_on, in_use, is_left_out
from onward.runtime.turns import Turns
from onward.runtime.work import Checkpointed, Work, WorkRefused, about

if TYPE_CHECKING:
    from onward.runtime.spans import Tracing, Trying

log = logging.getLogger("onward")

STORE_PAUSE = 5.0
"""Seconds after which a call that could not read the store is made again."""


class HandlerTimeout(TimeoutError):
    """A handler took longer than its time limit."""


class HandlerReturned(Permanent):
    """A handler returned something, where only its work counts."""


class CrashLoop(Permanent):
    """A handler's process died again and again while it ran."""


@dataclass(slots=True)
class Context:
    """What handling a delivery needs to know of its worker."""

    worker: str
    version: str
    registry: Registry
    reader: Reader
    now: Callable[[], float]
    ladder: Ladder
    time_limit: float
    random: Random
    hooks: Hooks
    checkpoint: Callable[[Call, Settlement], Checkpointed]
    newer_alive: Callable[[str, int], bool]
    stopping: bool = False
    turns: Turns = field(default_factory=Turns)
    tracing: Tracing | None = field(default_factory=in_use)


@dataclass(slots=True)
class Handling:
    """One delivery on its way through its calls."""

    service: Service
    delivery: Delivery
    context: Context
    calls: list[Call] = field(default_factory=list)
    opening: Settlement | None = None
    """What can be settled before any call: documents that cannot be read yet, an unreadable event."""
    left: int = 0
    lost: bool = False
    """The delivery is no longer this worker's."""
    cursors: dict[str, Any] = field(default_factory=dict)
    event: Event | None = None
    last_chances: list[Part] = field(default_factory=list)
    """Waits after which no further failure will be forgiven."""

    @property
    def judge(self) -> Judge:
        return Judge(self.service, self.context.ladder, self.context.random)

    def settlement(self, parts: Sequence[Part], *, closes: bool = True) -> Settlement:
        delivery = self.delivery
        return Settlement(
            delivery.row,
            delivery.token,
            delivery.collection,
            parts=parts,
            closes=closes,
            worker=self.context.worker,
            version=self.context.version,
        )

    def judged(
        self,
        ids: Sequence[str],
        error: BaseException,
        classified: Classified,
        *,
        took: float = 0.0,
        ill: str | None = None,
    ) -> Judgement:
        """Decide what a failure means for these documents."""
        judgement = self.judge.judge(
            self.delivery, ids, error, classified, self.failure(error, classified), took=took, ill=ill
        )
        if judgement.last:
            self.last_chances.append(judgement.parts[0])
        return judgement

    def failure(self, error: BaseException, classified: Classified | None = None) -> Failure:
        """Describe an error, with the dependency that it points at."""
        try:
            failure = self._described(error, classified)
        except BaseException as broken:  # an exception may raise whatever it is asked
            kinds = f"{type(error).__name__} cannot be described: {type(broken).__name__}"
            return self._described(RuntimeError(kinds), classified)
        dependency: object = failure.dependency  # somebody else's exception may call anything at all so
        if classified is not None and dependency is None:
            return replace(failure, dependency=classified.dependency or dependency_of(self.service, classified))
        return failure if isinstance(dependency, str | None) else replace(failure, dependency=None)

    def _described(self, error: BaseException, classified: Classified | None) -> Failure:
        return Failure.of(
            error,
            at=self.context.now(),
            service=self.service.name,
            worker=self.context.worker,
            version=self.context.version,
            classified=classified,
            trace=self.delivery.trace or "",
        )


def prepare(service: Service, delivery: Delivery, context: Context) -> Handling:
    """Look at a claimed delivery: what can be run, what must wait, what is over already."""
    handling = Handling(service, delivery, context)
    ready = [one for one in delivery.inputs if one.standing is Standing.READY]
    if delivery.deaths >= MAX_DEATHS:
        handling.opening = handling.settlement(_after_deaths(handling, [one.id for one in ready]))
        return handling
    if delivery.version > service.on.version and context.newer_alive(service.name, delivery.version):
        handling.opening = handling.settlement([Wait([one.id for one in delivery.inputs], after=5.0)])
        return handling
    try:
        handling.event = _read(service, delivery)
    except Malformed as error:
        handling.opening = handling.settlement([handling.judge.malformed(delivery, handling.failure(error))])
        return handling
    if service.finishes is None:
        handling.calls = [Call(handling, [])]
    else:
        _prepare_documents(handling, ready)
    handling.cursors = json.loads(delivery.cursor) if delivery.cursor else {}
    handling.left = len(handling.calls)
    return handling


def _read(service: Service, delivery: Delivery) -> Event:
    if delivery.event_type != service.on.event_type:
        raise Malformed(f"service {service.name!r} takes {service.on.event_type}, not {delivery.event_type}")
    if delivery.version > service.on.version:
        raise Malformed(
            f"{delivery.event_type} has version {delivery.version}, this worker knows {service.on.version} "
            "and no newer worker is alive; start one, then requeue"
        )
    return read_event(service.on, delivery.data)


def _after_deaths(handling: Handling, ids: Sequence[str]) -> tuple[Part, ...]:
    """Too many deaths: give up on a document that was alone, else find out which one it is."""
    if len(ids) > 1:
        return halved(ids, None, deaths=handling.delivery.deaths - 1)
    error = CrashLoop(
        f"the worker process died {handling.delivery.deaths} times while service "
        f"{handling.service.name!r} handled this, the last time alone in its process"
    )
    failure = replace(handling.failure(error), kind="crash")
    return (handling.judge.crash_loop(handling.delivery, ids, failure),)


def _prepare_documents(handling: Handling, ready: list[Input]) -> None:
    service, delivery = handling.service, handling.delivery
    skipped = [one for one in delivery.inputs if one.standing in (Standing.FINAL, Standing.SUPERSEDED)]
    for one in skipped:
        log.debug("%s: %s/%s is %s, skipped", service.name, delivery.collection, one.id, one.standing)
    missing = [one.id for one in delivery.inputs if one.standing is Standing.MISSING]
    parts: tuple[Part, ...] = ()
    if missing:
        error = NotReady(f"{delivery.collection} not found: {', '.join(missing[:5])}", ids=tuple(missing))
        parts = handling.judged(missing, error, classify(error)).parts
    if missing or not ready:
        handling.opening = handling.settlement(parts, closes=not ready)
    size = min(service.batch or 1, delivery.batch or len(ready) or 1)
    handling.calls = [Call(handling, ready[start : start + size]) for start in range(0, len(ready), size)]


class Call:
    """One call of a handler, for one document, a batch of them, or an event."""

    __slots__ = ("began", "handling", "ids", "inputs", "service", "timed_out", "took", "trying", "work")

    def __init__(self, handling: Handling, inputs: Sequence[Input]) -> None:
        self.handling = handling
        self.service = handling.service
        self.inputs = inputs
        self.ids = [one.id for one in inputs]
        self.work: Work | None = None
        self.began = 0.0
        self.took = 0.0
        self.timed_out = False
        """It was cancelled because its time limit was up."""
        self.trying: Trying | None = None
        """Its span, where there is tracing."""

    @property
    def time_limit(self) -> float:
        return self.service.time_limit or self.handling.context.time_limit

    def let_go(self) -> None:
        """It is over: what it read and said is needed no more, and goes without waiting for the collector."""
        self.work = None
        if self.trying is not None:
            self.trying.end()
        for one in self.inputs:  # which they were is still asked, if its thread goes on after its time was up
            one.body = None
        if self.handling.left == 0:
            self.handling.calls = []

    # -- running

    def run(self) -> Settlement | None:
        """Run a `def` handler; answer what it makes true, or None if that is nobody's business any more."""
        tracing = self.handling.context.tracing
        if tracing is None or is_left_out(self.handling.delivery.trace):
            return self._run()
        with self._traced(tracing) as trying:
            trying.told(settlement := self._run())
            return settlement

    def _run(self) -> Settlement | None:
        CURRENT.set(self)
        self.began = self.handling.context.now()
        try:
            if self.handling.delivery.careful:
                self.handling.context.checkpoint(self, self._started())
            argument, work = self._begin()
            return self._succeeded(self.service.handler(argument, work))
        except BaseException as error:  # a handler may raise anything at all; the worker goes on
            return self._failed(error)
        finally:
            CURRENT.set(None)

    async def run_async(self) -> Settlement | None:
        """Run an `async def` handler."""
        tracing = self.handling.context.tracing
        if tracing is None or is_left_out(self.handling.delivery.trace):
            return await self._run_async()
        with self._traced(tracing) as trying:
            trying.told(settlement := await self._run_async())
            return settlement

    async def _run_async(self) -> Settlement | None:
        CURRENT.set(self)
        self.began = self.handling.context.now()
        try:
            if self.handling.delivery.careful:
                await self.handling.context.checkpoint(self, self._started())
            argument, work = self._begin()
            returned = await self.service.handler(argument, work)
            # Judging what failed may ask a health call, and that must not hold up the loop.
            return await asyncio.to_thread(self._succeeded, returned) if work.failed else self._succeeded(returned)
        except asyncio.CancelledError as error:
            if self._stopped():
                return self.released()
            return await self._failed_async(self.timeout() if self.timed_out else error)
        except BaseException as error:  # a handler may raise anything at all; the worker goes on
            return await self._failed_async(error)
        finally:
            CURRENT.set(None)

    def _stopped(self) -> bool:
        return self.handling.context.stopping and not self.timed_out

    async def _failed_async(self, error: BaseException) -> Settlement | None:
        self.took = self._elapsed()
        classified = self._classify(error)
        asked = self._asked(classified)
        ill: str | None = None
        if asked is not None:
            try:
                ill = await asyncio.to_thread(asked.ill)
            except asyncio.CancelledError:  # out of time; then the failure is judged by itself
                if self._stopped():
                    return self.released()
        return None if isinstance(error, WorkRefused) else self._settled(error, classified, ill)

    def timeout(self) -> HandlerTimeout:
        return HandlerTimeout(
            f"service {self.service.name!r}{self._about()} took longer than its time limit "
            f"of {self.time_limit:g} s"
        )

    def _begin(self) -> tuple[Any, Work]:
        handling, delivery, context = self.handling, self.handling.delivery, self.handling.context
        assert handling.event is not None, "a delivery without a readable event has no calls"
        documents = self._documents()
        self.work = work = Work(
            service=self.service.name,
            event=handling.event,
            documents=documents,
            store=context.reader,
            key=self._key,
            try_number=delivery.tries + 1,
            round=delivery.round,
            cursor=handling.cursors.get(self._cursor_name()) if handling.cursors else None,
            now=context.now,
            checkpoint=self._checkpoint,
            turns=context.turns,
            trace=self._trace,
        )
        for one in self.inputs:
            work.note_revision(delivery.collection or "", one.id, one.revision)
        if self.service.finishes is None:
            return handling.event, work
        return (documents if self.service.batch else documents[0]), work

    def _traced(self, tracing: Tracing) -> Trying:
        handling = self.handling
        self.trying = tracing.trying(self.service.name, handling.delivery, self.ids, handling.context.worker)
        return self.trying

    def _trace(self) -> str | None:
        """Where what it emits belongs."""
        return handed_on(self.handling.delivery.trace) if self.trying is None else self.trying.trace

    def _key(self) -> str:
        """Names what is asked, not how it was delivered: splits and later rounds must not change it."""
        inputs = sorted((one.id, one.revision) for one in self.inputs)
        named = [self.service.name, self.handling.delivery.collection, inputs]
        if self.service.finishes is None:
            named.append(self.handling.delivery.event_id)
        return hashlib.blake2b(json.dumps(named).encode(), digest_size=16).hexdigest()

    def _cursor_name(self) -> str:
        """A batch's cursor is of no use to its halves."""
        return json.dumps(self.ids) if len(self.ids) > 1 else "".join(self.ids)

    def _about(self) -> str:
        return about([(self.handling.delivery.collection or "", id) for id in self.ids])

    def _documents(self) -> list[Document]:
        kind = self.service.finishes
        if kind is None:
            return []
        unread = [one.id for one in self.inputs if one.body is None]
        if unread:
            found = self.handling.context.reader.read_bodies(kind.collection, unread)
            late = {id: body for id, _, body in found}
            gone = [id for id in unread if id not in late]
            if gone:
                raise NotReady(f"{kind.collection} not found: {', '.join(gone[:5])}", ids=tuple(gone))
            for one in self.inputs:
                one.body = late.get(one.id, one.body)
        return [kind.from_json(one.body) for one in self.inputs if one.body is not None]

    # -- what came of it

    def _succeeded(self, returned: object) -> Settlement | None:
        work = self._closed_work()
        if returned is not None:
            raise HandlerReturned(f"service {self.service.name!r}{self._about()} returned {_shown(returned)}")
        if not (work.failed or work.aside or self.service.needs) and work.waits_until is None:
            return self._written(work, [Done(self.ids)])  # as nearly always
        rest = [id for id in self.ids if id not in work.failed and id not in work.aside]
        went_well = bool(rest) or not self.ids
        parts: list[Part] = []
        if work.waits_until is None:
            parts.append(Done(rest))
        elif went_well:
            parts.append(Wait(rest, until=work.waits_until))
        judgements = [self._judged([id], error) for id, error in work.failed.items()]
        parts += [part for judgement in judgements for part in judgement.parts]
        for id, error in work.aside.items():
            failure = self.handling.failure(error, self._classify(error))
            parts.append(self.handling.judge.aside(self.handling.delivery, [id], failure))
        settlement = self._written(work, parts)
        if self.service.needs:
            reports = [judgement.report for judgement in judgements]
            settlement.dependencies = combined(reports, self.service.needs if went_well else ())
        return settlement

    def _closed_work(self) -> Work:
        self.took = self._elapsed()
        assert self.work is not None, "a call that ran has begun"
        self.work.close()
        return self.work

    def _elapsed(self) -> float:
        return max(0.0, self.handling.context.now() - self.began)

    def _written(self, work: Work, parts: Sequence[Part], *, closes: bool = True) -> Settlement:
        handling, delivery = self.handling, self.handling.delivery
        return Settlement(
            delivery.row,
            delivery.token,
            delivery.collection,
            [(one.id, one.revision) for one in self.inputs],
            adds=work.adds,
            replaces=work.replaces,
            removes=work.removes,
            emits=work.emits,
            texts=work.texts,
            vectors=work.vectors,
            parts=parts,
            closes=closes,
            worker=handling.context.worker,
            version=handling.context.version,
        )

    def _failed(self, error: BaseException) -> Settlement | None:
        self.took = self._elapsed()
        return None if isinstance(error, WorkRefused) else self.failed(error)

    def failed(self, error: BaseException) -> Settlement:
        """Judge an error; the documents of this call go where that says."""
        classified = self._classify(error)
        asked = self._asked(classified)
        settlement = self._settled(error, classified, asked.ill() if asked else None)
        if self.trying is not None:
            self.trying.told(settlement)
        return settlement

    def _settled(self, error: BaseException, classified: Classified, ill: str | None) -> Settlement:
        if isinstance(error, StoreUnavailable):
            # The store was away, or too busy: nobody's fault, and an outage burns nothing.
            return self.handling.settlement([Wait(self.ids, after=STORE_PAUSE)])
        judgement = self.handling.judged(self.ids, error, classified, took=self.took, ill=ill)
        settlement = self.handling.settlement(judgement.parts)
        settlement.dependencies = judgement.report
        return settlement

    def _judged(self, ids: Sequence[str], error: BaseException) -> Judgement:
        classified = self._classify(error)
        asked = self._asked(classified)
        return self.handling.judged(ids, error, classified, took=self.took, ill=asked.ill() if asked else None)

    def _classify(self, error: BaseException) -> Classified:
        now = self.handling.context.now()
        if self.service.classify is classify:
            return classify(error, now=now)
        try:
            classified = self.service.classify(error)
            if isinstance(classified, Classified):
                return classified
            problem = f"it answered {type(classified).__name__}, not Classified"
        except BaseException as broken:
            problem = self.handling.failure(broken).traceback
        log.error("the classifier of service %r failed; the usual one decides: %s", self.service.name, problem)
        return classify(error, now=now)

    def _asked(self, classified: Classified) -> Dependency | None:
        """The dependency whose health call has a say in a failure."""
        name = dependency_of(self.service, classified)
        if name is None or classified.rate_limited:
            return None
        known = self.handling.context.registry.dependencies.get(name)
        return known if known is not None and known.health is not None else None

    def released(self) -> Settlement:
        """Neither a success nor a failure: back to the queue, uncharged."""
        return self.handling.settlement([Wait(self.ids)])

    def _started(self) -> Settlement:
        """Record that the handler is about to run."""
        settlement = self.handling.settlement((), closes=False)
        settlement.starts = True
        return settlement

    def _checkpoint(self, work: Work, cursor: Any) -> Checkpointed:
        self.handling.cursors[self._cursor_name()] = cursor
        settlement = self._written(work, (), closes=False)
        settlement.cursor = json.dumps(self.handling.cursors)
        return self.handling.context.checkpoint(self, settlement)


def _shown(returned: object) -> str:
    """What a handler returned, and what it should do instead."""
    kind = f"{returned!r:.100} ({type(returned).__name__})"
    if inspect.iscoroutine(returned):
        returned.close()
        return f"{kind}; a handler that awaits is declared with `async def`"
    if inspect.isgenerator(returned) or inspect.isasyncgen(returned):
        return f"{kind}; a handler does not yield: what it wants written goes through work.add and work.emit"
    return f"{kind}; a handler returns nothing: what it wants written goes through work.add and work.emit"
