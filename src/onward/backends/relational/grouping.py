"""Failure groups, as they are read; `noting` counts them, in the transaction of each failure or report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from onward.backends.relational.base import RelationalBase, transactional
from onward.backends.relational.noting import Noted, write_failures
from onward.model.failures import Failure
from onward.model.recovery import FailureGroup


class GroupStore(RelationalBase):
    """See `onward.ports.Recovery`."""

    def failure_groups(
        self, *, service: str | None = None, since: float | None = None, limit: int = 1000
    ) -> list[FailureGroup]:
        found = self.db.read("failure_groups", service, 0.0 if since is None else since, limit)
        processed = {name: n for name, status, n in self.db.read("document_counts", None) if status == "processed"}
        return [_group(one, processed) for one in found]

    def failure_group(self, fingerprint: str) -> FailureGroup | None:
        found = self.db.read("failure_group", fingerprint)
        if found is None:
            return None
        collection = found[2]
        return _group(found, {collection: self.db.read("processed_of", collection)} if collection else {})

    @transactional
    def report_failure(self, service: str, failure: Failure, *, collection: str | None = None) -> None:
        write_failures(self.db, [Noted(service, collection, failure, 0)])

    @transactional
    def forget_group(self, fingerprint: str) -> bool:
        return self.db.run("forget_group", fingerprint) > 0

    def versions(self) -> list[tuple[str, float, float]]:
        return [tuple(one) for one in self.db.read("versions")]


def _group(stored: list[Any], processed: dict[str, int]) -> FailureGroup:
    # The columns come in the order of the fields; only how many are processed now is counted elsewhere.
    group = FailureGroup(*[*stored[:-2], processed.get(stored[2], 0), *stored[-2:]])
    # Those that failed before the group was forgotten are still there.
    return replace(group, documents=max(group.documents, group.affected))
