"""Counting failures into their groups, in the transaction that stores them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from onward.backends.relational.database import Database
from onward.model.failures import Failure

MAX_NAMES = 20
"""How many kinds, versions or dependencies a group tells apart; the oldest go first."""
MAX_NAME = 200


@dataclass(frozen=True, slots=True)
class Noted:
    """A failure that is to be counted in its group."""

    service: str
    collection: str | None
    failure: Failure
    documents: int
    """How many documents had not failed so before."""


@dataclass(slots=True)
class _Counted:
    """What one transaction adds to a group."""

    last: Noted
    first_seen: float
    failures: int = 0
    documents: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    dependencies: dict[str, int] = field(default_factory=dict)
    traceback: str = ""

    def add(self, noted: Noted) -> None:
        failure = noted.failure
        self.last = noted
        self.first_seen = min(self.first_seen, failure.at)
        self.failures += 1
        self.documents += noted.documents
        self.traceback = failure.traceback or self.traceback
        for counts, name in (
            (self.kinds, failure.kind),
            (self.versions, failure.version),
            (self.dependencies, failure.dependency),
        ):
            if name:
                counts[name[:MAX_NAME]] = counts.get(name[:MAX_NAME], 0) + 1


def write_failures(db: Database, noted: Sequence[Noted]) -> None:
    """Add failures to their groups: a group is read and written once, however many there are."""
    counted: dict[str, _Counted] = {}
    for failed in noted:
        fingerprint = failed.failure.fingerprint
        if fingerprint not in counted:
            counted[fingerprint] = _Counted(failed, failed.failure.at)
        counted[fingerprint].add(failed)
    db.lock("failure groups", sorted(counted))
    known = {fingerprint: maps for fingerprint, *maps in db.read("group_counts", list(counted))}
    begun = {one.last.collection for fingerprint, one in counted.items() if fingerprint not in known}
    processed = {name: db.read("processed_of", name) for name in begun if name is not None}
    rows = []
    for fingerprint, one in counted.items():
        failure, added = one.last.failure, (one.kinds, one.versions, one.dependencies)
        maps = [_merged(old, new) for old, new in zip(known.get(fingerprint, ({}, {}, {})), added, strict=True)]
        rows.append(
            (
                fingerprint,
                one.last.service,
                one.last.collection,
                failure.error_type,
                failure.message,
                failure.place,
                one.traceback,
                one.first_seen,
                failure.at,
                one.failures,
                one.documents,
                *(json.dumps(counts) for counts in maps),
                processed.get(one.last.collection or "", 0),
            )
        )
    db.bulk("count_failures", rows)


def _merged(known: dict[str, int], added: dict[str, int]) -> dict[str, int]:
    merged = dict(known)
    for name, count in added.items():
        merged[name] = merged.get(name, 0) + count
    return dict(list(merged.items())[-MAX_NAMES:])
