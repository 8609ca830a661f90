"""Ingestion: fetch a source into blobs, one archive for each thing in it."""

from __future__ import annotations

import errno
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from onward import App, Document, DocumentState, OnwardError, Permanent, Reader, Status, Work
from onward.pipeline.documents import MAIL, Archive, Message, Report, Thread, origin_of
from onward.pipeline.events import ArchiveIngested, EmbeddingsGenerated, SourceSubmitted
from onward.pipeline.fetching import Item, Limits, fetch

CHECKPOINT_ITEMS = 100
CHECKPOINT_SECONDS = 2.0
REMOVED_AT_ONCE = 100
"""Messages a commit removes, with all their chunks."""
READ_AGAIN_AT_ONCE = 400
LEFTOVER_SECONDS = 86_400.0


class Gone(Permanent):
    """What was ingested before is not there any more."""


def limits_of(app: App) -> Limits:
    """How much may be fetched, as the settings say."""
    settings = app.settings
    return Limits(
        max_bytes=settings.fetch_max_bytes,
        seconds=settings.fetch_seconds,
        max_redirects=settings.fetch_max_redirects,
        max_unpacked_bytes=settings.unpack_max_bytes,
        allow_private=settings.fetch_allow_private,
    )


def ingest(app: App, request: Archive, work: Work) -> None:
    """Fetch a source: new and changed items become archives, those that are gone are removed."""
    _Ingestion(app, request, work).run()


def requeue(states: Sequence[DocumentState], store: Reader) -> Iterator[SourceSubmitted]:
    """Fetch a source again; what was found in it comes with it."""
    for archive in store.get_many(Archive, [one.id for one in states]):
        if archive.blob is None and archive.id == archive.source_id:
            yield SourceSubmitted.of(archive, source=archive.source)


class _Ingestion:
    """One fetch of one source."""

    def __init__(self, app: App, request: Archive, work: Work) -> None:
        self.app = app
        self.request = request
        self.work = work
        found = work.store.find(Archive, "source_id", [request.id])
        self.known = {one.id: one.status for one in found if one.id != request.id}
        self.current: set[str] = set()
        self.paths: set[str] = set()
        self.troubled: list[str] = []
        """What could not be looked into: what was below it may still be there."""
        self.contested = False
        """A place held something else before, which may have been read meanwhile."""
        self.counts = {"items": 0, "new": 0, "unchanged": 0, "failed": 0, "removed": 0}
        self._said = 0
        self._committed_at = time.monotonic()

    def run(self) -> None:
        scratch = Path(self.app.settings.home) / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        _sweep(scratch)
        for item in fetch(self.request.source, limits_of(self.app), scratch, open_blob=self.app.blobs.open):
            self._take(item)
            if self._said >= CHECKPOINT_ITEMS or time.monotonic() - self._committed_at > CHECKPOINT_SECONDS:
                self._checkpoint()
        self._settle_others()
        if self.contested and self._lost_any():
            self.work.wait(self.app.store.now())  # to be fetched once more, for what is not known any more
            return
        request = self.request
        report = Report(id=report_id(request), source=request.source, archive_id=request.id, counts=self.counts)
        self.work.add(report, parent=None)

    def _checkpoint(self) -> None:
        self.work.checkpoint(self._cursor())
        self._said = 0
        self._committed_at = time.monotonic()

    def _cursor(self) -> dict[str, int]:
        """How far any try has come. Each begins anew, and one that only comes as far again does not get on."""
        before: dict[str, int] = self.work.cursor or {}
        return {"items": max(self.counts["items"], before.get("items", 0))}

    def _take(self, item: Item) -> None:
        self.counts["items"] += 1
        self.paths.add(item.path)
        self._said += 1
        try:
            if item.problem is not None:
                raise item.problem
            blob = self.app.blobs.put(item.copy_to)
        except Exception as error:
            if self.counts["items"] == 1 and not item.path:
                raise  # the source itself is what failed
            if _is_full(error):
                raise  # nothing more can be kept; it is not this item's fault
            self._keep_failed(item, error)
            return
        self._announce(
            self._archive(
                Document.make_id("archive", self.request.source, item.path, blob.digest),
                item,
                kind=item.kind,
                blob=blob.digest,
                size=blob.size,
            )
        )

    def _archive(self, id: str, item: Item, **more: object) -> Archive:
        request = self.request
        return Archive.model_validate(
            {
                "id": id,
                "source": request.source,
                "source_id": request.id,
                "path": item.path,
                "url": item.url,
                "language": item.language,
                "charset": _charset(item.media_type),
                "submission": request.submission,
                "origin": origin_of(request.source, item.path),
                **more,
            }
        )

    def _announce(self, archive: Archive) -> None:
        self.current.add(archive.id)
        if archive.id in self.known:
            self.counts["unchanged"] += 1
            if self.known[archive.id] in (Status.FAILED, Status.FAILED_MAX_RETRIES):
                # Asking for the source again is asking for what failed of it.
                self._reread(self.work.store.get_many(Archive, [archive.id]))
            return
        self.counts["new"] += 1
        self._drop_earlier_try(archive)
        self.work.add(archive, parent=None)
        self.work.emit(ArchiveIngested.of(archive))

    def _drop_earlier_try(self, archive: Archive) -> None:
        """What an earlier try of this submission found at the same place is older, and must not win."""
        found = self.work.store.find(Archive, "origin", [archive.origin]) if self.known else []
        for other in self.work.store.get_many(Archive, [one.id for one in found]):
            if other.submission == archive.submission and other.blob is not None:
                self.known.pop(other.id, None)
                self.work.remove(other)

    def _keep_failed(self, item: Item, error: Exception) -> None:
        """One bad item never fails its source: it is kept with its error, and the others go on."""
        self.counts["failed"] += 1
        self.troubled.append(item.path)
        id = Document.make_id("archive", self.request.source, item.path, "problem")
        self.current.add(id)
        if id not in self.known:
            self.work.add(self._archive(id, item, kind="source"), parent=None, failed=error)

    def _settle_others(self) -> None:
        """What was known and is not current: its place is gone, or holds something else now."""
        others = self.work.store.get_many(Archive, sorted(self.known.keys() - self.current))
        removed: list[Archive] = []
        for archive in others:
            if archive.path not in self.paths and not self._hidden(archive.path):
                removed.append(self._remove(archive))
            elif archive.path not in self.paths:
                self.counts["unchanged"] += 1
            elif archive.blob is None:
                self._drop(archive)  # it could not be taken before, and can be now
            else:
                self._bring_back(archive)
        if any(mark.kind in MAIL for mark in removed):
            read_others_again(self.work, self.request.id, self._checkpoint)
        for mark in removed:
            self._drop(mark)

    def _drop(self, archive: Archive) -> None:
        """Remove an archive that has no messages; a commit removes no more of them than it may hold."""
        self.work.remove(archive)
        self._said += 1
        if self._said >= CHECKPOINT_ITEMS:
            self._checkpoint()

    def _hidden(self, path: str) -> bool:
        return any(not one or path.startswith(one.rstrip("/") + "/") for one in self.troubled)

    def _remove(self, archive: Archive) -> Archive:
        """Remove an archive and its messages; a mark stays until all is done, also after a crash."""
        self.counts["removed"] += 1
        id = Document.make_id("archive", self.request.source, archive.path, "gone")
        mark = Archive(
            id=id, source=archive.source, source_id=archive.source_id, path=archive.path, kind=archive.kind
        )
        if archive.id != id:
            self.work.add(
                mark, parent=None, failed=Gone(f"{archive.title} is gone; its messages are being removed")
            )
            self.work.remove(archive)
            self._checkpoint()  # from now on nothing more is read from it
        origin = origin_of(archive.source, archive.path)
        ids = self.work.store.ids(Message, "origin", origin)
        remove_messages(self.work, ids, cursor=self._cursor())
        return mark

    def _bring_back(self, other: Archive) -> None:
        """The place holds again what it held before a newer archive, which must not win."""
        self.contested = True
        found = self.work.store.find(Archive, "origin", [other.origin])
        now = [one.id for one in found if one.id in self.current and one.id in self.known]
        archives = [one for one in self.work.store.get_many(Archive, now) if one.submission < other.submission]
        if archives and other.submission == self.request.submission:
            self.work.remove(other)  # an earlier try has found it; both would be of this submission
        self._reread(archives)

    def _lost_any(self) -> bool:
        """Whether an archive that was taken for unchanged had to give way to a newer one while this ran."""
        found = self.work.store.find(Archive, "source_id", [self.request.id])
        return not {one.id for one in found} >= self.current & self.known.keys()

    def _reread(self, archives: Sequence[Archive]) -> None:
        for archive in archives:
            read_again(self.work, archive, submission=self.request.submission)
            self._said += 1
        if self._said >= CHECKPOINT_ITEMS:
            self._checkpoint()


def _is_full(error: Exception) -> bool:
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
    return full or (isinstance(error, OnwardError) and not isinstance(error, Permanent))


def _sweep(scratch: Path) -> None:
    """Remove what a process that was killed has left behind."""
    for folder in scratch.glob("fetch-*"):
        with suppress(FileNotFoundError):  # its own process may be done with it just now
            if time.time() - folder.stat().st_mtime > LEFTOVER_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


def _charset(media_type: str) -> str:
    _, _, found = media_type.lower().partition("charset=")
    return found.partition(";")[0].strip("\"' ")


def read_again(work: Work, archive: Archive, **changes: object) -> None:
    """Let an archive be read once more; whoever reads it just now begins anew."""
    work.replace(archive.model_copy(update={"rereads": archive.rereads + 1, **changes}))
    work.emit(ArchiveIngested.of(archive))


def read_others_again(work: Work, source_id: str, checkpoint: Callable[[], object], *, but: str = "") -> None:
    """Let the mailboxes be read again that left out a message because another one had it, which was removed."""
    ids = sorted(one.id for one in work.store.find(Archive, "source_id", [source_id]) if one.id != but)
    for start in range(0, len(ids), READ_AGAIN_AT_ONCE):
        archives = work.store.get_many(Archive, ids[start : start + READ_AGAIN_AT_ONCE])
        mail = [one for one in archives if one.kind in MAIL and one.blob is not None]
        own = Counter(str(one.value) for one in work.store.find(Message, "origin", [one.origin for one in mail]))
        reports = work.store.get_many(Report, [report_id(one) for one in mail])
        whole = {one.archive_id: one.counts["parsed"] + one.counts["failed"] for one in reports}
        for archive in mail:
            if own[archive.origin] < whole.get(archive.id, sys.maxsize):
                read_again(work, archive)
        checkpoint()


def report_id(archive: Archive) -> str:
    """The id of the report on one reading of an archive, or on one fetch of a source."""
    return Document.make_id("report", archive.id, archive.submission)


def remove_messages(work: Work, ids: Sequence[str], *, cursor: object) -> None:
    """Remove messages with all that came from them, and let their threads be looked at."""
    for start in range(0, len(ids), REMOVED_AT_ONCE):
        messages = work.store.get_many(Message, ids[start : start + REMOVED_AT_ONCE])
        for message in messages:
            work.remove(message)
        threads = sorted({message.thread_id for message in messages})
        # A message that comes back from another archive looks like the one that went: a digest cannot tell.
        for thread in work.store.get_many(Thread, threads):
            work.replace(thread.to_be_asked_for())
        work.emit(EmbeddingsGenerated(thread_ids=threads))
        work.checkpoint(cursor)
