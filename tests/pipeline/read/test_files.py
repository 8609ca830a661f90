"""Text of any encoding is read, and given a title."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward.pipeline.read.charsets import read_text
from onward.pipeline.read.text_files import read_title

RUSSIAN = "Съешь ещё этих мягких французских булок, да выпей же чаю. Широкая электрификация южных губерний."


@pytest.mark.parametrize(
    ("data", "text"),
    (
        (b"", ""),
        (b"plain", "plain"),
        ("Grüße".encode(), "Grüße"),
        (b"\xef\xbb\xbfmarked", "marked"),
        ("\ufeffwide".encode("utf-16-le"), "wide"),
        ("\ufeffwide".encode("utf-16-be"), "wide"),
        ("\ufeffwider".encode("utf-32-le"), "wider"),
        ("\ufeffwider".encode("utf-32-be"), "wider"),
        (RUSSIAN.encode("koi8-r"), RUSSIAN),
        (RUSSIAN.encode("cp1251"), RUSSIAN),
        (b"a\0b", "a\ufffdb"),
        (b"one\r\ntwo\rthree\n", "one\ntwo\nthree\n"),
        ("\ufeff".encode("utf-16-le") + b"\x00\xd8a\0", "\ufffda"),
    ),
)
def test_the_encoding_is_found(data: bytes, text: str) -> None:
    assert read_text(data) == text


def test_what_a_server_claims_is_tried_before_guessing() -> None:
    assert read_text("żółw".encode("iso-8859-2"), "ISO-8859-2") == "żółw"
    assert read_text("żółw".encode(), "ISO-8859-2") == "żółw"
    assert read_text(b"fine", "no-such-charset") == "fine"
    assert read_text(b"caf\xe9 au lait", "rot13") != ""


@pytest.mark.parametrize("charset", ("idna", "punycode", "unicode_escape", "raw-unicode-escape", "undefined"))
def test_codecs_that_are_no_charsets_are_not_used(charset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def use(*_: object) -> tuple[str, int]:
        raise AssertionError(f"{charset} was used")

    monkeypatch.setattr("encodings.idna.Codec.decode", use)
    assert read_text(b"caf\xe9 \\x41 xn--bcher-kva", charset) == "café \\x41 xn--bcher-kva"


@settings(deadline=None)
@given(st.binary(), st.text(max_size=10))
def test_it_never_fails_and_the_text_can_be_stored(data: bytes, charset: str) -> None:
    text = read_text(data, charset)
    text.encode()
    assert "\0" not in text


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff")))
def test_utf_8_is_read_as_it_is(text: str) -> None:
    assert read_text(text.encode()) == text


@pytest.mark.parametrize(
    ("text", "title"),
    (
        ("# Hello\n\ntext", "Hello"),
        ("intro\n\n## Second level ##\n", "Second level"),
        ("Hello\n=====\n", "Hello"),
        ('---\ntitle: "From the front"\n---\n# Other', "From the front"),
        ("---\ndate: today\n---\n# Hello", "Hello"),
        ("```\n# a comment\n```\n# Hello", "Hello"),
        ("#hashtag\n\ntext\n\n---\n", "notes.md"),
        ("- a\n---\n", "notes.md"),
        ("", "notes.md"),
    ),
)
def test_the_title_of_markdown(text: str, title: str) -> None:
    assert read_title(text, "markdown", "docs/notes.md") == title


@pytest.mark.parametrize(
    ("text", "title"),
    (
        ("Hello\n=====\n\ntext", "Hello"),
        ("=======\n Hello\n=======\n", "Hello"),
        (".. _label:\n\nHello\n-----\n", "Hello"),
        ("text\n\n----\n\nmore", "notes.rst"),
        ("", "notes.rst"),
    ),
)
def test_the_title_of_rest(text: str, title: str) -> None:
    assert read_title(text, "rst", "docs/notes.rst") == title


def test_other_files_are_called_by_their_name() -> None:
    assert read_title("# a comment", "code", "src/main.py") == "main.py"


@settings(deadline=None)
@given(st.text("ab# -=`~\n>:.", max_size=60), st.sampled_from(["markdown", "rst", "text"]))
def test_there_is_always_a_title(text: str, kind: str) -> None:
    assert read_title(text, kind, "a/b.md").strip() != ""
