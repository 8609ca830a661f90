"""Rows that follow from documents: keys, texts, vectors, counts, failure groups; written in bulk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from onward.ledger.dialect import Database
from onward.ledger.failure_groups import CountedFailure, write_failures
from onward.model.histogram_buckets import bucket_label

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(slots=True)
class DerivedRows:
    """Rows that a transaction adds. They are written at its end, and the lists emptied."""

    keys: list[tuple[int, str, Any]] = field(default_factory=list)
    texts: dict[int, tuple[int, str, str, str]] = field(default_factory=dict)
    vectors: dict[int, tuple[int, str, bytes]] = field(default_factory=dict)
    status_counts: dict[tuple[str, str, str], int] = field(default_factory=dict)
    left_batches: set[str] = field(default_factory=set)
    recovered_batches: set[str] = field(default_factory=set)
    """Those of `left_batches` that a document left because it succeeded."""
    failures: list[CountedFailure] = field(default_factory=list)

    def add_keys(self, doc: int, pairs: Sequence[tuple[str, Any]]) -> None:
        self.keys += [(doc, name, value) for name, value in pairs]

    def count_status(self, source: str | None, collection: str, before: str, after: str) -> None:
        """Count a document's change of status; an empty status: the document did not, or does no longer, exist."""
        if before:
            entry = (source or "", collection, str(before))
            self.status_counts[entry] = self.status_counts.get(entry, 0) - 1
        if after:
            entry = (source or "", collection, str(after))
            self.status_counts[entry] = self.status_counts.get(entry, 0) + 1

    def write(self, db: Database, now: float) -> None:
        for statement, rows in (
            ("insert_keys", self.keys),
            ("insert_texts", [(doc, *map(_storable, texts)) for doc, *texts in self.texts.values()]),
            ("insert_vectors", list(self.vectors.values())),
            ("add_status_counts", [(*entry, change) for entry, change in self.status_counts.items() if change]),
        ):
            if rows:
                db.bulk(statement, rows)
        if self.left_batches:
            db.lock("failed batches", sorted(self.left_batches))
            for id, retries, created_at in db.fetch("drop_empty_batches", sorted(self.left_batches)):
                if id in self.recovered_batches:
                    observe_total(db, "failed_batch_retries", retries)
                    observe_total(db, "failed_batch_recovery_seconds", max(0.0, now - created_at))
        if self.failures:
            write_failures(db, self.failures)
        for collected in (
            self.keys,
            self.texts,
            self.vectors,
            self.status_counts,
            self.left_batches,
            self.failures,
        ):
            collected.clear()
        self.recovered_batches.clear()


def observe_total(db: Database, name: str, value: float) -> None:
    """Add a value to a distribution among the totals."""
    for label, by in ((bucket_label(name, value), 1.0), ("sum", value), ("count", 1.0)):
        db.send("count_total", name, label, by)


def _storable(text: str) -> str:
    """Return a text without NUL and lone surrogates, which databases cannot store."""
    return text if text.isascii() and "\0" not in text else _UNSTORABLE.sub("\ufffd", text)


def delete_derived_rows(db: Database, docs: list[int]) -> None:
    """Delete the keys, texts and vectors of documents."""
    for statement in ("delete_keys", "delete_texts", "delete_vectors"):
        db.send(statement, docs)


def merge_status_counts(db: Database, source: str) -> None:
    """Merge the counts of a source into one row for each collection and status; a count of zero has no row."""
    sums: dict[tuple[str, str], int] = {}
    for collection, status, count in db.fetch("take_status_counts", source):
        sums[collection, status] = sums.get((collection, status), 0) + count
    if rows := [(source, collection, status, count) for (collection, status), count in sums.items() if count]:
        db.bulk("add_status_counts", rows)


def merge_next_status_counts(db: Database, after: str, limit: int) -> str:
    """Merge the counts of the sources that follow; return the last of them, or "" at the end."""
    page = db.read_unlocked("status_counts_page", after, limit)
    for source, is_scattered in page:
        if is_scattered:
            merge_status_counts(db, source)
    return page[-1][0] if page else ""
