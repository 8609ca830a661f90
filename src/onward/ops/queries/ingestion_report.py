"""The result of an ingestion: counts of messages and of skipped files, the failed and the waiting documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from onward.app import App
from onward.model.breaker import Breaker
from onward.model.documents import DocumentState
from onward.ops.text.format import counted, iso, number, one_line
from onward.pipeline.documents import Archive, Message, Report, SkippedItem, Task, report_id, source_id
from onward.recovery.next_step import NextSteps, describe_error
from onward.recovery.retry_decision import RetryJobRules
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward.pipeline.sources import SourceStatus

COLLECTIONS = ("archives", "messages", "chunks", "threads")  # their documents are retried: they fail or wait
SHOWN = 10  # failures of different kinds
READ_FAILED = 1_000  # failed documents of a collection that are grouped by their failure
LISTED = 50  # at most this many messages without text, and as many with defects, are listed
READ_DAMAGED = 200  # messages whose defects are counted
SHOWN_DEFECTS = 3
MAX_DEFECT_CHARACTERS = 120


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


def attachment_lines(counts: Mapping[str, Any]) -> list[str]:
    """Return the counts of attachments in words, as in "12 attachments: 9 searchable, 2 not read, 1 failed"."""
    unread = [f"not read: {reasons}"] if (reasons := unread_reasons_text(counts)) else []
    return [f"{counted(counts['total'], 'attachment')}: {attachment_states_text(counts)}", *unread]


def unread_reasons_text(counts: Mapping[str, Any]) -> str:
    """Return the most frequent reasons why attachments are not read: 2 × it is empty, 1 × it needs a password."""
    return _most_frequent(counts["reasons"], more=False)


def attachment_states_text(counts: Mapping[str, Any]) -> str:
    states = ("searchable", "waiting", "not_read", "failed")
    return ", ".join(f"{number(counts[name])} {name.replace('_', ' ')}" for name in states if counts.get(name))


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
class DamagedMessages:
    """Messages that were read with defects: something is damaged, was cut or had to be guessed."""

    ids: list[str] = field(default_factory=list)
    defects: Mapping[str, int] = field(default_factory=dict)  # of the first ones, the most frequent first

    def __str__(self) -> str:
        """Return them in words, as in "3 messages with defects: 2 × no date, 1 × damaged base64"."""
        defects = _most_frequent(self.defects, more=len(self.ids) > READ_DAMAGED)
        return f"{counted(len(self.ids), 'message')} with defects: {defects}"

    def as_dict(self) -> dict[str, Any]:
        return {"total": len(self.ids), "ids": self.ids[:LISTED], "defects": dict(self.defects)}


def _most_frequent(counts: Mapping[str, int], *, more: bool) -> str:
    """Return the first counts in words; "…" stands for others, also for those that were not counted."""
    shown = [f"{number(count)} × {one_line(what)}" for what, count in islice(counts.items(), SHOWN_DEFECTS)]
    return ", ".join(shown + ["…"] * (more or len(counts) > len(shown)))


@dataclass(frozen=True, slots=True)
class FailedDocuments:
    """Documents of a collection that failed in the same way: how many, and the first of them with its error."""

    collection: str
    id: str
    error: str
    count: int = 1


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
    attachments: dict[str, Any]  # of mails, without those that are text; empty if there are none
    without_text: list[str]  # messages that have no chunk because they have no text
    damaged: DamagedMessages
    passed_over: SkippedFiles
    documents: dict[str, dict[str, int]]
    added: dict[str, int]  # how many documents each collection has gained in this run
    failed: int
    troubles: list[FailedDocuments]  # by failure, those of archives first, then the most
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
            "attachments": self.attachments,
            "without_text": without_text_facts(self.without_text),
            "damaged": self.damaged.as_dict(),
            **self.passed_over.as_dict(),
            "documents": self.documents,
            "added": self.added,
            "failed": self.failed,
            "failures": [asdict(trouble) for trouble in self.troubles],
            "waiting": [asdict(one) | {"until": iso(one.until)} for one in self.waiting],
        }


def totals(app: App, source: str) -> dict[str, int]:
    return {name: sum(found.values()) for name, found in app.store.document_counts(source).items()}


def run_totals(app: App, source: str) -> dict[str, int]:
    """Return the totals that a run is compared with: also how many of the messages are attachments of others."""
    request = source_id(source)
    attached = app.store.value_counts(Message, "attachment", [request]).get(request, {})
    return totals(app, source) | ({"attachments": sum(attached.values())} if attached else {})


def read_ingestion_report(
    app: App, source: str, before: dict[str, int], *, waiting: bool = True
) -> IngestionReport:
    """Return the result of a source in this run; `before` are its `run_totals` when it began.

    The reasons for waiting take a read of many documents; without `waiting` they are left out.
    """
    from onward.pipeline.sources import (
        attachment_counts,
        fetch_report,
        message_counts,
        source_status,
        without_text,
    )

    current, fetched, after = source_status(app, source), fetch_report(app, source), run_totals(app, source)
    attachments = attachment_counts(app, [source]).get(source)
    return IngestionReport(
        source,
        # The source may have been forgotten while it was ingested.
        current.status if after else "forgotten",
        {} if fetched is None else fetched.counts,
        message_counts(app, source),
        {} if attachments is None else attachments.as_dict(),
        without_text(app, source),
        read_damaged(app, source),
        SkippedFiles.of(fetched),
        current.documents,
        {name: after.get(name, 0) - before.get(name, 0) for name in sorted(after.keys() | before.keys())},
        current.failed,
        list(_troubles(app, source, current)),
        [one for name in COLLECTIONS if waiting and (one := _waiting(app, source, current, name)) is not None],
    )


def read_damaged(app: App, source: str) -> DamagedMessages:
    from onward.pipeline.sources import damaged

    ids = damaged(app, source)
    found = Counter(
        one_line(defect, MAX_DEFECT_CHARACTERS)
        for message in app.store.get_many(Message, ids[:READ_DAMAGED])
        for defect in message.defects
    )
    return DamagedMessages(ids, dict(found.most_common()))


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


def _troubles(app: App, source: str, current: SourceStatus) -> Iterator[FailedDocuments]:
    left = SHOWN
    for name in COLLECTIONS:
        failed: dict[str, list[DocumentState]] = {}
        for status in ("failed", "failed_max_retries"):
            if current.count(name, status):
                for state in app.store.find_states(
                    collection=name, status=status, source=source, limit=READ_FAILED
                ):
                    failed.setdefault(_failure_of(state), []).append(state)
        for states in sorted(failed.values(), key=len, reverse=True)[:left]:
            left -= 1
            yield FailedDocuments(name, states[0].id, describe_error(states[0].last_error), len(states))


def _failure_of(state: DocumentState) -> str:
    """Return the fingerprint of the last error; another program may have stored anything there."""
    error = state.last_error
    found = error.get("fingerprint") if isinstance(error, Mapping) else None
    return str(found or describe_error(error))


def _waiting(app: App, source: str, current: SourceStatus, collection: str) -> WaitingDocuments | None:
    count = current.count(collection, "pending")
    if not count:
        return None
    states = app.store.states(collection, status="pending", source=source, limit=500)
    if (down := outage_of(app, collection, source)) and any(state.row is not None for state in states):
        return WaitingDocuments(collection, count, down.dependency, until=down.next_probe, error=down.reason)
    begun = any(state.row or state.round for state in states)
    if collection == "threads" and current.pending > count and not begun:
        return WaitingDocuments(collection, count, incomplete=True)
    steps = NextSteps(app.store, RetryJobRules.of(app.settings, app.store.subscriptions()))
    times = [at for state in states if (at := due_time(steps, state)) is not None]
    error = next((text for state in states if (text := describe_error(state.last_error))), "")
    return WaitingDocuments(collection, count, until=min(times, default=None), error=error)


def outage_of(app: App, collection: str, source: str = "") -> Breaker | None:
    """Return the open breaker that a collection's documents wait for; archives may wait for an account."""
    needs = {name for one in app.store.subscriptions() if one.finishes == collection for name in one.needs}
    if collection == "archives" and "@" in source:
        from onward.pipeline.source_kinds.refused_logins import login_of  # imports what fetching needs

        needs.add(login_of(source))
    return next((one for one in app.store.breakers() if one.open and one.dependency in needs), None)


def due_time(steps: NextSteps, state: DocumentState) -> float | None:
    """Return when a pending document is next tried; None: at once, or after something else."""
    at = steps.of(state).at
    return at if at is not None and at > steps.now else None
