"""The format of mail, also of damaged mail: headers, encoded words, addresses, dates and MIME parts."""

from __future__ import annotations

import binascii
import calendar
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from email.utils import parsedate_tz
from functools import lru_cache
from typing import NamedTuple, cast

from onward.pipeline.read.charsets import codec_of, decode
from onward.pipeline.read.html_text import html_to_text

MAX_DEPTH = 50
MAX_PARTS = 1_000
# A mail of nothing but lines that begin like a boundary must not take minutes.
_MAX_BOUNDARY_LINES = 100_000
_MAX_PARAMETERS = 2_000

_BOUNDARY_END = re.compile(rb"(--)?[ \t]*(?:\r?\n|\r?\Z)")
_BASE64_LINE = re.compile(rb"[A-Za-z0-9+/]*={0,2}[ \t\r]*")
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]+")
_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+")

# Longer blocks and values are cut: they are attacks or damage.
MAX_BLOCK_BYTES = 256_000
MAX_VALUE_BYTES = 64_000
_MAX_TEXT = 2_000
_MAX_ID = 500
_MAX_IDS = 200
_MAX_ADDRESS = 320
_MAX_ADDRESSES = 1_000
_CACHED = 400

# 1971 to 2100: a machine without a clock says 1970.
_EARLIEST = 31_536_000.0
_LATEST = 4_133_980_800.0

_FIELDS = re.compile(rb"(?:[!-9;-~]++[ \t]*+:[^\n]*+(?:\n|\Z)(?:[ \t][^\n]*+(?:\n|\Z))*+)*+")
_FIELD = re.compile(rb"^([!-9;-~]++)[ \t]*+:([^\n]*+(?:\n[ \t][^\n]*+)*+)", re.MULTILINE)
_SURE_FIELD = re.compile(
    rb"^(?:received|from|to|cc|subject|date|message-id|mime-version|content-(?:type|transfer-encoding)|references"
    rb"|in-reply-to|return-path|(?:x|list)-[!-9;-~]{1,60})[ \t]*:",
    re.MULTILINE | re.IGNORECASE,
)
_WORD = re.compile(r"=\?([^?*\s]{1,60})(?:\*[^?\s]{0,20})?\?([bBqQ])\?([^?]*+(?:\?(?!=)[^?]*+)*+)\?=")
_Q_BYTE = re.compile(rb"=([0-9A-Fa-f]{2})")
_LOST = re.compile("[\0\ud800-\udfff]")
# Control characters, line separators, and marks for the direction of writing.
_CONTROLS = re.compile("[\x01-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_ID = re.compile(r"<([^<>]*)>")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|<[^<>]*+>?|[(),;:>]|[^"<>(),;:]+', re.DOTALL)
_AT = re.compile(r"(\S+)\s+at\s+(\S+\.\S+)", re.IGNORECASE)

_NOT_ENCODED = frozenset({b"", b"7bit", b"8bit", b"binary", b"7-bit", b"8-bit"})

Headers = dict[bytes, bytes]


class EncodedPart(NamedTuple):
    """The place of the body of a part in its mail, and its transfer encoding."""

    start: int
    end: int
    encoding: str


@dataclass(slots=True)
class MailPart:
    """One part of a mail; its body is `raw[start:end]`, still encoded."""

    headers: Headers
    content_type: str
    charset: str
    boundary: str
    name: str
    disposition: str
    start: int
    end: int
    children: list[MailPart] = field(default_factory=list)

    @property
    def main_type(self) -> str:
        return self.content_type.partition("/")[0]

    def header(self, name: bytes, defects: list[str] | None = None) -> str:
        """Return the value of a header, or ""."""
        value = self.headers.get(name)
        return unfold(value, defects) if value else ""


@dataclass(slots=True)
class MimeReader:
    """Reads the parts of one mail and their texts; `defects` lists what was damaged."""

    raw: bytes
    defects: list[str] = field(default_factory=list)
    parts_left: int = MAX_PARTS
    boundary_lines_left: int = _MAX_BOUNDARY_LINES

    def read_part(self, start: int, end: int, depth: int = 0, default_type: str = "text/plain") -> MailPart:
        """Return the part at `raw[start:end]` with all parts inside it, within the limits."""
        self.parts_left -= 1
        headers, body = read_headers(self.raw, start, end, self.defects)
        content_type, charset, boundary, name, disposition = _parameters(
            headers.get(b"content-type", b"")[:_MAX_PARAMETERS],
            headers.get(b"content-disposition", b"")[:_MAX_PARAMETERS],
        )
        if not _TYPE.fullmatch(content_type):
            if content_type and content_type != "text":
                self.defects.append(f"content type {plain(content_type, limit=40)!r}")
            # An invalid type is at least not read as text.
            content_type = default_type if content_type in ("", "text") else "application/octet-stream"
        part = MailPart(headers, content_type, charset, boundary, plain(name, limit=255), disposition, body, end)
        if part.main_type != "multipart" and content_type not in ("message/rfc822", "message/global"):
            return part
        if depth >= MAX_DEPTH:
            self.defects.append(f"nested deeper than {MAX_DEPTH}")
            part.content_type = "application/octet-stream"
            return part
        if part.main_type == "message":
            if headers.get(b"content-transfer-encoding", b"").strip().lower() in (b"base64", b"quoted-printable"):
                return part  # the standard forbids it, and mail programs do not read it
            ranges = [(body, end)]
        else:
            ranges = self._split(body, end, boundary)
            if not ranges:
                self.defects.append("multipart without parts")
                part.content_type = "text/plain"
        default_type = "message/rfc822" if content_type == "multipart/digest" else "text/plain"
        for first, last in ranges:
            if self.parts_left <= 0:
                self.defects.append(f"more than {MAX_PARTS} parts")
                break
            part.children.append(self.read_part(first, last, depth + 1, default_type))
        return part

    def _split(self, start: int, end: int, boundary: str) -> list[tuple[int, int]]:
        """Return start and end of each part of a multipart; none if its boundary is not found."""
        if not boundary:
            return []
        raw, ranges = self.raw, list[tuple[int, int]]()
        mark = b"--" + boundary.encode("utf-8", "surrogateescape")
        opened = -1
        at = start if raw.startswith(mark, start, end) else raw.find(b"\n" + mark, start, end) + 1
        while at > 0 or (at == start == 0 and raw.startswith(mark)):
            self.boundary_lines_left -= 1
            if self.boundary_lines_left < 0 or len(ranges) > MAX_PARTS:
                self.defects.append("too many boundaries")
                break
            line = _BOUNDARY_END.match(raw, at + len(mark), end)
            if line is not None:
                if opened >= 0:
                    # The line end before a boundary belongs to the boundary.
                    stop = at - 2 if raw[at - 2 : at] == b"\r\n" else at - 1
                    ranges.append((opened, max(stop, opened)))
                opened = -1 if line[1] else line.end()
                if line[1]:
                    break
            at = raw.find(b"\n" + mark, at + len(mark) - 1, end) + 1
        if opened >= 0:
            self.defects.append("last boundary missing")
            ranges.append((opened, end))
        return [(first, last) for first, last in ranges if first < last]

    def payload(self, part: MailPart) -> bytes:
        """Return the bytes of a part with its transfer encoding decoded, as far as it is undamaged."""
        return decode_part(self.raw, EncodedPart(part.start, part.end, transfer_encoding(part)), self.defects)

    def text(self, part: MailPart, limit: int | None = None) -> str:
        """Return the text of a part, of at most `limit` bytes; HTML becomes plain text."""
        data, text = self.payload(part), None
        if limit is not None and len(data) > limit:
            self.defects.append(f"text cut at {limit // 1000} kB")
            data = data[:limit]
            for shorter in range(4 if codec_of(part.charset) in (None, "utf-8", "ascii") else 0):
                with suppress(UnicodeDecodeError):  # the cut may be inside a character
                    text = data[: limit - shorter].decode("utf-8")
                    break
        if text is None:
            text = decode(data, part.charset, self.defects)
        return html_to_text(text) if part.content_type == "text/html" else text


def transfer_encoding(part: MailPart) -> str:
    """Return the transfer encoding of a part in lower case; empty if it is not encoded."""
    encoding = part.headers.get(b"content-transfer-encoding", b"").strip().lower().partition(b";")[0]
    return plain(unfold(encoding), limit=40) if encoding not in _NOT_ENCODED else ""


def decode_part(raw: bytes, place: EncodedPart, defects: list[str]) -> bytes:
    """Return the bytes of a part of a mail with its transfer encoding decoded, as far as it is undamaged."""
    data = raw[place.start : place.end]
    match place.encoding:
        case "":
            return data
        case "quoted-printable":
            return binascii.a2b_qp(data)
        case "base64":
            return _base64(data, defects)
        case "x-uuencode" | "uuencode" | "uue" | "x-uue":
            return _uudecode(data, defects)
    defects.append(f"transfer encoding {place.encoding!r}")
    return data


@lru_cache(maxsize=1024)
def _parameters(content_type: bytes, disposition: bytes) -> tuple[str, str, str, str, str]:
    """Return content type, charset, boundary, file name and disposition, parsed by the standard library."""
    if not content_type and not disposition:
        return "", "", "", "", ""
    message = Message()
    # Without surrogates: the standard library would return a Header for them.
    message["Content-Type"] = " ".join(unfold(content_type).split())
    message["Content-Disposition"] = " ".join(unfold(disposition).split())
    declared = message["Content-Type"].partition(";")[0].strip().lower()
    kind = message["Content-Disposition"].partition(";")[0].strip().lower()
    name = parameter(message, "filename", "content-disposition") or parameter(message, "name", "content-type")
    boundary = parameter(message, "boundary", "content-type").rstrip()
    return declared, parameter(message, "charset", "content-type"), boundary, name, kind


def _base64(data: bytes, defects: list[str]) -> bytes:
    try:
        if not _NOT_BASE64.sub(b"", data) or all(map(_BASE64_LINE.fullmatch, data.split(b"\n"))):
            return binascii.a2b_base64(data)
    except binascii.Error:
        pass
    defects.append("damaged base64")
    # A list server may have appended a footer as plain text: only lines of base64 count.
    lines = (line for line in data.split(b"\n") if _BASE64_LINE.fullmatch(line))
    kept = _NOT_BASE64.sub(b"", b"".join(lines))
    kept = kept[: len(kept) - (len(kept) % 4 == 1)]
    return binascii.a2b_base64(kept + b"=" * (-len(kept) % 4))


def _uudecode(data: bytes, defects: list[str]) -> bytes:
    decoded = bytearray()
    inside = False
    for line in data.split(b"\n"):
        line = line.rstrip(b"\r")  # noqa: PLW2901
        if not inside:
            inside = line.startswith(b"begin ")
            continue
        # Decoded data is shorter than encoded data, except with manipulated lines.
        if line in (b"end", b"`", b" ", b"") or len(decoded) > len(data):
            break
        try:
            decoded += binascii.a2b_uu(line)
        except binascii.Error:
            # Some programs pad lines: decode only what the length byte says.
            count = ((((line[0] - 32) & 63) * 4) + 5) // 3
            try:
                decoded += binascii.a2b_uu(line[:count])
            except binascii.Error:
                defects.append("damaged uuencoding")
    if not inside:
        defects.append("damaged uuencoding")
        return data
    return bytes(decoded)


def read_headers(raw: bytes, start: int, end: int, defects: list[str]) -> tuple[Headers, int]:
    """Return the headers at `start` by lower-case name, the first of each name; and where the body begins."""
    if raw.startswith((b"\n", b"\r\n"), start, end):
        return {}, raw.index(b"\n", start) + 1
    body, stop = end, end
    for blank in (b"\n\n", b"\n\r\n"):
        at = raw.find(blank, start, body)
        if at >= 0:
            stop, body = at + 1, at + len(blank)
    if stop - start > MAX_BLOCK_BYTES:
        defects.append(f"headers larger than {MAX_BLOCK_BYTES // 1000} kB")
        stop = start + MAX_BLOCK_BYTES
    fields = _FIELDS.match(raw, start, stop)
    sane = fields.end() if fields else start
    if sane < stop:
        # If the first line is no header, two later headers are required instead of one.
        if len(_SURE_FIELD.findall(raw, sane, stop)) >= (1 if sane > start else 2):
            defects.append("junk among the headers")
        else:
            # The empty line after the headers is missing: the body begins with the first line that is no header.
            defects.append("no empty line after the headers")
            stop = body = sane
    headers: Headers = {}
    for name, value in _FIELD.findall(raw, start, stop):
        headers.setdefault(name.lower(), value)
    return headers, body


def received(raw: bytes, start: int, end: int) -> Iterable[str]:
    """Yield the dates in the Received headers, the newest first."""
    for name, value in _FIELD.findall(raw, start, min(end, start + MAX_BLOCK_BYTES)):
        if name.lower() == b"received":
            yield unfold(value[-200:]).rpartition(";")[2]


def unfold(value: bytes, defects: list[str] | None = None) -> str:
    """Return the value of a header as text; its encoded words are not decoded."""
    if len(value) > MAX_VALUE_BYTES:
        value = value[:MAX_VALUE_BYTES]
        if defects is not None:
            defects.append(f"header larger than {MAX_VALUE_BYTES // 1000} kB")
    return value.decode("ascii") if value.isascii() else decode(value, "", defects)


def one_line(text: str, limit: int = _MAX_TEXT) -> str:
    """Return the text on one line, without control characters."""
    text = text[: limit * 4]
    if not text.isprintable():
        text = _CONTROLS.sub(" ", _LOST.sub("\ufffd", text))
    return " ".join(text.split())[:limit].rstrip()


def plain(text: str, defects: list[str] | None = None, limit: int = _MAX_TEXT) -> str:
    """Return the value of a header with encoded words decoded, on one line."""
    return one_line(_decode_words(text[: limit * 8], defects) if "=?" in text else text, limit)


def _decode_words(text: str, defects: list[str] | None) -> str:
    pieces: list[str] = []
    pending, charset, at = b"", "", 0
    # No word begins behind the last end of one: the search for its end would look at all of the rest each time.
    for word in _WORD.finditer(text, 0, text.rfind("?=") + 2):
        name, encoding, payload = word[1].lower(), word[2], word[3].encode("utf-8", "replace")
        try:
            if encoding in "qQ":
                data = _Q_BYTE.sub(lambda byte: bytes.fromhex(byte[1].decode()), payload.replace(b"_", b" "))
            else:
                data = binascii.a2b_base64(payload.rstrip(b"= \t\r\n") + b"==")
        except binascii.Error:
            if defects is not None:
                defects.append("damaged encoded word")
            continue
        # White space between two encoded words is no text, and a character may be split over both.
        between = text[at : word.start()]
        joined = bool(pending) and not between.strip()
        if not joined or name != charset:
            pieces.append(decode(pending, charset, defects))
            pending = b""
        if not joined:
            pieces.append(between)
        pending, charset, at = pending + data, name, word.end()
    return "".join((*pieces, decode(pending, charset, defects), text[at:]))


def parameter(headers: Message, name: str, header: str) -> str:
    """Return the value of a parameter of a header; `name*` has precedence over `name`."""
    try:
        # Typed as str, but a value in the extended form is a tuple of charset, language and text.
        pairs = cast("list[tuple[str, str | tuple[str | None, str | None, str]]]", headers.get_params([], header))
    except (ValueError, LookupError, TypeError, IndexError):
        return ""
    values = [value for key, value in pairs if key.lower() == name]
    for value in values:
        if isinstance(value, tuple):
            return decode(value[2].encode("raw-unicode-escape"), value[0] or "")
    return next((value for value in values if isinstance(value, str)), "")


def addresses(value: str) -> tuple[tuple[str, str], ...]:
    """Return the (name, address) pairs of a header; names are still encoded, addresses lower case or empty."""
    return _addresses(value) if len(value) <= _CACHED else _addresses.__wrapped__(value)


@lru_cache(maxsize=4096)
def _addresses(value: str) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    words: list[str] = []
    comments: list[str] = []
    address: str | None = None
    depth = 0
    for token in (*_TOKEN.findall(value), ","):
        if depth or token == "(":
            # Comments nest. A comment that is not closed extends to the end.
            depth += (token == "(") - (token == ")")
            comments.append(token)
        elif token in ",;":
            pair = _pair(words, comments, address)
            if pair != ("", ""):
                found.append(pair)
            words, comments, address = [], [], None
            if len(found) >= _MAX_ADDRESSES:
                break
        elif token == ":":
            words = []  # the name of a group
        elif token[0] == "<":
            address = token.strip("<>").rpartition(":")[2] if address is None else address
        elif token not in ")>":
            words.append(token)
    if depth:
        found.append(_pair(words, comments, address))
    return tuple(found)


def _pair(words: list[str], comments: list[str], address: str | None) -> tuple[str, str]:
    name = "".join(
        re.sub(r"\\(.)", r"\1", word[1:].removesuffix('"'), flags=re.DOTALL) if word.startswith('"') else word
        for word in words
    )
    if address is None:
        address = "".join(words).strip()
        if _spelled(address):
            name = ""
        elif "@" in address:
            name, address = "", next(word for word in address.split() if "@" in word)
        else:
            address = ""
    name = name.strip() or "".join(comments).strip().removeprefix("(").removesuffix(")").strip()
    if spelled := _spelled(address.strip()):
        address = f"{spelled[1]}@{spelled[2]}"
    # After a missing bracket, the address ends at the comma.
    address = one_line(address.partition(",")[0], _MAX_ADDRESS).replace(" ", "").lower()
    return name, address if "@" in address.strip("@") else ""


def _spelled(address: str) -> re.Match[str] | None:
    """Match an address as archives write it: joe at example.com."""
    # For many dots, the expression takes the square of their number.
    return _AT.fullmatch(address) if len(address) <= _MAX_ADDRESS else None


def ids(value: str) -> list[str]:
    """Return the message ids in a header, oldest first, without angle brackets and duplicates."""
    found = _ID.findall(value) if "<" in value else [word for word in value.split() if "@" in word]
    kept = list(dict.fromkeys(filter(None, map(clean_id, found))))
    # The first one identifies the thread, the last ones the place in it.
    return kept if len(kept) <= _MAX_IDS else [kept[0], *kept[1 - _MAX_IDS :]]


def clean_id(text: str) -> str:
    """Return a message id without brackets and white space, of bounded length."""
    if text.isascii() and text.isprintable() and " " not in text:
        return text.strip("<>")[:_MAX_ID]
    return one_line(text, _MAX_ID).replace(" ", "").strip("<>")


def timestamp(value: str) -> float | None:
    """Return a date of a mail as Unix seconds, or None if it is invalid; without a zone it is UTC."""
    try:
        parsed = parsedate_tz(value[:120])
        if parsed is None:
            return None
        zone = parsed[9] or 0
        seconds = float(calendar.timegm((*parsed[:6], 0, 1, 0)) - (zone if abs(zone) <= 86_400 else 0))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    sane = parsed[3] < 24 and parsed[4] < 60 and 1 <= parsed[2] <= 31
    return seconds if sane and _EARLIEST <= seconds < _LATEST else None
