"""The policy for a failed call: wait, split, set aside, or give up. Pure, given the error and earlier tries."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from onward.model.events import Envelope, new_id
from onward.model.failures import Failure
from onward.model.ledger import (
    Charge,
    DeadLettered,
    Delivery,
    DependencyReport,
    InFailedBatch,
    RetryLater,
    SettlementPart,
)
from onward.retry import Classified, Decision, GiveUp, Kind, Ladder, NotReady, Reason, Retry, RetryPolicy
from onward.runtime.health_calls import Health
from onward.runtime.service import Service
from onward.runtime.tracing import parent_of

log = logging.getLogger("onward")

DEFAULT_PAUSE = 10.0  # seconds to leave a dependency alone that is rate limiting and does not say for how long


@dataclass(frozen=True, slots=True)
class Judgement:
    """The settlement parts of the documents of a failed call, and the evidence about dependencies."""

    parts: tuple[SettlementPart, ...]
    report: DependencyReport | None
    last: bool = False  # the next failure will be the last


@dataclass(frozen=True, slots=True)
class Judge:
    """Applies a service's policies, once for each failed call."""

    service: Service
    ladder: Ladder
    random: Random

    def judge(
        self,
        delivery: Delivery,
        ids: Sequence[str],
        error: BaseException,
        classified: Classified,
        failure: Failure,
        *,
        took: float = 0.0,
        health: Health | None = None,
    ) -> Judgement:
        """Decide what a failure means for the documents of a call, if it is their own.

        Whether it is their own, or that of a dependency, the store decides when it settles the call
        (`ledger/failure_attribution.py`): it knows whether other documents succeeded. `health` is the
        result of the dependency's health call, if it has one.
        """
        if classified.kind is Kind.NOT_READY:
            return self._not_ready(delivery, ids, error, failure, took)
        report = self._report(classified, ids, failure, health)
        if len(ids) > 1:
            return Judgement(halved(ids, failure), report)
        usual = getattr(self.ladder, self.service.rung)
        decision = self._decide(self.service.policy, usual, delivery.tries + 1, error=classified)
        if isinstance(decision, Retry):
            wait = RetryLater(ids, after=decision.after, charge=Charge.TRY, failure=failure)
            return Judgement((wait,), report, decision.last)
        final = classified.kind in (Kind.PERMANENT, Kind.MALFORMED)
        if self.service.sets_aside and not final:
            return Judgement((self.aside(delivery, ids, failure),), report)
        return Judgement((self._dead(delivery, ids, decision, failure, Charge.TRY, final=final),), report)

    def _not_ready(
        self, delivery: Delivery, ids: Sequence[str], error: BaseException, failure: Failure, took: float
    ) -> Judgement:
        named = set(error.ids) if isinstance(error, NotReady) and error.ids else set(ids)
        unreadable = [id for id in ids if id in named] or list(ids)
        others = [id for id in ids if id not in named] if len(unreadable) < len(ids) else []
        decision = self._decide(
            self.service.not_ready, self.ladder.not_ready, delivery.not_ready + 1, elapsed=delivery.able + took
        )
        part: SettlementPart
        last = False
        if isinstance(decision, Retry):
            part = RetryLater(
                unreadable,
                after=decision.after,
                charge=Charge.NOT_READY,
                able=decision.after + took,
                failure=failure,
            )
            last = decision.last
        else:
            part = self._dead(delivery, unreadable, decision, failure, Charge.NOT_READY)
        return Judgement((part, RetryLater(others)) if others else (part,), None, last)

    def _decide(
        self,
        own: RetryPolicy | None,
        usual: RetryPolicy,
        n: int,
        *,
        elapsed: float = 0.0,
        error: Classified | None = None,
    ) -> Decision:
        """Ask the service's own policy, or the usual one; a backoff that fails must not fail the worker."""
        if own is not None:
            try:
                decision = own.decide(n, elapsed=elapsed, error=error, random=self.random)
                if isinstance(decision, GiveUp) or (decision.after >= 0 and math.isfinite(decision.after)):
                    return decision
                problem = f"a wait of {decision.after!r} s"
            except Exception as broken:
                problem = type(broken).__name__
            log.error("the policy of service %r failed (%s); the usual one decides", self.service.name, problem)
        return usual.decide(n, elapsed=elapsed, error=error, random=self.random)

    def _report(
        self, classified: Classified, ids: Sequence[str], failure: Failure, health: Health | None
    ) -> DependencyReport | None:
        """Return the evidence of a failure about a dependency; None: neither for it nor against it."""
        dependency = dependency_of(self.service, classified)
        if dependency is None:
            return None
        reason = f"{failure.error_type}: {failure.message}"[:500]
        if classified.rate_limited:
            pause = classified.retry_after if classified.retry_after is not None else DEFAULT_PAUSE
            return DependencyReport(paused=dependency, pause=min(pause, 3600.0), reason=reason)
        if classified.opens:
            return DependencyReport(opens=dependency, ids=ids, reason=reason, remedy=classified.remedy or "")
        if health is None:
            return DependencyReport(
                struck=dependency,
                ids=ids,
                reason=reason,
                remedy=classified.remedy or "",
                unreached=classified.unreached,
            )
        # A dependency that is well is not the cause, whatever status it returned.
        if health.problem is None:
            return None
        return DependencyReport(opens=dependency, by_health=True, ids=ids, reason=health.problem)

    def _dead(
        self,
        delivery: Delivery,
        ids: Sequence[str],
        decision: GiveUp,
        failure: Failure,
        charge: Charge,
        *,
        final: bool = False,
    ) -> DeadLettered:
        return DeadLettered(
            ids,
            reason=decision.reason,
            failure=failure,
            final=final,
            charge=charge,
            notice=self._notice(delivery, ids, failure, charge),
        )

    def aside(self, delivery: Delivery, ids: Sequence[str], failure: Failure) -> InFailedBatch:
        """Documents that failed while others went on, to be retried as a batch."""
        after, _ = self.ladder.failed_batch.backoff.bounds(1)
        return InFailedBatch(ids, failure, after=after, notice=self._notice(delivery, ids, failure, Charge.TRY))

    def crash_loop(self, delivery: Delivery, ids: Sequence[str], failure: Failure) -> DeadLettered:
        """An event whose handler took its process down once too often, the last time alone."""
        return self._dead(delivery, ids, GiveUp(Reason.CRASH_LOOP), failure, Charge.NOTHING, final=True)

    def malformed(self, delivery: Delivery, failure: Failure) -> DeadLettered:
        """An event that cannot be read: kept with its bytes; its documents wait for a better one."""
        ids = [one.id for one in delivery.inputs]
        dead = self._dead(delivery, ids, GiveUp(Reason.MALFORMED), failure, Charge.NOTHING)
        dead.raw = delivery.data.encode()
        return dead

    def _notice(self, delivery: Delivery, ids: Sequence[str], failure: Failure, charge: Charge) -> Envelope:
        data: dict[str, object] = {}
        if ids and (field := self.service.ids_field) is not None:
            # As the event itself names them: by one id, or by a list.
            data[field] = ids[0] if self.service.on.model_fields[field].annotation is str else list(ids)
        data |= {
            "error_message": failure.message,
            "error_type": failure.error_type,
            "retry_count": delivery.tries + delivery.not_ready + (charge is not Charge.NOTHING),
            "failed_at": failure.at,
        }
        trace = parent_of(delivery.trace)
        return Envelope(
            self.service.notice_type(), json.dumps(data), new_id(), failure.at, trace=trace, notice=True
        )


def dependency_of(service: Service, classified: Classified) -> str | None:
    """Return the needed dependency that a failure points at.

    A named dependency must be needed. Without a name, the service must need exactly one: guessing among
    several could open the wrong breaker.
    """
    if not classified.unavailable:
        return None
    if classified.dependency is not None:
        return classified.dependency if classified.dependency in service.needs else None
    return service.needs[0] if len(service.needs) == 1 else None


def combined(reports: Sequence[DependencyReport | None], succeeded: Sequence[str]) -> DependencyReport | None:
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
    struck = {report.struck for report in known}
    if len(known) < len(reports) or len(struck) != 1:
        return None
    return replace(known[0], ids=[id for report in known for id in report.ids])


def halved(
    ids: Sequence[str], failure: Failure | None, *, deaths: int | None = None
) -> tuple[RetryLater, RetryLater]:
    """Split a failing batch in two, uncharged, until the culprit is alone."""
    middle = (len(ids) + 1) // 2
    return (
        RetryLater(ids[:middle], failure=failure, batch=middle, deaths=deaths),
        RetryLater(ids[middle:], failure=failure, batch=middle, deaths=deaths),
    )
