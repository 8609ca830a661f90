"""Split a mail into its MIME parts, within limits, and decode their transfer encodings."""

from __future__ import annotations

import binascii
import re
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from functools import lru_cache
from typing import Final

from onward.pipeline.read.charsets import codec_of, decode
from onward.pipeline.read.html_text import html_to_text
from onward.pipeline.read.mail_headers import Headers, parameter, plain, read_headers, unfold

MAX_DEPTH: Final = 50
MAX_PARTS: Final = 1_000
# A mail of nothing but lines that begin like a boundary must not take minutes.
_MAX_BOUNDARY_LINES: Final = 100_000
_MAX_PARAMETERS: Final = 2_000

_BOUNDARY_END: Final = re.compile(rb"(--)?[ \t]*(?:\r?\n|\r?\Z)")
_BASE64_LINE: Final = re.compile(rb"[A-Za-z0-9+/]*={0,2}[ \t\r]*")
_NOT_BASE64: Final = re.compile(rb"[^A-Za-z0-9+/]+")
_TYPE: Final = re.compile(r"[\w.+-]+/[\w.+-]+")


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
        data = self.raw[part.start : part.end]
        encoding = part.headers.get(b"content-transfer-encoding", b"").strip().lower().partition(b";")[0]
        if encoding == b"quoted-printable":
            return binascii.a2b_qp(data)
        if encoding == b"base64":
            return _base64(data, self.defects)
        if encoding in (b"x-uuencode", b"uuencode", b"uue", b"x-uue"):
            return _uudecode(data, self.defects)
        if encoding not in (b"", b"7bit", b"8bit", b"binary", b"7-bit", b"8-bit"):
            self.defects.append(f"transfer encoding {plain(unfold(encoding), limit=40)!r}")
        return data

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
