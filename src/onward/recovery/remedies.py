"""What an operator can do about a failure group, by its diagnosis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from onward.model.group_life import GroupState
from onward.recovery.diagnosis import Cause, Diagnosis
from onward.recovery.evidence import Evidence

REFUSED_REMEDY = "Check the key, password or certificate, and the account: renew or correct it."


class RemedyKind(StrEnum):
    """What to do about a failure group."""

    NONE_NEEDED = "none_needed"
    WAIT = "wait"  # the events go on by themselves when the dependency is back
    RETRIED_ANYWAY = "retried_anyway"  # at `Remedy.at`, by themselves
    CHANGE_ACCESS = "change_access"  # `Remedy.text` says what to change
    SHOW_EXAMPLE = "show_example"
    SHOW_BREAKERS = "show_breakers"
    RETRY_WHEN_BACK = "retry_when_back"
    RETRY_SLOWLY = "retry_slowly"
    CLOSE = "close"  # in the version that has the fix
    RETRY_WHEN_FIXED = "retry_when_fixed"
    RETRY_ONCE = "retry_once"
    RETRY_FEW = "retry_few"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True)
class Remedy:
    """Something that an operator can do about a failure group."""

    kind: RemedyKind
    dependency: str = ""  # whose return the events wait for
    canary: int = 0
    growing: bool = False  # the canary grows in steps
    rate: float | None = None
    count: int = 0  # how many are retried anyway
    at: float | None = None  # when the next of them is
    text: str = ""
    version: str = ""  # the one that has the fix, if a person has said it
    ready: bool = False  # a person has said that it is fixed, and a worker of that version was seen
    again: bool = False  # it was fixed before, and came back


@dataclass(frozen=True, slots=True)
class OwnRetries:
    """The affected documents that are retried without anybody's help."""

    count: int = 0
    next_at: float | None = None


NO_RETRIES = OwnRetries()


def remedies(
    evidence: Evidence, diagnosis: Diagnosis, *, example: bool, own: OwnRetries = NO_RETRIES
) -> list[Remedy]:
    """Return what to do next, in this order; `example`: there is a document or dead letter to look at."""
    group = evidence.group
    if not group.affected and not group.dead_letters and not evidence.waiting:
        return [Remedy(RemedyKind.NONE_NEEDED)]
    return list(_remedies(evidence, diagnosis, example=example, own=own))


def _remedies(evidence: Evidence, diagnosis: Diagnosis, *, example: bool, own: OwnRetries) -> Iterator[Remedy]:
    cause = diagnosis.kind
    if cause is Cause.DEPENDENCY:
        if evidence.kind == "refused":
            yield Remedy(RemedyKind.CHANGE_ACCESS, text=_access_remedy(evidence))
        if evidence.waiting:
            yield Remedy(RemedyKind.WAIT, " or ".join(evidence.suspects))
    if own.count:
        yield Remedy(RemedyKind.RETRIED_ANYWAY, count=own.count, at=own.next_at)
    if cause is Cause.DEPENDENCY and evidence.suspects:
        yield Remedy(RemedyKind.SHOW_BREAKERS)
    if example and cause is not Cause.OVERLOAD:
        yield Remedy(RemedyKind.SHOW_EXAMPLE)
    # What is retried anyway needs no command, but may be put back earlier once the cause is gone.
    all_anyway = own.count >= max(1, evidence.group.affected)
    match cause:
        case Cause.DEPENDENCY if not (evidence.waiting and not evidence.group.dead_letters):
            yield Remedy(RemedyKind.RETRY_WHEN_BACK, growing=True)
        case Cause.OVERLOAD if not all_anyway:
            yield Remedy(RemedyKind.RETRY_SLOWLY, rate=1.0)
        case Cause.BUG:
            yield from _fix(evidence)
        case Cause.POISON:
            yield Remedy(RemedyKind.RETRY_ONCE)
            yield Remedy(RemedyKind.DISCARD)
        case Cause.UNCLEAR:
            yield Remedy(RemedyKind.RETRY_FEW, canary=3)
    if example and cause is Cause.OVERLOAD:
        yield Remedy(RemedyKind.SHOW_EXAMPLE)


def _fix(evidence: Evidence) -> Iterator[Remedy]:
    """Say which version has the fix, unless that was said; then put it back when that version runs."""
    life = evidence.group.life
    state = life.state({version.name: version.first_seen for version in evidence.versions})
    if life.closing is None or state is GroupState.REGRESSION:
        yield Remedy(RemedyKind.CLOSE, again=state is GroupState.REGRESSION)
        yield Remedy(RemedyKind.RETRY_WHEN_FIXED, growing=True)
    else:
        fixed_in, ready = life.closing.version, state is GroupState.CLOSED
        yield Remedy(RemedyKind.RETRY_WHEN_FIXED, growing=True, version=fixed_in, ready=ready)


def _access_remedy(evidence: Evidence) -> str:
    given = [opening.remedy for opening in evidence.openings if opening.remedy]
    return given[-1] if given else REFUSED_REMEDY
