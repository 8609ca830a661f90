"""The settlement of a failed call: describes and classifies the error, and applies `failure_policy`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from onward.ledger.store_errors import StoreUnavailable
from onward.model.failures import Failure
from onward.model.ledger import MAX_DEATHS, Processed, RetryLater, Settlement, SettlementPart
from onward.retry import Classified, Malformed, NotReady, Permanent, classify
from onward.runtime.failure_policy import Judge, Judgement, combined, dependency_of, halved
from onward.runtime.health_calls import Health

if TYPE_CHECKING:
    from onward.runtime.handler_call import Call, OpenDelivery
    from onward.runtime.work import Work

log = logging.getLogger("onward")

STORE_PAUSE_SECONDS = 5.0  # after this time a call that could not read the store is made again
NEWER_WORKER_PAUSE_SECONDS = 5.0  # after this time an event that needs a newer worker is offered again


class CrashLoop(Permanent):
    """A handler's process died again and again while it ran."""


def describe(opened: OpenDelivery, error: BaseException, classified: Classified | None = None) -> Failure:
    """Describe an error, with the dependency that it points at."""
    try:
        failure = _described(opened, error, classified)
    except BaseException as broken:  # any method of an exception may raise
        kinds = f"{type(error).__name__} cannot be described: {type(broken).__name__}"
        return _described(opened, RuntimeError(kinds), classified)
    dependency: object = failure.dependency  # an attribute of another library's exception may be anything
    if classified is not None and dependency is None:
        return replace(failure, dependency=classified.dependency or dependency_of(opened.service, classified))
    return failure if isinstance(dependency, str | None) else replace(failure, dependency=None)


def _described(opened: OpenDelivery, error: BaseException, classified: Classified | None) -> Failure:
    return Failure.of(
        error,
        at=opened.context.now(),
        service=opened.service.name,
        worker=opened.context.worker,
        version=opened.context.version,
        classified=classified,
        trace=opened.delivery.trace or "",
    )


def _judge(opened: OpenDelivery) -> Judge:
    return Judge(opened.service, opened.context.ladder, opened.context.random)


def _judged(
    opened: OpenDelivery,
    ids: Sequence[str],
    error: BaseException,
    classified: Classified,
    *,
    seconds: float = 0.0,
    health: Health | None = None,
) -> Judgement:
    """Decide what a failure means for these documents."""
    failure = describe(opened, error, classified)
    judgement = _judge(opened).judge(opened.delivery, ids, error, classified, failure, took=seconds, health=health)
    if judgement.last:
        opened.last_chances.append(judgement.parts[0])
    return judgement


# -- before any call


def refusal(opened: OpenDelivery) -> Settlement | None:
    """Return the settlement of a delivery for which no call can be made: a crash loop, another type or version."""
    service, delivery = opened.service, opened.delivery
    if delivery.deaths >= MAX_DEATHS:
        return opened.settlement(_after_deaths(opened))
    if delivery.version > service.on.version and opened.context.newer_alive(service.name, delivery.version):
        ids = [given.id for given in delivery.inputs]
        return opened.settlement([RetryLater(ids, after=NEWER_WORKER_PAUSE_SECONDS)])
    if delivery.event_type != service.on.event_type:
        problem = f"service {service.name!r} takes {service.on.event_type}, not {delivery.event_type}"
    elif delivery.version > service.on.version:
        problem = (
            f"{delivery.event_type} has version {delivery.version}, this worker knows {service.on.version} "
            "and no newer worker is alive; start one, then requeue"
        )
    else:
        return None
    return opened.settlement([_judge(opened).malformed(delivery, describe(opened, Malformed(problem)))])


def _after_deaths(opened: OpenDelivery) -> tuple[SettlementPart, ...]:
    """Give up a document that was alone when its process died; else halve the batch to find the one."""
    ids = [given.id for given in opened.ready]
    if len(ids) > 1:
        return halved(ids, None, deaths=opened.delivery.deaths - 1)
    error = CrashLoop(
        f"the worker process died {opened.delivery.deaths} times while service "
        f"{opened.service.name!r} handled this, the last time alone in its process"
    )
    failure = replace(describe(opened, error), kind="crash")
    return (_judge(opened).crash_loop(opened.delivery, ids, failure),)


def missing(opened: OpenDelivery, ids: Sequence[str]) -> tuple[SettlementPart, ...]:
    """Return what becomes of documents that do not exist yet."""
    if not ids:
        return ()
    error = NotReady(f"{opened.delivery.collection} not found: {', '.join(ids[:5])}", ids=tuple(ids))
    return _judged(opened, ids, error, classify(error)).parts


# -- after a call


def classified(call: Call, error: BaseException) -> Classified:
    """Classify an error by the service's own classifier, or by the usual one where that fails."""
    now = call.opened.context.now()
    if call.service.classify is classify:
        return classify(error, now=now)
    try:
        found = call.service.classify(error)
        if isinstance(found, Classified):
            return found
        problem = f"it answered {type(found).__name__}, not Classified"
    except BaseException as broken:
        problem = describe(call.opened, broken).traceback
    log.error("the classifier of service %r failed; the usual one decides: %s", call.service.name, problem)
    return classify(error, now=now)


def asks_health(call: Call, found: Classified) -> bool:
    """Return whether a failure is judged by the health call of a dependency, which may take a while."""
    name = dependency_of(call.service, found)
    # A rate limit, and an error that opens the breaker by itself, say already what is wrong.
    return name is not None and not (found.rate_limited or found.opens) and call.opened.context.health.has(name)


def health_of(call: Call, found: Classified) -> Health | None:
    """Return what the health call says of the dependency that a failure points at, if it is to be asked."""
    if not asks_health(call, found) or (name := dependency_of(call.service, found)) is None:
        return None
    return call.opened.context.health.ask(name)


def settled(call: Call, error: BaseException, found: Classified, health: Health | None) -> Settlement:
    """Return the settlement of a failed call."""
    opened = call.opened
    if isinstance(error, StoreUnavailable):
        # The store was away or too busy: the documents did not fail, and nothing is charged.
        return opened.settlement([RetryLater(call.ids, after=STORE_PAUSE_SECONDS)])
    if opened.unreadable is not None:
        dead = _judge(opened).malformed(opened.delivery, describe(opened, opened.unreadable))
        return opened.settlement([dead] if error is opened.unreadable else [])
    judgement = _judged(opened, call.ids, error, found, seconds=call.seconds, health=health)
    return opened.settlement(judgement.parts, dependencies=judgement.report)


def mixed(call: Call, work: Work) -> Settlement:
    """Return the settlement of a call that succeeded, but not for all of its documents, or needs a dependency."""
    opened, service = call.opened, call.service
    rest = [id for id in call.ids if id not in work.failed and id not in work.aside]
    went_well = bool(rest) or not call.ids
    parts: list[SettlementPart] = []
    if work.waits_until is None:
        parts.append(Processed(rest))
    elif went_well:
        parts.append(RetryLater(rest, until=work.waits_until))
    judgements: list[Judgement] = []
    for id, error in work.failed.items():
        found = classified(call, error)
        health = health_of(call, found)
        judgements.append(_judged(opened, [id], error, found, seconds=call.seconds, health=health))
        parts += judgements[-1].parts
    for id, error in work.aside.items():
        failure = describe(opened, error, classified(call, error))
        parts.append(_judge(opened).aside(opened.delivery, [id], failure))
    settlement = call.written(work, parts)
    if service.needs:
        reports = [judgement.report for judgement in judgements]
        settlement.dependencies = combined(reports, service.needs if went_well else ())
    return settlement
