"""Parsing: read an archive's messages, thread them, and keep what cannot be read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from onward import App, Document, DocumentState, Permanent, Reader, Work
from onward.pipeline.documents import MAIL, Archive, Message, Report, Thread
from onward.pipeline.events import ArchiveIngested, EmbeddingsGenerated, JSONParsed
from onward.pipeline.reading.mbox import RawMessage, split_mbox
from onward.pipeline.reading.messages import Read, read_file, read_message
from onward.pipeline.services.ingestion import read_others_again, remove_messages, report_id

CHECKPOINT_MESSAGES = 250
CHECKPOINT_BYTES = 1_000_000
MAX_STORED = 5_000_000
"""What a message may take as JSON; its indexed text comes on top."""
_MESSAGE_ID = re.compile(rb"message-id:\s*<?([^\s<>]+)", re.IGNORECASE)
_BODY = re.compile(rb"\r?\n\r?\n")


class UnreadableMessage(Permanent):
    """A message of an archive cannot be read; its bytes are kept."""


def parse(app: App, archive: Archive, work: Work) -> None:
    """Read an archive from where an earlier try stopped, then let it take the place of older ones."""
    _Parsing(app, archive, work).run()


def requeue(states: Sequence[DocumentState], store: Reader) -> Iterator[ArchiveIngested]:
    """Read an archive again, from its blob."""
    for archive in store.get_many(Archive, [one.id for one in states]):
        if archive.blob is not None:
            yield ArchiveIngested.of(archive)


@dataclass(slots=True)
class _Entry:
    """A message that is about to be read."""

    id: str
    raw: RawMessage


@dataclass(slots=True)
class _Counts:
    """What became of the messages of an archive."""

    messages: int = 0
    parsed: int = 0
    failed: int = 0
    duplicates: int = 0
    new: int = 0

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in ("messages", "parsed", "failed", "duplicates", "new")}


@dataclass(slots=True)
class _Parsing:
    """One archive, being read."""

    app: App
    archive: Archive
    work: Work
    seen: set[bytes] = field(default_factory=set)
    counts: _Counts = field(default_factory=_Counts)
    removes: bool = False
    """An earlier try has removed messages, which other archives may have, too."""

    def run(self) -> None:
        blob = self.archive.blob
        if blob is None:
            raise Permanent(f"archive {self.archive.id} has no blob; ingest {self.archive.source} again")
        with closing(self.app.blobs.open(blob)) as stream:
            start = self._go_on(stream)
            self._read(stream, start)
        self._take_over()
        self.work.emit(EmbeddingsGenerated(origin=self.archive.origin))
        archive, counts = self.archive, self.counts.as_dict()
        self.work.add(Report(id=report_id(archive), source=archive.source, archive_id=archive.id, counts=counts))

    def _go_on(self, stream: BinaryIO) -> int:
        """Where to read on; which messages stand before that is found out anew, for it may be many."""
        cursor: dict[str, Any] = self.work.cursor or {}
        if not cursor:
            return 0
        self.counts = _Counts(**cursor["counts"])
        self.removes = cursor.get("removes", False)
        start: int = cursor["end"]
        for raw in _split(self.archive, stream):
            if raw.end > start:
                break
            self.seen.add(bytes.fromhex(message_id(self.archive, raw)))
        return start

    def _read(self, stream: BinaryIO, start: int) -> None:
        batch: list[_Entry] = []
        size, end = 0, start
        for raw in _split(self.archive, stream, start):
            # Stored text is longer than what was sent, so a large message gets a commit of its own.
            if len(batch) >= CHECKPOINT_MESSAGES or (batch and size + len(raw.raw) > CHECKPOINT_BYTES):
                self._write(batch)
                self.work.checkpoint({"end": end, "counts": self.counts.as_dict()})
                batch, size = [], 0
            end = raw.end
            self.counts.messages += 1
            id = message_id(self.archive, raw)
            known = bytes.fromhex(id)
            if known in self.seen:
                self.counts.duplicates += 1
                continue
            self.seen.add(known)
            batch.append(_Entry(id, raw))
            size += len(raw.raw)
        self._write(batch)

    def _write(self, batch: list[_Entry]) -> None:
        known = self.work.store.statuses(Message, [entry.id for entry in batch])
        for status in known.values():
            self._count_known(status)
        new = [entry for entry in batch if entry.id not in known]
        self.counts.new += len(new)
        with self.work.computing():
            outcomes = [self._try_reading(entry) for entry in new]
        messages: list[Message] = []
        for entry, read in zip(new, outcomes, strict=True):
            if isinstance(read, Permanent):
                self._keep_failed(entry, read)
                continue
            self.counts.parsed += 1
            self.work.add(thread_of(read.message), parent=None)
            self.work.index(read.message, title=read.message.subject, text=read.text)
            messages.append(self.work.add(read.message, parent=None))
        if messages:
            self.work.emit(JSONParsed.of(messages, archive_id=self.archive.id))

    def _count_known(self, status: str) -> None:
        if status == "failed":
            self.counts.failed += 1
        else:
            self.counts.parsed += 1

    def _try_reading(self, entry: _Entry) -> Read | Permanent:
        try:
            return self._read_one(entry)
        except Permanent as error:
            return error

    def _read_one(self, entry: _Entry) -> Read:
        if entry.raw.problem:
            raise UnreadableMessage(
                f"the message at byte {entry.raw.offset:,} of {self.archive.title}: {entry.raw.problem}"
            )
        mail = self.archive.kind in MAIL
        read = (
            read_message(self.archive, entry.id, entry.raw)
            if mail
            else read_file(self.archive, entry.id, entry.raw.raw)
        )
        if len(entry.raw.raw) > CHECKPOINT_BYTES and (size := len(read.message.to_json())) > MAX_STORED:
            raise UnreadableMessage(
                f"the message at byte {entry.raw.offset:,} of {self.archive.title} is hardly text: "
                f"it would take {size:,} bytes to store, more than {MAX_STORED:,}"
            )
        return read

    def _keep_failed(self, entry: _Entry, error: Permanent) -> None:
        """A message that cannot be read is kept with its bytes, to be seen; the archive goes on."""
        self.counts.failed += 1
        raw = entry.raw
        with closing(self.app.blobs.open(str(self.archive.blob))) as stream:
            blob = self.app.blobs.put(lambda file: _copy(stream, file, raw.offset, raw.end))
        message = Message(
            id=entry.id,
            source=self.archive.source,
            archive_id=self.archive.id,
            origin=self.archive.origin,
            kind=self.archive.kind,
            thread_id=Document.make_id("thread", self.archive.source, entry.id),
            subject=f"(unreadable: {self.archive.title}, byte {raw.offset:,})",
            offset=raw.offset,
            length=raw.end - raw.offset,
            blob=blob.digest,
        )
        self.work.add(message, parent=None, failed=error)

    def _take_over(self) -> None:
        """Older archives of the same place go, and with them what is not in this one any more."""
        archive, work = self.archive, self.work
        found = work.store.find(Archive, "origin", [archive.origin])
        others = work.store.get_many(Archive, [one.id for one in found if one.id != archive.id])
        # What could not be fetched has no blob, and takes no place.
        others = [other for other in others if other.blob is not None]
        if any(other.submission > archive.submission for other in others):
            return  # a newer one has come meanwhile, and will do this
        for other in others:
            work.remove(other)
        end = {"end": archive.size, "counts": self.counts.as_dict(), "removes": self.removes}
        if others:
            work.checkpoint(end)  # from now on nothing more is read from them
        stored = work.store.ids(Message, "origin", archive.origin)
        gone = [id for id in stored if bytes.fromhex(id) not in self.seen]
        end["removes"] = self.removes or bool(gone)
        remove_messages(work, gone, cursor=end)
        if end["removes"] and archive.kind in MAIL:
            read_others_again(work, archive.source_id, lambda: work.checkpoint(end), but=archive.id)


def _split(archive: Archive, stream: BinaryIO, start: int = 0) -> Iterator[RawMessage]:
    if archive.kind == "mbox":
        stream.seek(0)
        return split_mbox(stream, start=start)
    if start:
        return iter(())
    stream.seek(0)
    return iter([RawMessage(0, archive.size, stream.read())])


def message_id(archive: Archive, raw: RawMessage) -> str:
    """Source, Message-ID and body: two bodies under one Message-ID are two messages."""
    source = archive.source
    if archive.kind not in MAIL:
        return Document.make_id("message", source, archive.path, hashlib.sha256(raw.raw).hexdigest())
    if raw.problem:
        return Document.make_id("message", source, archive.path, raw.offset, raw.end, raw.problem)
    head, body = _halves(raw.raw)
    named = _MESSAGE_ID.match(head, max(0, head.lower().find(b"\nmessage-id:") + 1))
    digest = hashlib.sha256(body.replace(b"\r\n", b"\n").rstrip(b"\n") if named else raw.raw.rstrip(b"\r\n"))
    return Document.make_id("message", source, named[1] if named else b"", digest.hexdigest())


def _halves(raw: bytes) -> tuple[bytes, bytes]:
    """Headers and body, at the first empty line."""
    plain = raw.find(b"\n\n")
    if raw.find(b"\r\n\r\n", 0, plain if plain >= 0 else len(raw)) < 0 and plain >= 0:
        return raw[:plain], raw[plain + 2 :]
    end = _BODY.search(raw)
    return (raw[: end.start()], raw[end.end() :]) if end else (raw, b"")


def find_original(app: App, message: Message) -> tuple[str, int, int] | None:
    """Where a message's own bytes are: blob, offset and length.

    The archive it was read from may have grown since: then it is looked for in what took its place.
    """
    if message.blob is not None:
        return message.blob, 0, message.length
    first = app.get(Archive, message.archive_id)
    if first is not None and first.blob is not None:
        return first.blob, message.offset, message.length
    found = app.store.find(Archive, "origin", [message.origin])
    for archive in app.store.get_many(Archive, [one.id for one in found]):
        if archive.blob is None:
            continue
        with closing(app.blobs.open(archive.blob)) as stream:
            for raw in _split(archive, stream):
                if message_id(archive, raw) == message.id:
                    return archive.blob, raw.offset, raw.end - raw.offset
    return None


def thread_of(message: Message) -> Thread:
    """The thread a message belongs to, as it is before anybody has looked at it."""
    root = message.references[0] if message.references else message.message_id or message.id
    return Thread(id=message.thread_id, source=message.source, root=root, subject=message.subject)


def _copy(stream: BinaryIO, file: BinaryIO, start: int, end: int) -> None:
    stream.seek(start)
    left = end - start
    while left > 0 and (block := stream.read(min(left, 1 << 20))):
        file.write(block)
        left -= len(block)
