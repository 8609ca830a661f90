"""Read one mail: who wrote what to whom and when, whatever state it is in."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from onward import Permanent
from onward.pipeline.reading import mail_headers as fields
from onward.pipeline.reading.mail_charsets import clean, decode
from onward.pipeline.reading.mail_parts import Budget, Part, payload, read_part, text_of
from onward.pipeline.reading.markup import html_to_text
from onward.pipeline.reading.quoting import Span, mark

MAX_ATTACHMENT_TEXT: Final = 1_000_000
_MAX_DEFECTS: Final = 20
# Plain text shorter than this may be a note that there is HTML; HTML so many times longer says it is.
_TRIVIAL: Final = 200
_LONGER: Final = 5

_TEXT_TYPES: Final = frozenset(
    {"application/json", "application/xml", "application/x-patch", "application/x-diff", "application/ics",
     "application/x-sh", "application/x-yaml", "application/yaml", "application/toml", "application/csv",
     "application/javascript", "application/x-perl", "application/x-python", "message/delivery-status"}
)  # fmt: skip
_TEXT_NAME: Final = re.compile(
    r"\.(?:txt|patch|diff|log|md|rst|csv|tsv|json|ya?ml|toml|ini|cfg|conf|xml|ics|sh|py|pl|rb|c|h|cc|cpp|hpp|rs|go|java"
    r"|js|ts|sql|tex|el|mk)$",
    re.IGNORECASE,
)
_ENCRYPTED: Final = frozenset({"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"})


class UnreadableMail(Permanent):
    """These bytes are not a mail."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a mail."""

    name: str
    content_type: str
    size: int
    text: str | None
    """What it says, if it is text; at most 1 MB of it."""


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail, as text that can always be stored."""

    message_id: str
    """Without angle brackets; empty if it has none."""
    references: tuple[str, ...]
    """The ids of the mails it follows, oldest first."""
    subject: str
    author: str
    """The name of its author, else the address."""
    author_email: str
    recipients: tuple[str, ...]
    """The addresses of To and Cc."""
    date: float | None
    """Seconds since 1970, as its author's or else its last server's clock said."""
    body: str
    """All of its text, with quotes and signature."""
    spans: tuple[Span, ...]
    """(kind, start, end): the body without gaps, each piece `new`, `quote` or `signature`."""
    attachments: tuple[Attachment, ...]
    defects: tuple[str, ...]
    """What was odd about it."""


def read_mail(raw: bytes) -> Mail:
    """Read a mail; what is damaged is kept as far as it goes, and told in `defects`.

    Raises UnreadableMail for bytes without any header of a mail.
    """
    defects: list[str] = []
    start = 0
    if b"\n" not in raw[:100_000] and b"\r" in raw:
        raw = raw.replace(b"\r", b"\n")
    if raw.startswith((b"From ", b">From ")):
        start = raw.find(b"\n") + 1  # the line of an mbox, left on by whoever saved it
    root = read_part(raw, start, len(raw), defects, Budget())
    if not root.headers:
        raise UnreadableMail(
            f"no headers in a mail of {len(raw)} bytes that begins with {raw[:8]!r}; check that it is mail"
        )
    content = _Content(raw, defects)
    content.read_root(root)
    body = clean(content.body())
    message_id = _message_id(root)
    author, author_email = _author(root, defects)
    return Mail(
        message_id=message_id,
        references=_references(root, message_id),
        subject=fields.plain(_value(root, b"subject", defects), defects),
        author=author,
        author_email=author_email,
        recipients=_recipients(root, defects),
        date=_date(raw, start, root, defects),
        body=body,
        spans=mark(body),
        attachments=tuple(content.attachments),
        defects=tuple(fields.one_line(defect, 120) for defect in dict.fromkeys(defects))[:_MAX_DEFECTS],
    )


def _value(part: Part, name: bytes, defects: list[str] | None = None) -> str:
    value = part.headers.get(name)
    return fields.unfold(value, defects) if value else ""


def _message_id(root: Part) -> str:
    value = _value(root, b"message-id")
    if "=?" in value:
        value = fields.plain(value)
    found = fields.ids(value)
    return found[0] if found else fields.clean_id(value)


def _references(root: Part, message_id: str) -> tuple[str, ...]:
    found = fields.ids(_value(root, b"references"))
    reply = _value(root, b"in-reply-to").strip()
    if reply:
        # "<id> of your message", or "Joe <joe@example.com> wrote <id>".
        parents = fields.ids(reply)
        parent = parents[:1] if reply.startswith("<") else parents[-1:]
        found += [one for one in parent if one not in found]
    return tuple(one for one in found if one != message_id)


def _author(root: Part, defects: list[str]) -> tuple[str, str]:
    for header in (b"from", b"sender", b"reply-to"):
        value = _value(root, header, defects)
        if not value.strip():
            continue
        pairs = fields.addresses(value)
        if "=?" in value and not any(address for _, address in pairs):
            pairs = fields.addresses(fields.plain(value))  # encoded as a whole, address and all
        if pairs:
            name, address = next((pair for pair in pairs if pair[1]), pairs[0])
            return fields.plain(name, defects, 200).strip("\"' ") or address, address
    return "", ""


def _recipients(root: Part, defects: list[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for header in (b"to", b"cc"):
        for _, address in fields.addresses(_value(root, header, defects)):
            if address:
                found[address] = None
    return tuple(found)


def _date(raw: bytes, start: int, root: Part, defects: list[str]) -> float | None:
    value = _value(root, b"date").strip()
    date = fields.timestamp(value) if value else None
    if date is None:
        defects.append(f"bad date {fields.one_line(value, 40)!r}" if value else "no date")
        stamps = map(fields.timestamp, fields.received(raw, start, root.start))
        date = next((stamp for stamp in stamps if stamp is not None), None)
    return date


@dataclass(slots=True)
class _Content:
    """The texts and files found so far in a mail."""

    raw: bytes
    defects: list[str]
    texts: list[str] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)

    def body(self) -> str:
        return "\n".join(
            text if text.endswith("\n") or text is self.texts[-1] else text + "\n" for text in self.texts
        )

    def read_root(self, root: Part) -> None:
        # A mail that is nothing but a text is its own body, under whatever name and type.
        if root.main_type == "text" and not root.children:
            text = text_of(self.raw, root, self.defects)
            self.texts.append(html_to_text(text) if root.content_type == "text/html" else text)
        else:
            self.read(root)

    def read(self, part: Part) -> None:
        if part.content_type in _ENCRYPTED:
            self.defects.append("encrypted")
        if part.content_type == "multipart/alternative":
            self._read_alternatives(part)
        elif part.main_type == "message" and part.children:
            self._read_forwarded(part)
        elif part.children:
            for child in part.children:
                self.read(child)
        elif _is_body(part):
            text = text_of(self.raw, part, self.defects)
            self.texts.append(html_to_text(text) if part.content_type == "text/html" else text)
        else:
            self._attach(part)

    def _read_alternatives(self, part: Part) -> None:
        """One text in several forms: the plain one, unless it only says that there is another."""
        plain = ""
        html = ""
        for child in part.children:
            if child.content_type == "text/plain" and _is_body(child) and not plain.strip():
                plain = text_of(self.raw, child, self.defects)
                continue
            if child.content_type == "text/html" and len(plain.strip()) > _TRIVIAL:
                continue
            inner = _Content(self.raw, self.defects)
            inner.read(child)
            self.attachments += inner.attachments
            html = html or inner.body()
        better = html.strip() and (
            not plain.strip() or (len(html) > _LONGER * len(plain) and len(plain) < _TRIVIAL)
        )
        if better or plain.strip():
            self.texts.append(html if better else plain)

    def _read_forwarded(self, part: Part) -> None:
        """A mail within a mail is a file, with what it says as its text."""
        inner_root = part.children[0]
        inner = _Content(self.raw, self.defects)
        inner.read_root(inner_root)
        lines = []
        for title in ("Subject", "From", "Date"):
            value = fields.plain(_value(inner_root, title.lower().encode()))
            if value:
                lines.append(f"{title}: {value}")
        subject = fields.plain(_value(inner_root, b"subject"), limit=255)
        text = clean("\n".join((*lines, "", inner.body())))[:MAX_ATTACHMENT_TEXT]
        size = part.end - part.start
        self.attachments.append(Attachment(part.name or subject, part.content_type, size, text))
        self.attachments += inner.attachments

    def _attach(self, part: Part) -> None:
        data = payload(self.raw, part, self.defects)
        text = None
        if (
            part.main_type == "text"
            or part.content_type in _TEXT_TYPES
            or part.content_type.endswith(("+xml", "+json"))
        ):
            text = text_of(self.raw, part, self.defects, MAX_ATTACHMENT_TEXT)
            if part.content_type == "text/html":
                text = html_to_text(text)
        elif (
            part.content_type == "application/octet-stream" and _TEXT_NAME.search(part.name) and b"\0" not in data
        ):
            text = decode(data[:MAX_ATTACHMENT_TEXT], part.charset, self.defects)
        self.attachments.append(
            Attachment(part.name, part.content_type[:120], len(data), clean(text) if text is not None else None)
        )


def _is_body(part: Part) -> bool:
    readable = part.content_type in ("text/plain", "text/html")
    return readable and part.disposition != "attachment" and not part.name
