"""Failure groups: counted in the transaction that stores a failure, and read for operators."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from onward.ledger.dialect import Database
from onward.model.failures import Failure
from onward.model.ledger_views import FailureGroup

MAX_GROUPS = 10_000  # Failure groups that are kept; those not seen for the longest time are removed first
MAX_NAMES = 20  # Kinds, versions or dependencies that a group counts separately; the oldest are removed first
MAX_NAME_CHARACTERS = 200
# A failure to be counted: service, collection, failure, and the number of documents that first failed like this.
CountedFailure = tuple[str, str | None, Failure, int]


def write_failures(db: Database, counted: Sequence[CountedFailure]) -> None:
    """Add failures to their groups. Each group is read and written once, whatever the number of failures."""
    groups: dict[str, list[CountedFailure]] = {}
    for one in counted:
        groups.setdefault(one[2].fingerprint, []).append(one)
    db.lock("failure groups", sorted(groups))
    stored = {fingerprint: maps for fingerprint, *maps in db.read("group_counts", list(groups))}
    new = {same[-1][1] for fingerprint, same in groups.items() if fingerprint not in stored}
    processed = {name: db.read("processed_count", name) for name in new if name is not None}
    rows = []
    for fingerprint, same in groups.items():
        service, collection, last, _ = same[-1]
        failures = [failure for _, _, failure, _ in same]
        tracebacks = [failure.traceback for failure in failures if failure.traceback] or [""]
        contexts = [failure.context for failure in failures if failure.context] or ["{}"]
        about = (service, collection, last.error_type, last.message, last.place, tracebacks[-1])
        first_seen, documents = min(failure.at for failure in failures), sum(number for *_, number in same)
        names = zip(*((failure.kind, failure.version, failure.dependency) for failure in failures), strict=True)
        before = stored.get(fingerprint, ({}, {}, {}))
        maps = [json.dumps(_counted(counts, more)) for counts, more in zip(before, names, strict=True)]
        done = processed.get(collection or "", 0)
        rows.append((fingerprint, *about, first_seen, last.at, len(same), documents, *maps, done, contexts[-1]))
    db.bulk("count_failures", rows)
    if new:
        db.send("prune_groups", MAX_GROUPS)


def _counted(stored: dict[str, int], names: Sequence[str | None]) -> dict[str, int]:
    counts = dict(stored)
    for name in (name[:MAX_NAME_CHARACTERS] for name in names if name):
        counts[name] = counts.get(name, 0) + 1
    return dict(list(counts.items())[-MAX_NAMES:])


def read_group(stored: list[Any], processed: dict[str, int]) -> FailureGroup:
    """Read a failure group from its columns; `processed` has the documents processed now, by collection."""
    # The columns come in the order of the fields, except `processed_now`.
    group = FailureGroup(*[*stored[:-2], processed.get(stored[2], 0), *stored[-2:]])
    # Documents that failed before the group was last forgotten are still affected.
    return replace(group, documents=max(group.documents, group.affected))
