"""What a file is, is told by its content first and its name second."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward.pipeline.fetch.fetch_errors import NotWhatItClaims
from onward.pipeline.fetch.file_kinds import CONTAINERS, HEAD_BYTES, detect_kind, inner_name
from tests.pipeline.fetch.mails import MAIL, MBOX

KINDS = {"mbox", "eml", "html", "text", "markdown", "rst", "code", "pdf"}


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
        (b"To: do\nDate: tomorrow\n\nBuy milk", "a", "", "text"),
        (b"#!/bin/sh\n", "configure", "", "code"),
        (b"BZh is how bzip2 begins", "a", "", "text"),
        (b"\xef\xbb\xbf<!doctype html>", "a", "", "html"),
    ),
)
def test_kinds(head: bytes, name: str, media_type: str, kind: str) -> None:
    assert detect_kind(head, name, media_type).kind == kind


@pytest.mark.parametrize(
    ("head", "name", "kind"),
    (
        (b"", "a", "empty"),
        (b"\0", "a.txt", "binary"),
        (b"PK\x03\x04", "a.docx", "office"),
        (b"PK\x03\x04", "a.ppsx", "office"),
        (b"PK\x03\x04", "a.epub", "ebook"),
        (b"PK\x03\x04", "a.jar", "program"),
        (b"PK\x03\x04", "a.npz", "binary"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0", "a", "office"),
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
def test_anything_is_something(head: bytes, name: str, media_type: str) -> None:
    try:
        looks = detect_kind(head, name, media_type)
    except NotWhatItClaims:
        return
    assert (looks.kind in KINDS | CONTAINERS) != bool(looks.skip)
