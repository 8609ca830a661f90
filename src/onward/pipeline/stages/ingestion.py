"""Ingestion: fetch a source into blobs, one archive for each item."""

from __future__ import annotations

import errno
import math
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from onward import App, Document, DocumentState, OnwardError, Permanent, Reader, Status, Work
from onward.pipeline.documents import MAIL, Archive, Message, Report, Thread, find_archives, origin_of, report_id
from onward.pipeline.events import ArchiveIngested, EmbeddingsGenerated, SourceSubmitted
from onward.pipeline.fetch import FetchedItem, FetchLimits, SkippedFiles, fetch
from onward.pipeline.fetch.fetch_errors import NothingToIngest

CHECKPOINT_ITEMS = 100
CHECKPOINT_SECONDS = 2.0
REMOVE_PAGE = 100  # messages that one commit removes, with all their chunks
REREAD_PAGE = 400
LEFTOVER_SECONDS = 86_400.0


class PlaceGone(Permanent):
    """A place of a source that was ingested before no longer exists."""


def ingest(app: App, request: Archive, work: Work) -> None:
    """Fetch a source: new and changed items become archives; removed items are removed."""
    _Ingestion(app, request, work).run()


def requeue(states: Sequence[DocumentState], store: Reader) -> Iterator[SourceSubmitted]:
    for archive in store.get_many(Archive, [state.id for state in states]):
        if archive.blob is None and archive.id == archive.source_id:
            yield SourceSubmitted.of(archive, source=archive.source)


class _Ingestion:
    def __init__(self, app: App, request: Archive, work: Work) -> None:
        self.app, self.request, self.work = app, request, work
        found = work.store.find(Archive, "source_id", [request.id])
        self.known = {row.id: row.status for row in found if row.id != request.id}
        self.current: set[str] = set()
        self.paths: set[str] = set()
        self.unreadable: list[str] = []  # paths that could not be opened: files below them may still exist
        self.contested = False  # a place had other content before, which may have been parsed meanwhile
        self.counts = {"items": 0, "new": 0, "unchanged": 0, "failed": 0, "removed": 0}
        self.skipped = SkippedFiles()
        self._uncommitted = 0
        self._committed_at = time.monotonic()

    def run(self) -> None:
        settings = self.app.settings
        scratch = Path(settings.home) / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        for folder in scratch.glob("fetch-*"):  # of killed processes
            with suppress(FileNotFoundError):  # its process may be removing it now
                if time.time() - folder.stat().st_mtime > LEFTOVER_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)
        limits = FetchLimits(
            max_bytes=settings.fetch_max_bytes,
            seconds=settings.fetch_seconds,
            max_redirects=settings.fetch_max_redirects,
            max_unpacked_bytes=settings.unpack_max_bytes,
            allow_private=settings.fetch_allow_private,
        )
        opener = self.app.blobs.open
        try:
            for item in fetch(self.request.source, limits, scratch, open_blob=opener, skipped=self.skipped):
                self._take(item)
                self._checkpoint_if_due(after_seconds=CHECKPOINT_SECONDS)
        except NothingToIngest:
            # The error drops this work; a checkpoint keeps the report on what was skipped.
            self._report()
            self._checkpoint()
            raise
        self._settle_others()
        if self.contested:
            # Archives that counted as unchanged may have been replaced by a newer one during this run.
            found = self.work.store.find(Archive, "source_id", [self.request.id])
            if not {row.id for row in found} >= self.current & self.known.keys():
                self.work.wait(seconds=1.0)  # then fetch again, for the archives that were removed meanwhile
                return
        self._report()

    def _report(self) -> None:
        """Write the report. It descends from the request, so the next submission removes it."""
        report = Report(
            id=report_id(self.request),
            source=self.request.source,
            archive_id=self.request.id,
            counts=self.counts,
            passed_over=self.skipped.kinds,
            passed_over_items=self.skipped.listed,
            ignored=self.skipped.ignored,
        )
        if self.work.store.get(Report, report.id) is None:
            self.work.add(report)
        else:
            self.work.replace(report)  # from an earlier try of the same submission

    def _checkpoint(self) -> None:
        self.work.checkpoint(self._cursor())
        self._uncommitted = 0
        self._committed_at = time.monotonic()

    def _checkpoint_if_due(self, *, after_seconds: float = math.inf) -> None:
        if self._uncommitted >= CHECKPOINT_ITEMS or time.monotonic() - self._committed_at > after_seconds:
            self._checkpoint()

    def _cursor(self) -> dict[str, int]:
        """Return the most items of any try: a try that gets no further than the one before makes no progress."""
        before: dict[str, int] = self.work.cursor or {}
        return {"items": max(self.counts["items"], before.get("items", 0))}

    def _take(self, item: FetchedItem) -> None:
        self.counts["items"] += 1
        self.paths.add(item.path)
        self._uncommitted += 1
        try:
            if item.problem is not None:
                raise item.problem
            blob = self.app.blobs.put(item.copy_to)
        except Exception as error:
            if self.counts["items"] == 1 and not item.path:
                raise  # the source itself failed
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                raise  # the disk is full: not a problem of this item
            if isinstance(error, OnwardError) and not isinstance(error, Permanent):
                raise
            # The item is kept with its error; the others are ingested.
            self.counts["failed"] += 1
            self.unreadable.append(item.path)
            id = Document.make_id("archive", self.request.source, item.path, "problem")
            self.current.add(id)
            if id not in self.known:
                self.work.add(self._archive(id, item), parent=None, failed=error)
            return
        id = Document.make_id("archive", self.request.source, item.path, blob.digest)
        self.current.add(id)
        store = self.work.store
        if id in self.known:
            self.counts["unchanged"] += 1
            if self.known[id] in (Status.FAILED, Status.FAILED_MAX_RETRIES):
                # A new submission retries the archives that failed.
                self._reread(store.get_many(Archive, [id]))
            return
        self.counts["new"] += 1
        archive = self._archive(id, item, kind=item.kind, blob=blob.digest, size=blob.size)
        # The archive of an earlier try of this submission at the same place is older: it is removed.
        found = find_archives(store, [archive.origin]) if self.known else []
        for other in store.get_many(Archive, [row.id for row in found]):
            if other.submission == archive.submission and other.blob is not None:
                self.known.pop(other.id, None)
                self.work.remove(other)
        self.work.add(archive, parent=None)
        self.work.emit(ArchiveIngested.of(archive))

    def _archive(self, id: str, item: FetchedItem, **more: object) -> Archive:
        charset = item.media_type.lower().partition("charset=")[2].partition(";")[0].strip("\"' ")
        place: dict[str, object] = {
            "id": id,
            "path": item.path,
            "url": item.url,
            "name": item.name if item.url else "",
            "language": item.language,
            "charset": charset,
            "origin": origin_of(self.request.source, item.path),
        }
        return self.request.model_copy(update=place | more)

    def _settle_others(self) -> None:
        """Remove known archives whose place no longer exists or has other content now."""
        others = self.work.store.get_many(Archive, sorted(self.known.keys() - self.current))
        removed: list[Archive] = []
        for archive in others:
            path = archive.path
            if path in self.paths and archive.blob is None:
                self._drop(archive)  # it could not be fetched before, and can be now
            elif path in self.paths:
                self._bring_back(archive)
            elif any(not above or path.startswith(above.rstrip("/") + "/") for above in self.unreadable):
                self.counts["unchanged"] += 1
            else:
                removed.append(self._remove(archive))
        if any(mark.kind in MAIL for mark in removed):
            read_others_again(self.work, self.request.id, self._checkpoint)
        for mark in removed:
            self._drop(mark)

    def _drop(self, archive: Archive) -> None:
        """Remove an archive without messages, with a checkpoint every `CHECKPOINT_ITEMS`."""
        self.work.remove(archive)
        self._uncommitted += 1
        self._checkpoint_if_due()

    def _remove(self, archive: Archive) -> Archive:
        """Remove an archive and its messages; a marker document remains until all are removed."""
        self.counts["removed"] += 1
        source, path = archive.source, archive.path
        id = Document.make_id("archive", self.request.source, path, "gone")
        mark = Archive(id=id, source=source, source_id=archive.source_id, path=path, kind=archive.kind)
        if archive.id != id:
            gone = PlaceGone(f"{archive.title} is gone; its messages are being removed")
            self.work.add(mark, parent=None, failed=gone)
            self.work.remove(archive)
            self._checkpoint()  # from now on no message is read from it
        ids = self.work.store.ids(Message, "origin", origin_of(source, path))
        remove_messages(self.work, ids, cursor=self._cursor())
        return mark

    def _bring_back(self, other: Archive) -> None:
        """Parse an older archive again: its place has its content again instead of that of `other`."""
        self.contested = True
        found = find_archives(self.work.store, [other.origin])
        now = [row.id for row in found if row.id in self.current and row.id in self.known]
        archives = self.work.store.get_many(Archive, now)
        archives = [archive for archive in archives if archive.submission < other.submission]
        if archives and other.submission == self.request.submission:
            self.work.remove(other)  # from an earlier try: both would be of this submission
        self._reread(archives)

    def _reread(self, archives: Sequence[Archive]) -> None:
        for archive in archives:
            read_again(self.work, archive, submission=self.request.submission)
            self._uncommitted += 1
        self._checkpoint_if_due()


def read_again(work: Work, archive: Archive, **changes: object) -> None:
    """Parse an archive once more; a running parser of it begins again."""
    work.replace(archive.model_copy(update={"rereads": archive.rereads + 1, **changes}))
    work.emit(ArchiveIngested.of(archive))


def read_others_again(work: Work, source_id: str, checkpoint: Callable[[], object], *, but: str = "") -> None:
    """Parse the mailboxes again that have a message which was removed with another archive."""
    ids = sorted(row.id for row in work.store.find(Archive, "source_id", [source_id]) if row.id != but)
    for start in range(0, len(ids), REREAD_PAGE):
        archives = work.store.get_many(Archive, ids[start : start + REREAD_PAGE])
        mail = [archive for archive in archives if archive.kind in MAIL and archive.blob is not None]
        origins = [archive.origin for archive in mail]
        own = Counter(str(row.value) for row in work.store.find(Message, "origin", origins))
        reports = work.store.get_many(Report, [report_id(archive) for archive in mail])
        whole = {report.archive_id: report.counts["parsed"] + report.counts["failed"] for report in reports}
        for archive in mail:
            if own[archive.origin] < whole.get(archive.id, sys.maxsize):
                read_again(work, archive)
        checkpoint()


def remove_messages(work: Work, ids: Sequence[str], *, cursor: object) -> None:
    """Remove messages with their descendants, and check their threads."""
    for start in range(0, len(ids), REMOVE_PAGE):
        messages = work.store.get_many(Message, ids[start : start + REMOVE_PAGE])
        for message in messages:
            work.remove(message)
        threads = sorted({message.thread_id for message in messages})
        # If the same message comes back from another archive, the digest of the thread does not change.
        for thread in work.store.get_many(Thread, threads):
            work.replace(thread.model_copy(update={"covers": ""}))
        work.emit(EmbeddingsGenerated(thread_ids=threads))
        work.checkpoint(cursor)
