"""Parsing: read the messages of an archive, thread them, and keep the unreadable ones."""

from __future__ import annotations

import hashlib
import io
import re
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, BinaryIO

from onward import App, Document, DocumentState, Permanent, Reader, Work
from onward.pipeline.documents import MAIL, Archive, Message, Report, Thread, find_archives, report_id
from onward.pipeline.events import ArchiveIngested, EmbeddingsGenerated, JSONParsed
from onward.pipeline.read.mbox import RawMessage, split_mbox
from onward.pipeline.read.message_reader import ReadMessage
from onward.pipeline.read.ocr import NeedsOCR
from onward.pipeline.read.page_text import NoText
from onward.pipeline.read.reader_process import IndexedMessage, reader_processes
from onward.pipeline.stages.attachments import add_attachments, parse_attachment, why_not_read
from onward.pipeline.stages.reading import attachment_limits, computing, index_message, try_reading
from onward.pipeline.stages.removal import read_others_again, remove_messages
from onward.pipeline.thread_index import ThreadIndex

CHECKPOINT_MESSAGES = 250
CHECKPOINT_BYTES = 1_000_000
CHECKPOINT_ATTACHMENTS = 300  # with their mails and threads less than a work may add
FIRST_BYTES, LARGE_BYTES = 100_000, 4_000_000
ID_BYTES = 16
RECORD_BYTES = ID_BYTES + 8  # an id and an offset (big-endian)
NO_ROOTS: Mapping[str, str] = MappingProxyType({})
_OUTCOMES = ("messages", "parsed", "failed", "duplicates", "new")
_MESSAGE_ID = re.compile(rb"message-id:\s*<?([^\s<>]+)", re.IGNORECASE)
_BODY = re.compile(rb"\r?\n\r?\n")


def parse(app: App, archive: Archive, work: Work) -> None:
    """Read an archive from where an earlier try stopped, then remove the older archives of its place."""
    if archive.blob is None:
        raise Permanent(f"archive {archive.id} has no blob; ingest {archive.source} again")
    if archive.attached_to is not None:
        parse_attachment(app, archive, work)
    else:
        _ArchiveParser(app, archive, work).run()


def requeue(states: Sequence[DocumentState], store: Reader) -> Iterator[ArchiveIngested]:
    for archive in store.get_many(Archive, [state.id for state in states]):
        if archive.blob is not None:
            yield ArchiveIngested.of(archive)


@dataclass(slots=True)
class _Batch:
    """Messages that are committed together."""

    end: int  # the place behind the last of them
    new: list[tuple[str, RawMessage]] = field(default_factory=list)  # with their ids
    size: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    is_last: bool = False


@dataclass(slots=True)
class _ArchiveParser:
    app: App
    archive: Archive
    work: Work
    offsets: dict[bytes, int] = field(default_factory=dict)  # of its messages, by id
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_OUTCOMES, 0))
    end: int = 0  # the place behind what is written
    not_read: NoText | None = None  # why a picture or a scan has no text
    removes: bool = False  # an earlier try has removed messages that other archives may also have

    def run(self) -> None:
        archive, counts = self.archive, self.counts
        with closing(self.app.blobs.open(str(archive.blob))) as stream:
            self._read(stream, self._resume(stream))
        # Before older archives are removed: their messages are then found by the index of the report.
        index = None
        if archive.kind == "mbox" and counts["new"] < counts["parsed"] + counts["failed"]:
            index = self.app.blobs.put(partial(write_index, self.offsets)).digest
        id, source = report_id(archive), archive.source
        self.work.add(Report(id=id, source=source, archive_id=archive.id, counts=dict(counts), index=index))
        self._replace_older_archives()
        if self.not_read is not None:
            self.work.replace(archive.model_copy(update=why_not_read(self.not_read)))
        self.work.emit(EmbeddingsGenerated(origin=archive.origin))

    def _resume(self, stream: BinaryIO) -> int:
        """Return where to continue; the ids before that are computed again, too many for a cursor."""
        cursor: dict[str, Any] = self.work.cursor or {}
        if not cursor:
            return 0
        self.counts.update(cursor["counts"])
        self.removes = cursor.get("removes", False)
        start: int = cursor["end"]
        for raw in _split(self.archive, stream):
            if raw.end > start:
                break
            self.offsets.setdefault(bytes.fromhex(message_id(self.archive, raw)), raw.offset)
        return start

    def _read(self, stream: BinaryIO, start: int) -> None:
        self.end = start
        with reader_processes(self.archive, attachment_limits(self.app.settings)) as readers:
            waiting: deque[_Batch] = deque()  # batches that are being read
            for batch in self._batches(stream, start):
                self._leave_out_known(batch)
                while waiting and readers.is_full():
                    self._write(waiting.popleft(), readers.take())
                waiting.append(batch)
                readers.give(batch.new)
            while waiting:
                self._write(waiting.popleft(), readers.take())

    def _batches(self, stream: BinaryIO, start: int) -> Iterator[_Batch]:
        """Yield the messages from `start`, without duplicates, as they are committed together."""
        batch = _Batch(start)
        # The first batches of a large archive are small: the other services have nothing to do before them.
        most = FIRST_BYTES if self.archive.size >= LARGE_BYTES else CHECKPOINT_BYTES
        for raw in _split(self.archive, stream, start):
            # Stored text is longer than the raw bytes, so a large message gets a commit of its own.
            is_full = batch.size + len(raw.raw) > most or len(batch.new) >= CHECKPOINT_MESSAGES
            if batch.new and is_full:
                yield batch
                batch = _Batch(batch.end)
                most = min(CHECKPOINT_BYTES, most * 2)
            batch.end = raw.end
            batch.counts["messages"] += 1
            id = message_id(self.archive, raw)
            if self.offsets.setdefault(bytes.fromhex(id), raw.offset) != raw.offset:
                batch.counts["duplicates"] += 1
                continue
            batch.new.append((id, raw))
            batch.size += len(raw.raw)
        batch.is_last = True
        yield batch

    def _leave_out_known(self, batch: _Batch) -> None:
        known = self.work.store.statuses(Message, [id for id, _ in batch.new])
        failed = sum(status == "failed" for status in known.values())
        batch.counts["failed"] += failed
        batch.counts["parsed"] += len(known) - failed
        batch.new = [(id, raw) for id, raw in batch.new if id not in known]
        batch.counts["new"] += len(batch.new)

    def _write(self, batch: _Batch, found: Sequence[IndexedMessage | None]) -> None:
        """Write a batch and commit it; the last one is committed when the handler returns."""
        before = {"end": self.end, "counts": dict(self.counts)}
        self.end = batch.end
        self.counts.update({name: count + batch.counts[name] for name, count in self.counts.items()})
        with computing(self.archive, self.work) if None in found else nullcontext():
            outcomes = [
                indexed or (try_reading(self.app, self.archive, id, raw), None)
                for (id, raw), indexed in zip(batch.new, found, strict=True)
            ]
        messages: list[Message] = []
        readable = [read.message for read, _ in outcomes if isinstance(read, ReadMessage)]
        placed, roots = ThreadIndex(self.app).place(readable)
        in_threads = iter(placed)
        for (id, raw), (outcome, entry) in zip(batch.new, outcomes, strict=True):
            if isinstance(outcome, NoText) and self.archive.kind == "picture":
                self.not_read = outcome  # nothing failed: many pictures have no text
                continue
            if isinstance(outcome, Permanent):
                self.not_read = outcome if isinstance(outcome, NeedsOCR) else None
                self._keep_failed(id, raw, outcome)
                continue
            self.counts["parsed"] += 1
            read = outcome._replace(message=next(in_threads))
            if read.files and len(self.work.added(Archive)) + len(read.files) > CHECKPOINT_ATTACHMENTS:
                self._emit(messages)
                # With the old cursor: after a crash, these messages are found to be known.
                self.work.checkpoint(before)
                messages = []
            # In one commit with its thread and its text: a text is indexed only where its message is.
            self.work.add(thread_of(read.message, roots), parent=None)
            index_message(self.work, read, entry)
            messages.append(self.work.add(read.message, parent=None))
            add_attachments(self.app, self.work, read, raw.raw)
        self._emit(messages)
        if not batch.is_last:
            self.work.checkpoint({"end": batch.end, "counts": dict(self.counts)})

    def _emit(self, messages: list[Message]) -> None:
        if messages:
            self.work.emit(JSONParsed.of(messages, archive_id=self.archive.id))

    def _keep_failed(self, id: str, raw: RawMessage, error: Permanent) -> None:
        """Keep an unreadable message with its bytes, as failed; the others of the archive are parsed."""
        self.counts["failed"] += 1
        with closing(self.app.blobs.open(str(self.archive.blob))) as stream:

            def copy(file: BinaryIO) -> None:
                stream.seek(raw.offset)
                left = raw.end - raw.offset
                while left > 0 and (block := stream.read(min(left, 1 << 20))):
                    file.write(block)
                    left -= len(block)

            blob = self.app.blobs.put(copy)
        message = Message.from_archive(
            self.archive,
            id,
            thread_id=Document.make_id("thread", self.archive.source, id),
            subject=f"(unreadable: {self.archive.title}, byte {raw.offset:,})",
            offset=raw.offset,
            length=raw.end - raw.offset,
            blob=blob.digest,
        )
        self.work.add(message, parent=None, failed=error)

    def _replace_older_archives(self) -> None:
        """Remove older archives of the same place, and the messages that are not in this one."""
        archive, work = self.archive, self.work
        # By the key `origin`, which archives of an older Onward have, too, beside this one; see `find_archives`.
        found = work.store.find(Archive, "origin", [archive.origin])
        others = work.store.get_many(Archive, [row.id for row in found if row.id != archive.id])
        # Archives without a blob are requests, or could not be fetched.
        others = [other for other in others if other.blob is not None]
        if any(other.submission > archive.submission for other in others):
            return  # a newer archive will do this
        for other in others:
            work.remove(other)
        end = {"end": archive.size, "counts": dict(self.counts), "removes": self.removes}
        if others:
            work.checkpoint(end)  # from now on no message is read from them
        stored = work.store.ids(Message, "origin", archive.origin)
        gone = [id for id in stored if bytes.fromhex(id) not in self.offsets]
        end["removes"] = self.removes or bool(gone)
        remove_messages(work, gone, cursor=end)
        if end["removes"] and archive.kind in MAIL:
            read_others_again(work, archive.source_id, lambda: work.checkpoint(end), but=archive.id)


def read_again(app: App, message: Message, work: Work) -> Message | Permanent:
    """Read a failed message again from its kept bytes, and write it with its thread and its text."""
    found = find_archives(work.store, [message.origin])
    archives = work.store.get_many(Archive, [message.archive_id, *(row.id for row in found)])
    archive = next((archive for archive in archives if archive.blob is not None), None)
    if archive is None:
        return Permanent(f"the archive of message {message.id} is gone; ingest {message.source} again")
    with closing(app.blobs.open(str(message.blob))) as stream:
        (kept,) = _split(archive.model_copy(update={"size": message.length}), stream)
    raw = kept._replace(offset=message.offset, end=message.offset + message.length)
    with computing(archive, work):
        read = try_reading(app, archive, message.id, raw)
    if isinstance(read, Permanent):
        return read
    (placed,), roots = ThreadIndex(app).place([read.message])
    read = read._replace(message=placed)
    work.replace(read.message)
    add_attachments(app, work, read, raw.raw)
    work.add(thread_of(read.message, roots), parent=None)
    index_message(work, read)
    return read.message


def _split(archive: Archive, stream: BinaryIO, start: int = 0) -> Iterator[RawMessage]:
    if archive.kind == "mbox":
        stream.seek(0)
        return split_mbox(stream, start=start)
    if start:
        return iter(())
    stream.seek(0)
    return iter([RawMessage(0, archive.size, stream.read())])


def message_id(archive: Archive, raw: RawMessage) -> str:
    """Return an id of source, Message-ID and body: two bodies under one Message-ID are two messages."""
    source = archive.source
    if archive.kind not in MAIL:
        return Document.make_id("message", source, archive.path, hashlib.sha256(raw.raw).hexdigest())
    if raw.problem:
        return Document.make_id("message", source, archive.path, raw.offset, raw.end, raw.problem)
    # The headers end at the first empty line; searching for "\n\n" alone is the fast common case.
    plain = raw.raw.find(b"\n\n")
    if plain >= 0 > raw.raw.find(b"\r\n\r\n", 0, plain):
        head, body = raw.raw[:plain], raw.raw[plain + 2 :]
    else:
        head, *others = _BODY.split(raw.raw, maxsplit=1)
        body = b"".join(others)
    named = _MESSAGE_ID.match(head, max(0, head.lower().find(b"\nmessage-id:") + 1))
    digest = hashlib.sha256(body.replace(b"\r\n", b"\n").rstrip(b"\n") if named else raw.raw.rstrip(b"\r\n"))
    return Document.make_id("message", source, named[1] if named else b"", digest.hexdigest())


def find_original(app: App, message: Message) -> tuple[str, int, int] | None:
    """Return blob, offset and length of a message; the index of a newer archive has its new offset."""
    if message.blob is not None:
        return message.blob, 0, message.length
    first = app.get(Archive, message.archive_id)
    if first is not None and first.blob is not None:
        return first.blob, message.offset, message.length
    found = find_archives(app.store, [message.origin])
    for archive in app.store.get_many(Archive, [row.id for row in found]):
        if archive.blob is None:
            continue
        offset: int | None = 0
        report = app.get(Report, report_id(archive))
        if report is not None and report.index is not None:
            with closing(app.blobs.open(report.index)) as table:
                offset = find_offset(table, bytes.fromhex(message.id))
        if offset is None:
            continue
        with closing(app.blobs.open(archive.blob)) as stream:
            for raw in _split(archive, stream, offset):
                if message_id(archive, raw) == message.id:
                    return archive.blob, raw.offset, raw.end - raw.offset
    return None


def thread_of(message: Message, roots: Mapping[str, str] = NO_ROOTS) -> Thread:
    """Return the thread of a message; `roots` has Message-IDs by the ids of threads."""
    first = message.references[0] if message.references else message.message_id or message.id
    root = roots.get(message.thread_id, first)
    return Thread(id=message.thread_id, source=message.source, root=root, subject=message.subject)


def write_index(offsets: dict[bytes, int], file: BinaryIO) -> None:
    """Write the offset of each message of a mailbox as a table that is sorted by id."""
    file.write(b"".join(id + offsets[id].to_bytes(8) for id in sorted(offsets)))


def find_offset(table: BinaryIO, id: bytes) -> int | None:
    """Return the offset of a message, or None if it is not in the table, which is not read as a whole."""

    def record(place: int) -> bytes:
        table.seek(place * RECORD_BYTES)
        return table.read(RECORD_BYTES)

    places = range(table.seek(0, io.SEEK_END) // RECORD_BYTES)
    found = record(bisect_left(places, id, key=lambda place: record(place)[:ID_BYTES]))
    return int.from_bytes(found[ID_BYTES:]) if found[:ID_BYTES] == id else None
