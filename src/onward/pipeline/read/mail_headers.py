"""Read the headers of a mail: encoded words, addresses, ids and dates, also damaged ones."""

from __future__ import annotations

import binascii
import calendar
import re
from collections.abc import Iterable
from email.message import Message
from email.utils import parsedate_tz
from functools import lru_cache
from typing import Final, cast

from onward.pipeline.read.charsets import decode

# Longer blocks and values are cut: they are attacks or damage.
MAX_BLOCK_BYTES: Final = 256_000
MAX_VALUE_BYTES: Final = 64_000
_MAX_TEXT: Final = 2_000
_MAX_ID: Final = 500
_MAX_IDS: Final = 200
_MAX_ADDRESS: Final = 320
_MAX_ADDRESSES: Final = 1_000
_CACHED: Final = 400

# 1971 to 2100: a machine without a clock says 1970.
_EARLIEST: Final = 31_536_000.0
_LATEST: Final = 4_133_980_800.0

_FIELDS: Final = re.compile(rb"(?:[!-9;-~]++[ \t]*+:[^\n]*+(?:\n|\Z)(?:[ \t][^\n]*+(?:\n|\Z))*+)*+")
_FIELD: Final = re.compile(rb"^([!-9;-~]++)[ \t]*+:([^\n]*+(?:\n[ \t][^\n]*+)*+)", re.MULTILINE)
_SURE_FIELD: Final = re.compile(
    rb"^(?:received|from|to|cc|subject|date|message-id|mime-version|content-(?:type|transfer-encoding)|references"
    rb"|in-reply-to|return-path|(?:x|list)-[!-9;-~]{1,60})[ \t]*:",
    re.MULTILINE | re.IGNORECASE,
)
_WORD: Final = re.compile(r"=\?([^?*\s]{1,60})(?:\*[^?\s]{0,20})?\?([bBqQ])\?([^?]*+(?:\?(?!=)[^?]*+)*+)\?=")
_Q_BYTE: Final = re.compile(rb"=([0-9A-Fa-f]{2})")
_LOST: Final = re.compile("[\0\ud800-\udfff]")
# Control characters, line separators, and marks for the direction of writing.
_CONTROLS: Final = re.compile("[\x01-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_ID: Final = re.compile(r"<([^<>]*)>")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|<[^<>]*+>?|[(),;:>]|[^"<>(),;:]+', re.DOTALL)
_AT: Final = re.compile(r"(\S+)\s+at\s+(\S+\.\S+)", re.IGNORECASE)

Headers = dict[bytes, bytes]


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
    for word in _WORD.finditer(text):
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
        if _AT.fullmatch(address):
            name = ""
        elif "@" in address:
            name, address = "", next(word for word in address.split() if "@" in word)
        else:
            address = ""
    name = name.strip() or "".join(comments).strip().removeprefix("(").removesuffix(")").strip()
    if spelled := _AT.fullmatch(address.strip()):  # archives write addresses as "joe at example.com"
        address = f"{spelled[1]}@{spelled[2]}"
    # After a missing bracket, the address ends at the comma.
    address = one_line(address.partition(",")[0], _MAX_ADDRESS).replace(" ", "").lower()
    return name, address if "@" in address.strip("@") else ""


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
