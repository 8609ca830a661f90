"""What is probably wrong with a failure group, and what speaks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from onward.model.failures import outcomes
from onward.model.recovery import FailureGroup
from onward.ports import Store
from onward.recovery.phrasing import lasting, plural

FEW = 2
"""So many documents may each be at fault themselves."""
SEVERAL = 3
MANY = 5
ENOUGH = 3
"""So many times as many that went well, and it is not the program alone."""
SOON = 3600.0
"""What begins so long after a version came may have come with it."""
LOOKED_AT = 20
"""How many affected documents are looked at, at most."""
SLACK = 60.0
"""Seconds by which a breaker may open after the last failure: asking a dependency takes time."""
PROGRAMMING_ERRORS = frozenset(
    {
        *("AssertionError", "AttributeError", "ImportError", "IndexError", "KeyError", "ModuleNotFoundError"),
        *("NameError", "NotImplementedError", "RecursionError", "TypeError", "UnboundLocalError"),
        *("ValidationError", "ZeroDivisionError"),
    }
)
_OVERLOAD = ("rate_limited", "timeout")
_PASSING = ("unavailable", *_OVERLOAD, "not_ready")


class Suspicion(StrEnum):
    """What a failure group looks like."""

    DEPENDENCY = "dependency"
    POISON = "poison document"
    BUG = "bug or bad deploy"
    OVERLOAD = "overload"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Opening:
    """A time in which a dependency's breaker was open."""

    dependency: str
    opened_at: float
    closed_at: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the workers, and when it was at work."""

    name: str
    first_seen: float
    last_seen: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a verdict is based on."""

    group: FailureGroup
    openings: tuple[Opening, ...] = ()
    """Of breakers that its service needs or its failures name, in the time of the group."""
    versions: tuple[Version, ...] = ()
    """All that are known, the oldest first."""
    needs: tuple[str, ...] = ()
    """The dependencies of its service."""
    outcomes: tuple[tuple[int, int], ...] = ()
    """Of affected documents: how many of their outcomes were this failure, and how many they had."""
    waiting: int = 0
    """Events of its service that wait because the dependency it points at is down."""

    @property
    def others(self) -> int:
        """How many documents of the collection were processed since it began."""
        return max(0, self.group.processed_now - self.group.processed_before)

    @property
    def suspect(self) -> str | None:
        """The one dependency that all failures point at."""
        found = self.group.dependencies
        if len(found) == 1 and sum(found.values()) >= self.group.failures:
            return next(iter(found))
        return self.needs[0] if not found and len(self.needs) == 1 else None

    def share(self, *kinds: str) -> float:
        """Which part of the failures is of these kinds."""
        total = sum(self.group.kinds.values())
        return sum(self.group.kinds.get(kind, 0) for kind in kinds) / total if total else 0.0

    @property
    def down(self) -> bool:
        """Whether the dependency that it points at is down now."""
        still_open = any(one.dependency == self.suspect and one.closed_at is None for one in self.openings)
        return still_open and self.share(*_PASSING) > 0.5

    @property
    def always(self) -> bool:
        """Whether the affected documents never ended otherwise."""
        return bool(self.outcomes) and all(so == total for so, total in self.outcomes)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a failure group looks like, and why, in sentences."""

    kind: Suspicion
    sentences: tuple[str, ...]


def judge(evidence: Evidence) -> Verdict:
    """Say what is probably wrong; the first suspicion that the evidence bears counts."""
    rules: tuple[tuple[Suspicion, Callable[[Evidence], list[str]]], ...] = (
        (Suspicion.DEPENDENCY, _dependency),
        (Suspicion.OVERLOAD, _overload),
        (Suspicion.POISON, _poison),
        (Suspicion.BUG, _bug),
    )
    for kind, rule in rules:
        if found := rule(evidence):
            return Verdict(kind, tuple(found))
    return Verdict(Suspicion.UNCLEAR, tuple(_missing(evidence)))


def evidence_of(store: Store, group: FailureGroup) -> Evidence:
    """Collect from a store what speaks for or against each suspicion."""
    needs = next((one.needs for one in store.subscriptions() if one.service == group.service), ())
    watched = {*needs, *group.dependencies}
    openings = [
        Opening(one["dependency"], one["opened_at"], one["closed_at"], one["reason"])
        for one in store.openings()
        if one["dependency"] in watched
    ]
    # Where many fail, how each of them ended before tells nothing.
    few = group.affected and group.documents <= FEW
    states = store.find_states(fingerprint=group.fingerprint, limit=LOOKED_AT) if few else []
    found = Evidence(
        group,
        tuple(one for one in openings if _overlaps(one, group)),
        tuple(Version(*one) for one in store.versions()),
        tuple(needs),
        tuple(_outcomes(state.attempts, group.fingerprint) for state in states),
    )
    return replace(found, waiting=store.counts().get(group.service, {}).get("waiting", 0)) if found.down else found


def waits(store: Store, groups: Iterable[FailureGroup]) -> dict[str, int]:
    """How many events wait just now because of what these groups point at, by fingerprint.

    An outage charges no document, so that its group may affect none although everything waits.
    """
    down = {one.dependency for one in store.breakers() if one.open}
    held = {one.service for one in store.subscriptions() if down.intersection(one.needs)}
    return {one.fingerprint: evidence_of(store, one).waiting for one in groups if one.service in held}


def _outcomes(attempts: dict[str, Any], fingerprint: str) -> tuple[int, int]:
    """How often a document ended so, and how often in all, since it last went well."""
    so = total = 0
    for one in outcomes(attempts):
        if one.get("outcome") == "processed":
            so = total = 0
        else:
            so += one.get("fingerprint") == fingerprint
            total += 1
    return so, total


def _overlaps(opening: Opening, group: FailureGroup) -> bool:
    ended_before = opening.closed_at is not None and opening.closed_at < group.first_seen
    return not ended_before and opening.opened_at <= group.last_seen + SLACK


# -- the suspicions; each answers what speaks for it, or nothing


def _dependency(evidence: Evidence) -> list[str]:
    group, name = evidence.group, evidence.suspect
    if name is None or evidence.share(*_PASSING) <= 0.5 or evidence.share("rate_limited", "not_ready") > 0.5:
        return []
    opened = [one for one in evidence.openings if one.dependency == name]
    # One document proves little by itself, but an open breaker does.
    if not opened and (group.documents < SEVERAL or evidence.share("unavailable") <= 0.5):
        return []
    many = f"All {group.failures} failures point" if group.failures > 1 else "The only failure points"
    # An outage that was noticed at once has charged nobody.
    where = f", on {_documents(group.documents)}" if group.documents else ""
    only = "" if group.dependencies else f", as the service {group.service} needs nothing else"
    found = [f"{many} at {name}{where}{only}."]
    if opened:
        found.append(f"The breaker of {name} {_opened(opened)}.")
    else:
        found.append(f"It was not reached or could not answer in {_of(evidence, 'unavailable')}.")
    if evidence.waiting:
        wait = "event waits, and loses" if evidence.waiting == 1 else "events wait, and lose"
        found.append(f"{evidence.waiting} {wait} no tries.")
    return found


def _overload(evidence: Evidence) -> list[str]:
    group = evidence.group
    if group.documents < SEVERAL or evidence.share(*_OVERLOAD) <= 0.5:
        return []
    named = {"rate_limited": "was refused for too many requests", "timeout": "took too long"}
    return [
        *(f"It {text} in {_of(evidence, kind)}." for kind, text in named.items() if group.kinds.get(kind)),
        f"{_documents(group.documents).capitalize()} met this, so it is none of theirs."
        + (f" {_went_well(evidence)}" if evidence.others else ""),
    ]


def _poison(evidence: Evidence) -> list[str]:
    group = evidence.group
    if group.documents > FEW or not group.affected or not evidence.always or not evidence.others:
        return []
    tries = sum(total for _, total in evidence.outcomes)
    only = "Only 1 document fails" if group.documents == 1 else f"Only {group.documents} documents fail"
    every = f"{only} so, and in every one of {tries} tries." if tries > 1 else f"{only} so, in the only try."
    return [every, _went_well(evidence)]


def _bug(evidence: Evidence) -> list[str]:
    group = evidence.group
    if group.documents < MANY or evidence.share(*_PASSING) > 0.5:
        return []
    if evidence.others >= ENOUGH * group.documents and not _came_with_a_version(evidence):
        return []  # the same program does well with most: what it fails on is alike in some way
    seen = [one for one in evidence.versions if one.name in group.versions]
    lost = [name for name in group.versions if name not in {one.name for one in evidence.versions}]
    count = f"{_documents(group.documents).capitalize()} failed so, {group.failures} times in all."
    if seen and not lost:
        older = [one.name for one in evidence.versions if one.first_seen < seen[0].first_seen]
        began = max(0.0, group.first_seen - seen[0].first_seen)
        worked = group.processed_before > 0 or group.collection is None
        if older and worked and seen[0].first_seen - SLACK <= group.first_seen:
            after = "as soon as" if began < 1 else f"{lasting(began)} after"
            found = [
                count,
                f"It began {after} version {seen[0].name} came, and never happened under {_versions(older)}.",
            ]
            if group.processed_before:
                found.append(f"Before it began, {_documents(group.processed_before)} went well.")
            return found
    if group.error_type in PROGRAMMING_ERRORS and group.place:
        found = [count, f"{group.error_type} is an error of the program, and all of them come from {group.place}."]
        if len(group.versions) > 1:
            found.append(f"It happens under {_versions(list(group.versions))}: an older one would not help.")
        return found
    return []


def _came_with_a_version(evidence: Evidence) -> bool:
    """Whether it began soon after a version that it happens under."""
    began = evidence.group.first_seen
    named = (one for one in evidence.versions[1:] if one.name in evidence.group.versions)
    return any(-SLACK <= began - one.first_seen <= SOON for one in named)


def _missing(evidence: Evidence) -> list[str]:
    """What keeps a verdict open."""
    group = evidence.group
    found = [f"{plural(group.failures, 'failure')} of {_documents(group.documents)}: {_kinds(group.kinds)}."]
    if not group.affected and not group.dead_letters:
        found.append("None of them fails any more.")
    if evidence.share(*_PASSING) > 0.5 and evidence.suspect is None:
        found.append(_why_no_suspect(evidence))
    if group.documents <= FEW:
        if not evidence.others:
            why = f"the service {group.service} finishes none" if group.collection is None else "none was since"
            found.append(f"Whether others are processed would show if it is the document or all: {why}.")
        elif group.affected and not evidence.always:
            found.append("It did not fail in every try, so the document alone is not to blame.")
    elif group.documents < MANY:
        found.append(f"{_documents(group.documents).capitalize()} are too many for chance and too few for a bug.")
    elif evidence.share(*_PASSING) <= 0.5:
        if evidence.others >= ENOUGH * group.documents:
            found.append(f"{_went_well(evidence)} Look for what those that fail have in common.")
        found.append(_why_no_version(evidence))
    return found


def _why_no_suspect(evidence: Evidence) -> str:
    named = evidence.group.dependencies
    if len(named) > 1:
        return f"They point at several dependencies: {', '.join(sorted(named))}."
    if named:
        return f"Only {sum(named.values())} of {evidence.group.failures} failures name {next(iter(named))}."
    if evidence.needs:
        return f"The service needs {' and '.join(evidence.needs)}, and no failure says which one it was."
    return f"The service {evidence.group.service} declares no dependency that they could point at."


def _why_no_version(evidence: Evidence) -> str:
    group = evidence.group
    known = {one.name for one in evidence.versions}
    gone = [name for name in group.versions if name not in known]
    if gone:
        return f"{_versions(gone).capitalize()} is not known any more, so nothing can be compared with it."
    if not group.versions:
        return "The version of the workers was not recorded, so nothing can be compared."
    if len(evidence.versions) == 1:
        return f"Only version {evidence.versions[0].name} was ever at work: nothing can be compared with it."
    return f"It happens under {_versions(list(group.versions))}, so it did not come with a newer one."


# -- words


def _documents(count: int) -> str:
    return plural(count, "document")


def _of(evidence: Evidence, kind: str) -> str:
    return f"{evidence.group.kinds.get(kind, 0)} of {plural(evidence.group.failures, 'failure')}"


def _went_well(evidence: Evidence) -> str:
    verb = "has" if evidence.others == 1 else "have"
    return f"Since it began, {plural(evidence.others, 'other')} of the same service {verb} been processed."


def _opened(openings: list[Opening]) -> str:
    often = "opened in that time" if len(openings) == 1 else f"opened {len(openings)} times in that time"
    last = openings[-1]
    if last.closed_at is None:
        return f"{often}, and is still open"
    lasted = lasting(last.closed_at - last.opened_at)
    return f"{often}, for {lasted}" if len(openings) == 1 else f"{often}, the last time for {lasted}"


def _versions(names: list[str]) -> str:
    shown = names if len(names) <= SEVERAL else [*names[:SEVERAL], f"{len(names) - SEVERAL} more"]
    return f"version{'s' if len(names) > 1 else ''} {' and '.join(shown)}"


def _kinds(kinds: Mapping[str, int]) -> str:
    most = sorted(kinds.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in most) or "of no known kind"
