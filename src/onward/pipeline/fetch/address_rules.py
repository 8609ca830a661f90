"""Which network addresses may be fetched from: only public ones, unless the settings allow private ones."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address

from onward.pipeline.fetch.fetch_errors import PrivateAddress

# The anycast of 6to4 relays, deprecated by RFC 7526: Python counts it as public.
_ANYCAST_6TO4 = IPv4Network("192.88.99.0/24")
_NAT64 = IPv6Network("64:ff9b::/96")
# The part of IPv6 that is assigned, not all that is unreserved.
_IPV6_PUBLIC = IPv6Network("2000::/3")


def is_public(address: str) -> bool:
    """Return whether an address, and any IPv4 address that it leads to, belongs to the public internet."""
    ip = ip_address(address)
    if isinstance(ip, IPv4Address):
        return _is_public_v4(ip)
    if (mapped := ip.ipv4_mapped) is not None:
        return _is_public_v4(mapped)
    if ip in _NAT64:
        return _is_public_v4(IPv4Address(int(ip) & 0xFFFFFFFF))
    if ip.scope_id is not None or ip not in _IPV6_PUBLIC or not ip.is_global or ip.is_multicast:
        return False
    if (inner := ip.sixtofour) is not None and not _is_public_v4(inner):
        return False
    # Teredo and ISATAP tunnel to any IPv4 address; no public server needs them.
    isatap = (int(ip) >> 32) & 0xFFFF == 0x5EFE and (int(ip) >> 48) & 0xFCFF == 0
    return ip.teredo is None and not isatap


def _is_public_v4(ip: IPv4Address) -> bool:
    special = ip.is_multicast or ip.is_reserved or ip.is_unspecified or ip in _ANYCAST_6TO4
    return ip.is_global and not special


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host from the resolver of the system."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        # The error of the resolver does not name the host. It is transient: a network that is down looks the same.
        raise ConnectionError(
            f"the host {host!r} is not found: {error}; check its name and the network"
        ) from error
    except UnicodeError as error:
        raise ConnectionError(f"the host {host!r} cannot be looked up: {error}") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(frozen=True, slots=True)
class AddressGuard:
    """Resolves a host to allowed addresses; these are connected to, so DNS rebinding has no effect."""

    allow_private: bool = False
    resolve: Callable[[str, int], Iterable[str]] = resolve
    permit: Callable[[str], bool] = lambda address: False  # allows further addresses

    def addresses(self, host: str, port: int) -> list[str]:
        """Return the allowed addresses of a host; raise if there is none."""
        found = list(self.resolve(host, port))
        allowed = [ip for ip in found if self.allow_private or self.permit(ip) or is_public(ip)]
        if not allowed:
            raise PrivateAddress(
                f"{host} is at {', '.join(found) or 'no address'}, which is not on the public internet: "
                "set ONWARD_FETCH_ALLOW_PRIVATE=true if you mean to fetch from your own network"
            )
        return allowed
