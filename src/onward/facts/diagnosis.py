"""Failure groups: what is probably wrong, what speaks for it, and what to type next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any

from onward.facts.accounting import error_of
from onward.facts.wording import SHORT_ID, iso, one_line
from onward.recovery.groups import affected
from onward.recovery.verdicts import Evidence, Suspicion, Verdict, Version, evidence_of, waits
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App
    from onward.model.recovery import FailureGroup

KNOWN = 1000
"""So many groups are looked through, the last seen first."""


def shortened(fingerprints: Sequence[str]) -> dict[str, str]:
    """How much of each fingerprint is needed to name it: 8 characters, or more where two begin the same."""
    length = SHORT_ID
    while length < 64 and len({one[:length] for one in fingerprints}) < len(set(fingerprints)):
        length += 4
    return {one: one[:length] for one in fingerprints}


def weight(group: FailureGroup) -> int:
    """How much a group affects now."""
    return max(group.affected, group.dead_letters)


def error_text(group: FailureGroup, most: int) -> str:
    """Type and message of its last error, on one line."""
    return one_line(redact(f"{group.error_type}: {group.message}"), most)


# -- lists


@dataclass(frozen=True, slots=True)
class Groups:
    """A page of failure groups, what affects most documents first."""

    page: list[Evidence]
    total: int
    """How many there are on all pages."""
    hidden: int
    """How many more affect nothing any more, and were not asked for."""
    short: dict[str, str]
    """How much of each fingerprint names its group, of hidden ones too."""


def list_groups(
    app: App,
    *,
    service: str | None = None,
    since: float | None = None,
    everything: bool = False,
    limit: int | None = None,
    offset: int = 0,
) -> Groups:
    """The failure groups of a service (which is not checked) since a time; `everything`: also what is over."""
    known = app.store.failure_groups(service=service, since=since, limit=KNOWN)
    waiting = waits(app.store, known)
    weights = {one.fingerprint: max(weight(one), waiting.get(one.fingerprint, 0)) for one in known}
    found = sorted(known, key=lambda one: (-weights[one.fingerprint], -one.last_seen))
    left = [one for one in found if everything or weights[one.fingerprint]]
    page = left[offset:] if limit is None else left[offset : offset + limit]
    seen = [evidence_of(app.store, one) for one in page]
    return Groups(seen, len(left), len(found) - len(left), shortened([one.fingerprint for one in known]))


# -- one of them


def group_facts(evidence: Evidence, verdict: Verdict) -> dict[str, Any]:
    """A failure group and its verdict, for programs."""
    group = evidence.group
    return asdict(group) | {
        "waiting": evidence.waiting,
        "message": redact(group.message),
        "traceback": redact(group.traceback),
        "first_seen": iso(group.first_seen),
        "last_seen": iso(group.last_seen),
        "verdict": {"kind": str(verdict.kind), "sentences": list(verdict.sentences)},
    }


def evidence_facts(app: App, evidence: Evidence, *, most: int | None = None) -> dict[str, Any]:
    """What a verdict is based on, and all that the group affects now (or so many), for programs."""
    return {
        "needs": list(evidence.needs),
        "versions_at_work": [_version_facts(one) for one in evidence.versions],
        "openings": [
            asdict(one) | {"opened_at": iso(one.opened_at), "closed_at": iso(one.closed_at)}
            for one in evidence.openings
        ],
        "documents_now": [
            {"collection": one.collection, "id": one.id, "status": str(one.status), "error": error_of(one)}
            for one in islice(affected(app.store, evidence.group.fingerprint), most)
        ],
    }


def _version_facts(version: Version) -> dict[str, Any]:
    return {"version": version.name, "first_seen": iso(version.first_seen), "last_seen": iso(version.last_seen)}


class Doing(StrEnum):
    """What somebody can do about a failure group."""

    NOTHING = "nothing"
    LOOK = "look"
    BREAKERS = "breakers"
    RETRY = "retry"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do about a failure group, and when or why."""

    why: str
    doing: Doing
    canary: int = 0
    rate: float | None = None


def steps(evidence: Evidence, verdict: Verdict, *, example: bool) -> list[Step]:
    """What to do next, in this order; `example`: there is something to look at."""
    group = evidence.group
    if not weight(group) and not evidence.waiting:
        return [Step("Nothing: it affects nothing any more.", Doing.NOTHING)]
    look = [Step("look at one", Doing.LOOK)] if example else []
    discard = Step("give it up for good", Doing.DISCARD)
    match verdict.kind:
        case Suspicion.DEPENDENCY:
            found = [Step("see how it stands", Doing.BREAKERS), *look]
            if evidence.waiting:
                back = f"Nothing: what waits goes on by itself when {evidence.suspect} is back."
                found.insert(0, Step(back, Doing.NOTHING))
            if group.dead_letters or not evidence.waiting:
                found.append(Step("when it is back", Doing.RETRY, canary=1))
            return found
        case Suspicion.OVERLOAD:
            return [Step("put it back slowly", Doing.RETRY, rate=1.0), *look]
        case Suspicion.BUG:
            return [*look, Step("when it is mended and deployed", Doing.RETRY, canary=3)]
        case Suspicion.POISON:
            return [*look, Step("try it once more", Doing.RETRY), discard]
        case _:
            return [*look, Step("try a few of them", Doing.RETRY, canary=3), discard]


def next_steps(evidence: Evidence, verdict: Verdict, short: str, example: str) -> list[tuple[str, str]]:
    """What to type next: why, and the command."""
    return [(one.why, _command(one, short, example)) for one in steps(evidence, verdict, example=bool(example))]


def _command(step: Step, short: str, example: str) -> str:
    match step.doing:
        case Doing.LOOK:
            return example
        case Doing.BREAKERS:
            return "onward breakers"
        case Doing.RETRY:
            canary = f" --canary {step.canary}" if step.canary else ""
            rate = f" --rate {step.rate:g}" if step.rate else ""
            return f"onward failures retry {short}{canary}{rate}"
        case Doing.DISCARD:
            return f"onward failures discard {short} --confirm"
        case _:
            return ""
