"""Sources: submit them, get their status, and forget them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from typing import Any

from onward import App, Document, Status
from onward.pipeline import uploads
from onward.pipeline.documents import Archive, Chunk, Message, Report, Task, report_id, source_id
from onward.pipeline.events import ChunksPrepared, SourceSubmitted
from onward.pipeline.fetch.fetched_items import most_first
from onward.pipeline.source_cache import remove_cache
from onward.pipeline.source_settings import changed_options, check_options, source_settings, store_settings

UNREFERENCED_SECONDS = 86_400.0  # a blob without a document is kept this long: its document may come
COLLECT_SECONDS = 6 * 3_600.0  # how often blobs without a document are collected
KEPT_TASKS = 100  # the last runs of a source that stay listed
_PAGE = 500
GIVEN_UP = (Status.FAILED, Status.FAILED_MAX_RETRIES)


def submit(
    app: App, location: str, options: Mapping[str, str] | None = None, *, retries_failed: bool = True
) -> Task:
    """Request the ingestion of a source, for the first time or again. Options are kept for its next runs.

    A run that begins by itself does not read again what failed: that would fail again, and alert, each time.
    """
    from onward.pipeline.fetch.location import canonical  # fetching imports much that a list needs not

    source = canonical(location)
    id = source_id(source)
    if options:
        check_options(source, options)

    def put() -> Task:
        if options:
            settings = source_settings(app, source)
            changed = changed_options(source, settings.options, options)
            store_settings(app, settings.model_copy(update={"options": changed}))
        known = app.get(Archive, id)
        request, task = next_submission(source, known, app.store.now(), retries_failed=retries_failed)
        app.replace(request, source=source)
        app.publish(SourceSubmitted.of(request, source=source), documents=[task], source=source)
        if task.submission > KEPT_TASKS:  # a watched source may have thousands of runs a day
            app.store.remove_documents([(Task.collection, task_id(id, task.submission - KEPT_TASKS))])
        return task

    return app.atomically(put)


def task_id(source_id: str, submission: int) -> str:
    """Return the id of the task that stands for a run of a source."""
    return Document.make_id("task", source_id, submission)


def next_submission(
    source: str, known: Archive | None, now: float, *, retries_failed: bool = True
) -> tuple[Archive, Task]:
    """Return the request for the next run of a source, and its task; `known` is the request of the last one."""
    id, number = source_id(source), known.submission + 1 if known else 1
    request = Archive(id=id, source=source, source_id=id, submission=number, retries_failed=retries_failed)
    return request, Task(id=task_id(id, number), source=source, source_id=id, submission=number, submitted_at=now)


@dataclass(slots=True)
class SourceStatus:
    """The status of a source, from the counts of its documents."""

    source: str
    documents: dict[str, dict[str, int]] = field(default_factory=dict)
    set_aside: int = 0

    def count(self, collection: str, *statuses: str) -> int:
        """Count the documents of a collection, with these statuses or all."""
        found = self.documents.get(collection, {})
        return sum(found.get(status, 0) for status in statuses or found)

    @property
    def pending(self) -> int:
        """Unfinished documents, without those set aside."""
        return sum(self.count(collection, Status.PENDING) for collection in self.documents) - self.set_aside

    @property
    def failed(self) -> int:
        return sum(self.count(collection, *GIVEN_UP) for collection in self.documents)

    @property
    def status(self) -> str:
        """`running`, `completed`, `partially_completed` or `failed`: a task's status."""
        if self.pending:
            return "running"
        if self.count("archives", *GIVEN_UP) and not self.count("messages", Status.PROCESSED):
            return "failed"
        return "partially_completed" if self.failed or self.set_aside else "completed"


def source_status(app: App, source: str) -> SourceStatus:
    batches = app.store.failed_batches(source)
    return SourceStatus(source, app.store.document_counts(source), sum(len(batch.items) for batch in batches))


def fetch_report(app: App, source: str) -> Report | None:
    request = app.get(Archive, source_id(source))
    return None if request is None else app.get(Report, report_id(request))


def message_counts(app: App, source: str) -> dict[str, int]:
    """Count the messages of a source, each once; the result is empty before an archive is parsed to its end."""
    # Archives may be parsed at the same time, so the counts come from the store.
    request = source_id(source)
    reports = [report for _, page in _archive_pages(app, source) for report in page]
    found = [report.counts["messages"] for report in reports if report.archive_id != request]
    if not found:
        return {}
    stored = SourceStatus(source, app.store.document_counts(source))
    attached = app.store.value_counts(Message, "attachment", [request]).get(request, {})
    attached_failed = sum(attached.get(status, 0) for status in GIVEN_UP)
    total = stored.count("messages") - sum(attached.values())
    failed = stored.count("messages", *GIVEN_UP) - attached_failed
    duplicates = max(0, sum(found) - total)
    return {"messages": total, "parsed": total - failed, "failed": failed, "duplicates": duplicates}


@dataclass(frozen=True, slots=True)
class AttachmentCounts:
    """The attachments of a source, without those whose text is a part of their mail."""

    total: int = 0
    searchable: int = 0
    waiting: int = 0
    failed: int = 0
    not_read: int = 0  # nothing failed: there is no text or no reader, or a program is missing
    reasons: Mapping[str, int] = field(default_factory=dict)  # of those that are not read, the most frequent first

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def attachment_counts(app: App, sources: Sequence[str]) -> dict[str, AttachmentCounts]:
    """Count the attachments of each of these sources that has some."""
    ids = {source_id(source): source for source in sources}
    archives = app.store.value_counts(Archive, "attachment", list(ids))
    apart = _unread(app, Archive, list(ids)) if archives else {}
    in_mails = _unread(app, Message, list(ids))
    found = {}
    for id, source in ids.items():
        counts, unread = archives.get(id, {}), apart.get(id, Counter()) + in_mails.get(id, Counter())
        if not counts and not unread:
            continue
        read = counts.get(Status.PROCESSED, 0) - apart.get(id, Counter()).total()
        waiting = counts.get(Status.PENDING, 0)
        failed = sum(counts.values()) - counts.get(Status.PROCESSED, 0) - waiting
        total = read + waiting + failed + unread.total()
        found[source] = AttachmentCounts(total, read, waiting, failed, unread.total(), dict(most_first(unread)))
    return found


def _unread(app: App, holder: type[Archive | Message], ids: Sequence[str]) -> dict[str, Counter[str]]:
    """Count the attachments that are not read by the ids of sources and by reason; see `unread_keys`."""
    found: dict[str, Counter[str]] = {}
    for id, holders in app.store.counts_beside(holder, "attached_not_read", ids, "unread_reason").items():
        counts = found.setdefault(str(id), Counter())
        for value, count in holders.items():
            each, _, reason = str(value).partition(" ")
            counts[reason] += int(each) * count
    return found


def without_text(app: App, source: str) -> list[str]:
    return app.store.ids(Message, "without_text", source_id(source))


def damaged(app: App, source: str) -> list[str]:
    """Return the messages that were read with defects, attachments included."""
    return app.store.ids(Message, "damaged", source_id(source))


def forget(app: App, location: str) -> int:
    """Remove a source; return the number of documents. During an ingestion, `collect_blobs` deletes its blobs."""
    source = known_source(app, location)
    upload = uploads.read_location(source)
    digests = set[str]() if upload is None else {upload.digest}
    for archives, reports in chain(_archive_pages(app, source), _archive_pages(app, source, key="attachment")):
        digests |= {archive.blob for archive in archives if archive.blob}
        digests |= {report.index for report in reports if report.index}
    after = ""
    while failed := app.store.states(Message, status=Status.FAILED, source=source, after=after, limit=500):
        after = failed[-1].id
        messages = app.store.get_many(Message, [state.id for state in failed])
        digests |= {message.blob for message in messages if message.blob}
    removed = app.store.forget(source)
    remove_cache(app.settings.home, source)
    # In this order: a service that wrote one of these blobs before this line is seen running, or has committed
    # its document. A service that writes it later changes the mark, so that the blob is not deleted.
    marks = {blob.digest: blob.put_mark for digest in digests if (blob := app.blobs.find(digest)) is not None}
    if not app.store.claimed_count(("ingestion", "parsing")):
        _delete_unnamed(app, marks)
    return removed


def known_source(app: App, location: str) -> str:
    """Return the source for a location, or for the end of a location that only one source has."""
    sources = app.store.sources()
    from onward.pipeline.fetch.location import canonical

    exact = canonical(location)
    if exact in sources:
        return exact
    similar = [source for source in sources if source.endswith("/" + location.strip("/"))]
    return similar[0] if len(similar) == 1 else exact


def _archive_pages(
    app: App, source: str, *, key: str = "source_id"
) -> Iterator[tuple[list[Archive], list[Report]]]:
    """Yield the archives of a source and the reports on them, a page at a time; or its attachments."""
    ids = app.store.ids(Archive, key, source_id(source))
    for start in range(0, len(ids), _PAGE):
        page = app.store.get_many(Archive, ids[start : start + _PAGE])
        yield page, app.store.get_many(Report, [report_id(archive) for archive in page])


def collect_blobs(
    app: App, stopped: Callable[[], bool] = lambda: False, *, older_than: float = UNREFERENCED_SECONDS
) -> int:
    """Delete blobs that are old and that no document names, until `stopped`; return their number."""
    deleted, old = 0, app.blobs.older_than(older_than)
    while not stopped() and (page := list(islice(old, _PAGE))):
        deleted += _delete_unnamed(app, {blob.digest: blob.put_mark for blob in page})
    return deleted


def _delete_unnamed(app: App, marks: Mapping[str, int]) -> int:
    """Delete the blobs that no document names; `marks` are their marks by digest."""
    digests = sorted(marks)
    collections = app.store.document_counts() if digests else ()
    named = {row.value for collection in collections for row in app.store.find(collection, "blob", digests)}
    return sum(app.blobs.delete(digest, marks[digest]) for digest in digests if digest not in named)


def reembed(app: App) -> int:
    """Requeue every chunk without a vector of the current model; return their number."""
    count, after = 0, ""

    def requeue() -> int:
        states = app.store.statuses(Chunk, ids)
        again = [id for id in ids if states.get(id) == Status.PROCESSED]
        for id in again:
            app.store.reset(Chunk.collection, id)
        if again:
            app.publish(ChunksPrepared(chunk_ids=again))
        return len(again)

    while ids := app.store.ids_without_vector(Chunk, app.embedder.model, after=after, limit=500):
        after = ids[-1]
        count += app.atomically(requeue)
    return count
