"""Locations of sources: one canonical form for each path and URL, and the addresses that may be fetched from."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from onward.pipeline import uploads
from onward.pipeline.fetch.fetch_errors import PrivateAddress, UnusableSource

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=//)|(file):", re.IGNORECASE)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_ALLOWED = "give a file, a folder, or an http:// or https:// URL"
# The anycast of 6to4 relays, deprecated by RFC 7526: Python counts it as public.
_ANYCAST_6TO4 = IPv4Network("192.88.99.0/24")
_NAT64 = IPv6Network("64:ff9b::/96")
# The part of IPv6 that is assigned, not all that is unreserved.
_IPV6_PUBLIC = IPv6Network("2000::/3")


def canonical(location: str) -> str:
    """Return an absolute path without links, or a normalised URL; nothing else is looked up."""
    if not location.strip():
        raise UnusableSource(f"the source is empty ({location!r}): {_ALLOWED}")
    if "\0" in location:
        raise UnusableSource(f"the source {location!r} holds a NUL character: {_ALLOWED}")
    if not (match := _SCHEME.match(location.lstrip())):
        return _canonical_path(location)
    location = location.strip()
    scheme = (match[1] or match[2]).lower()
    if scheme == "file":
        parts = urlsplit(location)
        if parts.netloc not in ("", "localhost"):
            raise UnusableSource(f"{refused(location)!r} names a file on another host: {_ALLOWED}")
        if not parts.path:
            raise UnusableSource(f"{refused(location)!r} names no file: {_ALLOWED}")
        return _canonical_path(unquote(parts.path, errors="surrogateescape"))
    if scheme == uploads.SCHEME:
        if uploads.read_location(location) is None:
            raise UnusableSource(f"{refused(location)!r} names no upload: upload the file again")
        return location
    if scheme in _DEFAULT_PORTS:
        return canonical_url(location)
    from onward.pipeline.source_kinds import registry  # it reads the metadata of all installed packages

    kind = registry.kind_of_scheme(scheme)
    if kind is None:
        schemes = set(registry.schemes()) - _DEFAULT_PORTS.keys()
        known = ", ".join(f"{one}://" for one in sorted(schemes) if f"{one}s" not in schemes)
        allowed = _ALLOWED + (f", or one that begins with {known}" if known else "")
        if near := get_close_matches(scheme, registry.schemes(), n=1, cutoff=0.75):
            allowed = f"did you mean {near[0]}://? Or {allowed}"
        raise UnusableSource(f"{refused(location)!r} has the scheme {scheme!r}, which is not fetched: {allowed}")
    return kind.canonical(location)


def canonical_url(url: str) -> str:
    """Normalise an http or https URL: lower case where case means nothing, no fragment, no default port."""
    import httpx2  # slow to import, and not needed for files

    try:
        parsed = httpx2.URL(url)
        if not parsed.host:
            raise UnusableSource(f"{refused(url)!r} names no host: {_ALLOWED}")
        if re.search(r"[\s%<>\"\\^`{|}]", parsed.host) or not 0 < (parsed.port or 80) <= 65_535:
            raise UnusableSource(f"{refused(url)!r} is no URL that can be fetched: check its host and port")
        if parsed.port == _DEFAULT_PORTS.get(parsed.scheme):
            parsed = parsed.copy_with(port=None)
        return str(parsed.copy_with(fragment=None, raw_path=parsed.raw_path or b"/"))
    except (httpx2.InvalidURL, UnicodeError, ValueError) as error:
        # What it takes for a port may be part of a password.
        reason = "check its host and port" if "@" in url else error
        raise UnusableSource(f"{refused(url)!r} is no URL that can be fetched: {reason}") from None


def is_path(source: str) -> bool:
    """Return whether a canonical location is a file or a folder."""
    return source.startswith("/") or not _SCHEME.match(source)


def is_url(location: str) -> bool:
    return location.startswith(("http://", "https://"))


def shown(url: str) -> str:
    """Return a URL without its credentials, for messages."""
    try:
        parts = urlsplit(url)
        if "@" not in parts.netloc:
            return url
        return urlunsplit(parts._replace(netloc="***@" + parts.netloc.rpartition("@")[2]))
    except ValueError:
        return re.sub(r"//[^/]*@", "//***@", url)


def refused(location: str) -> str:
    """Return a location that is not used, for the message: without what may be a password or a token.

    A password may have characters in it that end the host, and its user may have forgotten to escape them.
    """
    place = re.sub(r"//[^/@]*:(?!\d*(?:[/?#]|$))[^@]*@", "//***@", location)
    return shown(re.split(r"[?#]", place, maxsplit=1)[0])


def printable(name: str) -> str:
    """Return a path as valid UTF-8, in which another byte is written as `\\xff`."""
    try:
        return os.fsencode(name).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        return name.encode("utf-8", "backslashreplace").decode()


def _canonical_path(location: str) -> str:
    try:
        return str(Path(location).expanduser().resolve())
    except (RuntimeError, OSError, ValueError) as error:
        # A loop of links, or the home folder of an unknown user.
        raise UnusableSource(f"the path {location!r} leads nowhere: {error}; {_ALLOWED}") from None


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
        allowed = [ip for ip in found if self._allows(ip)]
        if not allowed:
            raise PrivateAddress(
                f"{host} is at {', '.join(found) or 'no address'}, which is not on the public internet: "
                "set ONWARD_FETCH_ALLOW_PRIVATE=true if you mean to fetch from your own network"
            )
        return allowed

    def check(self, address: str) -> None:
        """Raise if an address is not allowed to which something else has connected."""
        if not self._allows(address):
            raise PrivateAddress(f"{address} is not on the public internet: no request is sent to it")

    def _allows(self, address: str) -> bool:
        return self.allow_private or self.permit(address) or is_public(address)
