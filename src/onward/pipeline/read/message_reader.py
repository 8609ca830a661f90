"""Make messages of mails, pages and files."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import NamedTuple

from onward import Document, Permanent
from onward.pipeline.documents import MAIL, Archive, Message, MessageAttachment
from onward.pipeline.read.charsets import read_text
from onward.pipeline.read.mail import read_mail
from onward.pipeline.read.mbox import RawMessage
from onward.search.words import detect_language

MAX_CHARACTERS = 2_000_000  # the text of a message; the rest stays in the blob of its archive
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_FRONT_TITLE = re.compile(r"title:[ \t]*(.*\S)", re.IGNORECASE)
_ATX = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
_SETEXT = re.compile(r" {0,3}(?:=+|-{2,})[ \t]*$")
_RULE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}$")
_TITLE_LINES = 400  # the lines in which a title is searched


class PageText(NamedTuple):
    """The text of a web page or a PDF, with its title, author and date."""

    title: str
    author: str
    date: float | None  # Unix seconds of the day of publication, in UTC
    text: str


class NoText(Permanent):
    """The page or PDF has no text."""


class ReadMessage(NamedTuple):
    """A message, and the texts that full-text search indexes."""

    message: Message
    text: str
    quoted: str = ""  # quotes and signatures


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


def read_message(archive: Archive, id: str, raw: RawMessage) -> ReadMessage:
    mail = read_mail(raw.raw)
    root = mail.references[0] if mail.references else mail.message_id or id
    body, defects = _cut(mail.body)
    spans = [(kind, start, min(end, len(body))) for kind, start, end in mail.spans if start < len(body)]
    author = mail.author
    if mail.author_email and mail.author_email != author.lower():
        author = f"{author} <{mail.author_email}>"
    message = Message.from_archive(
        archive,
        id,
        thread_id=Document.make_id("thread", archive.source, root),
        message_id=mail.message_id,
        references=list(mail.references),
        subject=mail.subject,
        author=author,
        recipients=list(mail.recipients),
        date=mail.date,
        body=body,
        spans=spans,
        attachments=[
            MessageAttachment(name=it.name, content_type=it.content_type, size=it.size, indexed=bool(it.text))
            for it in mail.attachments
        ],
        defects=[*mail.defects, *defects],
        language=detect_language("".join(body[start:end] for kind, start, end in spans if kind == "new") or body),
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
        language=archive.language or detect_language(body),
        length=archive.size,
    )
    return ReadMessage(message, body)


def read_title(text: str, kind: str, path: str) -> str:
    """Return the first heading of Markdown or reST, or else the name of the file."""
    lines = text.split("\n", _TITLE_LINES)[:_TITLE_LINES]
    find_title = {"markdown": _markdown_title, "rst": _rst_title}.get(kind)
    return (find_title(lines) if find_title else "") or PurePosixPath(path).name


def _markdown_title(lines: list[str]) -> str:
    start, title = _skip_front_matter(lines)
    if title:
        return title
    fence, before = "", ""
    for line in lines[start:]:
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            continue
        if mark:
            fence, before = mark[1], ""
        elif heading := _ATX.match(line):
            if heading[1].strip():
                return heading[1].strip()
        elif before and _SETEXT.match(line):
            return before
        else:
            # An underlined heading is the line above; a list, a quote or indented code is no heading.
            before = "" if line.startswith(("    ", "\t", ">", "- ", "* ", "+ ", "|")) else line.strip()
    return ""


def _skip_front_matter(lines: list[str]) -> tuple[int, str]:
    if not lines or lines[0].rstrip() != "---":
        return 0, ""
    title = ""
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in ("---", "..."):
            return number + 1, title
        if not title and (match := _FRONT_TITLE.match(line)):
            title = match[1].strip("\"'").strip()
    return 0, ""


def _rst_title(lines: list[str]) -> str:
    for above, line, below in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        text, rule = line.strip(), below.strip()
        if not text or _RULE.match(text) or not _RULE.match(rule) or line.startswith("..") or below[:1] == " ":
            continue
        # An indented title has a line above it, too; the rule may be a little shorter than the text.
        if (line[0] != " " or _RULE.match(above.strip())) and len(rule) >= min(len(text), 4):
            return text
    return ""
