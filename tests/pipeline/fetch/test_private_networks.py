"""A private network is reached only if the user allows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from onward.pipeline.fetch import AddressGuard, FetchLimits
from onward.pipeline.fetch.fetch_errors import PrivateAddress
from tests.pipeline.fetch.public import GUARD, PAGE, fetch_url
from tests.pipeline.fetch.taking import take
from tests.support.web_server import Site


@pytest.mark.parametrize(
    "host",
    (
        "127.0.0.1",
        "localhost",
        "127.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "2130706433",
        "169.254.169.254",
        "10.255.255.1",
    ),
)
def test_a_private_address_is_not_reached(site: Site, scratch: Path, host: str) -> None:
    site.page("/", PAGE)
    with pytest.raises(PrivateAddress, match="not on the public internet"):
        fetch_url(site.url("/", host), scratch, guard=AddressGuard())
    assert site.requests == []


@pytest.mark.parametrize("host", ("intranet.example", "127.0.0.2", "[::1]"))
def test_nor_after_a_redirect(site: Site, scratch: Path, host: str) -> None:
    with pytest.raises(PrivateAddress):
        fetch_url(site.redirect("/", site.url("/secret", host)), scratch)
    assert [path for _, path, _ in site.requests] == ["/"]


def test_nor_when_a_name_means_something_else_the_second_time(site: Site, scratch: Path) -> None:
    answers = iter((["127.0.0.1"], ["127.0.0.2"]))
    rebinding = AddressGuard(resolve=lambda host, port: next(answers), permit=GUARD.permit)
    site.page("/end", PAGE)
    with pytest.raises(PrivateAddress):
        fetch_url(site.redirect("/", "/end", Connection="close"), scratch, guard=rebinding)


def test_of_a_host_with_both_only_the_public_address_is_connected_to(site: Site, scratch: Path) -> None:
    site.page("/", PAGE)
    assert fetch_url(site.url("/", "both.example"), scratch).data == {"": PAGE}


def test_it_can_be_allowed(site: Site, scratch: Path) -> None:
    site.page("/", PAGE)
    assert take(site.url("/", "127.0.0.1"), scratch, FetchLimits(allow_private=True)).data == {"": PAGE}


def test_a_proxy_in_the_environment_is_not_used(
    site: Site, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert fetch_url(site.page("/", PAGE), scratch).data == {"": PAGE}
