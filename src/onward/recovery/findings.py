"""Findings: the facts that a diagnosis rests on, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from onward.recovery.contrasts import load_rose, recovered_under_others
from onward.recovery.error_names import PROGRAMMING_ERRORS
from onward.recovery.evidence import Evidence

MAX_TRAITS = 3  # that are named


class FindingKind(StrEnum):
    """The kind of a finding. The comment behind each kind lists the fields of `Finding` that it uses."""

    POINTS_AT = "points_at"  # count failures, total documents, names: dependency and, if inferred, the service
    ONE_OF = "one_of"  # names: dependencies
    BREAKER_OPENED = "breaker_opened"  # names: dependency; count openings; seconds of the last, None: still open
    LOAD_ROSE = "load_rose"  # count: how many times as much there was to do
    NOT_REACHED = "not_reached"  # count of total failures
    REFUSED = "refused"  # count of total failures
    REJECTED = "rejected"  # count of total failures
    LIBRARY = "library"  # names: package
    EVENTS_WAIT = "events_wait"  # count events
    RATE_LIMITED = "rate_limited"  # count of total failures
    TIMED_OUT = "timed_out"  # count of total failures
    RAN_OUT = "ran_out"  # count of total failures
    CRASHED = "crashed"  # count documents
    OTHERS_PROCESSED = "others_processed"  # count documents
    NONE_SINCE = "none_since"  # count documents
    NONE_EVER = "none_ever"  # names: service
    RECOVERED = "recovered"  # count documents of total
    RECOVERED_UNDER = "recovered_under"  # names: versions
    ONLY_THESE = "only_these"  # count documents, total tries
    DOCUMENTS_FAILED = "documents_failed"  # count documents, total failures
    SHARED_TRAIT = "shared_trait"  # names: field, value; count of total documents
    PART_CHANGED = "part_changed"  # names: field, value; count of total documents
    ROLLED_BACK = "rolled_back"  # names: newer versions
    NEW_VERSION = "new_version"  # names: the version, then the older ones; seconds until the first failure
    VERSION_FAILS = "version_fails"  # names: version; count documents that fail, total that succeed under it
    OLDER_SUCCEEDED = "older_succeeded"  # names: versions; count documents
    NEWER_SUCCEEDED = "newer_succeeded"  # names: versions; count documents
    SAME_VERSION = "same_version"  # names: version
    WORKED_BEFORE = "worked_before"  # count documents
    PROGRAMMING_ERROR = "programming_error"  # names: error type, place
    SEVERAL_VERSIONS = "several_versions"  # names: versions
    FAILURE_KINDS = "failure_kinds"  # count failures, total documents, counts by kind
    NONE_AFFECTED = "none_affected"
    NO_OTHERS = "no_others"
    NOT_EVERY_TRY = "not_every_try"
    SOME_SUCCEED = "some_succeed"  # count documents that fail, total that succeed
    VERSION_NOT_RECORDED = "version_not_recorded"


@dataclass(frozen=True, slots=True)
class Finding:
    kind: FindingKind
    count: int = 0
    total: int = 0
    names: tuple[str, ...] = ()
    seconds: float | None = None
    counts: tuple[tuple[str, int], ...] = ()


def dependency(evidence: Evidence) -> Iterator[Finding]:
    """Yield the dependencies that may be the cause, and what is known of them."""
    group, names = evidence.group, evidence.suspects
    if len(names) > 1:
        yield Finding(FindingKind.ONE_OF, names=names)
    for name in names[:1] if len(names) == 1 else ():
        inferred = () if group.dependencies else (group.service,)
        yield Finding(FindingKind.POINTS_AT, group.failures, group.documents, (name, *inferred))
    for name in names:
        opened = [opening for opening in evidence.openings if opening.dependency == name]
        if opened:
            last = opened[-1]
            lasted = None if last.closed_at is None else last.closed_at - last.opened_at
            yield Finding(FindingKind.BREAKER_OPENED, len(opened), names=(name,), seconds=lasted)
    if group.library:
        yield Finding(FindingKind.LIBRARY, names=(group.library,))
    if evidence.waiting:
        yield Finding(FindingKind.EVENTS_WAIT, evidence.waiting)


def kinds(evidence: Evidence) -> Iterator[Finding]:
    """Yield how many failures are of which kind."""
    group = evidence.group
    named = {
        FindingKind.RATE_LIMITED: ("rate_limited",),
        FindingKind.REFUSED: ("refused",),
        FindingKind.REJECTED: ("rejected",),
        FindingKind.TIMED_OUT: ("timeout",),
        FindingKind.RAN_OUT: ("capacity",),
        FindingKind.NOT_REACHED: ("unavailable", "unreached"),
    }
    for finding, kinds in named.items():
        if count := sum(group.kinds.get(kind, 0) for kind in kinds):
            yield Finding(finding, count, group.failures)


def load(evidence: Evidence) -> Iterator[Finding]:
    """Yield how much more there was to do."""
    if evidence.load is not None and load_rose(evidence):
        yield Finding(FindingKind.LOAD_ROSE, round(evidence.load))


def succeeded(evidence: Evidence) -> Iterator[Finding]:
    """Yield what succeeded beside the failures, or before them."""
    if evidence.since:
        yield Finding(FindingKind.OTHERS_PROCESSED, evidence.since)
    elif evidence.before:
        yield Finding(FindingKind.WORKED_BEFORE, evidence.before)
        yield Finding(FindingKind.NONE_SINCE)
    else:
        yield Finding(FindingKind.NONE_EVER, names=(evidence.group.service,))
    if evidence.recovered and evidence.group.documents > 1:
        yield Finding(FindingKind.RECOVERED, evidence.recovered, evidence.documents)


def trouble_outside(evidence: Evidence) -> list[Finding]:
    """Return what speaks for a dependency, or its network."""
    return [*dependency(evidence), *kinds(evidence), *succeeded(evidence)]


def pressure(evidence: Evidence) -> list[Finding]:
    """Return what speaks for an overload."""
    return [*kinds(evidence), *load(evidence), *succeeded(evidence)]


def healing(evidence: Evidence) -> Iterator[Finding]:
    """Yield the versions that have ended it."""
    if again := recovered_under_others(evidence):
        yield Finding(FindingKind.RECOVERED_UNDER, names=again)


def same_version(evidence: Evidence) -> Iterator[Finding]:
    """Yield the version that worked before, if it is one that fails."""
    both = [name for name in evidence.group.versions if evidence.group.succeeded_before.get(name)]
    if both:
        yield Finding(FindingKind.SAME_VERSION, names=(both[-1],))


def only_these(evidence: Evidence) -> list[Finding]:
    """Return that these documents fail in every try, with what is known of others."""
    tries = sum(total for _, total in evidence.outcomes)
    found = [Finding(FindingKind.ONLY_THESE, evidence.documents, tries)]
    return [*found, *succeeded(evidence), *traits(evidence)]


def traits(evidence: Evidence) -> Iterator[Finding]:
    """Yield what those that fail have in common."""
    for trait in evidence.traits[:MAX_TRAITS]:
        kind = FindingKind.PART_CHANGED if trait.changed else FindingKind.SHARED_TRAIT
        yield Finding(kind, trait.failing, trait.of_failing, (trait.name, trait.value))


def failed(evidence: Evidence) -> Iterator[Finding]:
    """Yield how many failed, where, and under which versions."""
    group = evidence.group
    if group.documents:  # none, if the error was only reported
        yield Finding(FindingKind.DOCUMENTS_FAILED, group.documents, group.failures)
    if group.error_type in PROGRAMMING_ERRORS and group.place:
        yield Finding(FindingKind.PROGRAMMING_ERROR, names=(group.error_type, group.place))
    if len(group.versions) > 1:
        yield Finding(FindingKind.SEVERAL_VERSIONS, names=tuple(group.versions))


def failure_kinds(evidence: Evidence) -> Finding:
    """Return the failures by kind."""
    group = evidence.group
    kinds = tuple(sorted(group.kinds.items(), key=lambda kind: (-kind[1], kind[0])))
    return Finding(FindingKind.FAILURE_KINDS, group.failures, group.documents, counts=kinds)


def known(evidence: Evidence) -> Iterator[Finding]:
    """Yield what is known where no cause follows from it."""
    group = evidence.group
    yield failure_kinds(evidence)
    if not group.affected and not group.dead_letters:
        yield Finding(FindingKind.NONE_AFFECTED)
    elif not evidence.since:
        yield Finding(FindingKind.NO_OTHERS)
    else:
        yield Finding(FindingKind.SOME_SUCCEED, evidence.documents, evidence.since)
        if not evidence.always:
            yield Finding(FindingKind.NOT_EVERY_TRY)
    yield from traits(evidence)
    if not group.versions:
        yield Finding(FindingKind.VERSION_NOT_RECORDED)
