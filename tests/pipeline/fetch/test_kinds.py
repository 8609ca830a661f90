"""What a file is, is told by its content first and its name second."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onward.pipeline.documents import Kind
from onward.pipeline.fetch.fetch_errors import NotWhatItClaims
from onward.pipeline.fetch.file_kinds import CONTAINERS, HEAD_BYTES, detect_kind, inner_name
from tests.pipeline.fetch.mails import MAIL, MBOX

OPENED = CONTAINERS | {"mbox", "ole", "pst"}
"""What holds items of other kinds."""


@pytest.mark.parametrize(
    ("head", "name", "media_type", "kind"),
    (
        (b"\x1f\x8b\x08", "misnamed.txt", "text/plain", "gzip"),
        (b"PK\x03\x04", "a", "", "zip"),
        (b"%PDF-1.4", "a.txt", "text/html", "pdf"),
        (b"<html>", "a.md", "", "markdown"),
        (b"<html>", "a.txt", "", "html"),
        (b"<html>", "a.vue", "", "code"),
        (b"text", "a", "text/html", "html"),
        (b"text", "a.md", "text/html", "html"),
        (b"text", "a.unknown", "", "text"),
        (MBOX, "a.md", "", "mbox"),
        (MAIL, "a.txt", "", "text"),
        (MAIL, "a", "", "eml"),
        (MAIL.replace(b"\n", b"\r\n"), "123.host", "", "eml"),
        (b"Subject: x\r\n\r\n%PDF-1.4", "1.eml", "message/rfc822", "eml"),
        (b"Subject: x\r\n\r\n\0", "1.eml", "message/rfc822", "eml"),
        (b"To: do\nDate: tomorrow\n\nBuy milk", "a", "", "text"),
        (b"#!/bin/sh\n", "configure", "", "code"),
        (b"BZh is how bzip2 begins", "a", "", "text"),
        (b"\xef\xbb\xbf<!doctype html>", "a", "", "html"),
        (b"{\\rtf1 x}", "a", "", "word"),
        (b"a,b\n1,2\n", "a.csv", "", "spreadsheet"),
        (b"a,b\n1,2\n", "a", "text/csv; charset=utf-8", "spreadsheet"),
        (b"{}", "a.ipynb", "", "notebook"),
        (b"BEGIN:VCALENDAR\r\n", "a", "", "calendar"),
        (b"begin:vcard\n", "a.txt", "", "text"),
        (b"begin:vcard\n", "a", "", "contacts"),
        (b"\xef\xbb\xbfWEBVTT\n", "a", "", "subtitles"),
        (b"1\n00:00:01,000 --> 00:00:02,000\nHello", "a.srt", "", "subtitles"),
        (b"% about\n\\documentclass{article}", "a", "", "latex"),
        (b".TH TIDE 1\n.SH NAME\n", "tide.1", "", "man"),
        (b".TH TIDE 1\n.SH NAME\n", "tide.3pm", "", "man"),
        (b"no manual", "release-notes.1", "", "text"),
        (b"\xef\xbb\xbf\r\n%PDF-1.4", "a", "", "pdf"),
        (b"A PDF begins with %PDF-1.4", "a.md", "", "markdown"),
        (b"start = b'%PDF-1.4'", "a.py", "", "code"),
        (b"HTTP/1.1 200 OK\n\n%PDF-1.4", "a.pdf", "", "pdf"),
        (b"HTTP/1.1 200 OK\n\n%PDF-1.4", "a", "application/pdf; x=y", "pdf"),
        (b"HTTP/1.1 200 OK\n\n%PDF-1.4\nstream\nx\x9c\x01", "a", "", "pdf"),
        (b"PK_ID,name\n1,Ada\n", "a.csv", "", "spreadsheet"),
    ),
)
def test_kinds(head: bytes, name: str, media_type: str, kind: str) -> None:
    assert detect_kind(head, name, media_type).kind == kind


@pytest.mark.parametrize("part", (b"<!---->", b"<!-- -->\n", b"<!--", b"<?xml ", b" \n"))
def test_a_head_that_is_made_to_take_hours_is_read_at_once(part: bytes) -> None:
    head = (part * HEAD_BYTES)[:HEAD_BYTES]
    assert detect_kind(head, "a", "").kind == "text"
    assert detect_kind(b"<!-- a --> <!-- b --><html>", "a", "").kind == "html"


@pytest.mark.parametrize(
    ("head", "name", "kind"),
    (
        (b"", "a", "empty"),
        (b"\0", "a.txt", "binary"),
        (b"PK\x03\x04", "a.vsdx", "office"),
        (b"PK\x03\x04", "a.pages", "office"),
        (b"PK\x03\x04", "a.azw", "ebook"),
        (b"PK\x03\x04", "a.jar", "program"),
        (b"PK\x03\x04", "a.npz", "binary"),
        (b"\x89PNG\r\n\x1a\n\0", "a", "picture"),
        (b"\0\0\0\x18ftypheic", "a.heic", "picture"),
        (b"7z\xbc\xaf\x27\x1c\0", "a", "archive"),
        (b"Rar!\x1a\x07\0", "a.rar", "archive"),
        (b"\x7fELF\2\1\1\0", "a", "program"),
        (b"ID3\4\0", "a.mp3", "audio"),
        (b"\0\0\0\x20ftypisom", "a.mp4", "video"),
    ),
)
def test_what_is_not_taken_has_a_kind(head: bytes, name: str, kind: str) -> None:
    looks = detect_kind(head, name)
    assert looks.kind == ""
    assert looks.skip is not None
    assert looks.skip.kind == kind


@pytest.mark.parametrize(
    ("name", "inner"),
    (("a.mbox.gz", "a.mbox"), ("A.TXT.BZ2", "A.TXT"), ("a.tgz", "a.tar"), ("a.xz", "a"), ("a", "a")),
)
def test_a_compressed_file_names_what_is_in_it(name: str, inner: str) -> None:
    assert inner_name(name) == inner


@settings(deadline=None)
@given(st.binary(max_size=HEAD_BYTES), st.text(max_size=20), st.text(max_size=20))
@example(b"!BDN", "", "")
@example(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "", "")
@example(b"{\\rtf1", "", "")
@example(b"a,b", "a.csv", "")
def test_anything_is_something(head: bytes, name: str, media_type: str) -> None:
    try:
        looks = detect_kind(head, name, media_type)
    except NotWhatItClaims:
        return
    assert (looks.kind in OPENED.union(get_args(Kind))) != bool(looks.skip)
