"""The evidence on a failure group: what failed, and what it can be compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import from_json

from onward.model.documents import DocumentState, Status
from onward.model.failures import NO_TRY, Outcome, outcomes
from onward.model.ledger_views import FailureGroup
from onward.model.rollups import HOUR, MINUTE, STEPS, bucket_of

if TYPE_CHECKING:
    from onward.ledger.store import Store

MAX_FAILED_READ = 20  # of the affected documents, for one diagnosis
MAX_PROCESSED_READ = 100  # of the documents that they are compared with
SLACK_SECONDS = 60.0  # a breaker may open this long after the last failure: probing a dependency takes time
MOST, FEW = 0.9, 0.1  # a trait is shared by most that fail, and by few that succeed
MIN_COMPARED = 3  # documents on each side, for a trait
TIMES_LARGER = 2.0  # all that fail are larger than this many times the largest that succeeded
MAX_TRAIT_CHARACTERS = 80
COMPARED_BUCKETS = 60  # of the time before a group began, for the load
MIN_BUSY = 5  # tries in a bucket: less is no load, however much more than before
MOST_OF_FEW = 2.0
NETWORK = frozenset({"unavailable", "unreached", "refused", "rate_limited", "timeout"})


@dataclass(frozen=True, slots=True)
class Opening:
    """A period in which a dependency's breaker was open."""

    dependency: str
    opened_at: float
    closed_at: float | None = None
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the workers, and when it ran."""

    name: str
    first_seen: float
    last_seen: float


@dataclass(frozen=True, slots=True)
class Trait:
    """Something that documents which fail have in common, and those that succeed have not."""

    name: str  # a field of the documents, `source` or `size`
    value: str
    failing: int  # how many that fail have it
    of_failing: int
    succeeding: int
    of_succeeding: int
    before: int = 0  # how many with it succeeded before the failures began
    during: int = 0  # and between the first failure and the last

    @property
    def changed(self) -> bool:
        """Whether documents with it succeeded before, and none since: something about this part has changed."""
        return self.before > 0 and not self.during


@dataclass(frozen=True)
class Evidence:
    group: FailureGroup
    # Of dependencies that its service needs or its failures name, during the time of the group.
    openings: tuple[Opening, ...] = ()
    versions: tuple[Version, ...] = ()  # all known versions, the oldest first
    needs: tuple[str, ...] = ()  # the dependencies of its service
    # Of some affected documents: how many of their outcomes were this failure, and how many they had.
    outcomes: tuple[tuple[int, int], ...] = ()
    traits: tuple[Trait, ...] = ()
    # Documents of other groups of the service that fail in the same time: by a dependency or its network (some of
    # them because they took too long), or not.
    unreached_beside: int = 0
    slow_beside: int = 0
    failing_beside: int = 0
    waiting: int = 0  # events of its service that wait because the suspected dependency is down
    # How many times more of the service was tried when the group began than before, without what was retried;
    # None: not known.
    load: float | None = None

    @property
    def documents(self) -> int:
        """How many documents fail or failed like this. An outage that was noticed at once has charged none."""
        return max(1, self.group.documents, self.group.affected)

    @property
    def recovered(self) -> int:
        """How many of them do not fail any more."""
        left = max(self.group.affected, self.group.dead_letters)
        return max(0, self.documents - left) if self.group.documents else 0

    # -- what succeeded

    @cached_property
    def before(self) -> int:
        """How much the service had finished when the failures began."""
        return sum(self.group.succeeded_before.values())

    @cached_property
    def during(self) -> int:
        """How much it finished between the first failure and the last."""
        return max(0, sum(self.group.succeeded_at_last.values()) - self.before)

    @cached_property
    def after(self) -> int:
        """How much it finished since the last failure."""
        return max(0, sum(self.group.succeeded_now.values()) - self.before - self.during)

    @property
    def since(self) -> int:
        """How much it finished since the first failure."""
        return self.during + self.after

    def since_under(self, version: str) -> int:
        group = self.group
        return max(0, group.succeeded_now.get(version, 0) - group.succeeded_before.get(version, 0))

    # -- what failed

    def share(self, *kinds: str) -> float:
        total = sum(self.group.kinds.values())
        return sum(self.group.kinds.get(kind, 0) for kind in kinds) / total if total else 0.0

    @cached_property
    def kind(self) -> str:
        """The kind of most failures; empty: no kind is."""
        return next((kind for kind in self.group.kinds if self.share(kind) > 0.5), "")

    @property
    def always(self) -> bool:
        """Whether every outcome of the affected documents was this failure."""
        if not self.outcomes:  # a service that finishes none: its dead letters
            return self.group.dead_letters >= self.documents or not self.recovered
        return all(matching == total for matching, total in self.outcomes)

    @property
    def retried(self) -> bool:
        """Whether the affected documents were tried more than once."""
        return any(total > 1 for _, total in self.outcomes) or self.group.failures > self.documents

    @property
    def suspects(self) -> tuple[str, ...]:
        """The dependencies that may be the cause: named by failures, open at the time, or else all needed ones."""
        named = self.group.dependencies
        if named and sum(named.values()) >= self.group.failures:
            return tuple(sorted(named))
        opened = {opening.dependency for opening in self.openings}
        if len(self.needs) > 1 and (told := self._named_in_text()):
            return told
        return tuple(sorted(opened)) if len(opened) == 1 else self.needs

    def _named_in_text(self) -> tuple[str, ...]:
        """Return the one needed dependency whose name is in the message or is that of the library."""
        text = f"{self.group.message} {self.group.library}".lower()
        found = tuple(name for name in self.needs if len(name) > 1 and name.lower() in text)
        return found if len(found) == 1 else ()

    @property
    def suspect(self) -> str | None:
        found = self.suspects
        return found[0] if len(found) == 1 else None


def evidence_of(store: Store, group: FailureGroup, beside: Sequence[FailureGroup] | None = None) -> Evidence:
    """Collect the evidence on a failure group from a store; `beside` are groups that are known already."""
    return EvidenceReader(store).of(group, beside)


class EvidenceReader:
    """Collects the evidence on failure groups at one moment; facts that groups share are read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._succeeded: dict[str, list[_Compared]] = {}

    @cached_property
    def _needs(self) -> dict[str, Sequence[str]]:
        return {one.service: one.needs for one in self._store.subscriptions()}

    @cached_property
    def _openings(self) -> list[Opening]:
        names = ("dependency", "opened_at", "closed_at", "reason", "remedy")
        return [Opening(*(opening[name] for name in names)) for opening in self._store.openings()]

    @cached_property
    def _versions(self) -> tuple[Version, ...]:
        return tuple(Version(*version) for version in self._store.versions())

    @cached_property
    def _waiting(self) -> dict[str, int]:
        return {service: counts.get("waiting", 0) for service, counts in self._store.counts().items()}

    def of(self, group: FailureGroup, beside: Sequence[FailureGroup] | None = None) -> Evidence:
        """Collect the evidence on one group; `beside` are groups that are known already."""
        if beside is None:
            beside = self._store.failure_groups(
                service=group.service, since=group.first_seen, limit=MAX_FAILED_READ
            )
        return self.of_all([group], beside)[0]

    def of_all(self, groups: Sequence[FailureGroup], beside: Sequence[FailureGroup]) -> list[Evidence]:
        """Collect the evidence on several groups: the documents of all of them are read together."""
        failed = self._failed([group for group in groups if group.affected])
        return [self._evidence(group, failed.get(group.fingerprint, []), beside) for group in groups]

    def _evidence(
        self, group: FailureGroup, failed: Sequence[_Compared], beside: Sequence[FailureGroup]
    ) -> Evidence:
        needs = self._needs.get(group.service, ())
        openings = (
            opening
            for opening in self._openings
            if opening.dependency in {*needs, *group.dependencies}
            and (opening.closed_at is None or opening.closed_at >= group.first_seen)
            and opening.opened_at <= group.last_seen + SLACK_SECONDS
        )
        found = Evidence(
            group,
            tuple(openings),
            self._versions,
            tuple(needs),
            tuple(_outcomes(one.state.attempts, group.fingerprint) for one in failed),
            self._traits(group, failed),
            *_beside(group, beside),
        )
        busy = found.kind in NETWORK or (found.kind == "transient" and found.needs)
        if found.kind == "capacity" or (found.during and busy):
            found = replace(found, load=_load(self._store, group))
        down = any(
            opening.dependency in found.suspects and opening.closed_at is None for opening in found.openings
        )
        if not (down and found.kind in NETWORK):
            return found
        return replace(found, waiting=self._waiting.get(group.service, 0))

    def _failed(self, groups: Sequence[FailureGroup]) -> dict[str, list[_Compared]]:
        """Read some of the affected documents of each group; with their fields if they are compared."""
        found = self._store.states_of_groups([group.fingerprint for group in groups], limit=MAX_FAILED_READ)
        wanted: dict[str, list[str]] = {}
        compared: dict[str, list[DocumentState]] = {}
        for group in groups:
            states = [one for one in found.get(group.fingerprint, []) if one.status != Status.DISCARDED]
            compared[group.fingerprint] = states
            if len(states) >= MIN_COMPARED and group.collection is not None:
                wanted.setdefault(group.collection, []).extend(one.id for one in states)
        bodies = {
            (collection, id): body
            for collection, ids in wanted.items()
            for id, _, body in self._store.read_bodies(collection, ids)
        }
        return {
            group.fingerprint: [
                _Compared.of(one, bodies.get((group.collection or "", one.id)))
                for one in compared[group.fingerprint]
            ]
            for group in groups
        }

    def _succeeding(self, collection: str) -> list[_Compared]:
        """Return the documents of a collection that failing ones are compared with."""
        if collection not in self._succeeded:
            done = self._store.find_states(
                collection=collection, status=Status.PROCESSED, limit=MAX_PROCESSED_READ
            )
            bodies = {id: body for id, _, body in self._store.read_bodies(collection, [one.id for one in done])}
            self._succeeded[collection] = [_Compared.of(one, bodies.get(one.id)) for one in done]
        return self._succeeded[collection]

    def _traits(self, group: FailureGroup, failed: Sequence[_Compared]) -> tuple[Trait, ...]:
        if len(failed) < MIN_COMPARED or group.collection is None:
            return ()
        done = self._succeeding(group.collection)
        return _traits(group, failed, done) if len(done) >= MIN_COMPARED else ()


def _load(store: Store, group: FailureGroup) -> float | None:
    """Return how many times more was to be done when a group began than before."""
    step = MINUTE if store.now() - group.first_seen < STEPS[MINUTE] - COMPARED_BUCKETS * MINUTE else HOUR
    began = bucket_of(group.first_seen, step)
    counts = store.service_counts(step, began - COMPARED_BUCKETS * step, group.service, began + step)
    tried = {bucket: max(sum(one.latencies) - one.retries, 0) for (bucket, _), one in counts.items()}
    earlier = [number for bucket, number in tried.items() if bucket < began]
    now = max(tried.get(began, 0), tried.get(began + step, 0))
    if not sum(earlier):
        return None
    usual = sum(earlier) / ((began - min(tried)) / step)  # a bucket without any counts is missing
    return now / usual if now >= MIN_BUSY else min(now / usual, MOST_OF_FEW)


def waiting_events(store: Store, groups: Iterable[FailureGroup]) -> dict[str, int]:
    """Return by fingerprint how many events wait now because the dependency of their group is down.

    An outage charges no document, so its group may affect none although every event waits.
    """
    down = {breaker.dependency for breaker in store.breakers() if breaker.open}
    held = {service.service for service in store.subscriptions() if down.intersection(service.needs)}
    chosen = [group for group in groups if group.service in held]
    return {one.group.fingerprint: one.waiting for one in EvidenceReader(store).of_all(chosen, ())}


def _beside(group: FailureGroup, others: Sequence[FailureGroup]) -> tuple[int, int, int]:
    """Count the documents of other groups of its service in the same time: a network's, too slow ones, others."""
    unreached = slow = failing = 0
    for other in others:
        if other.service != group.service or other.fingerprint == group.fingerprint:
            continue
        if other.last_seen < group.first_seen or other.first_seen > group.last_seen:
            continue
        if sum(count for kind, count in other.kinds.items() if kind in NETWORK) * 2 > other.failures:
            unreached += other.documents
            slow += other.documents if other.kinds.get("timeout", 0) * 2 > other.failures else 0
        elif other.affected:
            failing += other.documents
    return unreached, slow, failing


def _outcomes(attempts: dict[str, Any], fingerprint: str) -> tuple[int, int]:
    """Count the failed tries of a document with this fingerprint, and all of them, since it last succeeded."""
    since: list[dict[str, Any]] = []
    for outcome in outcomes(attempts):
        if outcome.get("outcome") == Outcome.PROCESSED:
            since.clear()
        elif outcome.get("outcome") not in NO_TRY | {Outcome.GIVEN_BACK}:
            since.append(outcome)
    return sum(outcome.get("fingerprint") == fingerprint for outcome in since), len(since)


# -- what documents that fail have in common


class _Compared(NamedTuple):
    """A document with what is compared of it."""

    state: DocumentState
    fields: dict[str, str]
    size: int  # of its body

    @classmethod
    def of(cls, state: DocumentState, body: str | None) -> _Compared:
        return cls(state, dict(_fields(state, body)), len(body or ""))


def _traits(group: FailureGroup, failed: Sequence[_Compared], done: Sequence[_Compared]) -> tuple[Trait, ...]:
    found = []
    for name in dict.fromkeys(name for one in failed for name in one.fields):
        value, count = Counter(one.fields.get(name, "") for one in failed).most_common(1)[0]
        if count < MOST * len(failed):
            continue
        others = [one.state.updated_at or 0.0 for one in done if one.fields.get(name, "") == value]
        before = sum(at < group.first_seen for at in others)
        during = sum(group.first_seen <= at <= group.last_seen for at in others)
        trait = Trait(name, value, count, len(failed), len(others), len(done), before, during)
        if len(others) <= FEW * len(done) or (trait.changed and len(others) < len(done)):
            found.append(trait)
    smallest, largest = min(one.size for one in failed), max(one.size for one in done)
    if smallest > TIMES_LARGER * largest:
        found.append(Trait("size", f"more than {largest} bytes", len(failed), len(failed), 0, len(done)))
    return tuple(found)


def _fields(state: DocumentState, stored: str | None) -> Iterator[tuple[str, str]]:
    """Yield the short fields of a document, and the parts of them that many documents share."""
    yield "source", state.source or ""
    body = from_json(stored) if stored else None
    for name, value in body.items() if isinstance(body, Mapping) else ():
        if name in ("id", "source") or isinstance(value, dict | list):
            continue
        text = "" if value is None else str(value)
        if len(text) > MAX_TRAIT_CHARACTERS:
            continue
        yield name, text
        if "@" in text:
            yield f"domain of {name}", text.rpartition("@")[2].rstrip(">")
        elif "." in text[1:] and " " not in text:
            yield f"ending of {name}", text.rpartition(".")[2].lower()
        if "/" in text:
            yield f"beginning of {name}", text.rpartition("/")[0]
