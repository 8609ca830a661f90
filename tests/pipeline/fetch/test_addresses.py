"""Only public addresses are fetched from, whatever a name resolves to."""

from __future__ import annotations

import pytest

from onward.pipeline.fetch import AddressGuard
from onward.pipeline.fetch.fetch_errors import PrivateAddress
from onward.pipeline.fetch.location import is_public, resolve


@pytest.mark.parametrize(
    "address",
    (
        "8.8.8.8",
        "1.1.1.1",
        "172.32.0.1",
        "100.128.0.1",
        "2606:4700:4700::1111",
        "2001:4860:4860::8888",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2002:808:808::1",
    ),
)
def test_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    (
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:0:7f00:1::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "2002:c0a8:101::1",
        "2606:4700::5efe:a00:1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
    ),
)
def test_not_public(address: str) -> None:
    assert not is_public(address)


def test_of_several_addresses_only_the_public_ones_are_connected_to() -> None:
    guard = AddressGuard(resolve=lambda host, port: ["10.0.0.1", "8.8.8.8", "::1"])
    assert guard.addresses("example.org", 80) == ["8.8.8.8"]


def test_a_private_host_is_refused_by_name_and_address() -> None:
    guard = AddressGuard(resolve=lambda host, port: ["169.254.169.254"])
    with pytest.raises(
        PrivateAddress, match=r"meta\.example is at 169\.254\.169\.254.*ONWARD_FETCH_ALLOW_PRIVATE"
    ):
        guard.addresses("meta.example", 80)


def test_a_host_without_addresses_is_refused() -> None:
    with pytest.raises(PrivateAddress, match="no address"):
        AddressGuard(resolve=lambda host, port: []).addresses("example.org", 80)


def test_private_addresses_can_be_allowed() -> None:
    guard = AddressGuard(allow_private=True, resolve=lambda host, port: ["10.0.0.1"])
    assert guard.addresses("intranet.example", 80) == ["10.0.0.1"]


@pytest.mark.parametrize("spelling", ("127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.1"))
def test_odd_spellings_of_an_address_are_judged_by_what_they_mean(spelling: str) -> None:
    with pytest.raises(PrivateAddress, match=r"127\.0\.0\.1"):
        AddressGuard().addresses(spelling, 80)


def test_a_host_that_is_not_found_may_be_found_later() -> None:
    with pytest.raises(ConnectionError, match=r"no-such-host\.invalid"):
        resolve("no-such-host.invalid", 80)
