"""A test's server as if it were on the public internet."""

from __future__ import annotations

from pathlib import Path

from onward.pipeline.fetch import AddressGuard, FetchLimits
from tests.pipeline.fetch.taking import Taken, take

PAGE = b"<!doctype html><title>Hello</title><p>Hello"
HOSTS = {
    "site.example": ["127.0.0.1"],
    "other.example": ["127.0.0.1"],
    "both.example": ["127.0.0.2", "10.0.0.1", "127.0.0.1"],
    "intranet.example": ["127.0.0.2"],
    "localhost": ["127.0.0.1"],
}
# As if the test's server were on the public internet: one address of loopback is permitted, the others are not.
GUARD = AddressGuard(
    resolve=lambda host, port: HOSTS.get(host, [host]), permit=lambda address: address == "127.0.0.1"
)


def fetch_url(url: str, scratch: Path, limits: FetchLimits | None = None, guard: AddressGuard = GUARD) -> Taken:
    return take(url, scratch, limits, guard)
