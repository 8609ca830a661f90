"""What a file is, is told by its content first and its name second."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward.pipeline.fetching import NotWhatItClaims
from onward.pipeline.fetching.kinds import CONTAINERS, HEAD, inner_name, look
from tests.pipeline.fetching.mails import MAIL, MBOX

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
    assert look(head, name, media_type).kind == kind


@pytest.mark.parametrize(
    ("head", "name", "why"), ((b"", "a", "empty"), (b"\0", "a.txt", "binary"), (b"PK\x03\x04", "a.docx", "docx"))
)
def test_nothing_to_take(head: bytes, name: str, why: str) -> None:
    looks = look(head, name)
    assert looks.kind == ""
    assert why in looks.skip


@pytest.mark.parametrize(
    ("name", "inner"),
    (("a.mbox.gz", "a.mbox"), ("A.TXT.BZ2", "A.TXT"), ("a.tgz", "a.tar"), ("a.xz", "a"), ("a", "a")),
)
def test_a_compressed_file_names_what_is_in_it(name: str, inner: str) -> None:
    assert inner_name(name) == inner


@settings(deadline=None)
@given(st.binary(max_size=HEAD), st.text(max_size=20), st.text(max_size=20))
def test_anything_is_something(head: bytes, name: str, media_type: str) -> None:
    try:
        looks = look(head, name, media_type)
    except NotWhatItClaims:
        return
    assert (looks.kind in KINDS | CONTAINERS) != bool(looks.skip)
