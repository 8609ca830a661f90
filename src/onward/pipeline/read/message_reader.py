"""Make messages of mails, pages and files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from onward import Document
from onward.pipeline.documents import MAIL, Archive, AttachedTo, Message
from onward.pipeline.read.attachments import USUAL_LIMITS, AttachedFile, AttachmentLimits, list_attachments
from onward.pipeline.read.file_readers import FileToRead, needs_limits, read_content
from onward.pipeline.read.limited_reader import ReaderCrashed, ReaderLimitReached, ReaderLimits, read_limited
from onward.pipeline.read.mail import read_mail
from onward.pipeline.read.mbox import RawMessage
from onward.pipeline.read.ocr import WITHOUT_OCR, OCROptions
from onward.pipeline.read.page_text import MAX_CHARACTERS, PageText, cut_text
from onward.search.words import detect_language


class ReadMessage(NamedTuple):
    """A message, and the texts that full-text search indexes."""

    message: Message
    text: str
    quoted: str = ""  # quotes and signatures
    files: Sequence[AttachedFile] = ()  # attachments that are read as archives of their own


class IndexTexts(NamedTuple):
    """The texts of a message by which full-text search finds it, in the order of `text_entry`."""

    title: str
    text: str
    quoted: str
    fields: dict[str, str]


def index_texts(read: ReadMessage) -> IndexTexts:
    """Return the texts of a message with its names and path."""
    message = read.message
    fields = {"from": message.author, "to": " ".join(message.recipients)}
    if message.kind in MAIL:  # the names of mailboxes say nothing about a mail
        fields["id"] = message.message_id
    else:
        fields["path"] = message.path or message.message_id
    return IndexTexts(message.subject, read.text, read.quoted, fields)


def read_message(
    archive: Archive, id: str, raw: RawMessage, limits: AttachmentLimits = USUAL_LIMITS
) -> ReadMessage:
    mail = read_mail(raw.raw)
    root = mail.references[0] if mail.references else mail.message_id or id
    body, defects = cut_text(mail.body)
    spans = [(kind, start, min(end, len(body))) for kind, start, end in mail.spans if start < len(body)]
    author = mail.author
    if mail.author_email and mail.author_email != author.lower():
        author = f"{author} <{mail.author_email}>"
    thread_id = Document.make_id("thread", archive.source, root)
    about = AttachedTo(
        message_id=id, thread_id=thread_id, number=0, subject=mail.subject, author=author, date=mail.date
    )
    attachments, files = list_attachments(archive, mail.attachments, about, mail.message_id or id, limits)
    message = Message.from_archive(
        archive,
        id,
        thread_id=thread_id,
        message_id=mail.message_id,
        references=list(mail.references),
        subject=mail.subject,
        author=author,
        recipients=list(mail.recipients),
        date=mail.date,
        body=body,
        spans=spans,
        attachments=attachments,
        defects=[*mail.defects, *defects],
        language=detect_language("".join(body[start:end] for kind, start, end in spans if kind == "new") or body),
        offset=raw.offset,
        length=raw.end - raw.offset,
    )
    text = "\n\n".join((message.new_text(), *(file.text for file in mail.attachments if file.text)))
    if len(text) > MAX_CHARACTERS:
        unsearched = f"attached text is searched up to {MAX_CHARACTERS:,} characters; all of it is in the archive"
        message.defects.append(unsearched)
    return ReadMessage(message, text[:MAX_CHARACTERS], message.quoted_text(), files)


def read_file(
    archive: Archive, id: str, data: bytes, limits: ReaderLimits | None = None, ocr: OCROptions = WITHOUT_OCR
) -> ReadMessage:
    """Read a page, PDF or text file, in a limited process if its kind needs one; it is a thread of its own."""
    file = FileToRead(archive.kind, archive.title, archive.url, archive.charset, ocr)
    page = _read_within(limits, file, data) if needs_limits(file.kind, len(data)) else read_content(file, data)
    body, defects = cut_text(page.text)
    about = _of_attachment(archive.attached_to, page) if archive.attached_to else _of_file(archive, id, page)
    message = Message.from_archive(
        archive,
        id,
        **about,
        message_id="" if archive.attached_to else archive.url or archive.title,
        body=body,
        defects=[*page.defects, *defects],
        language=archive.language or detect_language(body),
        length=archive.size,
    )
    return ReadMessage(message, body)


def _read_within(limits: ReaderLimits | None, file: FileToRead, data: bytes) -> PageText:
    try:
        return read_limited(file, data, limits)
    except (ReaderCrashed, ReaderLimitReached):
        if file.kind != "html":
            raise
    return read_limited(file._replace(find_article=False), data, limits)


def _of_file(archive: Archive, id: str, page: PageText) -> dict[str, Any]:
    thread = Document.make_id("thread", archive.source, archive.path, id)
    return {"thread_id": thread, "subject": page.title or archive.title, "author": page.author, "date": page.date}


def _of_attachment(mail: AttachedTo, page: PageText) -> dict[str, Any]:
    """Return what the message of an attachment has of its mail: who has sent it, and when, matters to people."""
    subject = f"{page.title} ({mail.name})" if page.title and page.title != mail.name else mail.name
    return {"thread_id": mail.thread_id, "subject": subject, "author": mail.author, "date": mail.date}
