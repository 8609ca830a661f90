"""Ingestion: fetch a source into blobs, one archive for each item."""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from onward import App, Document, DocumentState, Kind, Permanent, Reader, Status, Work, classify
from onward.pipeline.documents import Archive, SkippedItem
from onward.pipeline.events import SourceSubmitted
from onward.pipeline.fetch import AddressGuard, FetchLimits, fetch
from onward.pipeline.fetch.entries import fetch_entry, storable
from onward.pipeline.fetch.fetch_errors import NothingToIngest, nothing_to_ingest
from onward.pipeline.fetch.fetched_items import SkipReason, problem_item
from onward.pipeline.fetch.location import is_path, is_url, shown
from onward.pipeline.fetch.unpacker import Unpacker
from onward.pipeline.read.ocr import ocr_problem
from onward.pipeline.source_cache import cache_folder, mark_used, notes_file, remove_cache, remove_unused
from onward.pipeline.source_kinds import Entry, SourceKind, SourceRun
from onward.pipeline.source_kinds.refused_logins import LoginRefused
from onward.pipeline.source_kinds.registry import find_kind
from onward.pipeline.source_settings import run_options
from onward.pipeline.sources import next_submission
from onward.pipeline.stages.archive_changes import FAILED, ArchiveChanges, is_below, is_disk_problem, problem_id
from onward.pipeline.stages.stored_refusals import StoredRefusals
from onward.pipeline.stages.stored_versions import StoredEntry, StoredVersions

log = logging.getLogger("onward")

CHECKPOINT_SECONDS = 2.0
LEFTOVER_SECONDS = 86_400.0
MAX_TRANSIENT_FAILURES = 20  # of entries in a row: then the run fails, and is tried again later
MAX_LISTED_PROBLEMS = 100
DUPLICATE = SkipReason("duplicate", "another one at this location has the same path, and is ingested")
REFUSED_LOGIN_SECONDS = 300.0  # after which it is seen whether the password of an account is another one
RUNNING_SECONDS = 5.0  # after which it is seen whether a run of a source has ended
CONTINUE_SECONDS = 1.0  # after which a run that was interrupted goes on
RECONNECT_SECONDS = 5.0  # after which a run goes on that has got further until its server broke off
DELIVERY_SECONDS = 3_600.0  # of one delivery, well below its time limit; a longer run goes on in the next one


def ingest(app: App, request: Archive, work: Work) -> None:
    """Fetch a source: new and changed items become archives; removed items are removed."""
    if request.id != request.source_id:
        _ingest_source_of(app, request, work)
        return
    ingestion = _Ingestion(app, request, work)
    try:
        ingestion.run()
    except LoginRefused:
        # Its breaker says what to do. No try is charged: the other sources go on, and this one is looked at again.
        work.wait(seconds=REFUSED_LOGIN_SECONDS)
    except (ConnectionError, TimeoutError) as error:
        if not ingestion.has_got_further():
            raise
        # A server that closes each connection after a while must not use up the tries of a large source.
        ingestion.checkpoint()
        log.info("%s broke off and is asked for the rest: %s", shown(request.source), app.error_text(error))
        work.wait(seconds=RECONNECT_SECONDS)
    finally:
        if app.get(Archive, request.id) is None:  # forgotten during this run, which may have made its copy since
            remove_cache(app.settings.home, request.source)


def _ingest_source_of(app: App, unread: Archive, work: Work) -> None:
    """Have a source ingested again for an item that could not be fetched; the run adds the item anew."""
    known = work.store.get(Archive, unread.source_id)
    state = work.store.state(Archive, unread.source_id)
    row = None if state is None else state.row
    if row is not None and app.store.row_states([row])[row] == "claimed":
        work.wait(seconds=RUNNING_SECONDS)  # this run may be past the item
        return
    work.remove(unread)
    if state is None or state.status != Status.PENDING:
        request, task = next_submission(unread.source, known, app.store.now())
        if known is None:
            work.add(request, parent=None)
        else:
            work.replace(request)
        work.add(task, parent=None)
        work.emit(SourceSubmitted.of(request, source=request.source))


def requeue(states: Sequence[DocumentState], store: Reader) -> Iterator[SourceSubmitted]:
    for archive in store.get_many(Archive, [state.id for state in states]):
        if archive.id in (archive.source_id, problem_id(archive.source, archive.path)):
            yield SourceSubmitted.of(archive, source=archive.source)


class _Ingestion(ArchiveChanges):
    def __init__(self, app: App, request: Archive, work: Work) -> None:
        super().__init__(app, request, work)
        self._failed_in_a_row = 0
        self._fetched = 0  # entries, in this delivery
        self._began = time.monotonic()
        self._notes = notes_file(app.settings.home, request.source, request.submission)
        self._items_before: int = (work.cursor or {}).get("items", 0)

    def has_got_further(self) -> bool:
        """Return whether this delivery has fetched something, and has got further than any before it.

        The second alone ends it: what has no version is fetched anew each time.
        """
        return self._fetched > 0 and self.counts["items"] > self._items_before

    def run(self) -> None:
        settings = self.app.settings
        scratch = Path(settings.home) / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        for leftover in (*scratch.glob("fetch-*"), *scratch.glob("notes-*")):  # of killed or failed ingestions
            with suppress(FileNotFoundError):  # its process may be removing it now
                if time.time() - leftover.stat().st_mtime > LEFTOVER_SECONDS:
                    shutil.rmtree(leftover, ignore_errors=True) if leftover.is_dir() else leftover.unlink()
        remove_unused(settings.home)
        no_pictures = ocr_problem(settings)
        limits = FetchLimits(
            max_bytes=settings.fetch_max_bytes,
            seconds=settings.fetch_seconds,
            max_redirects=settings.fetch_max_redirects,
            max_unpacked_bytes=settings.unpack_max_bytes,
            allow_private=settings.fetch_allow_private,
            environment_proxies=settings.fetch_proxy == "environment",
            contact=settings.fetch_contact,
            pictures=not no_pictures,
            no_pictures=no_pictures,
        )
        try:
            if (kind := find_kind(self.request.source)) is None:
                self._take_upload(limits, scratch)
            elif not self._take_entries(kind, limits, scratch):
                return
        except NothingToIngest:
            # The error drops this work; a checkpoint keeps the report on what was skipped.
            self.report()
            self.checkpoint()
            raise
        self.settle_others()
        self.reread_attachments()
        if not no_pictures:
            self.reread_for_ocr()
        if self.contested:
            # Archives that counted as unchanged may have been replaced by a newer one during this run.
            found = self.work.store.find(Archive, "source_id", [self.request.id])
            if not {row.id for row in found} >= self.current & self.known.keys():
                # Then fetch again, for the archives that were removed meanwhile.
                self.work.wait(seconds=CONTINUE_SECONDS)
                return
        if self.versions is not None:
            self.versions.merge(self.work, self.checkpoint)
            self._notes.unlink(missing_ok=True)
        self.report()

    def _take_upload(self, limits: FetchLimits, scratch: Path) -> None:
        opener = self.app.blobs.open
        for item in fetch(self.request.source, limits, scratch, open_blob=opener, skipped=self.skipped):
            self.take(item)
            self.checkpoint_if_due(after_seconds=CHECKPOINT_SECONDS)

    # -- entries

    def _take_entries(self, kind: SourceKind, limits: FetchLimits, scratch: Path) -> bool:
        """Fetch the entries that are new or changed; return False if another delivery fetches the rest."""
        self.versions = versions = StoredVersions(self.work.store, self.request)
        conditions = Document.make_id(self.app.version, limits)[:8]
        listed: set[str] = set()
        # A folder without files may be one that is not mounted now.
        single = is_path(self.request.source) or is_url(self.request.source)
        with tempfile.TemporaryDirectory(dir=scratch, prefix="fetch-") as folder:
            run = SourceRun(
                self.request.source,
                run_options(kind, self.settings),
                versions.trusted(self.known.keys() - self._wanted_again(), conditions),
                limits,
                AddressGuard(allow_private=limits.allow_private),
                self.skipped,
                Path(folder).absolute(),
                lambda: self.work.stopping,
                self._notes,
                refused_logins=StoredRefusals(self.app),
                cache=cache_folder(self.app.settings.home, self.request.source),
            )
            mark_used(run.cache)
            unpacker = Unpacker(limits, run.scratch, self.skipped)
            for entry in map(storable, kind.entries(run)):
                if self.work.stopping or self._has_run_long():
                    self.checkpoint()
                    self.work.wait(seconds=CONTINUE_SECONDS)
                    return False
                if entry.path in listed:
                    self.skipped.add(DUPLICATE, entry.path)
                    continue
                listed.add(entry.path)
                if entry.problem is None and run.is_known(entry):
                    self._keep(versions, entry.path)
                elif entry.problem is not None:
                    self._take_problem(versions, entry, entry.problem)
                else:
                    self._take_entry(versions, entry, unpacker, conditions)
                self.checkpoint_if_due(after_seconds=CHECKPOINT_SECONDS)
        if self.work.stopping or run.continue_after is not None:  # the kind may have ended its listing early
            self.checkpoint()
            self.work.wait(seconds=max(CONTINUE_SECONDS, run.continue_after or 0.0))
            return False
        if not self.counts["items"] and (single or not (self.known or self.settings.watched)):
            raise nothing_to_ingest(shown(self.request.source), self.skipped)
        gone: list[str] = []
        for path in [path for path in versions if path not in listed]:
            if self.settings.on_vanished == "keep" or run.incomplete or self.may_still_exist(path):
                self._keep(versions, path)
            else:
                gone.append(path)
        for path in gone:
            versions.drop(path)
        versions.write(self.work)
        if gone:
            self.checkpoint()  # before their archives go: an entry that comes back must be fetched again
        return True

    def _wanted_again(self) -> set[str]:
        """Return the archives that stand for items that could not be fetched, if these are to be tried again."""
        if not self.request.retries_failed:
            return set()
        failed = sorted(id for id, status in self.known.items() if status in FAILED)
        return {archive.id for archive in self.work.store.get_many(Archive, failed) if archive.blob is None}

    def _has_run_long(self) -> bool:
        """Return whether a delivery that has fetched something is to end: the next one goes on behind it."""
        return self._fetched > 0 and time.monotonic() - self._began > DELIVERY_SECONDS

    def _keep(self, versions: StoredVersions, path: str) -> None:
        """Leave the archives of an entry as they are; those that failed are read again."""
        stored = versions.get(path)
        if stored is None:
            return
        self.counts["items"] += len(stored.archives)
        self.counts["unchanged"] += len(stored.archives)
        self.current.update(stored.archives)
        self.skipped.add_again(stored.skipped, path)
        failed = [id for id in stored.archives if self.known.get(id) in FAILED and self.request.retries_failed]
        if not failed:
            return  # a query for each entry would take minutes
        archives = self.work.store.get_many(Archive, failed)
        self.reread([archive for archive in archives if archive.blob is not None])

    def _take_entry(self, versions: StoredVersions, entry: Entry, unpacker: Unpacker, conditions: str) -> None:
        try:
            items = fetch_entry(entry, unpacker.scratch / "entry", unpacker)
        except Exception as error:
            if is_disk_problem(error):
                raise
            self._failed_in_a_row = self._failed_in_a_row + 1 if classify(error).kind is Kind.TRANSIENT else 0
            if self._failed_in_a_row > MAX_TRANSIENT_FAILURES:
                raise
            self._take_problem(versions, entry, error)
            return
        self._failed_in_a_row = 0
        self._fetched += 1
        before, skipped = versions.get(entry.path), self.skipped.counts.copy()
        archives: list[str] = []
        problems: list[tuple[str, Exception]] = []
        for item in items:
            if archives:  # the first is committed together with the version, if it is the only one
                self.checkpoint_if_due(after_seconds=CHECKPOINT_SECONDS)
            id, problem = self.take(item)
            archives.append(id)
            problems += [] if problem is None else [(item.path, problem)]
        if before is not None and problems:
            # What was stored of the parts that cannot be read now stays.
            unread = {path for path, _ in problems}
            old = self.work.store.get_many(Archive, sorted(set(before.archives) - set(archives)))
            archives += [archive.id for archive in old if is_below(archive.path, unread)]
            self.current.update(archives)
        if before is not None:
            self.replaced.update(set(before.archives) - set(archives))
        passed = dict(self.skipped.counts - skipped)
        # What may pass is tried again in the next run; the rest when Onward or its limits are others.
        version = entry.version if all(isinstance(problem, Permanent) for _, problem in problems) else ""
        unread_under = conditions if problems or passed else ""
        versions.put(entry.path, StoredEntry(version, tuple(archives), unread_under, passed))

    def _take_problem(self, versions: StoredVersions, entry: Entry, problem: Exception) -> None:
        """Keep what is stored of an entry that cannot be fetched now; if nothing is, add a failed archive."""
        if not entry.path:
            raise problem  # the source itself failed
        self.unreadable.add(entry.path)
        stored = versions.get(entry.path)
        archives = self.work.store.get_many(Archive, stored.archives if stored is not None else ())
        if any(archive.blob is not None for archive in archives):
            self._keep(versions, entry.path)
            self.counts["failed"] += 1
        else:
            self.take(problem_item(entry.path, problem))
        if len(self.problems) < MAX_LISTED_PROBLEMS:
            text = self.app.error_text(problem)
            self.problems.append(SkippedItem(path=entry.path, kind="problem", reason=text))
