"""Read one mail: author, recipients, date, text and attachments, also of a damaged mail."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field

from onward import Permanent
from onward.pipeline.fetch.office_formats import OLE_START, RTF_START
from onward.pipeline.read import mail_format as fields
from onward.pipeline.read.body_spans import BodySpan, body_spans
from onward.pipeline.read.charsets import clean, decode
from onward.pipeline.read.content_lines import read_calendar, read_contacts
from onward.pipeline.read.mail_format import EncodedPart, MailPart, MimeReader, transfer_encoding
from onward.pipeline.read.page_text import NoText

MAX_ATTACHMENT_BYTES = 1_000_000
_MAX_DEFECTS = 20
# A plain text shorter than `_TRIVIAL` beside an HTML text `_LONGER` times as long only says that there is HTML.
_TRIVIAL = 200
_LONGER = 5

_TEXT_TYPES = frozenset(
    {"application/json", "application/xml", "application/x-patch", "application/x-diff", "application/ics",
     "application/x-sh", "application/x-yaml", "application/yaml", "application/toml", "application/csv",
     "application/javascript", "application/x-perl", "application/x-python", "message/delivery-status"}
)  # fmt: skip
_TEXT_NAME = re.compile(
    r"\.(?:txt|patch|diff|log|md|rst|csv|tsv|json|ya?ml|toml|ini|cfg|conf|xml|ics|sh|py|pl|rb|c|h|cc|cpp|hpp|rs|go|java"
    r"|js|ts|sql|tex|el|mk)$",
    re.IGNORECASE,
)
_CONTENT_LINES = {
    **dict.fromkeys(("text/calendar", "application/ics", ".ics"), read_calendar),
    **dict.fromkeys(("text/vcard", "text/x-vcard", ".vcf"), read_contacts),
}
_FILE_STARTS = (b"%PDF-", b"PK\x03\x04", OLE_START, RTF_START)
_NO_TYPE = "application/octet-stream"
_HEAD_BYTES = 256  # of a part, still encoded, by which it is known
_RICH_TEXT = frozenset({"text/rtf", "text/richtext"})  # RTF is a format of documents
_ENCRYPTED = frozenset({"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"})

# To take the text out of its CMS, and to find attachments in it again, is not worth what it takes.
_SIGNED = "signed: its text is inside of a signature that is not read"
_SIGNED_DATA = bytes.fromhex("06092a864886f70d010702")  # the object identifier 1.2.840.113549.1.7.2


class UnreadableMail(Permanent):
    """These bytes are not a mail."""


@dataclass(frozen=True, slots=True)
class Attachment:
    name: str
    content_type: str
    size: int
    text: str | None  # its text, of at most `MAX_ATTACHMENT_BYTES`; None if it is no text
    place: EncodedPart
    content: bytes = b""  # from which its kind is seen; empty if it is text


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail; all its text can be stored."""

    message_id: str  # without angle brackets; empty if it has none
    references: tuple[str, ...]  # message ids of the mails before it in the thread, oldest first
    subject: str
    author: str  # the name, else the address
    author_email: str
    recipients: tuple[str, ...]  # the addresses of To and Cc
    date: float | None  # Unix seconds, from its Date or else its last Received header
    body: str  # with quotes and signature
    spans: tuple[BodySpan, ...]  # (kind, start, end), without gaps; the kind is `new`, `quote` or `signature`
    attachments: tuple[Attachment, ...]
    defects: tuple[str, ...]  # what was damaged or unusual


def read_mail(raw: bytes) -> Mail:
    """Read a mail, as far as it is undamaged; raise UnreadableMail if it has no header at all."""
    start = 0
    raw = with_line_feeds(raw)
    if raw.startswith((b"From ", b">From ")):
        start = raw.find(b"\n") + 1  # the separator line of an mbox
    reader = MimeReader(raw)
    defects = reader.defects
    root = reader.read_part(start, len(raw))
    if not root.headers:
        raise UnreadableMail(
            f"no headers in a mail of {len(raw)} bytes that begins with {raw[:8]!r}; check that it is mail"
        )
    content = _Content(reader)
    content.read(root, root=True)
    body = clean(content.body())
    written_id = root.header(b"message-id")
    if "=?" in written_id:
        written_id = fields.plain(written_id)
    message_id = next(iter(fields.ids(written_id)), None) or fields.clean_id(written_id)
    subject = fields.plain(root.header(b"subject", defects), defects)
    author, author_email = _author(root, defects)
    recipients = [pair for header in (b"to", b"cc") for pair in fields.addresses(root.header(header, defects))]
    return Mail(
        message_id=message_id,
        references=_references(root, message_id),
        subject=subject,
        author=author,
        author_email=author_email,
        recipients=tuple(dict.fromkeys(address for _, address in recipients if address)),
        date=_date(raw, start, root, defects),
        body=body,
        spans=body_spans(body, subject),
        attachments=tuple(content.attachments),
        defects=tuple(fields.one_line(defect, 120) for defect in dict.fromkeys(defects))[:_MAX_DEFECTS],
    )


def with_line_feeds(raw: bytes) -> bytes:
    """Return a mail whose lines end with "\\r" with "\\n" in its place; others as they are."""
    return raw.replace(b"\r", b"\n") if b"\n" not in raw[:100_000] and b"\r" in raw else raw


def attachment_bytes(raw: bytes, place: EncodedPart) -> bytes:
    """Return the bytes of an attachment of this mail."""
    return fields.decode_part(with_line_feeds(raw), place, [])


def _references(root: MailPart, message_id: str) -> tuple[str, ...]:
    found = fields.ids(root.header(b"references"))
    if reply := root.header(b"in-reply-to").strip():
        # "<id> of your message", or "Joe <joe@example.com> wrote <id>".
        parents = fields.ids(reply)
        parent = parents[:1] if reply.startswith("<") else parents[-1:]
        found += [id for id in parent if id not in found]
    return tuple(id for id in found if id != message_id)


def _author(root: MailPart, defects: list[str]) -> tuple[str, str]:
    for header in (b"from", b"sender", b"reply-to"):
        value = root.header(header, defects)
        pairs = fields.addresses(value)
        if "=?" in value and not any(address for _, address in pairs):
            pairs = fields.addresses(fields.plain(value))  # the whole header is encoded, with the address
        if pairs:
            name, address = next((pair for pair in pairs if pair[1]), pairs[0])
            return fields.plain(name, defects, 200).strip("\"' ") or address, address
    return "", ""


def _date(raw: bytes, start: int, root: MailPart, defects: list[str]) -> float | None:
    value = root.header(b"date").strip()
    date = fields.timestamp(value) if value else None
    if date is None:
        defects.append(f"bad date {fields.one_line(value, 40)!r}" if value else "no date")
        stamps = map(fields.timestamp, fields.received(raw, start, root.start))
        date = next((stamp for stamp in stamps if stamp is not None), None)
    return date


@dataclass(slots=True)
class _Content:
    reader: MimeReader
    texts: list[str] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)

    def body(self) -> str:
        last = self.texts[-1] if self.texts else ""
        return "\n".join(text if text.endswith("\n") or text is last else text + "\n" for text in self.texts)

    def read(self, part: MailPart, *, root: bool = False) -> None:
        if part.content_type in _ENCRYPTED:
            self.reader.defects.append(_SIGNED if self._is_signed(part) else "encrypted")
        if part.content_type == "multipart/alternative":
            self._read_alternatives(part)
        elif part.main_type == "message" and part.children:
            self._read_forwarded(part)
        elif part.children:
            for child in part.children:
                self.read(child)
        elif self._is_body(part, root=root):
            self.texts.append(self._of_content_lines(part) or self.reader.text(part))
        else:
            self._attach(part)

    def _read_alternatives(self, part: MailPart) -> None:
        """Read one of several forms of a text: the plain one, unless it only says that there is HTML."""
        plain, html = dict[str, None](), ""  # several plain texts are parts of one; the same one again is none
        size = 0
        for child in part.children:
            is_body = self._is_body(child)
            if is_body and child.content_type == "text/plain":
                text = self.reader.text(child)
                if text.strip() and text not in plain:
                    plain[text] = None
                    size += len(text.strip())
                continue
            if is_body and size > _TRIVIAL:
                continue
            inner = _Content(self.reader)
            inner.read(child)
            self.attachments += inner.attachments
            html = html or inner.body()
        trivial = size < _TRIVIAL and len(html) > _LONGER * size
        self.texts += [html] if html.strip() and trivial else plain

    def _read_forwarded(self, part: MailPart) -> None:
        """Read a mail within a mail as an attachment."""
        root = part.children[0]
        inner = _Content(self.reader)
        inner.read(root, root=True)
        values = {
            title: fields.plain(root.header(title.lower().encode())) for title in ("Subject", "From", "Date")
        }
        lines = [f"{title}: {value}" for title, value in values.items() if value]
        text = clean("\n".join((*lines, "", inner.body())))
        if len(text) > MAX_ATTACHMENT_BYTES:
            self.reader.defects.append(f"text cut at {MAX_ATTACHMENT_BYTES // 1000} kB")
            text = text[:MAX_ATTACHMENT_BYTES]
        name = part.name or fields.plain(root.header(b"subject"), limit=255)
        place = EncodedPart(part.start, part.end, "")
        self.attachments.append(Attachment(name, part.content_type, place.end - place.start, text, place))
        self.attachments += inner.attachments

    def _attach(self, part: MailPart) -> None:
        data = self.reader.payload(part)
        kind, text = part.content_type, None
        is_text = part.main_type == "text" and kind not in _RICH_TEXT
        is_text = is_text or kind in _TEXT_TYPES or kind.endswith(("+xml", "+json"))
        is_file = data.startswith(_FILE_STARTS)  # whatever its type says
        if is_text and not is_file:
            text = clean(self.reader.text(part, MAX_ATTACHMENT_BYTES))
            text = self._of_content_lines(part) or text
        elif kind == _NO_TYPE and _TEXT_NAME.search(part.name) and b"\0" not in data and not is_file:
            text = clean(decode(data[:MAX_ATTACHMENT_BYTES], part.charset, self.reader.defects))
            text = self._of_content_lines(part) or text
        place = EncodedPart(part.start, part.end, transfer_encoding(part))
        self.attachments.append(
            Attachment(part.name, kind[:120], len(data), text, place, data if text is None else b"")
        )

    def _of_content_lines(self, part: MailPart) -> str:
        """Return the text of a calendar or of contacts, as people read it; "" of another part, or without text."""
        reader = _CONTENT_LINES.get(part.content_type) or _CONTENT_LINES.get(part.name[-4:].lower())
        if reader is None:
            return ""
        data = self.reader.payload(part)
        if len(data) > MAX_ATTACHMENT_BYTES:
            self.reader.defects.append(f"text cut at {MAX_ATTACHMENT_BYTES // 1000} kB")
        with suppress(NoText):
            return reader(data[:MAX_ATTACHMENT_BYTES], part.charset).text
        return ""

    def _is_body(self, part: MailPart, *, root: bool = False) -> bool:
        """Return whether the text of a part is shown as the text of the mail."""
        readable = part.content_type in ("text/plain", "text/html")
        body = readable and part.disposition != "attachment" and not part.name
        # The only part of a mail is its body, even if it has a name.
        if not body and not (root and part.main_type == "text"):
            return False
        return not self._head(part).startswith(_FILE_STARTS)

    def _is_signed(self, part: MailPart) -> bool:
        """Return whether a part of S/MIME is only signed, as its type or its first object identifier says."""
        content_type = part.headers.get(b"content-type", b"").lower()
        return b"signed-data" in content_type or _SIGNED_DATA in self._head(part)[:32]

    def _head(self, part: MailPart) -> bytes:
        """Return the first bytes of a part, decoded."""
        place = EncodedPart(part.start, min(part.end, part.start + _HEAD_BYTES), transfer_encoding(part))
        return fields.decode_part(self.reader.raw, place, [])
