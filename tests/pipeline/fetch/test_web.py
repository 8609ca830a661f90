"""A URL as a source: what is fetched, whole and not too much of it."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pytest

from onward import classify
from onward.pipeline.fetch import FetchLimits
from onward.pipeline.fetch.fetch_errors import NothingToIngest, NotWhatItClaims, TooLarge
from tests.pipeline.fetch.mails import MBOX
from tests.pipeline.fetch.packing import tar, zipped
from tests.pipeline.fetch.public import PAGE, fetch_url
from tests.support.web_server import Handler, Site


@pytest.mark.parametrize(
    ("path", "body", "media_type", "kind"),
    (
        ("/", PAGE, "text/html; charset=utf-8", "html"),
        ("/page.php", b"<p>No doctype", "text/html", "html"),
        ("/notes.txt", b"Hello", "text/plain", "text"),
        ("/README.md", b"# Hello", "text/plain; charset=utf-8", "markdown"),
        ("/main.rs", b"fn main() {}", "application/octet-stream", "code"),
        ("/paper", b"%PDF-1.7\n", "application/pdf", "pdf"),
        ("/download", b"%PDF-1.7\n", "application/octet-stream", "pdf"),
        ("/list.mbox", MBOX, "application/mbox", "mbox"),
        ("/2026-March.txt", MBOX, "text/plain", "mbox"),
        ("/2026-March.txt.gz", gzip.compress(MBOX), "application/x-gzip", "mbox"),
    ),
)
def test_what_is_at_a_url_is_one_item(
    site: Site, scratch: Path, path: str, body: bytes, media_type: str, kind: str
) -> None:
    taken = fetch_url(site.page(path, body, Content_Type=media_type), scratch)
    assert taken.kinds == {"": kind}
    assert taken.data[""] == (MBOX if kind == "mbox" else body)
    assert taken.items[0].url == site.url(path)


def test_the_media_type_is_kept_with_its_charset(site: Site, scratch: Path) -> None:
    (item,) = fetch_url(site.page("/", PAGE, Content_Type="text/html; charset=koi8-r"), scratch).items
    assert item.media_type == "text/html; charset=koi8-r"


@pytest.mark.parametrize(
    ("path", "body"), (("/a.tgz", gzip.compress(tar({"a.txt": b"a"}))), ("/a", zipped({"a.txt": b"a"})))
)
def test_an_archive_is_unpacked(site: Site, scratch: Path, path: str, body: bytes) -> None:
    assert fetch_url(site.page(path, body), scratch).data == {"a.txt": b"a"}


def test_we_say_who_we_are(site: Site, scratch: Path) -> None:
    fetch_url(site.page("/", PAGE), scratch)
    assert site.requests[0][2]["User-Agent"].startswith("onward/")


def test_a_login_page_instead_of_a_file_is_an_error(site: Site, scratch: Path) -> None:
    with pytest.raises(NotWhatItClaims, match="claims to be a zip archive, but its content is a web page"):
        fetch_url(site.page("/a.zip", PAGE, Content_Type="text/html"), scratch)


def test_the_server_may_name_the_file(site: Site, scratch: Path) -> None:
    url = site.page("/download", b"# Hello", Content_Disposition='attachment; filename="../../README.md"')
    assert fetch_url(url, scratch).kinds == {"": "markdown"}


@pytest.mark.parametrize(
    ("disposition", "name"),
    (
        ("attachment; filename*=idna''x.md", "x.md"),
        ("attachment; filename*=no-such''x%20y.md", "x y.md"),
        ("attachment; filename*=UTF-8''na%C3%AFve.md", "naïve.md"),
        ("attachment; filename=\"EURO.md\"; filename*=utf-8''%e2%82%ac.md", "€.md"),  # RFC 6266: the extended one
        ('attachment; filename="=?UTF-8?B?bmHDr3ZlLm1k?="', "naïve.md"),
        ("attachment; filename=two words.md", "two words.md"),
        ('attachment; filename=""', "download"),
        ("attachment; filename=../", "download"),
        ("inline", "download"),
        ('attachment; filename="a\tb.md"', "a b.md"),
    ),
)
def test_the_name_that_a_server_gives_is_read_in_every_form(
    site: Site, scratch: Path, disposition: str, name: str
) -> None:
    url = site.page("/download", b"# Hello", Content_Disposition=disposition, Content_Type="text/markdown")
    (item,) = fetch_url(url, scratch).items
    assert item.name == name


def test_an_empty_answer_is_nothing_to_ingest(site: Site, scratch: Path) -> None:
    for status in (200, 204):
        with pytest.raises(NothingToIngest):
            fetch_url(site.page("/", b"", status), scratch)


@pytest.mark.parametrize(("encoding", "body"), (("gzip", gzip.compress(PAGE)), ("deflate", zlib.compress(PAGE))))
def test_a_content_encoding_is_undone(site: Site, scratch: Path, encoding: str, body: bytes) -> None:
    assert fetch_url(site.page("/", body, Content_Encoding=encoding), scratch).data == {"": PAGE}


@pytest.mark.parametrize("encoding", ("gzip", "x-gzip"))
def test_a_gz_file_sent_as_an_encoding_is_what_is_in_it(site: Site, scratch: Path, encoding: str) -> None:
    url = site.page("/list.mbox.gz", gzip.compress(MBOX), Content_Encoding=encoding, Content_Type="text/plain")
    taken = fetch_url(url, scratch)
    assert taken.data == {"": MBOX}
    assert taken.kinds == {"": "mbox"}


def test_a_large_answer_is_refused_by_what_it_claims(site: Site, scratch: Path) -> None:
    with pytest.raises(TooLarge, match=r"larger than 1,000 bytes.* raise ONWARD_FETCH_MAX_BYTES"):
        fetch_url(site.page("/", b"x", Content_Length="1001"), scratch, FetchLimits(max_bytes=1000))


def test_an_endless_answer_is_cut_off(site: Site, scratch: Path) -> None:
    def endless(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not site.over.is_set():
            handler.wfile.write(b"x" * 100_000)

    site.answers["/"] = endless
    with pytest.raises(TooLarge):
        fetch_url(site.url("/"), scratch, FetchLimits(max_bytes=1_000_000))


def test_a_bomb_in_a_content_encoding_is_cut_off(site: Site, scratch: Path) -> None:
    url = site.page("/", gzip.compress(b"0" * 10_000_000), Content_Encoding="gzip")
    with pytest.raises(TooLarge):
        fetch_url(url, scratch, FetchLimits(max_bytes=1_000_000))


def test_an_answer_shorter_than_it_claims_may_be_whole_next_time(site: Site, scratch: Path) -> None:
    with pytest.raises(ConnectionError, match=r"site\.example") as caught:
        fetch_url(site.page("/", b"half", Content_Length="8"), scratch)
    assert classify(caught.value).unavailable


def test_bad_data_in_a_content_encoding_may_be_good_next_time(site: Site, scratch: Path) -> None:
    with pytest.raises(ConnectionError, match="cannot be decoded"):
        fetch_url(site.page("/", b"no gzip", Content_Encoding="gzip"), scratch)
