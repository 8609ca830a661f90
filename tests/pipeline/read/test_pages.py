"""Of a web page, the article is read; of a page without one, all that can be seen."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward import Permanent
from onward.pipeline.read.page_text import NoText
from onward.pipeline.read.web_pages import read_page

PARAGRAPH = "Every document makes forward progress, or it is set aside with its whole history. " * 4
ARTICLE = f"""<!doctype html><html lang="en"><head><title>Forward progress</title>
<meta name="author" content="Ada Lovelace"><meta property="article:published_time" content="2026-03-02T10:00:00Z">
<style>p {{ color: red }}</style></head><body>
<nav><ul><li><a href="/">Home</a></li><li><a href="/about">About us</a></li></ul></nav>
<article><h1>Forward progress</h1><p>{PARAGRAPH}</p><h2>Why</h2><p>{PARAGRAPH}</p>
<ul><li>first point</li><li>second point</li></ul></article>
<script>track("everyone")</script><footer>Imprint and privacy</footer></body></html>"""


def test_the_article_of_a_page() -> None:
    page = read_page(ARTICLE.encode(), "https://example.org/a")
    assert page.title == "Forward progress"
    assert page.author == "Ada Lovelace"
    assert page.date == 1772409600.0
    assert PARAGRAPH.strip() in page.text
    assert "## Why" in page.text
    assert "- first point" in page.text
    for clutter in ("About us", "Imprint", "track(", "color"):
        assert clutter not in page.text


def test_a_page_may_be_read_without_looking_for_its_article() -> None:
    page = read_page(ARTICLE.encode(), "https://example.org/a", find_article=False)
    assert page.title == "Forward progress"
    assert PARAGRAPH.strip() in page.text
    assert "About us" in page.text
    assert page.defects == ("read as all of its visible text: its article takes too long to find",)


def test_a_page_without_an_article_gives_all_that_can_be_seen() -> None:
    page = read_page(
        b"<title>Menu</title><nav><a href=/a>Soup</a><a href=/b>Bread</a><script>x</script></nav>", ""
    )
    assert page.title == "Menu"
    assert page.text.split() == ["Soup", "Bread"]
    assert page.date is None


@pytest.mark.parametrize(
    "html", (b"", b"<html></html>", b"<title>Only a title</title><script>render()</script>", b"<img src=x>")
)
def test_a_page_with_no_text_is_a_permanent_error(html: bytes) -> None:
    with pytest.raises(NoText, match="no text") as caught:
        read_page(html, "https://example.org/app")
    assert isinstance(caught.value, Permanent)
    assert "https://example.org/app" in str(caught.value)


@pytest.mark.parametrize("declared", ("server", "page"))
def test_the_charset_is_what_the_server_or_the_page_says(declared: str) -> None:
    meta = '<meta charset="windows-1250">' if declared == "page" else ""
    html = f"<html><head>{meta}<title>Żółw</title></head><body><p>Gęś</p></body></html>".encode("cp1250")
    page = read_page(html, "", "cp1250" if declared == "server" else "")
    assert (page.title, page.text) == ("Żółw", "Gęś")


def test_deep_nesting_does_no_harm() -> None:
    page = read_page(b"<div>" * 5000 + b"deep down" + b"</div>" * 5000, "")
    assert "deep down" in page.text


@pytest.mark.parametrize(
    "page",
    (
        b"<p %s>" % b" ".join(b"a%d=1" % number for number in range(500_000)),
        b"<div>" * 400_000,
        b"<b><i>x<p>" * 300_000,
    ),
    ids=("attributes", "elements", "formats"),
)
def test_a_page_that_is_made_to_take_hours_gives_the_text_between_its_tags(page: bytes) -> None:
    head = b"<html><head><title>Tides &amp; ships</title><style>p {}</style></head><script>no()</script>"
    read = read_page(head + b"<body>" + page + b"The estuary <b>froze</b> over.", "https://example.org/")
    assert read.title == "Tides & ships"
    assert read.text.endswith("The estuary\nfroze\nover.")
    assert "no()" not in read.text
    assert read.defects == ("read as text between tags: it has too many nested tags or attributes",)


@pytest.mark.parametrize("gap", (" " * 1_000_000, " " * 500_000 + "\n" + " " * 500_000))
def test_long_gaps_in_a_page_do_no_harm(gap: str) -> None:
    page = f"<title>Menu</title><nav><a href=/a>Soup{gap}and\n \n\n bread</a></nav>"
    text = read_page(page.encode(), "").text
    assert text.split() == ["Soup", "and", "bread"]
    assert text.endswith("and\n\nbread")


def test_a_charset_that_is_made_to_take_hours_is_not_read() -> None:
    head = b"<meta" * 39 + b" charset=" + b" " * 3_900  # all in the part that is searched
    assert read_page(b"<p>Soup</p>" + head, "").text == "Soup"


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=300).map(lambda noise: b"<p>Hello</p>" + noise))
def test_any_bytes_give_text_or_our_error(data: bytes) -> None:
    try:
        page = read_page(data, "https://example.org/")
    except NoText:
        return
    assert page.text.strip() != ""
    (page.title + page.author + page.text).encode()
