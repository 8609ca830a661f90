"""Redirects are followed, but not in circles, not too far, and with credentials only where they belong."""

from __future__ import annotations

from pathlib import Path

import pytest

from onward import OnwardError, Permanent
from onward.pipeline.fetch import FetchLimits
from onward.pipeline.fetch.fetch_errors import EndlessRedirects, UnusableSource
from tests.pipeline.fetch.public import PAGE, fetch_url
from tests.support.web_server import Handler, Site


@pytest.mark.parametrize("status", (301, 302, 303, 307, 308))
def test_redirects_are_followed_and_the_item_has_the_last_url(site: Site, scratch: Path, status: int) -> None:
    site.page("/b/end", PAGE)
    site.redirect("/b/middle", "end#part", status)
    taken = fetch_url(site.redirect("/a", "/b/middle", status), scratch)
    assert taken.data == {"": PAGE}
    assert taken.items[0].url == site.url("/b/end")


def test_a_circle_is_noticed(site: Site, scratch: Path) -> None:
    site.redirect("/b", "/a")
    with pytest.raises(EndlessRedirects, match="in a circle"):
        fetch_url(site.redirect("/a", "/b"), scratch)
    assert len(site.requests) == 2


def test_a_redirect_that_sets_a_cookie_is_no_circle(site: Site, scratch: Path) -> None:
    def answer(handler: Handler) -> None:
        if "seen=1" in handler.headers.get("Cookie", ""):
            handler.give(PAGE)
        else:
            handler.give(b"", 302, Location="/", Set_Cookie="seen=1")

    site.answers["/"] = answer
    assert fetch_url(site.url("/"), scratch).data == {"": PAGE}


def test_too_many_redirects(site: Site, scratch: Path) -> None:
    for number in range(5):
        site.redirect(f"/{number}", f"/{number + 1}")
    site.page("/5", PAGE)
    assert fetch_url(site.url("/0"), scratch, FetchLimits(max_redirects=5)).data == {"": PAGE}
    with pytest.raises(EndlessRedirects, match="more than 4 redirects"):
        fetch_url(site.url("/0"), scratch, FetchLimits(max_redirects=4))


@pytest.mark.parametrize(
    "target", ("file:///etc/passwd", "FILE:///etc/passwd", "ftp://site.example/x", "data:text/plain,x")
)
def test_a_redirect_to_another_scheme_is_refused(site: Site, scratch: Path, target: str) -> None:
    with pytest.raises(UnusableSource, match="only http:// and https:// URLs are fetched"):
        fetch_url(site.redirect("/", target), scratch)


@pytest.mark.parametrize("target", ("http://", "http://exa mple/", "//[::1", "http://x:99999/"))
def test_a_redirect_to_nonsense_is_an_error(site: Site, scratch: Path, target: str) -> None:
    with pytest.raises(Permanent):
        fetch_url(site.redirect("/", target), scratch)


def test_credentials_are_sent_to_their_own_host_only(site: Site, scratch: Path) -> None:
    site.page("/end", PAGE)
    site.redirect("/own", site.url("/end", "other.example"))
    site.redirect("/", "/own")
    taken = fetch_url(site.url("/", "me:secret@site.example"), scratch)
    assert ["Authorization" in headers for _, _, headers in site.requests] == [True, True, False]
    assert taken.items[0].url == site.url("/end", "other.example")


def test_credentials_from_a_redirect_are_not_used(site: Site, scratch: Path) -> None:
    site.page("/end", PAGE)
    fetch_url(site.redirect("/", site.url("/end", "a:b@other.example")), scratch)
    assert all("Authorization" not in headers for _, _, headers in site.requests)


@pytest.mark.parametrize("status", (404, 503, 302, 200))
def test_credentials_are_not_shown(site: Site, scratch: Path, status: int) -> None:
    site.redirect("/", "/", status)
    with pytest.raises(OnwardError) as caught:
        fetch_url(site.url("/", "me:secret@site.example"), scratch)
    assert "site.example" in str(caught.value)
    assert "secret" not in str(caught.value)
