"""Locations of sources: one canonical form for each path and URL."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from onward.pipeline import uploads
from onward.pipeline.fetch.fetch_errors import UnusableSource

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=//)|(file):", re.IGNORECASE)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_ALLOWED = "give a file, a folder, or an http:// or https:// URL"


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
            raise UnusableSource(f"{location!r} names a file on another host, {parts.netloc!r}: {_ALLOWED}")
        if not parts.path:
            raise UnusableSource(f"{location!r} names no file: {_ALLOWED}")
        return _canonical_path(unquote(parts.path, errors="surrogateescape"))
    if scheme == uploads.SCHEME:
        if uploads.read_location(location) is None:
            raise UnusableSource(f"{shown(location)!r} names no upload: upload the file again")
        return location
    if scheme not in _DEFAULT_PORTS:
        raise UnusableSource(f"{shown(location)!r} has the scheme {scheme!r}, which is not fetched: {_ALLOWED}")
    return canonical_url(location)


def canonical_url(url: str) -> str:
    """Normalise an http or https URL: lower case where case means nothing, no fragment, no default port."""
    import httpx2  # slow to import, and not needed for files

    try:
        parsed = httpx2.URL(url)
        if not parsed.host:
            raise UnusableSource(f"{shown(url)!r} names no host: {_ALLOWED}")
        if re.search(r"[\s%<>\"\\^`{|}]", parsed.host) or not 0 < (parsed.port or 80) <= 65_535:
            raise UnusableSource(f"{shown(url)!r} is no URL that can be fetched: check its host and port")
        if parsed.port == _DEFAULT_PORTS.get(parsed.scheme):
            parsed = parsed.copy_with(port=None)
        return str(parsed.copy_with(fragment=None, raw_path=parsed.raw_path or b"/"))
    except (httpx2.InvalidURL, UnicodeError, ValueError) as error:
        raise UnusableSource(f"{shown(url)!r} is no URL that can be fetched: {error}") from None


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


def printable(name: str) -> str:
    """Return a path as valid UTF-8; different paths stay different."""
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
