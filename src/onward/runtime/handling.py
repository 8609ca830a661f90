"""Handling a delivery: from the claimed row to the settlements that end it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from onward.model.documents import Document
from onward.model.events import Event, read_event
from onward.model.failures import Failure
from onward.model.ledger import (
    MAX_DEATHS,
    Delivery,
    DependencyReport,
    Done,
    Input,
    Part,
    Settlement,
    Standing,
    Wait,
)
from onward.ports import Reader
from onward.retry import Classified, Ladder, Malformed, NotReady, Permanent, classify
from onward.runtime.judging import Judge, Judgement, dependency_of, halved
from onward.runtime.service import Registry, Service
from onward.runtime.signals import Hooks
from onward.runtime.work import Checkpointed, Work, WorkRefused

log = logging.getLogger("onward")


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

    def failure(self, error: BaseException) -> Failure:
        return Failure.of(
            error,
            at=self.context.now(),
            service=self.service.name,
            worker=self.context.worker,
            version=self.context.version,
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
    return (handling.judge.crash_loop(handling.delivery, ids, handling.failure(error)),)


def _prepare_documents(handling: Handling, ready: list[Input]) -> None:
    service, delivery = handling.service, handling.delivery
    skipped = [one for one in delivery.inputs if one.standing in (Standing.FINAL, Standing.SUPERSEDED)]
    for one in skipped:
        log.debug("%s: %s/%s is %s, skipped", service.name, delivery.collection, one.id, one.standing)
    missing = [one.id for one in delivery.inputs if one.standing is Standing.MISSING]
    parts: tuple[Part, ...] = ()
    if missing:
        error = NotReady(f"{delivery.collection} not found: {', '.join(missing[:5])}", ids=tuple(missing))
        failure = handling.failure(error)
        parts = handling.judge.judge(delivery, missing, error, classify(error), failure).parts
    if missing or not ready:
        handling.opening = handling.settlement(parts, closes=not ready)
    size = min(service.batch or 1, delivery.batch or len(ready) or 1)
    handling.calls = [Call(handling, ready[start : start + size]) for start in range(0, len(ready), size)]


class Call:
    """One call of a handler, for one document, a batch of them, or an event."""

    __slots__ = ("began", "handling", "ids", "inputs", "judgement", "service", "timed_out", "took", "work")

    def __init__(self, handling: Handling, inputs: Sequence[Input]) -> None:
        self.handling = handling
        self.service = handling.service
        self.inputs = inputs
        self.ids = [one.id for one in inputs]
        self.work: Work | None = None
        self.judgement: Judgement | None = None
        self.began = 0.0
        self.took = 0.0
        self.timed_out = False
        """It was cancelled because its time limit was up."""

    @property
    def time_limit(self) -> float:
        return self.service.time_limit or self.handling.context.time_limit

    # -- running

    def run(self) -> Settlement | None:
        """Run a `def` handler; answer what it makes true, or None if that is nobody's business any more."""
        self.began = self.handling.context.now()
        try:
            if self.handling.delivery.careful:
                self.handling.context.checkpoint(self, self._started())
            argument, work = self._begin()
            return self._succeeded(self.service.handler(argument, work))
        except BaseException as error:  # a handler may raise anything at all; the worker goes on
            return self._failed(error)

    async def run_async(self) -> Settlement | None:
        """Run an `async def` handler."""
        self.began = self.handling.context.now()
        try:
            if self.handling.delivery.careful:
                await self.handling.context.checkpoint(self, self._started())
            argument, work = self._begin()
            return self._succeeded(await self.service.handler(argument, work))
        except asyncio.CancelledError as error:
            if self.timed_out:
                return self._failed(self.timeout())
            return self.released() if self.handling.context.stopping else self._failed(error)
        except BaseException as error:  # a handler may raise anything at all; the worker goes on
            if self._asks_health(error):
                return await asyncio.to_thread(self._failed, error)
            return self._failed(error)

    def timeout(self) -> HandlerTimeout:
        return HandlerTimeout(
            f"service {self.service.name!r} took longer than its time limit of {self.time_limit:g} s"
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
            key=f"{delivery.key}:{self.ids[0]}" if self.ids else delivery.key,
            try_number=delivery.tries + 1,
            round=delivery.round,
            cursor=handling.cursors.get(self.ids[0] if self.ids else ""),
            now=context.now,
            checkpoint=self._checkpoint,
            trace=delivery.trace,
        )
        for one in self.inputs:
            work.note_revision(delivery.collection or "", one.id, one.revision)
        if self.service.finishes is None:
            return handling.event, work
        return (documents if self.service.batch else documents[0]), work

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
            raise HandlerReturned(
                f"service {self.service.name!r} returned {returned!r:.100} ({type(returned).__name__}); a "
                "handler returns nothing: what it wants written goes through work.add and work.emit"
            )
        parts: list[Part] = []
        if work.waits_until is not None:
            parts.append(Wait(self.ids, until=work.waits_until))
        else:
            parts.append(Done([id for id in self.ids if id not in work.failed]))
            for id, error in work.failed.items():
                parts += self._judged([id], error).parts
        settlement = self._written(work, parts)
        if self.service.needs:
            settlement.dependencies = DependencyReport(succeeded=self.service.needs)
        return settlement

    def _closed_work(self) -> Work:
        self.took = self._elapsed()
        assert self.work is not None, "a call that ran has begun"
        self.work.close()
        return self.work

    def _elapsed(self) -> float:
        return max(0.0, self.handling.context.now() - self.began)

    def _written(self, work: Work, parts: Sequence[Part], *, closes: bool = True) -> Settlement:
        settlement = self.handling.settlement(parts, closes=closes)
        settlement.inputs = [(one.id, one.revision) for one in self.inputs]
        settlement.adds = work.adds
        settlement.replaces = work.replaces
        settlement.removes = work.removes
        settlement.emits = work.emits
        return settlement

    def _failed(self, error: BaseException) -> Settlement | None:
        self.took = self._elapsed()
        if isinstance(error, WorkRefused):
            return None
        return self.failed(error)

    def failed(self, error: BaseException) -> Settlement:
        """Judge an error; the documents of this call go where that says."""
        judgement = self._judged(self.ids, error)
        settlement = self.handling.settlement(judgement.parts)
        settlement.dependencies = judgement.report
        return settlement

    def _judged(self, ids: Sequence[str], error: BaseException) -> Judgement:
        handling = self.handling
        classified = self._classify(error)
        ill: str | None = None
        dependency = dependency_of(self.service, classified)
        if dependency is not None and not classified.rate_limited:
            known = handling.context.registry.dependencies.get(dependency)
            ill = known.ill() if known else None
        self.judgement = handling.judge.judge(
            handling.delivery, ids, error, classified, handling.failure(error), took=self.took, ill=ill
        )
        return self.judgement

    def _classify(self, error: BaseException) -> Classified:
        try:
            if self.service.classify is classify:
                return classify(error, now=self.handling.context.now())
            return self.service.classify(error)
        except Exception:
            log.exception("the classifier of service %r failed; the usual one decides", self.service.name)
            return classify(error)

    def _asks_health(self, error: BaseException) -> bool:
        dependency = dependency_of(self.service, self._classify(error))
        return dependency in self.handling.context.registry.healthy_probes()

    def released(self) -> Settlement:
        """Neither a success nor a failure: back to the queue, uncharged."""
        return self.handling.settlement([Wait(self.ids)])

    def _started(self) -> Settlement:
        """Record that the handler is about to run."""
        settlement = self.handling.settlement((), closes=False)
        settlement.starts = True
        return settlement

    def _checkpoint(self, work: Work, cursor: Any) -> Checkpointed:
        self.handling.cursors[self.ids[0] if self.ids else ""] = cursor
        settlement = self._written(work, (), closes=False)
        settlement.cursor = json.dumps(self.handling.cursors)
        return self.handling.context.checkpoint(self, settlement)
