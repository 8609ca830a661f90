"""Turn an item of Outlook into the bytes of a mail (RFC 822).

A .msg file and a mail in a .pst file have the same MAPI properties. What they become is read like every other
mail: with its thread, its quotes and its attachments. The same item always becomes the same bytes.
"""

from __future__ import annotations

import base64
import codecs
import hashlib
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.header import Header
from email.utils import formataddr, formatdate

from onward.pipeline.fetch.compressed_rtf import BrokenRTF, unpacked_rtf

# Numbers of properties, and of the types of their values.
BODY, HTML, COMPRESSED_RTF = 0x1000, 0x1013, 0x1009
HEADERS, SUBJECT, MESSAGE_ID, REFERENCES, REPLY_TO_ID = 0x007D, 0x0037, 0x1035, 0x1039, 0x1042
SENT, DELIVERED = 0x0039, 0x0E06
DISPLAY_TO, DISPLAY_CC = 0x0E04, 0x0E03
NAME, ADDRESS, SMTP_ADDRESS, RECIPIENT_KIND = 0x3001, 0x3003, 0x39FE, 0x0C15
ATTACHED_DATA, ATTACHED_HOW, LONG_NAME, SHORT_NAME, MEDIA_TYPE = 0x3701, 0x3705, 0x3707, 0x3704, 0x370E
CONTENT_ID = 0x3712
TEXT_CODE_PAGE, HTML_CODE_PAGE = 0x3FFD, 0x3FDE
ANSI, UNICODE, BINARY = 0x1E, 0x1F, 0x102

NUMBERS = frozenset(
    {
        BODY,
        HTML,
        COMPRESSED_RTF,
        HEADERS,
        SUBJECT,
        MESSAGE_ID,
        REFERENCES,
        REPLY_TO_ID,
        SENT,
        DELIVERED,
        DISPLAY_TO,
    }
    | {DISPLAY_CC, NAME, ADDRESS, SMTP_ADDRESS, RECIPIENT_KIND, ATTACHED_HOW, LONG_NAME, SHORT_NAME, MEDIA_TYPE}
    | {CONTENT_ID, TEXT_CODE_PAGE, HTML_CODE_PAGE, 0x0C1A, 0x5D01, 0x0C1F, 0x0042, 0x5D02, 0x0065}
)  # of all that is read, except the bytes of attachments

MAX_DEPTH = 5  # of mails that are attached to each other; the text of deeper ones is left out
_MAX_HEADER_CHARACTERS = 10_000
_SENDERS = ((0x0C1A, 0x5D01, 0x0C1F), (0x0042, 0x5D02, 0x0065))  # name, SMTP address, address of another kind
_FILETIME_UNIX = 11_644_473_600  # seconds from 1601 to 1970
_HEADER_NAME = re.compile(r"([!-9;-~]+):")
_SET_HERE = re.compile(r"content-|mime-version$")  # headers that describe the body as it was sent
_ENTITY = re.compile(rb"(?:content-|mime-version:)", re.IGNORECASE)
_MEDIA = re.compile(r"[a-z0-9.+-]+/[a-z0-9.+-]+")
_CODE_PAGES = {
    1200: "utf-16-le", 20127: "ascii", 20866: "koi8-r", 21866: "koi8-u", 50220: "iso-2022-jp",
    51932: "euc-jp", 51949: "euc-kr", 54936: "gb18030", 65001: "utf-8",
    **{28590 + part: f"iso-8859-{part}" for part in range(1, 16)},
}  # fmt: skip
_USUAL_CHARSET = "cp1252"

Properties = Mapping[int, tuple[int, bytes]]  # the type and the bytes of each value, by its number


@dataclass(frozen=True, slots=True)
class AttachedItem:
    """An attachment: a file with its bytes, or another item."""

    properties: Properties
    data: bytes = b""
    item: MapiItem | None = None


@dataclass(frozen=True, slots=True)
class MapiItem:
    """A mail, an appointment or a contact as Outlook stores it."""

    properties: Properties
    recipients: Sequence[Properties] = ()
    attachments: Sequence[AttachedItem] = ()
    headers: Mapping[str, str] = field(default_factory=dict)  # added to those of the mail


def mail_bytes(item: MapiItem, depth: int = 0) -> bytes:
    """Return an item as a mail, whose lines end with LF."""
    headers = "".join(f"{name}: {value}\n" for name, value in _headers(item)).encode("utf-8", "replace")
    if (signed := _signed(item)) is not None:
        return headers + signed
    parts = [_body(item.properties), *_attached(item, depth)]
    content = parts[0] if len(parts) == 1 else _multipart("mixed", parts)
    return headers + b"MIME-Version: 1.0\n" + content


def _signed(item: MapiItem) -> bytes | None:
    """Return the content of a signed mail, which Outlook keeps as one attachment, with its headers."""
    if len(item.attachments) != 1:
        return None
    data = item.attachments[0].data
    is_signed = text_value(item.attachments[0].properties, MEDIA_TYPE).strip().lower() == "multipart/signed"
    return data.replace(b"\r\n", b"\n") if is_signed and _ENTITY.match(data) else None


def text_value(properties: Properties, number: int) -> str:
    """Return a property that is text; "" if the item does not have it."""
    type, data = properties.get(number, (UNICODE, b""))
    if type == UNICODE:
        return data.decode("utf-16-le", "replace").rstrip("\0")
    return data.decode(_charset(properties, TEXT_CODE_PAGE), "replace").rstrip("\0")


def seconds_of(properties: Properties) -> int | None:
    """Return when an item was sent or delivered, in seconds since 1970."""
    for number in (SENT, DELIVERED):
        if (ticks := number_value(properties, number)) and ticks > _FILETIME_UNIX * 10_000_000:
            return min(ticks // 10_000_000 - _FILETIME_UNIX, 0xFFFFFFFF)
    return None


def with_code_page(part: Properties, item: Properties) -> dict[int, tuple[int, bytes]]:
    """Return the properties of a recipient or attachment with the code page of its item."""
    return {number: item[number] for number in (TEXT_CODE_PAGE, HTML_CODE_PAGE) if number in item} | dict(part)


def number_value(properties: Properties, number: int) -> int | None:
    data = properties.get(number, (0, b""))[1]
    return int.from_bytes(data[:8], "little") if data else None


def _charset(properties: Properties, number: int) -> str:
    page = next(
        filter(None, (number_value(properties, one) for one in (number, TEXT_CODE_PAGE, HTML_CODE_PAGE))), 0
    )
    name = _CODE_PAGES.get(page, f"cp{page}")
    try:
        return codecs.lookup(name).name
    except LookupError:
        return _USUAL_CHARSET


def _headers(item: MapiItem) -> Iterator[tuple[str, str]]:
    """Yield the headers with which the mail has arrived, then those that they lack."""
    seen = set()
    for name, value in _transport_headers(text_value(item.properties, HEADERS)):
        seen.add(name.lower())
        yield name, value
    for name, value in (*_made_headers(item), *item.headers.items()):
        if value and name.lower() not in seen:
            yield name, value


def _transport_headers(text: str) -> Iterator[tuple[str, str]]:
    found: list[tuple[str, list[str]]] = []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").strip("\n").split("\n"):
        if not line.strip():
            break  # old servers add the headers of the parts
        if line[0] in " \t" and found:
            found[-1][1].append(line)
        elif (name := _HEADER_NAME.match(line)) is not None:
            found.append((name[1], [line[name.end() :].strip()]))
    for written, lines in found:
        if not _SET_HERE.match(written.lower()):
            yield written, "\n".join(lines).replace("\0", "")


def _made_headers(item: MapiItem) -> Iterator[tuple[str, str]]:
    about = item.properties
    yield "From", next(filter(None, (_sender(about, *numbers) for numbers in _SENDERS)), "")
    for name, kind, shown in (("To", 1, DISPLAY_TO), ("Cc", 2, DISPLAY_CC)):
        found = [_address(one) for one in item.recipients if (number_value(one, RECIPIENT_KIND) or 0) & 15 == kind]
        names = [formataddr((_line(one), "")) for one in text_value(about, shown).split(";") if one.strip()]
        yield name, ",\n ".join(filter(None, found)) or ",\n ".join(names)
    subject = text_value(about, SUBJECT)
    yield "Subject", encoded(subject[2:] if subject.startswith("\1") else subject)  # a mark of "Re: " in a store
    if (seconds := seconds_of(about)) is not None:
        yield "Date", formatdate(seconds)
    for header, number in (("Message-ID", MESSAGE_ID), ("References", REFERENCES), ("In-Reply-To", REPLY_TO_ID)):
        yield header, _line(text_value(about, number))


def _sender(about: Properties, name: int, smtp: int, other: int) -> str:
    return _named(text_value(about, name), text_value(about, smtp), text_value(about, other))


def _address(recipient: Properties) -> str:
    given = (text_value(recipient, number) for number in (NAME, SMTP_ADDRESS, ADDRESS))
    return _named(*given)


def _named(name: str, *addresses: str) -> str:
    """Return a name with the first address that is one; in a company it may be a place in its directory."""
    address = next((_line(one) for one in addresses if "@" in one and one.isascii()), "")
    name = _line(name)
    return formataddr(("" if name == address else name, address)) if name or address else ""


def _line(text: str) -> str:
    return " ".join(text[:_MAX_HEADER_CHARACTERS].replace("\0", "").split())


def encoded(text: str) -> str:
    """Return a text as the value of a header."""
    text = _line(text)
    return text if text.isascii() and len(text) < 900 else Header(text, "utf-8").encode()


def _body(about: Properties) -> bytes:
    """Return the text of an item in its forms."""
    texts = []
    if text := text_value(about, BODY).replace("\r\n", "\n"):
        texts.append(_part("text/plain; charset=utf-8", text.encode("utf-8", "replace")))
    if HTML in about:
        type, html = about[HTML]
        charset = "utf-8" if type == UNICODE else _charset(about, HTML_CODE_PAGE)
        html = text_value(about, HTML).encode("utf-8", "replace") if type == UNICODE else html
        texts.append(_part(f"text/html; charset={charset}", html))
    if len(texts) > 1:
        return _multipart("alternative", texts)
    return texts[0] if texts else _part("text/plain; charset=utf-8", b"")


def _attached(item: MapiItem, depth: int) -> Iterator[bytes]:
    about = item.properties
    if COMPRESSED_RTF in about and not text_value(about, BODY).strip() and HTML not in about:
        try:
            rtf = unpacked_rtf(about[COMPRESSED_RTF][1])
        except BrokenRTF as error:
            note = f"The text of this mail is RTF that cannot be read: {error}."
            yield _part("text/plain; charset=utf-8", note.encode(), "message.rtf.txt")
        else:
            yield _part("text/rtf", rtf, "message.rtf")
    for one in item.attachments:
        numbers = (LONG_NAME, SHORT_NAME, NAME)
        name = _line(next(filter(None, (text_value(one.properties, number) for number in numbers)), ""))
        if one.item is not None:
            if depth < MAX_DEPTH:
                yield b"Content-Type: message/rfc822\n\n" + mail_bytes(one.item, depth + 1)
            continue
        media = text_value(one.properties, MEDIA_TYPE).strip().lower()
        if not _MEDIA.fullmatch(media) or media.startswith(("multipart/", "message/")):
            media = "application/octet-stream"
        yield _part(media, one.data, name or "attachment", _line(text_value(one.properties, CONTENT_ID)))


def _part(media: str, data: bytes, name: str = "", content_id: str = "") -> bytes:
    lines = [f"Content-Type: {media}", "Content-Transfer-Encoding: base64"]
    if name:
        quoted = "".join(
            chr(byte) if chr(byte).isalnum() and byte < 128 else f"%{byte:02X}" for byte in _utf8(name)
        )
        lines.append(f"Content-Disposition: attachment; filename*=utf-8''{quoted}")
    if content_id.isascii() and content_id:
        lines.append(f"Content-ID: <{content_id.strip('<>')}>")
    return ("\n".join(lines) + "\n\n").encode() + base64.encodebytes(data)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _multipart(kind: str, parts: Sequence[bytes]) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(struct.pack("<Q", len(part)) + part)
    mark = b"=_" + digest.hexdigest()[:40].encode()
    body = b"".join(b"--" + mark + b"\n" + part + b"\n" for part in parts)
    head = f'Content-Type: multipart/{kind}; boundary="'.encode() + mark + b'"\n\n'
    return head + body + b"--" + mark + b"--\n"
