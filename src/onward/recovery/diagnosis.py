"""The probable cause of a failure group, and the findings that it rests on, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.model.failures import Outcome, outcomes
from onward.model.ledger_views import FailureGroup

if TYPE_CHECKING:
    from onward.ledger.store import Store

FEW = 2  # up to this many documents may each be the cause of their own failure
SEVERAL = 3
MANY = 5
ENOUGH = 3  # if at least this many times as many documents succeeded, the program alone is not the cause
SOON_SECONDS = 3600.0  # a failure that begins within this time after a version appeared may have come with it
MAX_DOCUMENTS_READ = 20  # of the affected documents, for one diagnosis
SLACK_SECONDS = 60.0  # a breaker may open this long after the last failure: probing a dependency takes time
PROGRAMMING_ERRORS = frozenset(
    {
        *("AssertionError", "AttributeError", "ImportError", "IndexError", "KeyError", "ModuleNotFoundError"),
        *("NameError", "NotImplementedError", "RecursionError", "TypeError", "UnboundLocalError"),
        *("ValidationError", "ZeroDivisionError"),
    }
)


class Cause(StrEnum):
    DEPENDENCY = "dependency"
    POISON = "poison document"
    BUG = "bug or bad deploy"
    OVERLOAD = "overload"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Opening:
    """A period in which a dependency's breaker was open."""

    dependency: str
    opened_at: float
    closed_at: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the workers, and when it ran."""

    name: str
    first_seen: float
    last_seen: float


@dataclass(frozen=True, slots=True)
class Evidence:
    group: FailureGroup
    # Of dependencies that its service needs or its failures name, during the time of the group.
    openings: tuple[Opening, ...] = ()
    versions: tuple[Version, ...] = ()  # all known versions, the oldest first
    needs: tuple[str, ...] = ()  # the dependencies of its service
    # Of each affected document: how many of its outcomes were this failure, and how many it had.
    outcomes: tuple[tuple[int, int], ...] = ()
    waiting: int = 0  # events of its service that wait because the suspected dependency is down

    @property
    def others(self) -> int:
        """How many documents of the collection were processed since the failures began."""
        return max(0, self.group.processed_now - self.group.processed_before)

    @property
    def suspect(self) -> str | None:
        """The one dependency that all failures point at."""
        found = self.group.dependencies
        if len(found) == 1 and sum(found.values()) >= self.group.failures:
            return next(iter(found))
        return self.needs[0] if not found and len(self.needs) == 1 else None

    def share(self, *kinds: str) -> float:
        total = sum(self.group.kinds.values())
        return sum(self.group.kinds.get(kind, 0) for kind in kinds) / total if total else 0.0

    @property
    def passing(self) -> bool:
        """Whether most of the failures are of kinds that pass."""
        return self.share("unavailable", "rate_limited", "timeout", "not_ready") > 0.5

    @property
    def always(self) -> bool:
        """Whether every outcome of the affected documents was this failure."""
        return bool(self.outcomes) and all(matching == total for matching, total in self.outcomes)


class FindingKind(StrEnum):
    """The kind of a finding. The comment behind each kind lists the fields of `Finding` that it uses."""

    POINTS_AT = "points_at"  # count failures, total documents, names: dependency and, if inferred, the service
    BREAKER_OPENED = "breaker_opened"  # names: dependency; count openings; seconds of the last, None: still open
    NOT_REACHED = "not_reached"  # count of total failures
    EVENTS_WAIT = "events_wait"  # count events
    RATE_LIMITED = "rate_limited"  # count of total failures
    TIMED_OUT = "timed_out"  # count of total failures
    NOT_THE_DOCUMENTS = "not_the_documents"  # count documents
    OTHERS_PROCESSED = "others_processed"  # count documents
    ONLY_THESE = "only_these"  # count documents, total tries
    DOCUMENTS_FAILED = "documents_failed"  # count documents, total failures
    NEW_VERSION = "new_version"  # names: the version, then the older ones; seconds until the first failure
    WORKED_BEFORE = "worked_before"  # count documents
    PROGRAMMING_ERROR = "programming_error"  # names: error type, place
    OLDER_VERSIONS_TOO = "older_versions_too"  # names: versions
    FAILURE_KINDS = "failure_kinds"  # count failures, total documents, counts by kind
    NONE_AFFECTED = "none_affected"
    SEVERAL_DEPENDENCIES = "several_dependencies"  # names: dependencies
    PARTLY_NAMED = "partly_named"  # names: dependency; count of total failures
    SERVICE_NEEDS_SEVERAL = "service_needs_several"  # names: dependencies
    NO_DEPENDENCY = "no_dependency"  # names: service
    NO_OTHERS = "no_others"  # names: the service, if it finishes no collection
    NOT_EVERY_TRY = "not_every_try"
    BETWEEN = "between"  # count documents
    LOOK_FOR_COMMON = "look_for_common"
    VERSION_FORGOTTEN = "version_forgotten"  # names: versions
    VERSION_NOT_RECORDED = "version_not_recorded"
    ONLY_VERSION = "only_version"  # names: version
    NO_NEW_VERSION = "no_new_version"  # names: versions


@dataclass(frozen=True, slots=True)
class Finding:
    kind: FindingKind
    count: int = 0
    total: int = 0
    names: tuple[str, ...] = ()
    seconds: float | None = None
    counts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    kind: Cause
    findings: tuple[Finding, ...]


def diagnose(evidence: Evidence) -> Diagnosis:
    """Return the first cause that the evidence supports."""
    rules: tuple[tuple[Cause, Callable[[Evidence], list[Finding]]], ...] = (
        (Cause.DEPENDENCY, _dependency),
        (Cause.OVERLOAD, _overload),
        (Cause.POISON, _poison),
        (Cause.BUG, _bug),
        (Cause.UNCLEAR, _missing),
    )
    cause, found = next((cause, found) for cause, rule in rules if (found := rule(evidence)))
    return Diagnosis(cause, tuple(found))


def evidence_of(store: Store, group: FailureGroup) -> Evidence:
    """Collect the evidence on a failure group from a store."""
    needs = next((service.needs for service in store.subscriptions() if service.service == group.service), ())
    openings = (
        Opening(opening["dependency"], opening["opened_at"], opening["closed_at"], opening["reason"])
        for opening in store.openings()
        if opening["dependency"] in {*needs, *group.dependencies}
        and (opening["closed_at"] is None or opening["closed_at"] >= group.first_seen)
        and opening["opened_at"] <= group.last_seen + SLACK_SECONDS
    )
    # Where many documents fail, the earlier outcomes of each say nothing about the cause.
    few = group.affected and group.documents <= FEW
    states = store.find_states(fingerprint=group.fingerprint, limit=MAX_DOCUMENTS_READ) if few else []
    outcomes = tuple(_outcomes(state.attempts, group.fingerprint) for state in states)
    versions = tuple(Version(*version) for version in store.versions())
    found = Evidence(group, tuple(openings), versions, tuple(needs), outcomes)
    down = any(opening.dependency == found.suspect and opening.closed_at is None for opening in found.openings)
    if not (down and found.passing):
        return found
    return replace(found, waiting=store.counts().get(group.service, {}).get("waiting", 0))


def waiting_events(store: Store, groups: Iterable[FailureGroup]) -> dict[str, int]:
    """Return by fingerprint how many events wait now because the dependency of their group is down.

    An outage charges no document, so its group may affect none although every event waits.
    """
    down = {breaker.dependency for breaker in store.breakers() if breaker.open}
    held = {service.service for service in store.subscriptions() if down.intersection(service.needs)}
    return {group.fingerprint: evidence_of(store, group).waiting for group in groups if group.service in held}


def _outcomes(attempts: dict[str, Any], fingerprint: str) -> tuple[int, int]:
    """Count the failed tries of a document with this fingerprint, and all of them, since it last succeeded."""
    since: list[dict[str, Any]] = []
    for outcome in outcomes(attempts):
        if outcome.get("outcome") == Outcome.PROCESSED:
            since.clear()
        elif outcome.get("outcome") not in (Outcome.GIVEN_BACK, Outcome.GAVE_UP_FOR_GOOD):
            since.append(outcome)
    return sum(outcome.get("fingerprint") == fingerprint for outcome in since), len(since)


# -- the causes; each rule returns its findings, or nothing if the evidence does not support the cause


def _dependency(evidence: Evidence) -> list[Finding]:
    group, name = evidence.group, evidence.suspect
    if name is None or not evidence.passing or evidence.share("rate_limited", "not_ready") > 0.5:
        return []
    opened = [opening for opening in evidence.openings if opening.dependency == name]
    # One document alone proves little, but an open breaker does.
    if not opened and (group.documents < SEVERAL or evidence.share("unavailable") <= 0.5):
        return []
    names = (name,) if group.dependencies else (name, group.service)
    # An outage that was noticed at once has charged no document.
    found = [Finding(FindingKind.POINTS_AT, group.failures, group.documents, names)]
    if opened:
        last = opened[-1]
        lasted = None if last.closed_at is None else last.closed_at - last.opened_at
        found.append(Finding(FindingKind.BREAKER_OPENED, len(opened), names=(name,), seconds=lasted))
    else:
        found.append(Finding(FindingKind.NOT_REACHED, group.kinds.get("unavailable", 0), group.failures))
    if evidence.waiting:
        found.append(Finding(FindingKind.EVENTS_WAIT, evidence.waiting))
    return found


def _overload(evidence: Evidence) -> list[Finding]:
    group = evidence.group
    if group.documents < SEVERAL or evidence.share("rate_limited", "timeout") <= 0.5:
        return []
    kinds = {"rate_limited": FindingKind.RATE_LIMITED, "timeout": FindingKind.TIMED_OUT}
    found = [Finding(kinds[kind], group.kinds[kind], group.failures) for kind in kinds if group.kinds.get(kind)]
    found.append(Finding(FindingKind.NOT_THE_DOCUMENTS, group.documents))
    return [*found, _others(evidence)] if evidence.others else found


def _poison(evidence: Evidence) -> list[Finding]:
    group = evidence.group
    if group.documents > FEW or not group.affected or not evidence.always or not evidence.others:
        return []
    tries = sum(total for _, total in evidence.outcomes)
    return [Finding(FindingKind.ONLY_THESE, group.documents, tries), _others(evidence)]


def _bug(evidence: Evidence) -> list[Finding]:
    group, versions = evidence.group, evidence.versions
    if group.documents < MANY or evidence.passing:
        return []
    # Whether the failures began soon after one of their versions appeared.
    since = (group.first_seen - version.first_seen for version in versions[1:] if version.name in group.versions)
    came_with_a_version = any(-SLACK_SECONDS <= seconds <= SOON_SECONDS for seconds in since)
    if evidence.others >= ENOUGH * group.documents and not came_with_a_version:
        return []  # the same program succeeds with most documents: those that fail have something in common
    found = [Finding(FindingKind.DOCUMENTS_FAILED, group.documents, group.failures)]
    new = next((version for version in versions if version.name in group.versions), None)
    if new and not _forgotten(evidence):
        older = [version.name for version in versions if version.first_seen < new.first_seen]
        worked = group.processed_before > 0 or group.collection is None
        if older and worked and new.first_seen - SLACK_SECONDS <= group.first_seen:
            began = max(0.0, group.first_seen - new.first_seen)
            found.append(Finding(FindingKind.NEW_VERSION, names=(new.name, *older), seconds=began))
            if group.processed_before:
                found.append(Finding(FindingKind.WORKED_BEFORE, group.processed_before))
            return found
    if group.error_type not in PROGRAMMING_ERRORS or not group.place:
        return []
    found.append(Finding(FindingKind.PROGRAMMING_ERROR, names=(group.error_type, group.place)))
    if len(group.versions) > 1:
        found.append(Finding(FindingKind.OLDER_VERSIONS_TOO, names=tuple(group.versions)))
    return found


def _missing(evidence: Evidence) -> list[Finding]:
    group = evidence.group
    kinds = tuple(sorted(group.kinds.items(), key=lambda kind: (-kind[1], kind[0])))
    found = [Finding(FindingKind.FAILURE_KINDS, group.failures, group.documents, counts=kinds)]
    if not group.affected and not group.dead_letters:
        found.append(Finding(FindingKind.NONE_AFFECTED))
    if evidence.passing and evidence.suspect is None:
        found.append(_why_no_suspect(evidence))
    if group.documents <= FEW:
        if not evidence.others:
            names = (group.service,) if group.collection is None else ()
            found.append(Finding(FindingKind.NO_OTHERS, names=names))
        elif group.affected and not evidence.always:
            found.append(Finding(FindingKind.NOT_EVERY_TRY))
    elif group.documents < MANY:
        found.append(Finding(FindingKind.BETWEEN, group.documents))
    elif not evidence.passing:
        if evidence.others >= ENOUGH * group.documents:
            found += [_others(evidence), Finding(FindingKind.LOOK_FOR_COMMON)]
        found.append(_why_no_version(evidence))
    return found


def _why_no_suspect(evidence: Evidence) -> Finding:
    group = evidence.group
    names = tuple(sorted(group.dependencies))
    if len(names) > 1:
        return Finding(FindingKind.SEVERAL_DEPENDENCIES, names=names)
    if names:
        return Finding(FindingKind.PARTLY_NAMED, sum(group.dependencies.values()), group.failures, names)
    if evidence.needs:
        return Finding(FindingKind.SERVICE_NEEDS_SEVERAL, names=evidence.needs)
    return Finding(FindingKind.NO_DEPENDENCY, names=(group.service,))


def _why_no_version(evidence: Evidence) -> Finding:
    if forgotten := _forgotten(evidence):
        return Finding(FindingKind.VERSION_FORGOTTEN, names=forgotten)
    if not evidence.group.versions:
        return Finding(FindingKind.VERSION_NOT_RECORDED)
    if len(evidence.versions) == 1:
        return Finding(FindingKind.ONLY_VERSION, names=(evidence.versions[0].name,))
    return Finding(FindingKind.NO_NEW_VERSION, names=tuple(evidence.group.versions))


def _forgotten(evidence: Evidence) -> tuple[str, ...]:
    """Return the versions that failed, and of which it is not known any more when they ran."""
    known = {version.name for version in evidence.versions}
    return tuple(name for name in evidence.group.versions if name not in known)


def _others(evidence: Evidence) -> Finding:
    return Finding(FindingKind.OTHERS_PROCESSED, evidence.others)


# -- remedies


class RemedyKind(StrEnum):
    """What to do about a failure group."""

    NONE_NEEDED = "none_needed"
    WAIT = "wait"  # the events go on by themselves when the dependency is back
    SHOW_EXAMPLE = "show_example"
    SHOW_BREAKERS = "show_breakers"
    RETRY_WHEN_BACK = "retry_when_back"
    RETRY_SLOWLY = "retry_slowly"
    RETRY_WHEN_FIXED = "retry_when_fixed"
    RETRY_ONCE = "retry_once"
    RETRY_FEW = "retry_few"
    DISCARD = "discard"


class Remedy(NamedTuple):
    """Something that an operator can do about a failure group."""

    kind: RemedyKind
    dependency: str = ""  # whose return the events wait for
    canary: int = 0
    rate: float | None = None


def remedies(evidence: Evidence, diagnosis: Diagnosis, *, example: bool) -> list[Remedy]:
    """Return what to do next, in this order; `example`: there is a document or dead letter to look at."""
    group = evidence.group
    if not group.affected and not group.dead_letters and not evidence.waiting:
        return [Remedy(RemedyKind.NONE_NEEDED)]
    look = [Remedy(RemedyKind.SHOW_EXAMPLE)] if example else []
    match diagnosis.kind:
        case Cause.DEPENDENCY:
            found = [Remedy(RemedyKind.SHOW_BREAKERS), *look]
            if evidence.waiting:
                found.insert(0, Remedy(RemedyKind.WAIT, evidence.suspect or ""))
            if group.dead_letters or not evidence.waiting:
                found.append(Remedy(RemedyKind.RETRY_WHEN_BACK, canary=1))
            return found
        case Cause.OVERLOAD:
            return [Remedy(RemedyKind.RETRY_SLOWLY, rate=1.0), *look]
        case Cause.BUG:
            return [*look, Remedy(RemedyKind.RETRY_WHEN_FIXED, canary=3)]
        case Cause.POISON:
            return [*look, Remedy(RemedyKind.RETRY_ONCE), Remedy(RemedyKind.DISCARD)]
        case Cause.UNCLEAR:
            return [*look, Remedy(RemedyKind.RETRY_FEW, canary=3), Remedy(RemedyKind.DISCARD)]
