"""Sources: submitting them, what has become of them, and forgetting them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from onward import App, Document, Status
from onward.pipeline import uploads
from onward.pipeline.documents import Archive, Chunk, Message, Report, Task, source_id
from onward.pipeline.events import ChunksPrepared, SourceSubmitted
from onward.pipeline.fetching import canonical

UNREFERENCED_SECONDS = 86_400.0
"""A blob that no document names is kept so long: its document may be about to be committed."""


def submit(app: App, location: str) -> Task:
    """Ask for a source to be ingested, for the first time or again."""
    source = canonical(location)
    id = source_id(source)

    def put() -> Task:
        known = app.get(Archive, id)
        number = known.submission + 1 if known else 1
        request = Archive(id=id, source=source, source_id=id, submission=number)
        task = Task(
            id=Document.make_id("task", id, number),
            source=source,
            source_id=id,
            submission=number,
            submitted_at=app.store.now(),
        )
        app.replace(request, source=source)
        app.publish(SourceSubmitted.of(request, source=source), documents=[task], source=source)
        return task

    return app.atomically(put)


@dataclass(slots=True)
class SourceStatus:
    """How a source stands: what its documents say."""

    source: str
    documents: dict[str, dict[str, int]] = field(default_factory=dict)
    set_aside: int = 0

    def count(self, collection: str, *statuses: str) -> int:
        """How many documents of a collection there are, of these statuses or of all."""
        found = self.documents.get(collection, {})
        return sum(found.get(status, 0) for status in statuses) if statuses else sum(found.values())

    @property
    def pending(self) -> int:
        """Documents that are still to be finished, without what is set aside."""
        return sum(found.get(Status.PENDING, 0) for found in self.documents.values()) - self.set_aside

    @property
    def failed(self) -> int:
        """Documents that were given up."""
        bad = (Status.FAILED, Status.FAILED_MAX_RETRIES)
        return sum(found.get(status, 0) for found in self.documents.values() for status in bad)

    @property
    def status(self) -> str:
        """`running`, `completed`, `partially_completed` or `failed`: a task's status."""
        if self.pending:
            return "running"
        given_up = self.count("archives", Status.FAILED, Status.FAILED_MAX_RETRIES)
        if given_up and not self.count("messages", Status.PROCESSED):
            return "failed"
        return "partially_completed" if self.failed or self.set_aside else "completed"


def source_status(app: App, source: str) -> SourceStatus:
    """How a source stands now."""
    batches = app.store.failed_batches(source)
    return SourceStatus(source, app.store.document_counts(source), sum(len(one.items) for one in batches))


def reports(app: App, source: str) -> dict[str, dict[str, int]]:
    """What became of a source's items (`source`), and of the messages of its archives, added up."""
    id = source_id(source)
    request = app.get(Archive, id)
    if request is None:
        return {}
    fetched = app.get(Report, Document.make_id("report", id, request.submission))
    messages: dict[str, int] = {}
    archives = [one.id for one in app.store.find(Archive, "source_id", [id]) if one.id != id]
    for start in range(0, len(archives), 500):
        some = app.store.get_many(Archive, archives[start : start + 500])
        told = [Document.make_id("report", one.id, one.submission) for one in some]
        for report in app.store.get_many(Report, told):
            for name, count in report.counts.items():
                messages[name] = messages.get(name, 0) + count
    return {"source": fetched.counts if fetched else {}, "messages": messages}


def forget(app: App, location: str) -> int:
    """Remove a source and all that came from it, its blobs included; answer how many documents went."""
    source = known_source(app, location)
    blobs = _blobs_of(app, source)
    removed = app.store.forget(source)
    for digest in blobs:
        if not _is_named(app, digest):
            app.blobs.delete(digest)
    return removed


def known_source(app: App, location: str) -> str:
    """The source that somebody means: by location, or by the end of one that only one source has."""
    sources = app.store.sources()
    exact = canonical(location)
    if exact in sources:
        return exact
    similar = [one for one in sources if one.endswith("/" + location.strip("/"))]
    return similar[0] if len(similar) == 1 else exact


def _blobs_of(app: App, source: str) -> set[str]:
    id = source_id(source)
    upload = uploads.read_location(source)
    found = set[str]() if upload is None else {upload.digest}
    archives = [one.id for one in app.store.find(Archive, "source_id", [id])]
    for start in range(0, len(archives), 500):
        found |= {one.blob for one in app.store.get_many(Archive, archives[start : start + 500]) if one.blob}
    after = ""
    while failed := app.store.states(Message, status=Status.FAILED, source=source, after=after, limit=500):
        after = failed[-1].id
        messages = app.store.get_many(Message, [one.id for one in failed])
        found |= {message.blob for message in messages if message.blob}
    return found


def _is_named(app: App, digest: str) -> bool:
    return any(app.store.find(kind, "blob", [digest]) for kind in (Archive, Message))


def collect_blobs(app: App, older_than: float = UNREFERENCED_SECONDS) -> int:
    """Delete blobs that no document has named for a day; answer how many."""
    named = set(app.store.key_values("blob"))
    gone = [blob for blob in app.blobs.older_than(older_than) if blob.digest not in named]
    return sum(app.blobs.delete(blob.digest, older_than=older_than) for blob in gone)


def reembed(app: App) -> int:
    """Let every chunk that has no vector of the present model be embedded; answer how many."""
    model = app.embedder.model
    count, after = 0, ""
    while ids := app.store.not_placed(Chunk, model, after=after, limit=500):
        after = ids[-1]
        count += app.atomically(partial(_embed_again, app, ids))
    return count


def _embed_again(app: App, ids: list[str]) -> int:
    states = app.store.statuses(Chunk, ids)
    again = [id for id in ids if states.get(id) == Status.PROCESSED]
    for id in again:
        app.store.reset(Chunk.collection, id)
    if again:
        app.publish(ChunksPrepared(chunk_ids=again))
    return len(again)
