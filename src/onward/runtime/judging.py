"""Judging a failure: wait, split, or give up. Pure, given the error and what was tried before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from onward.model.events import Envelope, new_id
from onward.model.failures import Failure
from onward.model.ledger import Charge, Dead, Delivery, DependencyReport, Part, Wait
from onward.retry import Classified, GiveUp, Kind, Ladder, NotReady, Reason, Retry
from onward.runtime.service import Service

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
        if classified.kind is Kind.not_ready:
            return self._not_ready(delivery, ids, error, failure, took)
        report = self._report(classified, ids, failure, ill)
        if report is not None and report.opens is not None:
            # The dependency is down: nobody's fault, so nothing is charged and nothing is split.
            return Judgement((Wait(ids, failure=failure),), report)
        if len(ids) > 1:
            return Judgement(halved(ids, failure), report)
        decision = (self.service.policy or self.ladder.transient).decide(
            delivery.tries + 1, error=classified, random=self.random
        )
        if isinstance(decision, Retry):
            wait = Wait(ids, after=decision.after, charge=Charge.TRY, failure=failure)
            return Judgement((wait,), report, decision.last)
        final = classified.kind in (Kind.permanent, Kind.malformed)
        return Judgement((self._dead(delivery, ids, decision, failure, Charge.TRY, final=final),), report)

    def _not_ready(
        self, delivery: Delivery, ids: Sequence[str], error: BaseException, failure: Failure, took: float
    ) -> Judgement:
        named = set(error.ids) if isinstance(error, NotReady) and error.ids else set(ids)
        unreadable = [id for id in ids if id in named] or list(ids)
        others = [id for id in ids if id not in named] if len(unreadable) < len(ids) else []
        decision = (self.service.not_ready or self.ladder.not_ready).decide(
            delivery.not_ready + 1, elapsed=delivery.able + took, random=self.random
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
            notice=self._notice(delivery, ids, failure),
        )

    def crash_loop(self, delivery: Delivery, ids: Sequence[str], failure: Failure) -> Dead:
        """An event whose handler took its process down once too often, the last time alone."""
        return self._dead(delivery, ids, GiveUp(Reason.crash_loop), failure, Charge.NOTHING, final=True)

    def malformed(self, delivery: Delivery, failure: Failure) -> Dead:
        """An event that cannot be read: kept with its bytes; its documents wait for a better one."""
        ids = [one.id for one in delivery.inputs]
        dead = self._dead(delivery, ids, GiveUp(Reason.malformed), failure, Charge.NOTHING)
        dead.raw = delivery.data.encode()
        return dead

    def _notice(self, delivery: Delivery, ids: Sequence[str], failure: Failure) -> Envelope:
        field = self.service.ids_field or "ids"
        named = {field: list(ids)} if ids else {}
        data = named | {
            "error_message": failure.message,
            "error_type": failure.error_type,
            "retry_count": delivery.tries + delivery.not_ready + 1,
            "failed_at": failure.at,
        }
        return Envelope(self.service.notice_type(), json.dumps(data), new_id(), failure.at)


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


def halved(ids: Sequence[str], failure: Failure | None, *, deaths: int | None = None) -> tuple[Wait, Wait]:
    """Split a failing batch in two, uncharged, until the culprit is alone."""
    middle = (len(ids) + 1) // 2
    return (
        Wait(ids[:middle], failure=failure, batch=middle, deaths=deaths),
        Wait(ids[middle:], failure=failure, batch=middle, deaths=deaths),
    )
