"""Split an mbox of any size into its messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

BLOCK = 1 << 20
# Bytes from a "From " line on that decide whether it is a separator: fixed, so that the block size has no effect.
_WINDOW = 2048
# The longest line end before a "From " line: "\n\r\n".
_CONTEXT = 3

_WEEKDAY = rb"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MONTH = rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_TIME = rb"\d{1,2}:\d\d(?::\d\d)?"
_ZONE = rb"(?: {1,4}[A-Za-z+-][\w+-]{0,8}){0,2}"
_DATED = re.compile(
    rb" " + _WEEKDAY + rb"(?: {1,4}" + _MONTH + rb" {1,4}\d{1,2} {1,4}" + _TIME + _ZONE + rb" {1,4}\d{4}" + _ZONE
    # Some programs write the date as in a Date header.
    + rb"|, {1,4}\d{1,2} {1,4}" + _MONTH + rb" {1,4}\d{2,4} {1,4}" + _TIME + _ZONE + rb")[ \t]*\r?$"
)  # fmt: skip
_HEADER = re.compile(
    rb"(?:return-path|received|delivered-to|envelope-to|from|to|cc|subject|date|sender|reply-to|message-id|references"
    rb"|in-reply-to|mime-version|content-[a-z-]{1,40}|status"
    rb"|(?:x|list|arc|dkim|authentication)-[a-z0-9-]{1,60})[ \t]*:",
    re.IGNORECASE,
)
_QUOTED = re.compile(rb"^>(>*+From )", re.MULTILINE)


class RawMessage(NamedTuple):
    offset: int  # the start of its "From " line
    end: int  # the start of the next message: the cursor to continue from
    raw: bytes  # the message after its "From " line, unquoted; empty if it is too large
    problem: str = ""  # why it cannot be read. Its bytes are in the stream, from `offset` to `end`.


def looks_like_mbox(head: bytes) -> bool:
    text = head.lstrip(b"\r\n")
    return text.startswith(b"From ") and _separates(text, 0)


def split_mbox(
    stream: BinaryIO, *, start: int = 0, max_bytes: int = 50_000_000, block: int = BLOCK
) -> Iterator[RawMessage]:
    """Yield the messages from `start`, which is 0 or the `end` of one, in memory bounded by `max_bytes`."""
    if start:
        stream.seek(start)
    buffer = bytearray()
    base = offset = start  # the places in the stream of the buffer and of the current message
    scanned = 0  # no separator begins in the buffer before this index, other than the one of the current message
    dated = False  # the current message began with a "From " line
    more = True
    while more:
        data = stream.read(block)
        more = bool(data)
        buffer += data
        # A separator is checked when `_WINDOW` bytes after it have been read.
        ready = len(buffer) - _WINDOW if more else len(buffer)
        while (found := _find_separator(buffer, scanned, ready, begins=base == start)) >= 0:
            raw = buffer[max(offset - base, 0) : found]
            yield from _messages(raw, offset, base + found, max_bytes, dated=dated)
            offset, dated = base + found, True
            scanned = found + 1
        scanned = max(scanned, ready)
        # Keep the current message, or only its last bytes once it is too large.
        keep = offset if base + scanned - offset <= max_bytes else base + scanned - _CONTEXT
        if keep > base:
            del buffer[: keep - base]
            scanned -= keep - base
            base = keep
    yield from _messages(buffer[max(offset - base, 0) :], offset, base + len(buffer), max_bytes, dated=dated)


def _find_separator(buffer: bytearray, scanned: int, ready: int, *, begins: bool) -> int:
    """Return the index of the next separator in `buffer[scanned:ready]`, or -1."""
    if scanned == 0 < ready and begins and buffer.startswith(b"From ") and _separates(buffer, 0):
        return 0
    at = max(scanned - 1, 0)
    while True:
        at = buffer.find(b"\nFrom ", at, max(ready, 0) + 5)
        if at < 0 or at + 1 >= ready:
            return -1
        before = bytes(buffer[max(at - 2, 0) : at])
        empty = before.endswith((b"\n", b"\n\r")) or (begins and at < 2 and before in (b"", b"\r"))
        if empty and _separates(buffer, at + 1):
            return at + 1
        at += 1


def _separates(buffer: bytes | bytearray, at: int) -> bool:
    """Return whether the line at `at`, which starts with "From ", begins a message and is no sentence."""
    window = bytes(buffer[at : at + _WINDOW])
    line, newline, rest = window.partition(b"\n")
    if not newline and len(window) == _WINDOW:
        return False
    return _DATED.search(line) is not None or _HEADER.match(rest) is not None


def _messages(data: bytearray, offset: int, end: int, max_bytes: int, *, dated: bool) -> Iterator[RawMessage]:
    """Yield the message between two places; none if there is nothing but empty lines before the first one."""
    if end - offset > max_bytes:
        yield RawMessage(offset, end, b"", f"larger than {max_bytes / 1_000_000:g} MB")
    elif not dated and data.strip():
        yield RawMessage(offset, end, bytes(data), 'no "From " line before it')
    elif dated and end > offset:
        raw = bytes(data).partition(b"\n")[2]
        # The empty line before the next "From " line is no part of the message.
        if raw.endswith(b"\n\r\n") or raw == b"\r\n":
            raw = raw[:-2]
        elif raw.endswith(b"\n\n") or raw == b"\n":
            raw = raw[:-1]
        yield RawMessage(offset, end, _QUOTED.sub(rb"\1", raw) if b">From " in raw else raw)
