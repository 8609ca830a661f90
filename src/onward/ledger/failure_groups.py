"""Failure groups: counted in the transaction that stores a failure, and read for operators."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from onward.ledger.dialect import Database
from onward.model.failures import Failure
from onward.model.group_life import GroupLife
from onward.model.group_rules import GroupRule, GroupRules, RuleState, SplitBy
from onward.model.ledger_views import FailureGroup

MAX_GROUPS = 10_000  # Failure groups that are kept; those not seen for the longest time are removed first
MAX_NAMES = 20  # Kinds, versions or dependencies that a group counts separately; the oldest are removed first
MAX_NAME_CHARACTERS = 200
REGRESSIONS = "failure_group_regressions_total"


class CountedFailure(NamedTuple):
    """A failure to be counted in its group."""

    service: str
    collection: str | None
    failure: Failure
    documents: int  # How many documents first failed like this
    began: float | None = None  # When its try began; None: when it failed
    moved: bool = False  # It was counted in another group before, and reopens none
    by: str = ""  # The name under which successes are counted that it is compared with; empty: the service


def made_by(service: str, collection: str) -> str:
    """Return the name under which documents are counted that a service makes, next to those that it finishes."""
    return f"{service}/{collection}"


# -- rules


@dataclass(frozen=True, slots=True)
class GroupedFailure(Failure):
    """A failure that counts with another group than that of its computed fingerprint."""

    raw_fingerprint: str = ""


def read_rules(db: Database) -> list[GroupRule]:
    return [
        GroupRule(id, group, target, SplitBy(by) if by else None, value, at, who, RuleState(state))
        for id, group, target, by, value, at, who, state in db.read("group_rules")
    ]


def apply_rules(rules: GroupRules, failure: Failure) -> Failure:
    """Return a failure with the fingerprint of the group that it counts with."""
    if not rules:
        return failure
    raw = raw_fingerprint(failure)
    error = {"message": failure.message, "dependency": failure.dependency, "version": failure.version}
    group = rules.group_of(raw, error)
    if group == failure.fingerprint:
        return failure
    stored = {field.name: getattr(failure, field.name) for field in fields(Failure)}
    return GroupedFailure(**stored | {"fingerprint": group}, raw_fingerprint=raw)


def raw_fingerprint(failure: Failure) -> str:
    """Return the computed fingerprint of a failure, to which rules are applied."""
    return getattr(failure, "raw_fingerprint", "") or failure.fingerprint


# -- counting


def write_failures(
    db: Database, counted: Sequence[CountedFailure], after_first: Mapping[str, Mapping[str, int]]
) -> None:
    """Add failures to their groups. Each group is read and written once, whatever the number of failures.

    The successes of this transaction are written before. `after_first` are those by version that came after the
    first failure of a group: a batch in which many succeed and many fail is not one that had gone well until then.
    """
    groups: dict[str, list[CountedFailure]] = {}
    for one in counted:
        groups.setdefault(one.failure.fingerprint, []).append(one)
    db.lock("failure groups", sorted(groups))
    stored = {fingerprint: maps for fingerprint, *maps in db.read("group_counts", list(groups))}
    succeeded: dict[str, dict[str, int]] = {}
    for by, version, n, *_ in db.read("successes", sorted({one.by or one.service for one in counted})):
        succeeded.setdefault(by, {})[version] = n
    rows = []
    for fingerprint, same in groups.items():
        service, collection, last = same[-1][:3]
        failures = [one.failure for one in same]
        tracebacks = [failure.traceback for failure in failures if failure.traceback] or [""]
        contexts = [failure.context for failure in failures if failure.context] or ["{}"]
        about = (service, collection, last.error_type, last.message, last.place, tracebacks[-1])
        first_seen, documents = min(failure.at for failure in failures), sum(one.documents for one in same)
        names = zip(*((failure.kind, failure.version, failure.dependency) for failure in failures), strict=True)
        before = stored.get(fingerprint, ({}, {}, {}))[:3]
        maps = [json.dumps(_counted(counts, more)) for counts, more in zip(before, names, strict=True)]
        now = succeeded.get(same[-1].by or service, {})
        later = after_first.get(fingerprint, {})
        earlier = {version: n for version, all_n in now.items() if (n := all_n - later.get(version, 0))}
        counts = (first_seen, last.at, len(same), documents, *maps, contexts[-1])
        rows.append((fingerprint, *about, *counts, json.dumps(earlier), json.dumps(now), last.library))
    db.bulk("count_failures", rows)
    lives = {fingerprint: GroupLife.from_dict(columns[3]) for fingerprint, columns in stored.items()}
    reopen_groups(db, {name: life for name, life in lives.items() if life.closed}, groups)
    if any(fingerprint not in stored for fingerprint in groups):
        db.send("prune_groups", MAX_GROUPS)


def reopen_groups(
    db: Database, closed: Mapping[str, GroupLife], groups: Mapping[str, Sequence[CountedFailure]]
) -> None:
    """Reopen closed groups that have come back, and count these regressions."""
    if not closed:
        return
    seen = first_seen_versions(db)
    for fingerprint, life in closed.items():
        failures = [
            (one.failure.version, one.failure.at if one.began is None else one.began, one.failure.at)
            for one in groups[fingerprint]
            if not one.moved
        ]
        after = life.after_failures(failures, seen)
        if after != life:
            db.send("save_group_life", fingerprint, json.dumps(after.as_dict()))
        if not after.closed:
            db.send("count_total", REGRESSIONS, groups[fingerprint][-1].service, 1.0)


def first_seen_versions(db: Database) -> dict[str, float]:
    return {version: first for version, first, _ in db.read("versions")}


def _counted(stored: dict[str, int], names: Iterable[str | None]) -> dict[str, int]:
    counts = dict(stored)
    for name in (name[:MAX_NAME_CHARACTERS] for name in names if name):
        counts[name] = counts.get(name, 0) + 1
    return dict(list(counts.items())[-MAX_NAMES:])


def read_group(stored: list[Any], succeeded_now: Mapping[str, int]) -> FailureGroup:
    """Read a failure group from its columns; `succeeded_now` is what it is compared with, by version."""
    # The columns come in the order of the fields, except `succeeded_now`.
    *columns, affected, dead_letters, life = stored
    group = FailureGroup(*[*columns, succeeded_now, affected, dead_letters, GroupLife.from_dict(life)])
    # Documents that failed before the group was last forgotten are still affected.
    return replace(group, documents=max(group.documents, group.affected))
