"""Make messages of mails, pages and files."""

from __future__ import annotations

from dataclasses import dataclass

from onward import Document
from onward.pipeline.documents import Archive, Message, MessageAttachment
from onward.pipeline.read.mail import Mail, read_mail
from onward.pipeline.read.mbox import RawMessage
from onward.pipeline.read.text_files import PageText, read_text, read_title

MAX_CHARACTERS = 2_000_000
"""The text of a message; the rest stays in the blob of its archive."""


@dataclass(frozen=True, slots=True)
class ReadMessage:
    """A message, and the texts that full-text search indexes."""

    message: Message
    text: str
    quoted: str = ""
    """Quotes and signatures."""


def read_message(archive: Archive, id: str, raw: RawMessage) -> ReadMessage:
    """Read one mail of an archive."""
    mail = read_mail(raw.raw)
    root = mail.references[0] if mail.references else mail.message_id or id
    body, defects = _cut(mail.body)
    spans = [(kind, start, min(end, len(body))) for kind, start, end in mail.spans if start < len(body)]
    message = Message.from_archive(
        archive,
        id,
        thread_id=Document.make_id("thread", archive.source, root),
        message_id=mail.message_id,
        references=list(mail.references),
        subject=mail.subject,
        author=_shown_author(mail),
        recipients=list(mail.recipients),
        date=mail.date,
        body=body,
        spans=spans,
        attachments=[
            MessageAttachment(name=it.name, content_type=it.content_type, size=it.size, indexed=bool(it.text))
            for it in mail.attachments
        ],
        defects=[*mail.defects, *defects],
        offset=raw.offset,
        length=raw.end - raw.offset,
    )
    texts = [message.new_text(), *(file.text for file in mail.attachments if file.text)]
    return ReadMessage(message, "\n\n".join(texts)[:MAX_CHARACTERS], message.quoted_text())


def _cut(body: str) -> tuple[str, list[str]]:
    """Return the text that is kept, and the defect to report if it was cut."""
    if len(body) <= MAX_CHARACTERS:
        return body, []
    cut = f"text cut after {MAX_CHARACTERS:,} of {len(body):,} characters; all of it is in the archive"
    return body[:MAX_CHARACTERS], [cut]


def _shown_author(mail: Mail) -> str:
    if not mail.author_email or mail.author_email == mail.author.lower():
        return mail.author
    return f"{mail.author} <{mail.author_email}>"


def read_file(archive: Archive, id: str, data: bytes) -> ReadMessage:
    """Read a page, PDF or text file; it is a thread of its own."""
    if archive.kind == "html":
        from onward.pipeline.read.web_pages import read_page  # slow to import, and not needed for mail

        page = read_page(data, archive.url, archive.charset)
    elif archive.kind == "pdf":
        from onward.pipeline.read.pdf import read_pdf

        page = read_pdf(data)
    else:
        text = read_text(data, archive.charset)
        page = PageText(read_title(text, archive.kind, archive.title), "", None, text)
    body, defects = _cut(page.text)
    message = Message.from_archive(
        archive,
        id,
        thread_id=Document.make_id("thread", archive.source, archive.path, id),
        message_id=archive.url or archive.title,
        subject=page.title or archive.title,
        author=page.author,
        date=page.date,
        body=body,
        defects=defects,
        language=archive.language,
        length=archive.size,
    )
    return ReadMessage(message, body)
