"""The result of an ingestion: counts of messages and of skipped files, the failed and the waiting documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from onward.app import App
from onward.model.breaker import Breaker
from onward.model.documents import DocumentState
from onward.ops.text.format import iso, number
from onward.pipeline.documents import Archive, Message, Report, SkippedItem, Task, report_id, source_id
from onward.recovery.next_step import NextSteps, describe_error
from onward.recovery.retry_decision import RetryJobRules
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward.pipeline.sources import SourceStatus

COLLECTIONS = ("archives", "messages", "chunks", "threads")  # their documents are retried: they fail or wait
SHOWN = 5
LISTED = 50  # at most this many messages without text are listed


@dataclass(frozen=True, slots=True)
class SkippedFiles:
    kinds: Mapping[str, int] = field(default_factory=dict)
    items: list[SkippedItem] = field(default_factory=list)  # the first of each kind; the counts are exact
    ignored: Mapping[str, int] = field(default_factory=dict)  # files that are ignored on purpose; not listed

    @property
    def total(self) -> int:
        return sum(self.kinds.values())

    @property
    def not_listed(self) -> int:
        return self.total - len(self.items)

    @classmethod
    def of(cls, report: Report | None) -> SkippedFiles:
        """Return the skipped files of a fetch report; none if there is no report yet."""
        return cls() if report is None else cls(report.passed_over, report.passed_over_items, report.ignored)

    def counts(self) -> dict[str, Any]:
        return {
            "passed_over": {"total": self.total, "kinds": dict(self.kinds)},
            "ignored": {"total": sum(self.ignored.values()), "kinds": dict(self.ignored)},
        }

    def as_dict(self) -> dict[str, Any]:
        facts = self.counts()
        listed = {"items": [file.model_dump() for file in self.items], "not_listed": self.not_listed}
        return facts | {"passed_over": facts["passed_over"] | listed}

    def lines(self) -> list[str]:
        """Return the counts in words, as in "12 passed over: 5 office, 2 pictures"; no line for no files."""
        groups = (("passed over", self.kinds), ("ignored", self.ignored))
        return [f"{number(sum(kinds.values()))} {verb}: {kinds_text(kinds)}" for verb, kinds in groups if kinds]


def kinds_text(counts: Mapping[str, int]) -> str:
    """Return counts by kind in words: 5 office, 2 pictures."""
    from onward.pipeline.fetch.fetched_items import kind_noun, most_first

    return ", ".join(f"{number(count)} {kind_noun(kind, count)}" for kind, count in most_first(counts))


def read_skipped_files(app: App, source: str) -> SkippedFiles:
    return SkippedFiles.of(report_of(app, Archive.collection, source_id(source)))


def skipped_files_of_sources(app: App, sources: Sequence[str]) -> dict[str, SkippedFiles]:
    """Return what was passed over of each source that has a report; all are read together."""
    reports = {
        report_id(one): one.source for one in app.store.get_many(Archive, [source_id(one) for one in sources])
    }
    return {reports[one.id]: SkippedFiles.of(one) for one in app.store.get_many(Report, list(reports))}


def report_of(app: App, collection: str, id: str) -> Report | None:
    """Return the fetch report of a task or a source, or the report with this id."""
    if collection == Report.collection:
        return app.get(Report, id)
    about = app.get(Task, id) if collection == Task.collection else app.get(Archive, id)
    return None if about is None else app.get(Report, report_id(about))


@dataclass(frozen=True, slots=True)
class FailedDocument:
    collection: str
    id: str
    error: str


@dataclass(frozen=True, slots=True)
class WaitingDocuments:
    """Documents of a collection that are not finished, and when that may change."""

    collection: str
    count: int
    dependency: str = ""  # what is down, if they wait for that
    incomplete: bool = False  # they wait until the documents that belong to them are finished
    until: float | None = None
    error: str = ""


@dataclass(slots=True)
class IngestionReport:
    source: str
    status: str
    items: dict[str, int]
    messages: dict[str, int]
    without_text: list[str]  # messages that have no chunk because they have no text
    passed_over: SkippedFiles
    documents: dict[str, dict[str, int]]
    added: dict[str, int]  # how many documents each collection has gained in this run
    failed: int
    troubles: list[FailedDocument]  # the first failed documents, archives first
    waiting: list[WaitingDocuments]

    @property
    def request_failed(self) -> bool:
        return any(trouble.id == source_id(self.source) for trouble in self.troubles)

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
            "failures": [asdict(trouble) for trouble in self.troubles],
            "waiting": [asdict(one) | {"until": iso(one.until)} for one in self.waiting],
        }


def totals(app: App, source: str) -> dict[str, int]:
    return {name: sum(found.values()) for name, found in app.store.document_counts(source).items()}


def read_ingestion_report(
    app: App, source: str, before: dict[str, int], *, waiting: bool = True
) -> IngestionReport:
    """Return the result of a source in this run; `before` are its totals when the run began.

    The reasons for waiting take a read of many documents; without `waiting` they are left out.
    """
    from onward.pipeline.sources import fetch_report, message_counts, source_status, without_text

    current, fetched, after = source_status(app, source), fetch_report(app, source), totals(app, source)
    return IngestionReport(
        source,
        # The source may have been forgotten while it was ingested.
        current.status if after else "forgotten",
        {} if fetched is None else fetched.counts,
        message_counts(app, source),
        without_text(app, source),
        SkippedFiles.of(fetched),
        current.documents,
        {name: after.get(name, 0) - before.get(name, 0) for name in sorted(after.keys() | before.keys())},
        current.failed,
        list(_troubles(app, source, current)),
        [one for name in COLLECTIONS if waiting and (one := _waiting(app, source, current, name)) is not None],
    )


def without_text_facts(ids: list[str]) -> dict[str, Any]:
    """Return the number of messages without text, and the first of them, for programs."""
    return {"total": len(ids), "ids": ids[:LISTED]}


def archive_counts(app: App, archive: Archive) -> dict[str, int]:
    """Count what an archive holds, or, of a request, what was fetched; nothing, before it is read to its end.

    Its duplicates are messages that stand in it twice, or that another archive of its source has.
    """
    report = app.get(Report, report_id(archive))
    if report is None or archive.blob is None:
        return {} if report is None else report.counts
    own = Counter(one.status for one in app.store.find(Message, "origin", [archive.origin]))
    failed = own["failed"] + own["failed_max_retries"]
    total = own.total()
    duplicates = max(0, report.counts["messages"] - total)
    return {"messages": total, "parsed": total - failed, "failed": failed, "duplicates": duplicates}


def _troubles(app: App, source: str, current: SourceStatus) -> Iterator[FailedDocument]:
    left = SHOWN
    for name in COLLECTIONS:
        for status in ("failed", "failed_max_retries"):
            if left > 0 and current.count(name, status):
                for state in app.store.find_states(collection=name, status=status, source=source, limit=left):
                    left -= 1
                    yield FailedDocument(name, state.id, describe_error(state.last_error))


def _waiting(app: App, source: str, current: SourceStatus, collection: str) -> WaitingDocuments | None:
    count = current.count(collection, "pending")
    if not count:
        return None
    states = app.store.states(collection, status="pending", source=source, limit=500)
    if (down := outage_of(app, collection)) and any(state.row is not None for state in states):
        return WaitingDocuments(collection, count, down.dependency, until=down.next_probe, error=down.reason)
    begun = any(state.row or state.round for state in states)
    if collection == "threads" and current.pending > count and not begun:
        return WaitingDocuments(collection, count, incomplete=True)
    steps = NextSteps(app.store, RetryJobRules.of(app.settings, app.store.subscriptions()))
    times = [at for state in states if (at := due_time(steps, state)) is not None]
    error = next((text for state in states if (text := describe_error(state.last_error))), "")
    return WaitingDocuments(collection, count, until=min(times, default=None), error=error)


def outage_of(app: App, collection: str) -> Breaker | None:
    """Return the open breaker that a collection's documents wait for."""
    needs = {name for one in app.store.subscriptions() if one.finishes == collection for name in one.needs}
    return next((one for one in app.store.breakers() if one.open and one.dependency in needs), None)


def due_time(steps: NextSteps, state: DocumentState) -> float | None:
    """Return when a pending document is next tried; None: at once, or after something else."""
    at = steps.of(state).at
    return at if at is not None and at > steps.now else None
