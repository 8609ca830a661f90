"""The result of an ingestion: the counts of messages by result, the failed and the waiting documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onward.ops.queries.skipped_files import SkippedFiles
from onward.ops.text.format import iso
from onward.recovery.next_step import NextSteps, describe_error
from onward.recovery.retry_decision import RetryJobRules
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App, DocumentState
    from onward.model.breaker import Breaker
    from onward.pipeline.documents import Archive
    from onward.pipeline.sources import SourceStatus

COLLECTIONS = ("archives", "messages", "chunks", "threads")
"""Collections whose documents are retried, and so can fail or wait."""
SHOWN = 5
LISTED = 50
"""At most this many messages without text are listed."""


@dataclass(frozen=True, slots=True)
class FailedDocument:
    """A document that failed, and why."""

    collection: str
    id: str
    error: str

    def as_dict(self) -> dict[str, str]:
        return {"collection": self.collection, "id": self.id, "error": self.error}


@dataclass(frozen=True, slots=True)
class WaitingDocuments:
    """Documents of a collection that are not finished, and when that may change."""

    collection: str
    count: int
    until: float | None
    error: str
    dependency: str = ""
    """What is down, if they wait for that."""
    incomplete: bool = False
    """They wait until the documents that belong to them are finished."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "collection": self.collection,
            "count": self.count,
            "dependency": self.dependency,
            "incomplete": self.incomplete,
            "until": iso(self.until),
            "error": self.error,
        }


@dataclass(slots=True)
class IngestionReport:
    """One source after a run."""

    source: str
    status: str
    items: dict[str, int]
    messages: dict[str, int]
    documents: dict[str, dict[str, int]]
    added: dict[str, int]
    """How many documents each collection has gained in this run."""
    failed: int = 0
    troubles: list[FailedDocument] = field(default_factory=list)
    """The first failed documents, archives first."""
    waiting: list[WaitingDocuments] = field(default_factory=list)
    request_failed: bool = False
    passed_over: SkippedFiles = field(default_factory=SkippedFiles)
    without_text: list[str] = field(default_factory=list)
    """Messages that have no chunk because they have no text."""

    @property
    def is_clean(self) -> bool:
        return not self.failed and not self.waiting and self.status == "completed"

    def as_dict(self) -> dict[str, Any]:
        return {
            "source": redact(self.source),
            "status": self.status,
            "items": self.items,
            "messages": self.messages,
            "without_text": without_text_facts(self.without_text),
            **self.passed_over.as_dict(),
            "documents": self.documents,
            "added": self.added,
            "failed": self.failed,
            "failures": [trouble.as_dict() for trouble in self.troubles],
            "waiting": [one.as_dict() for one in self.waiting],
        }


def totals(app: App, source: str) -> dict[str, int]:
    """Count the documents of a source by collection."""
    return {name: sum(found.values()) for name, found in app.store.document_counts(source).items()}


def read_ingestion_report(
    app: App, source: str, before: dict[str, int], *, waiting: bool = True
) -> IngestionReport:
    """Return the result of a source in this run; `before` are its totals when the run began.

    The reasons for waiting take a read of many documents; without `waiting` they are left out.
    """
    from onward.pipeline.documents import source_id
    from onward.pipeline.sources import fetch_report, message_counts, source_status, without_text

    standing = source_status(app, source)
    fetched = fetch_report(app, source)
    after = totals(app, source)
    troubles = list(_troubles(app, source, standing))
    return IngestionReport(
        source,
        # The source may have been forgotten while it was ingested.
        standing.status if after else "forgotten",
        {} if fetched is None else fetched.counts,
        message_counts(app, source),
        standing.documents,
        {name: after.get(name, 0) - before.get(name, 0) for name in sorted(after.keys() | before.keys())},
        standing.failed,
        troubles,
        [one for name in COLLECTIONS if waiting and (one := _waiting(app, source, standing, name)) is not None],
        any(trouble.id == source_id(source) for trouble in troubles),
        SkippedFiles.of(fetched),
        without_text(app, source),
    )


def without_text_facts(ids: list[str]) -> dict[str, Any]:
    """Return the number of messages without text, and the first of them, for programs."""
    return {"total": len(ids), "ids": ids[:LISTED]}


def archive_counts(app: App, archive: Archive) -> dict[str, int]:
    """Count what an archive holds, or, of a request, what was fetched; nothing, before it is read to its end.

    Its duplicates are messages that stand in it twice, or that another archive of its source has.
    """
    from onward.pipeline.documents import Message, Report, report_id

    report = app.get(Report, report_id(archive))
    if report is None or archive.blob is None:
        return {} if report is None else report.counts
    own = Counter(one.status for one in app.store.find(Message, "origin", [archive.origin]))
    failed = own["failed"] + own["failed_max_retries"]
    total = own.total()
    duplicates = max(0, report.counts["messages"] - total)
    return {"messages": total, "parsed": total - failed, "failed": failed, "duplicates": duplicates}


def _troubles(app: App, source: str, standing: SourceStatus) -> Iterator[FailedDocument]:
    left = SHOWN
    for collection in COLLECTIONS:
        for status in ("failed", "failed_max_retries"):
            if left > 0 and standing.count(collection, status):
                for state in app.store.find_states(
                    collection=collection, status=status, source=source, limit=left
                ):
                    left -= 1
                    yield FailedDocument(collection, state.id, error_of(state))


def _waiting(app: App, source: str, standing: SourceStatus, collection: str) -> WaitingDocuments | None:
    count = standing.count(collection, "pending")
    if not count:
        return None
    states = app.store.states(collection, status="pending", source=source, limit=500)
    if (down := outage_of(app, collection)) and any(state.row is not None for state in states):
        return WaitingDocuments(collection, count, down.next_probe, down.reason, down.dependency)
    if (
        collection == "threads"
        and standing.pending > count
        and not any(state.row or state.round for state in states)
    ):
        return WaitingDocuments(collection, count, None, "", incomplete=True)
    outlooks = NextSteps(app.store, RetryJobRules.of(app.settings))
    times = [at for state in states if (at := due_time(outlooks, state)) is not None]
    error = next((text for state in states if (text := error_of(state))), "")
    return WaitingDocuments(collection, count, min(times, default=None), error)


def outage_of(app: App, collection: str) -> Breaker | None:
    """Return the open breaker that a collection's documents wait for."""
    needs = {name for one in app.store.subscriptions() if one.finishes == collection for name in one.needs}
    return next(
        (breaker for breaker in app.store.breakers() if breaker.open and breaker.dependency in needs), None
    )


def due_time(outlooks: NextSteps, state: DocumentState) -> float | None:
    """Return when a pending document is next tried; None: at once, or after something else."""
    at = outlooks.of(state).at
    return at if at is not None and at > outlooks.now else None


def error_of(state: DocumentState) -> str:
    """Return the last error of a document as text, if it has one."""
    return describe_error(state.last_error)
