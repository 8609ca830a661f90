"""Judging a failure: wait, split, or give up. Pure, given the error and what was tried before."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from onward.model.events import Envelope, new_id
from onward.model.failures import Failure
from onward.model.ledger import Aside, Charge, Dead, Delivery, DependencyReport, Part, Wait
from onward.retry import Classified, Decision, GiveUp, Kind, Ladder, NotReady, Reason, Retry, RetryPolicy
from onward.runtime.service import Service
from onward.runtime.tracing import handed_on

log = logging.getLogger("onward")

DEFAULT_PAUSE = 10.0
"""Seconds to leave a dependency alone that is rate limiting and does not say for how long."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What becomes of the documents of a failed call, and what it tells of the dependencies."""

    parts: tuple[Part, ...]
    report: DependencyReport | None
    last: bool = False
    """The next failure will be the last."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Knows a service's policies; asked once for each failed call."""

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
        ill: str | None = None,
    ) -> Judgement:
        """Decide what a failure means for the documents of a call.

        `ill` is what the health call of the dependency complained of, if it was asked and did.
        """
        if classified.kind is Kind.NOT_READY:
            return self._not_ready(delivery, ids, error, failure, took)
        report = self._report(classified, ids, failure, ill)
        if report is not None and report.opens is not None:
            # The dependency is down: nobody's fault, so nothing is charged and nothing is split.
            return Judgement((Wait(ids, failure=failure),), report)
        if len(ids) > 1:
            return Judgement(halved(ids, failure), report)
        usual = getattr(self.ladder, self.service.rung)
        decision = self._decide(self.service.policy, usual, delivery.tries + 1, error=classified)
        if isinstance(decision, Retry):
            wait = Wait(ids, after=decision.after, charge=Charge.TRY, failure=failure)
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
        part: Part
        last = False
        if isinstance(decision, Retry):
            part = Wait(
                unreadable,
                after=decision.after,
                charge=Charge.NOT_READY,
                able=decision.after + took,
                failure=failure,
            )
            last = decision.last
        else:
            part = self._dead(delivery, unreadable, decision, failure, Charge.NOT_READY)
        return Judgement((part, Wait(others)) if others else (part,), None, last)

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
        self, classified: Classified, ids: Sequence[str], failure: Failure, ill: str | None
    ) -> DependencyReport | None:
        dependency = dependency_of(self.service, classified)
        if dependency is None:
            # Whatever went wrong, it was not them; but it proves nothing in their favour either.
            return None
        reason = f"{failure.error_type}: {failure.message}"[:500]
        if classified.rate_limited:
            pause = classified.retry_after if classified.retry_after is not None else DEFAULT_PAUSE
            return DependencyReport(paused=dependency, pause=min(pause, 3600.0), reason=reason)
        if classified.opens or ill is not None:
            return DependencyReport(
                opens=dependency,
                ids=ids,
                reason=reason if ill is None else ill,
                remedy=classified.remedy or "",
            )
        return DependencyReport(struck=dependency, ids=ids, reason=reason)

    def _dead(
        self,
        delivery: Delivery,
        ids: Sequence[str],
        decision: GiveUp,
        failure: Failure,
        charge: Charge,
        *,
        final: bool = False,
    ) -> Dead:
        return Dead(
            ids,
            reason=decision.reason,
            failure=failure,
            final=final,
            charge=charge,
            notice=self._notice(delivery, ids, failure, charge),
        )

    def aside(self, delivery: Delivery, ids: Sequence[str], failure: Failure) -> Aside:
        """Documents that failed while others went on, to be retried as a batch."""
        after, _ = self.ladder.failed_batch.backoff.bounds(1)
        return Aside(ids, failure, after=after, notice=self._notice(delivery, ids, failure, Charge.TRY))

    def crash_loop(self, delivery: Delivery, ids: Sequence[str], failure: Failure) -> Dead:
        """An event whose handler took its process down once too often, the last time alone."""
        return self._dead(delivery, ids, GiveUp(Reason.CRASH_LOOP), failure, Charge.NOTHING, final=True)

    def malformed(self, delivery: Delivery, failure: Failure) -> Dead:
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
        trace = handed_on(delivery.trace)
        return Envelope(
            self.service.notice_type(), json.dumps(data), new_id(), failure.at, trace=trace, notice=True
        )


def dependency_of(service: Service, classified: Classified) -> str | None:
    """Which of the needed dependencies a failure points at.

    A named one, if it is needed; an unnamed one only where just one is needed, for guessing among
    several would open the wrong breaker.
    """
    if not classified.unavailable:
        return None
    if classified.dependency is not None:
        return classified.dependency if classified.dependency in service.needs else None
    return service.needs[0] if len(service.needs) == 1 else None


def combined(reports: Sequence[DependencyReport | None], succeeded: Sequence[str]) -> DependencyReport | None:
    """What a call tells of the dependencies whose documents had different outcomes.

    What went well for some shows that the dependency is up; only where nothing did, and all failures
    point at the same one, they are held against it.
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


def halved(ids: Sequence[str], failure: Failure | None, *, deaths: int | None = None) -> tuple[Wait, Wait]:
    """Split a failing batch in two, uncharged, until the culprit is alone."""
    middle = (len(ids) + 1) // 2
    return (
        Wait(ids[:middle], failure=failure, batch=middle, deaths=deaths),
        Wait(ids[middle:], failure=failure, batch=middle, deaths=deaths),
    )
