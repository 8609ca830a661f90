"""What goes with documents and is found by: keys, texts, vectors, counts. Gathered, then written in bulk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from onward.backends.relational.database import Database
from onward.backends.relational.noting import Noted, write_failures
from onward.model.buckets import bucket_label

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(slots=True)
class Findings:
    """What one transaction adds; empty again once it is written."""

    now: float = 0.0
    keys: list[tuple[int, str, Any]] = field(default_factory=list)
    texts: dict[int, tuple[int, str, str]] = field(default_factory=dict)
    vectors: dict[int, tuple[int, str, bytes]] = field(default_factory=dict)
    tallies: dict[tuple[str, str, str], int] = field(default_factory=dict)
    left_batches: set[str] = field(default_factory=set)
    recovered_batches: set[str] = field(default_factory=set)
    """Those of them that were left by a success."""
    noted: list[Noted] = field(default_factory=list)

    def add_keys(self, doc: int, pairs: Sequence[tuple[str, Any]]) -> None:
        self.keys += [(doc, name, value) for name, value in pairs]

    def tally(self, source: str | None, collection: str, before: str, after: str) -> None:
        """Count a document's change of status; an empty one: it was not, or is no more."""
        if before:
            entry = (source or "", collection, str(before))
            self.tallies[entry] = self.tallies.get(entry, 0) - 1
        if after:
            entry = (source or "", collection, str(after))
            self.tallies[entry] = self.tallies.get(entry, 0) + 1

    def write(self, db: Database) -> None:
        for statement, rows in (
            ("insert_keys", self.keys),
            (
                "insert_texts",
                [(doc, _storable(title), _storable(text)) for doc, title, text in self.texts.values()],
            ),
            ("insert_vectors", list(self.vectors.values())),
            ("tally", [(*entry, change) for entry, change in self.tallies.items() if change]),
        ):
            if rows:
                db.bulk(statement, rows)
        if self.left_batches:
            db.lock("failed batches", sorted(self.left_batches))
            for id, retries, created_at in db.fetch("drop_empty_batches", sorted(self.left_batches)):
                if id in self.recovered_batches:
                    observe_total(db, "failed_batch_retries", retries)
                    observe_total(db, "failed_batch_recovery_seconds", max(0.0, self.now - created_at))
        if self.noted:
            write_failures(db, self.noted)
        for gathered in (self.keys, self.texts, self.vectors, self.tallies, self.left_batches, self.noted):
            gathered.clear()
        self.recovered_batches.clear()


def observe_total(db: Database, name: str, value: float) -> None:
    """Add a value to a distribution among the totals."""
    for label, by in ((bucket_label(name, value), 1.0), ("sum", value), ("count", 1.0)):
        db.send("count_total", name, label, by)


def _storable(text: str) -> str:
    """Text without what a database cannot keep: NUL and halves of characters."""
    return text if text.isascii() and "\0" not in text else _UNSTORABLE.sub("\ufffd", text)


def forget_findings(db: Database, docs: list[int]) -> None:
    """What was derived from a document's content goes with it."""
    for statement in ("delete_keys", "delete_texts", "delete_vectors"):
        db.send(statement, docs)
