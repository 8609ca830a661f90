"""A source has one name, however it is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward.pipeline.fetch import canonical
from onward.pipeline.fetch.fetch_errors import UnusableSource
from onward.pipeline.fetch.location import printable, shown


@pytest.mark.parametrize(
    ("written", "meant"),
    (
        ("HTTP://Example.ORG", "http://example.org/"),
        ("https://example.org:443/a?b=1#part", "https://example.org/a?b=1"),
        ("http://example.org:80/", "http://example.org/"),
        ("http://example.org:8080/a", "http://example.org:8080/a"),
        ("https://bücher.example/ä", "https://xn--bcher-kva.example/%C3%A4"),
        (" https://example.org/a/../b ", "https://example.org/b"),
        ("http://me:secret@example.org/x", "http://me:secret@example.org/x"),
        ("http://[::1]:80/", "http://[::1]/"),
        ("file:///etc/../tmp/x%20y.txt", str(Path("/tmp/x y.txt").resolve())),
        ("file://localhost/tmp/x", str(Path("/tmp/x").resolve())),
    ),
)
def test_a_location_has_one_spelling(written: str, meant: str) -> None:
    assert canonical(written) == meant
    assert canonical(meant) == meant


def test_a_path_is_absolute_and_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "notes")
    monkeypatch.chdir(tmp_path)
    assert {canonical("notes"), canonical("./notes/"), canonical("link"), canonical(f"{tmp_path}/x/../notes")} == {
        str((tmp_path / "notes").resolve())
    }


def test_a_path_may_look_a_little_like_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert canonical("a:b.txt") == str(tmp_path.resolve() / "a:b.txt")


@pytest.mark.parametrize(
    ("given_", "says"),
    (
        ("", "empty"),
        ("  ", "empty"),
        ("ftp://example.org/x", "'ftp'"),
        ("svn://host/key", "'svn'"),
        ("file://server/share", "another host"),
        ("http://", "no host"),
        ("https://exa mple.org/", "no URL"),
        ("http://example.org:99999999/", "no URL"),
        ("a\0b", "NUL"),
    ),
)
def test_what_cannot_be_a_source_is_refused_with_what_can(given_: str, says: str) -> None:
    with pytest.raises(UnusableSource, match=says):
        canonical(given_)


def test_a_loop_of_links_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(UnusableSource, match="leads nowhere"):
        canonical(str(tmp_path / "a"))


@pytest.mark.parametrize(
    "url", ("ftp://me:secret@example.org/", "http://me:secret@exa mple.org/", "http://u:secret@:1/")
)
def test_credentials_are_never_shown(url: str) -> None:
    with pytest.raises(UnusableSource) as caught:
        canonical(url)
    assert "secret" not in str(caught.value)
    assert shown("https://me:secret@example.org/x?y") == "https://***@example.org/x?y"


@pytest.mark.parametrize(
    "scheme", ("git+https", "git+ssh", "publicinbox+https", "pipermail+https", "s3", "gs", "az")
)
@pytest.mark.parametrize(
    "rest",
    (
        "host/a?token=SECRET", "host/a?token=SECRET x", "host/a#SECRET", "?token=SECRET",
        "host:bad/a?token=SECRET", "me:SECRET@host/a", "SECRET@host/a", "me:SEC/RET@host/a",
        "me:SEC?RET@host/a", "me:SEC/RET@[host/a",
    ),
)  # fmt: skip
def test_a_refusal_repeats_no_secret(scheme: str, rest: str) -> None:
    if (scheme, rest) in (("git+ssh", "SECRET@host/a"), ("pipermail+https", "host/a#SECRET")):
        return  # the user of ssh is no secret, and the fragment of a page is dropped
    with pytest.raises(UnusableSource) as refused:
        canonical(f"{scheme}://{rest}")
    assert "SEC" not in str(refused.value)


@pytest.mark.parametrize(
    "location",
    (
        "https://host:bad/?token=SECRET", "https://me:SEC/RET@host/", "https://[h/?token=SECRET",
        "https:///?token=SECRET", "crawl+https://me:SECRET@host/", "crawl+https://me:SEC/RET@host/",
        "crawl+https://host:99999/?token=SECRET", "sitemap+https://[h/?token=SECRET", "feed+https://me:SEC@[h/",
        "hyperkitty+https://host/list/a@b/?token=SECRET", "ftp://h/?token=SECRET",
        "imapz://ada:SEC/RET@host/", "imaps://ada:SEC/RET@host/", "imaps://ada@host:SECRET@host/",
        "publicinbox+ftp://me:SECRET@host/", "git+file://me:SECRET@host/a", "git+file://host/a?token=SECRET",
        "file://me:SECRET@host/a", "file://host/a?token=SECRET",
        "s3://bucket/a?endpoint=https://me:SECRET@host", "s3://bucket/a?endpoint=https://me:SEC/RET@host",
    ),
)  # fmt: skip
def test_no_kind_repeats_a_secret(location: str) -> None:
    with pytest.raises(UnusableSource) as refused:
        canonical(location)
    assert "SEC" not in str(refused.value)


@pytest.mark.parametrize(
    ("location", "shown"),
    (
        ("https://host:99999/list/a@b/?x=1", "https://host:99999/list/a@b/"),
        ("ftp://host/list/a@b/", "ftp://host/list/a@b/"),
        ("git+https://u:p@host/r.git?x#y", "git+https://***@host/r.git"),
        ("publicinbox+https://host:bad/r", "git+https://host:bad/r"),
    ),
)
def test_a_refusal_names_the_rest_of_a_location(location: str, shown: str) -> None:
    with pytest.raises(UnusableSource) as refused:
        canonical(location)
    assert repr(shown) in str(refused.value)


@settings(deadline=None)
@given(st.text(st.characters(), max_size=5), st.text(st.characters(), max_size=5))
def test_every_name_can_be_stored_and_those_that_could_be_before_stay(one: str, other: str) -> None:
    for name in (one, other):
        printable(name).encode()
        assert printable(printable(name)) == printable(name)


@settings(deadline=None)
@given(st.text(st.characters()))
def test_any_text_has_a_canonical_form_or_is_refused(text: str) -> None:
    try:
        once = canonical(text)
    except UnusableSource:
        return
    assert canonical(once) == once
