"""Attachments of mails that are read apart: each is an archive of its own, which descends from its mail."""

from __future__ import annotations

from contextlib import closing
from typing import BinaryIO

from onward import App, Document, Permanent, Work
from onward.pipeline.documents import Archive
from onward.pipeline.events import ArchiveIngested, EmbeddingsGenerated, JSONParsed
from onward.pipeline.read.mail import attachment_bytes
from onward.pipeline.read.mbox import RawMessage
from onward.pipeline.read.message_reader import ReadMessage
from onward.pipeline.read.ocr import NeedsOCR
from onward.pipeline.read.page_text import NoText
from onward.pipeline.stages.reading import computing, index_message, try_reading


def add_attachments(app: App, work: Work, read: ReadMessage, raw: bytes) -> None:
    """Store the attachments of a mail that are read apart, and request that they are read.

    They are committed with their mail, so a mail that is known has its attachments.
    """
    for file in read.files:
        data = attachment_bytes(raw, file.place)

        def copy(target: BinaryIO, data: bytes = data) -> None:
            target.write(data)

        blob = app.blobs.put(copy)
        # Its thread was found after the mail was read.
        archive = in_thread(file.archive, read.message.thread_id)
        archive = archive.model_copy(update={"blob": blob.digest, "size": blob.size})
        work.add(archive, parent=read.message)
        work.emit(ArchiveIngested.of(archive))


def in_thread(attachment: Archive, thread_id: str) -> Archive:
    """Return an attachment in the thread of its mail."""
    assert attachment.attached_to is not None
    mail = attachment.attached_to.model_copy(update={"thread_id": thread_id})
    return attachment.model_copy(update={"attached_to": mail})


def why_not_read(error: NoText) -> dict[str, object]:
    """Return the fields of an archive without text."""
    return {"not_read": str(error), "wants_ocr": isinstance(error, NeedsOCR)}


def parse_attachment(app: App, archive: Archive, work: Work) -> None:
    """Read an attachment; its message belongs to the thread of its mail, and descends from this archive."""
    assert archive.attached_to is not None
    with closing(app.blobs.open(str(archive.blob))) as stream:
        data = stream.read()
    id = Document.make_id("message", archive.id)
    with computing(archive, work):
        read = try_reading(app, archive, id, RawMessage(0, len(data), data))
    if isinstance(read, NoText):
        # Nothing failed: many pictures have no text. The mail is complete without it.
        work.replace(archive.model_copy(update=why_not_read(read)))
        work.emit(EmbeddingsGenerated(thread_ids=[archive.attached_to.thread_id]))
        return
    if isinstance(read, Permanent):
        raise read
    index_message(work, read)
    message = work.add(read.message, parent=archive)
    work.emit(JSONParsed.of([message], archive_id=archive.id))
