"""Reading archives again, and removing messages: what ingestion and parsing share."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence

from onward import Work
from onward.pipeline.documents import MAIL, Archive, Message, Report, Thread, report_id
from onward.pipeline.events import ArchiveIngested, EmbeddingsGenerated, ThreadsDiverged

REMOVE_PAGE = 100  # messages that one commit removes, with all their chunks
REREAD_PAGE = 400


def read_again(work: Work, archive: Archive, **changes: object) -> None:
    """Parse an archive once more; a running parser of it begins again."""
    again = {"rereads": archive.rereads + 1, "not_read": "", "wants_ocr": False}
    work.replace(archive.model_copy(update=again | changes))
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
        _compare_others(messages, work)
        work.checkpoint(cursor)


def _compare_others(removed: Sequence[Message], work: Work) -> None:
    """Compare the other mails of threads: a removed one may have been all that joined them."""
    counts = Counter(message.thread_id for message in removed if message.kind in MAIL)
    stored = work.store.value_counts(Message, "thread_id", sorted(counts))
    left = sorted(id for id, count in counts.items() if sum(stored.get(id, {}).values()) > count)
    if left:
        work.emit(ThreadsDiverged(source=removed[0].source, thread_ids=left))
