"""Failure groups: counted in the transaction that stores a failure, and read for operators."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from onward.ledger.dialect import Database
from onward.model.failures import Failure
from onward.model.ledger_views import FailureGroup

MAX_GROUPS = 10_000
"""Failure groups that are kept; those that were not seen for the longest time are removed first."""
MAX_NAMES = 20  # Kinds, versions or dependencies that a group counts separately; the oldest are removed first
MAX_NAME_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class CountedFailure:
    """A failure to be counted in its group."""

    service: str
    collection: str | None
    failure: Failure
    documents: int  # How many documents failed like this for the first time


@dataclass(slots=True)
class _GroupChange:
    """The counts that one transaction adds to a group."""

    last: CountedFailure
    first_seen: float
    failures: int = 0
    documents: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    dependencies: dict[str, int] = field(default_factory=dict)
    traceback: str = ""

    def add(self, counted: CountedFailure) -> None:
        failure = counted.failure
        self.last = counted
        self.first_seen = min(self.first_seen, failure.at)
        self.failures += 1
        self.documents += counted.documents
        self.traceback = failure.traceback or self.traceback
        for counts, name in (
            (self.kinds, failure.kind),
            (self.versions, failure.version),
            (self.dependencies, failure.dependency),
        ):
            if name:
                counts[name[:MAX_NAME_CHARACTERS]] = counts.get(name[:MAX_NAME_CHARACTERS], 0) + 1


def write_failures(db: Database, failures: Sequence[CountedFailure]) -> None:
    """Add failures to their groups. Each group is read and written once, whatever the number of failures."""
    counted: dict[str, _GroupChange] = {}
    for failed in failures:
        fingerprint = failed.failure.fingerprint
        if fingerprint not in counted:
            counted[fingerprint] = _GroupChange(failed, failed.failure.at)
        counted[fingerprint].add(failed)
    db.lock("failure groups", sorted(counted))
    stored = {fingerprint: maps for fingerprint, *maps in db.read("group_counts", list(counted))}
    new = {change.last.collection for fingerprint, change in counted.items() if fingerprint not in stored}
    processed = {name: db.read("processed_count", name) for name in new if name is not None}
    rows = []
    for fingerprint, change in counted.items():
        failure, added = change.last.failure, (change.kinds, change.versions, change.dependencies)
        maps = [
            _merged(before, more)
            for before, more in zip(stored.get(fingerprint, ({}, {}, {})), added, strict=True)
        ]
        rows.append(
            (
                fingerprint,
                change.last.service,
                change.last.collection,
                failure.error_type,
                failure.message,
                failure.place,
                change.traceback,
                change.first_seen,
                failure.at,
                change.failures,
                change.documents,
                *(json.dumps(counts) for counts in maps),
                processed.get(change.last.collection or "", 0),
            )
        )
    db.bulk("count_failures", rows)
    if new:
        db.send("prune_groups", MAX_GROUPS)


def _merged(stored: dict[str, int], added: dict[str, int]) -> dict[str, int]:
    merged = dict(stored)
    for name, count in added.items():
        merged[name] = merged.get(name, 0) + count
    return dict(list(merged.items())[-MAX_NAMES:])


def read_group(stored: list[Any], processed: dict[str, int]) -> FailureGroup:
    """Read a failure group from its columns; `processed` has the documents processed now, by collection."""
    # The columns come in the order of the fields, except `processed_now`.
    group = FailureGroup(*[*stored[:-2], processed.get(stored[2], 0), *stored[-2:]])
    # Documents that failed before the group was last forgotten are still affected.
    return replace(group, documents=max(group.documents, group.affected))
