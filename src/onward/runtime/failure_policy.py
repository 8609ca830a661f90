"""What a failure leads to: its error is described and classified; then wait, split, set aside, or give up.

Whether a failure is the documents' own, or that of a dependency, the store decides when it settles the call
(`ledger/breakers.py`): it knows whether other documents succeeded. Here it is judged as their own.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from onward.ledger.store_errors import StoreUnavailable
from onward.model.events import Envelope, dotted, new_id
from onward.model.failures import Failure
from onward.model.fingerprints import MAX_CALL_VALUES, call_values
from onward.model.ledger import (
    MAX_DEATHS,
    Charge,
    DeadLettered,
    DependencyReport,
    Expired,
    InFailedBatch,
    InputStatus,
    Processed,
    RetryLater,
    Settlement,
    SettlementPart,
)
from onward.retry.classify import classify
from onward.retry.errors import Classified, Kind, Malformed, NotReady, Permanent
from onward.retry.iso_time import iso_time
from onward.retry.policy import Decision, GiveUp, Reason, Retry, RetryPolicy
from onward.runtime.service import Service
from onward.runtime.tracing import parent_of

if TYPE_CHECKING:
    from onward.runtime.handler_call import Call, OpenDelivery
    from onward.runtime.work import Work

log = logging.getLogger("onward")

STORE_PAUSE_SECONDS = 5.0  # after this time a call that could not read the store is made again
NEWER_WORKER_PAUSE_SECONDS = 5.0  # after this time an event that needs a newer worker is offered again
MAX_DESCRIBED_BODIES = 20  # documents of a failed batch whose values are recognised in its message
DEFAULT_PAUSE = 10.0  # seconds to leave a dependency alone that is rate limiting and does not say for how long

Ids = Sequence[str]
Judgement = tuple[Sequence[SettlementPart], DependencyReport | None]
"""The settlement parts of the documents of a failed call, and the evidence about dependencies."""


class DeadlinePassed(Permanent):
    """The deadline of an event passed before it could be tried again."""


class CrashLoop(Permanent):
    """A handler's process died again and again while it ran."""


# -- before any call


def refusal(opened: OpenDelivery) -> Settlement:
    """Return the settlement of a delivery for which no call can be made: a crash loop, another type or version."""
    service, delivery = opened.service, opened.delivery
    if delivery.deaths >= MAX_DEATHS:
        ids = [given.id for given in opened.ready]
        if len(ids) > 1:  # halve the batch to find the one
            return opened.settlement(_halved(ids, None, deaths=delivery.deaths - 1))
        error = CrashLoop(
            f"the worker process died {delivery.deaths} times while service {service.name!r} handled this, "
            "the last time alone in its process"
        )
        failure = replace(describe(opened, error), kind="crash")
        return opened.settlement([_dead(opened, ids, Reason.CRASH_LOOP, failure, Charge.NOTHING, final=True)])
    if delivery.version > service.on.version and opened.context.newer_alive(service.name, delivery.version):
        return opened.settlement([RetryLater(opened.ids, after=NEWER_WORKER_PAUSE_SECONDS)])
    if delivery.event_type != service.on.event_type:
        problem = f"service {service.name!r} takes {service.on.event_type}, not {delivery.event_type}"
    else:
        problem = (
            f"{delivery.event_type} has version {delivery.version}, this worker knows {service.on.version} "
            "and no newer worker is alive; start one, then requeue"
        )
    return opened.settlement([_malformed(opened, Malformed(problem))])


def expired(opened: OpenDelivery) -> Settlement:
    """Return the settlement of a delivery whose deadline has passed: what has failed before is a dead letter."""
    delivery = opened.delivery
    has_failed = delivery.failed_at is not None or delivery.deaths > 0
    unfinished = [one for one in delivery.inputs if one.status in (InputStatus.READY, InputStatus.MISSING)]
    open_inputs = [one for one in unfinished if not one.in_time]
    late = [given.id for given in open_inputs if has_failed or given.failed]
    fresh = [given.id for given in open_inputs if given.id not in late]
    parts: list[SettlementPart] = []
    if in_time := [one.id for one in unfinished if one.in_time]:
        parts.append(RetryLater(in_time, own_deadline=True))
    if fresh or not (delivery.inputs or has_failed):
        parts.append(Expired(fresh))
    if late or (has_failed and not delivery.inputs):
        error = DeadlinePassed(
            f"the deadline of this event, {iso_time(delivery.expires or 0.0)}, passed before it was tried again"
        )
        failure = describe(opened, error, ids=late)
        parts.append(_dead(opened, late, Reason.TTL_EXCEEDED, failure, Charge.NOTHING, final=True))
    return opened.settlement(parts)


def missing(opened: OpenDelivery, ids: Ids) -> Sequence[SettlementPart]:
    if not ids:
        return ()
    error = NotReady(f"{opened.delivery.collection} not found: {', '.join(ids[:5])}", ids=tuple(ids))
    return _judge(opened, ids, error, classify(error), 0.0, None)[0]


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
        problem = f"it returned {type(found).__name__}, not Classified"
    except BaseException as broken:
        problem = describe(call.opened, broken).traceback
    log.error("the classifier of service %r failed; the usual one decides: %s", call.service.name, problem)
    return classify(error, now=now)


def describe(
    opened: OpenDelivery, error: BaseException, found: Classified | None = None, ids: Ids | None = None
) -> Failure:
    """Describe an error, with the dependency that it points at; `ids` are the documents that it is about."""

    def described(error: BaseException) -> Failure:
        return Failure.of(
            error,
            at=opened.context.now(),
            service=opened.service.name,
            worker=opened.context.worker,
            version=opened.context.version,
            classified=found,
            trace=opened.delivery.trace or "",
            values=_call_values(opened, opened.ids if ids is None else ids),
        )

    try:
        failure = described(error)
    except BaseException as broken:  # any method of an exception may raise
        return described(RuntimeError(f"{type(error).__name__} cannot be described: {type(broken).__name__}"))
    dependency: object = failure.dependency  # an attribute of another library's exception may be anything
    if found is not None and dependency is None:
        return replace(failure, dependency=found.dependency or dependency_of(opened.service, found))
    return failure if isinstance(dependency, str | None) else replace(failure, dependency=None)


def _call_values(opened: OpenDelivery, ids: Ids) -> set[str]:
    """Return the texts of an event and its documents: where a message has them, they are not part of the cause."""
    delivery, wanted = opened.delivery, set(ids)
    values = {delivery.event_id, *ids, *(f"{delivery.collection}/{id}" for id in ids)}
    values |= {f"{ids[0]} and {len(ids) - 1} more"} if len(ids) > 1 else set()
    bodies = [given.body for given in delivery.inputs if given.id in wanted and given.body is not None]
    for text in (delivery.data, *bodies[:MAX_DESCRIBED_BODIES]):
        with suppress(ValueError, RecursionError):
            values.update(islice(call_values(json.loads(text)), MAX_CALL_VALUES))
    return values


def dependency_of(service: Service, found: Classified) -> str | None:
    """Return the needed dependency that a failure points at.

    A named dependency must be needed. Without a name, the service must need exactly one: guessing among
    several could open the wrong breaker.
    """
    if not found.unavailable:
        return None
    if found.dependency is not None:
        return found.dependency if found.dependency in service.needs else None
    return service.needs[0] if len(service.needs) == 1 else None


def asks_health(call: Call, found: Classified) -> bool:
    """Return whether a failure is judged by health calls, which may take a while."""
    return bool(_health_calls(call, found))


def _health_calls(call: Call, found: Classified) -> list[str]:
    """Return the dependencies whose health calls decide: the one that it points at, or all needed ones."""
    # A rate limit, and an error that opens the breaker by itself, say already what is wrong.
    if not found.unavailable or found.rate_limited or found.opens:
        return []
    name = dependency_of(call.service, found)
    names = [name] if name is not None else [] if found.dependency is not None else call.service.needs
    return [name for name in names if call.opened.context.health.has(name)]


def ask_health(call: Call, found: Classified) -> tuple[Classified, str | None]:
    """Ask health calls about a failure; return it with the dependency that is meant, and what is wrong with that.

    None: nothing was asked. Of several dependencies, the only one whose health call says no is meant.
    """
    names = _health_calls(call, found)
    problems = {name: call.opened.context.health.ask(name) for name in names}
    if dependency_of(call.service, found) is not None:
        return found, next(iter(problems.values()), None)
    failing = [name for name, problem in problems.items() if problem]
    return (replace(found, dependency=failing[0]), problems[failing[0]]) if len(failing) == 1 else (found, None)


def settled(call: Call, error: BaseException, found: Classified, problem: str | None) -> Settlement:
    """Return the settlement of a failed call; `found` and `problem` are those of `ask_health`."""
    opened = call.opened
    if isinstance(error, StoreUnavailable):
        # The store was away or too busy: the documents did not fail, and nothing is charged.
        return opened.settlement([RetryLater(call.ids, after=STORE_PAUSE_SECONDS)])
    if opened.unreadable is not None:
        dead = _malformed(opened, opened.unreadable)
        return opened.settlement([dead] if error is opened.unreadable else [])
    parts, report = _judge(opened, call.ids, error, found, call.seconds, problem)
    return opened.settlement(parts, dependencies=report, began=call.began)


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
    reports: list[DependencyReport | None] = []
    for id, error in work.failed.items():
        found, problem = ask_health(call, classified(call, error))
        judged, report = _judge(opened, [id], error, found, call.seconds, problem)
        parts += judged
        reports.append(report)
    for id, error in work.aside.items():
        parts.append(_aside(opened, [id], describe(opened, error, classified(call, error), [id])))
    settlement = call.written(work, parts)
    settlement.began = call.began
    if service.needs:
        settlement.dependencies = _combined(reports, service.needs if went_well else ())
    return settlement


# -- the policy


def _judge(
    opened: OpenDelivery, ids: Ids, error: BaseException, found: Classified, seconds: float, problem: str | None
) -> Judgement:
    failure = describe(opened, error, found, ids)
    if found.kind is Kind.NOT_READY:
        return _not_ready(opened, ids, error, failure, seconds), None
    service, delivery = opened.service, opened.delivery
    report = _report(service, found, ids, failure, problem)
    if len(ids) > 1:
        return _halved(ids, failure), report
    usual = getattr(opened.context.ladder, service.rung)
    decision = _decide(opened, service.policy, usual, delivery.tries + 1, error=found)
    final = found.kind in (Kind.PERMANENT, Kind.MALFORMED)
    part: SettlementPart
    if isinstance(decision, Retry) and _too_late(opened, decision.after):
        part = _dead(opened, ids, Reason.TTL_EXCEEDED, failure, Charge.TRY, final=True)
    elif isinstance(decision, Retry):
        part = RetryLater(ids, after=decision.after, charge=Charge.TRY, failure=failure)
        if decision.last:
            opened.last_chances.append(part)
    elif service.sets_aside and not final:
        part = _aside(opened, ids, failure)
    else:
        part = _dead(opened, ids, decision.reason, failure, Charge.TRY, final=final)
    return [part], report


def _not_ready(
    opened: OpenDelivery, ids: Ids, error: BaseException, failure: Failure, took: float
) -> Sequence[SettlementPart]:
    delivery = opened.delivery
    named = set(error.ids) if isinstance(error, NotReady) and error.ids else set(ids)
    unreadable = [id for id in ids if id in named] or list(ids)
    others = [id for id in ids if id not in named] if len(unreadable) < len(ids) else []
    usual, tries, able = opened.context.ladder.not_ready, delivery.not_ready + 1, delivery.able + took
    decision = _decide(opened, opened.service.not_ready, usual, tries, elapsed=able)
    part: SettlementPart
    if isinstance(decision, Retry) and _too_late(opened, decision.after):
        part = _dead(opened, unreadable, Reason.TTL_EXCEEDED, failure, Charge.NOT_READY, final=True)
    elif isinstance(decision, Retry):
        after = decision.after
        part = RetryLater(unreadable, after, charge=Charge.NOT_READY, able=after + took, failure=failure)
        if decision.last:
            opened.last_chances.append(part)
    else:
        part = _dead(opened, unreadable, decision.reason, failure, Charge.NOT_READY)
    return [part, RetryLater(others)] if others else [part]


def _too_late(opened: OpenDelivery, after: float) -> bool:
    """Return whether the event's deadline passes before a try after this many seconds."""
    expires = opened.delivery.expires
    return expires is not None and opened.context.now() + after >= expires


def _decide(opened: OpenDelivery, own: RetryPolicy | None, usual: RetryPolicy, n: int, **known: Any) -> Decision:
    """Ask the service's own policy, or the usual one; a backoff that fails must not fail the worker."""
    known["random"] = opened.context.random
    if own is not None:
        try:
            decision = own.decide(n, **known)
            if isinstance(decision, GiveUp) or (decision.after >= 0 and math.isfinite(decision.after)):
                return decision
            problem = f"a wait of {decision.after!r} s"
        except Exception as broken:
            problem = type(broken).__name__
        log.error("the policy of service %r failed (%s); the usual one decides", opened.service.name, problem)
    return usual.decide(n, **known)


def _report(
    service: Service, found: Classified, ids: Ids, failure: Failure, problem: str | None
) -> DependencyReport | None:
    """Return the evidence of a failure about a dependency; None: neither for it nor against it."""
    dependency = dependency_of(service, found)
    # A dependency that is well is not the cause, whatever status it returned.
    if dependency is None or problem == "":
        return None
    reason, remedy = f"{failure.error_type}: {failure.message}"[:500], found.remedy or ""
    if found.rate_limited:
        pause = found.retry_after if found.retry_after is not None else DEFAULT_PAUSE
        return DependencyReport(paused=dependency, pause=min(pause, 3600.0), reason=reason)
    if found.opens:
        return DependencyReport(opens=dependency, ids=ids, reason=reason, remedy=remedy)
    if problem is not None:
        return DependencyReport(opens=dependency, by_health=True, ids=ids, reason=problem)
    return DependencyReport(struck=dependency, ids=ids, reason=reason, remedy=remedy, unreached=found.unreached)


def _combined(reports: Sequence[DependencyReport | None], succeeded: Sequence[str]) -> DependencyReport | None:
    """Return the evidence of a call whose documents had different outcomes about its dependencies.

    A success of one document shows that the dependency is up. Only if no document succeeded, and all
    failures point at the same dependency, they are evidence against it.
    """
    known = [report for report in reports if report is not None]
    for report in known:
        if report.opens is not None:
            return report
    for report in known:
        if report.paused is not None:
            return replace(report, succeeded=succeeded)
    if succeeded:
        return DependencyReport(succeeded=succeeded)
    if len(known) < len(reports) or len({report.struck for report in known}) != 1:
        return None
    return replace(known[0], ids=[id for report in known for id in report.ids])


def _halved(ids: Ids, failure: Failure | None, *, deaths: int | None = None) -> Sequence[SettlementPart]:
    """Split a failing batch in two, uncharged, until the culprit is alone."""
    middle = (len(ids) + 1) // 2
    halves = (ids[:middle], ids[middle:])
    return [RetryLater(half, failure=failure, batch=middle, deaths=deaths) for half in halves]


def _dead(
    opened: OpenDelivery, ids: Ids, reason: Reason, failure: Failure, charge: Charge, *, final: bool = False
) -> DeadLettered:
    notice = _notice(opened, ids, failure, charge)
    return DeadLettered(ids, reason, failure, final=final, charge=charge, notice=notice)


def _malformed(opened: OpenDelivery, error: BaseException) -> DeadLettered:
    """Give up an event that cannot be read: it is kept with its bytes; its documents wait for a better one."""
    dead = _dead(opened, opened.ids, Reason.MALFORMED, describe(opened, error), Charge.NOTHING)
    dead.raw = opened.delivery.data.encode()
    return dead


def _aside(opened: OpenDelivery, ids: Ids, failure: Failure) -> InFailedBatch:
    """Set documents aside that failed while others went on, to be retried as a batch."""
    after, _ = opened.context.ladder.failed_batch.backoff.bounds(1)
    return InFailedBatch(ids, failure, after=after, notice=_notice(opened, ids, failure, Charge.TRY))


def _notice(opened: OpenDelivery, ids: Ids, failure: Failure, charge: Charge) -> Envelope:
    service, delivery = opened.service, opened.delivery
    data: dict[str, object] = {}
    if ids and (field := service.ids_field) is not None:
        # As the event itself names them: by one id, or by a list.
        data[field] = ids[0] if service.on.model_fields[field].annotation is str else list(ids)
    data |= {
        "error_message": failure.message,
        "error_type": failure.error_type,
        "retry_count": delivery.tries + delivery.not_ready + (charge is not Charge.NOTHING),
        "failed_at": iso_time(failure.at),
    }
    kind, trace = service.notice_type(), parent_of(delivery.trace)
    key = f"{dotted(kind)}.notice"
    return Envelope(kind, json.dumps(data), new_id(), failure.at, trace=trace, notice=True, routing_key=key)
