"""The changes of one run of a source: archives that are new, kept, replaced or removed."""

from __future__ import annotations

import errno
import logging
import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence

from onward import App, Document, OnwardError, Permanent, Status, Work
from onward.pipeline.documents import (
    MAIL,
    Archive,
    Message,
    Report,
    SkippedItem,
    Source,
    find_archives,
    origin_of,
    report_id,
)
from onward.pipeline.events import ArchiveIngested
from onward.pipeline.fetch.fetched_items import FetchedItem, SkippedFiles
from onward.pipeline.fetch.location import shown
from onward.pipeline.stages.removal import read_again, read_others_again, remove_messages
from onward.pipeline.stages.stored_versions import StoredVersions

log = logging.getLogger("onward")

CHECKPOINT_ITEMS = 100
PAGE_ARCHIVES = 500  # that are read at once
FAILED = (Status.FAILED, Status.FAILED_MAX_RETRIES)


class PlaceGone(Permanent):
    """A place of a source that was ingested before no longer exists."""


class ArchiveChanges:
    """The archives of a source during one run, compared with those that are stored."""

    def __init__(self, app: App, request: Archive, work: Work) -> None:
        self.app, self.request, self.work = app, request, work
        found = work.store.find(Archive, "source_id", [request.id])
        self.known = {row.id: row.status for row in found if row.id != request.id}
        self.settings = work.store.get(Source, request.id) or Source(id=request.id, location=request.source)
        self.versions: StoredVersions | None = None  # of a kind of source that lists entries
        self.current: set[str] = set()
        self.replaced: set[str] = set()  # archives of older versions of entries that were fetched
        self.paths: set[str] = set()
        self.unreadable: set[str] = set()  # paths that could not be opened: files below them may still exist
        self.contested = False  # a place had other content before, which may have been parsed meanwhile
        self.counts = {"items": 0, "new": 0, "unchanged": 0, "failed": 0, "removed": 0}
        self._before: Mapping[str, int] = work.cursor or {}  # what earlier deliveries of this run have counted
        self.skipped = SkippedFiles()
        self.problems: list[SkippedItem] = []
        self._uncommitted = 0
        self._committed_at = time.monotonic()

    def report(self) -> None:
        """Write the report. It descends from the request, so the next submission removes it."""
        report = Report(
            id=report_id(self.request),
            source=self.request.source,
            archive_id=self.request.id,
            counts=self._counts_of_run(),
            passed_over=self.skipped.kinds,
            passed_over_items=self.skipped.listed,
            ignored=self.skipped.ignored,
            problems=self.problems,
        )
        if self.work.store.get(Report, report.id) is None:
            self.work.add(report)
        else:
            self.work.replace(report)  # from an earlier try of the same submission
        changes = [f"{self.counts[name]:,} {name}" for name in ("new", "removed", "failed") if self.counts[name]]
        if changes:  # a watched source is ingested often, mostly without any
            log.info("%s was ingested: %s", shown(self.request.source), ", ".join(changes))

    def _counts_of_run(self) -> dict[str, int]:
        """Return the counts of all deliveries: what an earlier one has taken is found unchanged by this one."""
        counts, before = self.counts, self._before
        new = min(before.get("new", 0), counts["unchanged"])
        changes = {"new": counts["new"] + new, "unchanged": counts["unchanged"] - new}
        return counts | changes | {"removed": counts["removed"] + before.get("removed", 0)}

    def checkpoint(self) -> None:
        if self.versions is not None:
            self.versions.write(self.work)
        self.work.checkpoint(self._cursor())
        self._uncommitted = 0
        self._committed_at = time.monotonic()

    def checkpoint_if_due(self, *, after_seconds: float = math.inf) -> None:
        changes = self._uncommitted if self.versions is None else max(self._uncommitted, self.versions.changes)
        if changes >= CHECKPOINT_ITEMS or time.monotonic() - self._committed_at > after_seconds:
            self.checkpoint()

    def _cursor(self) -> Mapping[str, int]:
        """Return the counts of the try with the most items: one that gets no further makes no progress."""
        before = self._before
        if self.counts["items"] <= before.get("items", 0):
            return before or {"items": 0}
        counted = {name: before.get(name, 0) + self.counts[name] for name in ("new", "removed")}
        return {"items": self.counts["items"], **counted}

    def take(self, item: FetchedItem) -> tuple[str, Exception | None]:
        """Store an item as an archive; return its id, and why it cannot be read."""
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
            if is_disk_problem(error):
                raise
            if self.versions is None and isinstance(error, OnwardError) and not isinstance(error, Permanent):
                raise
            # The item is kept with its error; the others are ingested.
            self.counts["failed"] += 1
            self.unreadable.add(item.path)
            id = problem_id(self.request.source, item.path)
            self.current.add(id)
            if id not in self.known:
                self.work.add(self._archive(id, item), parent=None, failed=error)
            return id, error
        id = Document.make_id("archive", self.request.source, item.path, blob.digest)
        self.current.add(id)
        store = self.work.store
        if id in self.known:
            self.counts["unchanged"] += 1
            if self.known[id] in FAILED and self.request.retries_failed:
                # A new submission retries the archives that failed.
                self.reread(store.get_many(Archive, [id]))
            return id, None
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
        return id, None

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
            "retries_failed": True,  # its default
        }
        return self.request.model_copy(update=place | more)

    def settle_others(self) -> None:
        """Remove known archives whose place no longer exists or has other content now."""
        removed: list[str] = []  # the ids of the markers of removed archives
        has_mail = False
        for others in self._pages(sorted(self.known.keys() - self.current)):
            places = find_archives(self.work.store, [archive.origin for archive in others])
            taken = {row.origin for row in places if row.id in self.current}
            for archive in others:
                path = archive.path
                if (path in self.paths or archive.origin in taken) and archive.blob is None:
                    self._drop(archive)  # it could not be fetched before, and can be now
                elif path in self.paths or archive.origin in taken:
                    self._bring_back(archive)
                elif self.may_still_exist(path) or self._is_kept(archive):
                    self.counts["unchanged"] += 1
                else:
                    removed.append(self._remove(archive))
                    has_mail |= archive.kind in MAIL
        if has_mail:
            read_others_again(self.work, self.request.id, self.checkpoint)
        for marks in self._pages(removed):
            for mark in marks:
                self._drop(mark)

    def _pages(self, ids: Sequence[str]) -> Iterator[list[Archive]]:
        """Yield archives in pages: everything in a large source may have vanished."""
        for start in range(0, len(ids), PAGE_ARCHIVES):
            yield self.work.store.get_many(Archive, ids[start : start + PAGE_ARCHIVES])

    def may_still_exist(self, path: str) -> bool:
        return is_below(path, self.unreadable)

    def _is_kept(self, archive: Archive) -> bool:
        """Return whether an archive stays although its entry, which has no version, is no longer listed."""
        keeps = self.settings.on_vanished == "keep" and archive.blob is not None
        return keeps and archive.id not in self.replaced

    def _drop(self, archive: Archive) -> None:
        """Remove an archive without messages, with a checkpoint every `CHECKPOINT_ITEMS`."""
        self.work.remove(archive)
        self._uncommitted += 1
        self.checkpoint_if_due()

    def _remove(self, archive: Archive) -> str:
        """Remove an archive and its messages; return the id of a marker that remains until all are removed."""
        self.counts["removed"] += 1
        source, path = archive.source, archive.path
        id = Document.make_id("archive", self.request.source, path, "gone")
        mark = Archive(id=id, source=source, source_id=archive.source_id, path=path, kind=archive.kind)
        if archive.id != id:
            gone = PlaceGone(f"{archive.title} is gone; its messages are being removed")
            self.work.add(mark, parent=None, failed=gone)
            self.work.remove(archive)
            self.checkpoint()  # from now on no message is read from it
        ids = self.work.store.ids(Message, "origin", origin_of(source, path))
        remove_messages(self.work, ids, cursor=self._cursor())
        return id

    def _bring_back(self, other: Archive) -> None:
        """Parse an older archive again: its place has its content again instead of that of `other`."""
        self.contested = True
        found = find_archives(self.work.store, [other.origin])
        now = [row.id for row in found if row.id in self.current and row.id in self.known]
        archives = self.work.store.get_many(Archive, now)
        archives = [archive for archive in archives if archive.submission < other.submission]
        if archives and other.submission == self.request.submission:
            self.work.remove(other)  # from an earlier try: both would be of this submission
        self.reread(archives)

    def reread_attachments(self) -> None:
        """Read the attachments again that failed. The mails that have them are known, and are not read again."""
        if not self.request.retries_failed:
            return
        found = self.work.store.find(Archive, "attachment", [self.request.id])
        failed = [row.id for row in found if row.status in FAILED]
        for start in range(0, len(failed), CHECKPOINT_ITEMS):
            self.reread(self.work.store.get_many(Archive, failed[start : start + CHECKPOINT_ITEMS]))

    def reread_for_ocr(self) -> None:
        """Read pictures and scans again whose text could not be recognised before, and now can."""
        self.checkpoint()  # an archive that is already read again is not found below
        store = self.work.store
        wanting = store.ids(Archive, "wants_ocr", self.request.id)
        for start in range(0, len(wanting), CHECKPOINT_ITEMS):
            archives = store.get_many(Archive, wanting[start : start + CHECKPOINT_ITEMS])
            # One whose place has other content now is about to be replaced.
            archives = [one for one in archives if one.attached_to is not None or one.id in self.current]
            # A scan has a failed message, which would count as known.
            failed = store.find(Message, "origin", [archive.origin for archive in archives])
            for message in store.get_many(Message, [row.id for row in failed]):
                self.work.remove(message)
            self.reread(archives)

    def reread(self, archives: Sequence[Archive]) -> None:
        for archive in archives:
            read_again(self.work, archive, submission=self.request.submission)
            self._uncommitted += 1
        self.checkpoint_if_due()


def problem_id(source: str, path: str) -> str:
    """Return the id of the archive that stands for an item that could not be fetched."""
    return Document.make_id("archive", source, path, "problem")


def is_below(path: str, places: Collection[str]) -> bool:
    """Return whether a path is one of these, or below one."""
    if not places:
        return False
    parts = path.split("/")
    return "" in places or any("/".join(parts[:count]) in places for count in range(1, len(parts) + 1))


def is_disk_problem(error: Exception) -> bool:
    """Return whether the disk is full or cannot be written: that is not a problem of one item."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
