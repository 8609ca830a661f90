"""One form for each address of a page; what is stored as a version is read again."""

from __future__ import annotations

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.pipeline.source_kinds.page_links import Directives, read_directives, read_page
from onward.pipeline.source_kinds.page_version import PageVersion, read_version
from onward.pipeline.source_kinds.web_addresses import Scope, is_trap, normalized

SAME = (
    ("HTTP://Site.Example:80/a/../b#part", "http://site.example/b"),
    ("http://site.example", "http://site.example/"),
    ("http://site.example/%7euser/%c3%a9", "http://site.example/~user/%C3%A9"),
    ("http://site.example/é x", "http://site.example/%C3%A9x"),
    ("http://site.example/a?b=2&a=1&&utm_source=x&fbclid=y", "http://site.example/a?a=1&b=2"),
    ("http://me:secret@site.example/", "http://site.example/"),
    ("http://site.example/a;jsessionid=0A1B/b", "http://site.example/a/b"),
    ("http://site.example/a/%2e%2E/b", "http://site.example/b"),
    ("http://site.example/a/.%2e;sid=1/%2e/b", "http://site.example/b"),
    (
        "http://site.example/a?gallery=5&uid=3&source=list&sid=7",
        "http://site.example/a?gallery=5&sid=7&source=list&uid=3",
    ),
)


@pytest.mark.parametrize(("address", "form"), SAME)
def test_an_address_has_one_form(address: str, form: str) -> None:
    assert normalized(address) == form


@pytest.mark.parametrize(
    "link",
    ("mailto:a@b.org", "javascript:void(0)", "ftp://x/", "http://[::1", "http://x:99999/", "data:,x"),
)
def test_what_is_no_web_page_has_none(link: str) -> None:
    assert normalized(link, "http://site.example/") is None


def test_links_are_relative_to_their_page() -> None:
    assert normalized(" b\n?x=1 ", "http://site.example/a/c") == "http://site.example/a/b?x=1"
    assert normalized("//other.example/x", "https://site.example/") == "https://other.example/x"


PARTS = st.text(st.sampled_from('aZ09-._~%/?&=;:#+é ü()jsessionid\\"<>[]@'), max_size=40)


@given(path=PARTS, query=PARTS)
def test_the_form_of_a_form_is_itself(path: str, query: str) -> None:
    form = normalized(f"http://site.example/{path}?{query}")
    assert form is None or normalized(form) == form


# What could become a segment `..` only after the others were resolved.
DOTS = ("/", "/", ".", "..", "%2e", "%2E", "%252e", "%2f", "%", "2e", ";sid=1", "/(S(0123456789ab))", "a", "?")


@given(parts=st.lists(st.sampled_from(DOTS), max_size=20).map("".join))
def test_the_path_that_is_sent_is_the_one_that_is_checked(parts: str) -> None:
    form = normalized(f"http://site.example/{parts}")
    assert form is not None
    assert normalized(form) == form
    assert httpx2.URL(form).raw_path.decode() == form.removeprefix("http://site.example")


@given(path=PARTS, query=PARTS, start=st.sampled_from(("http://site.example/", "http://site.example/a/b.html")))
def test_a_page_has_a_path_and_its_path_a_page(path: str, query: str, start: str) -> None:
    url = normalized(f"http://site.example/{path}?{query}")
    if url is not None:
        scope = Scope(start)
        assert scope.path_of(url)
        assert scope.url_of(scope.path_of(url)) == url


@pytest.mark.parametrize("path", ("/a/b/a/b/a/b", "/x" * 50, "/?" + "&".join(f"p{n}=1" for n in range(30))))
def test_an_address_that_grows_is_a_trap(path: str) -> None:
    assert is_trap(f"http://site.example{path}")
    assert not is_trap("http://site.example/2026/03/03/03/a-day?x=1")


VERSIONS = st.builds(
    PageVersion,
    digest=st.text(min_size=1, max_size=5),
    etag=st.text(max_size=5),
    hint=st.text(max_size=5),
    links=st.lists(st.text(max_size=5)).map(tuple),
    cut=st.booleans(),
)


@given(version=VERSIONS)
def test_a_version_is_read_as_it_was_written(version: PageVersion) -> None:
    assert read_version(str(version)) == version


@pytest.mark.parametrize("text", ("", "1", "[]", "{}", '{"digest": 1', '{"digest":"x", "etag":""}', "null"))
def test_a_version_of_another_program_is_none(text: str) -> None:
    assert read_version(text) is None


def test_links_in_a_version_are_short_and_lead_to_the_same_pages() -> None:
    page = "http://site.example/docs/page?x=1"
    links = [
        "http://site.example/docs/a",
        "http://site.example/docs/a:b",
        "http://site.example/docs/?q=1",
        "http://site.example/other",
        "https://other.example/docs/a",
    ]
    version = PageVersion("d").with_links(page, links)
    assert version.absolute_links(page) == links
    assert version.links[0] == "a"


@pytest.mark.parametrize(
    ("text", "directives"),
    (
        ("", Directives()),
        ("noindex", Directives(index=False)),
        ("NoFollow, max-snippet:10", Directives(follow=False)),
        ("none", Directives(index=False, follow=False)),
        ("otherbot: noindex, nofollow", Directives()),
        ("otherbot: noindex, onward: nofollow", Directives(follow=False)),
    ),
)
def test_directives_for_other_crawlers_do_not_count(text: str, directives: Directives) -> None:
    assert read_directives(text) == directives


def test_a_page_that_is_made_to_take_long_is_read_in_another_way() -> None:
    hostile = b"<div>" * 100_000 + b'<a href="/x">x</a>'
    assert read_page(hostile, "http://site.example/", "text/html").links == ("http://site.example/x",)
