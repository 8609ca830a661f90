"""The remedies for a failure group, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from onward.recovery.diagnosis import Cause, Diagnosis, Evidence


class RemedyKind(StrEnum):
    """A remedy for a failure group."""

    NONE_NEEDED = "none_needed"
    WAIT = "wait"
    """The events go on by themselves when the dependency is back."""
    SHOW_EXAMPLE = "show_example"
    SHOW_BREAKERS = "show_breakers"
    RETRY_WHEN_BACK = "retry_when_back"
    RETRY_SLOWLY = "retry_slowly"
    RETRY_WHEN_FIXED = "retry_when_fixed"
    RETRY_ONCE = "retry_once"
    RETRY_FEW = "retry_few"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True)
class Remedy:
    """Something to do about a failure group."""

    kind: RemedyKind
    dependency: str = ""
    canary: int = 0
    rate: float | None = None


def remedies(evidence: Evidence, diagnosis: Diagnosis, *, example: bool) -> list[Remedy]:
    """Return what to do next, in this order; `example`: there is a document or dead letter to look at."""
    group = evidence.group
    affects = max(group.affected, group.dead_letters)
    if not affects and not evidence.waiting:
        return [Remedy(RemedyKind.NONE_NEEDED)]
    look = [Remedy(RemedyKind.SHOW_EXAMPLE)] if example else []
    discard = Remedy(RemedyKind.DISCARD)
    match diagnosis.kind:
        case Cause.DEPENDENCY:
            found = [Remedy(RemedyKind.SHOW_BREAKERS), *look]
            if evidence.waiting:
                found.insert(0, Remedy(RemedyKind.WAIT, dependency=evidence.suspect or ""))
            if group.dead_letters or not evidence.waiting:
                found.append(Remedy(RemedyKind.RETRY_WHEN_BACK, canary=1))
            return found
        case Cause.OVERLOAD:
            return [Remedy(RemedyKind.RETRY_SLOWLY, rate=1.0), *look]
        case Cause.BUG:
            return [*look, Remedy(RemedyKind.RETRY_WHEN_FIXED, canary=3)]
        case Cause.POISON:
            return [*look, Remedy(RemedyKind.RETRY_ONCE), discard]
        case Cause.UNCLEAR:
            return [*look, Remedy(RemedyKind.RETRY_FEW, canary=3), discard]
