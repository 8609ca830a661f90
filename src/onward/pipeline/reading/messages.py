"""Messages: what a mail, page or file becomes in the pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from onward import Document
from onward.pipeline.documents import Archive, Attached, Message
from onward.pipeline.reading.files import read_text, read_title
from onward.pipeline.reading.mail import Mail, read_mail
from onward.pipeline.reading.mbox import RawMessage

MAX_TEXT = 2_000_000
"""Characters of one message that are kept as text; all of it stays in the archive's blob."""


@dataclass(frozen=True, slots=True)
class Read:
    """A message, and what full-text search finds it by."""

    message: Message
    text: str


def read_message(archive: Archive, id: str, raw: RawMessage) -> Read:
    """Read one mail of an archive."""
    mail = read_mail(raw.raw)
    root = mail.references[0] if mail.references else mail.message_id or id
    body, spans, defects = _bounded(mail)
    message = Message(
        id=id,
        source=archive.source,
        archive_id=archive.id,
        origin=archive.origin,
        kind=archive.kind,
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
            Attached(name=one.name, content_type=one.content_type, size=one.size, indexed=bool(one.text))
            for one in mail.attachments
        ],
        defects=defects,
        offset=raw.offset,
        length=raw.end - raw.offset,
    )
    texts = [message.new_text(), *(one.text for one in mail.attachments if one.text)]
    return Read(message, "\n\n".join(texts)[:MAX_TEXT])


def _bounded(mail: Mail) -> tuple[str, list[tuple[str, int, int]], list[str]]:
    if len(mail.body) <= MAX_TEXT:
        return mail.body, list(mail.spans), list(mail.defects)
    spans = [(kind, start, min(end, MAX_TEXT)) for kind, start, end in mail.spans if start < MAX_TEXT]
    cut = f"text cut after {MAX_TEXT:,} of {len(mail.body):,} characters; all of it is in the archive"
    return mail.body[:MAX_TEXT], spans, [*mail.defects, cut]


def _shown_author(mail: Mail) -> str:
    if not mail.author_email or mail.author_email == mail.author.lower():
        return mail.author
    return f"{mail.author} <{mail.author_email}>"


def read_file(archive: Archive, id: str, data: bytes) -> Read:
    """Read a page, PDF or text file; it is a thread of its own."""
    author, date = "", None
    if archive.kind == "html":
        from onward.pipeline.reading.pages import read_page  # takes a while to import, and mail needs it not

        page = read_page(data, archive.url, archive.charset)
        title, author, date, body = page.title, page.author, page.date, page.text
    elif archive.kind == "pdf":
        from onward.pipeline.reading.pdf import read_pdf

        page = read_pdf(data)
        title, author, date, body = page.title, page.author, page.date, page.text
    else:
        body = read_text(data, archive.charset)
        title = read_title(body, archive.kind, archive.title)
    defects = []
    if len(body) > MAX_TEXT:
        defects = [f"text cut after {MAX_TEXT:,} of {len(body):,} characters; all of it is in the archive"]
        body = body[:MAX_TEXT]
    message = Message(
        id=id,
        source=archive.source,
        archive_id=archive.id,
        origin=archive.origin,
        kind=archive.kind,
        thread_id=Document.make_id("thread", archive.source, archive.path, id),
        message_id=archive.url or archive.title,
        subject=title or archive.title,
        author=author,
        date=date,
        body=body,
        defects=defects,
        language=archive.language,
        length=archive.size,
    )
    return Read(message, body)
