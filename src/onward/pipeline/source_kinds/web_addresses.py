"""Addresses of web pages: one form for each page, and which of them belong to a crawl."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import urljoin, urlsplit

from onward.pipeline.fetch.fetch_errors import UnusableSource
from onward.pipeline.fetch.location import canonical_url, refused

MAX_URL_CHARACTERS = 2_000
MAX_SEGMENTS = 40
MAX_PARAMETERS = 20
MAX_REPEATS = 2  # of a word in a path: links that are relative by mistake make ever longer paths

_SPACES = re.compile(r"[\x00-\x20\x7f]+")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# Not courlan's list, which takes `gallery`, `uid`, `cid` and `source` for trackers: elsewhere these name a page.
_TRACKING = re.compile(
    r"(utm_|mtm_|pk_|hsa_|matomo_|piwik_)\w*|(gcl|dcl|fbcl|msclk|yscl|ycl|twcl|igsh|gbra|wbra|srslt)id|"
    r"mc_[ce]id|_ga|_gl|_hs(enc|mi)|mkt_tok|vero_(id|conv)|oly_(enc|anon)_id",
    re.IGNORECASE,
)
_SESSION_KEY = re.compile(
    r"(jsession|phpsess|aspsession\w*|session|sess)[_-]?(id)?|zenid|oscsid|osclid|cftoken|cfid", re.IGNORECASE
)
_SHORT_SESSION_KEY = re.compile(r"sid|s", re.IGNORECASE)
_SESSION_VALUE = re.compile(r"[0-9A-Za-z,-]{16,}")
_SESSION_IN_PATH = re.compile(r";(jsessionid|phpsessid|sessionid|sid)=[^/;]*", re.IGNORECASE)
_ASP_SESSION = re.compile(r"/\((?:[A-Z]\([0-9A-Za-z_-]{10,}\))+\)(?=/)", re.IGNORECASE)
_FILE_NAME = re.compile(r"[^/]*\.[A-Za-z][A-Za-z0-9]{0,9}")
_DOTS = frozenset({".", ".."})
_DEFAULT_PORTS = {"http": 80, "https": 443}


def normalized(link: str, base: str = "") -> str | None:
    """Return the one form of a link: absolute, without tracking and session ids; None if it is no web page.

    The same page can have several such forms; this finds those that can be told from the address alone.
    """
    link = _SPACES.sub("", link)
    try:
        url = urljoin(base, link) if base else link
        parts = urlsplit(url)
        if parts.scheme.lower() not in _DEFAULT_PORTS or "\\" in parts.netloc:
            return None
        url = canonical_url(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl())
        if len(url) > MAX_URL_CHARACTERS:
            return None
        parts = urlsplit(url)
    except (UnusableSource, ValueError):
        return None
    path = _ASP_SESSION.sub("", _SESSION_IN_PATH.sub("", _unescaped(parts.path)))
    query = "&".join(sorted(filter(_is_content, _unescaped(parts.query).split("&"))))
    form = parts._replace(path=path or "/", query=query).geturl()
    # Only now `%2e%2e` is a segment that leads elsewhere; the client would resolve it when it sends the request.
    return form if _DOTS.isdisjoint(path.split("/")) else normalized(form)


def _unescaped(text: str) -> str:
    """Undo escapes that are not needed, and write the others in upper case."""

    def one(match: re.Match[str]) -> str:
        code = int(match[1], 16)
        return chr(code) if code in _UNRESERVED else f"%{code:02X}"

    return _ESCAPE.sub(one, text)


def _is_content(parameter: str) -> bool:
    """Return whether a parameter may choose the page, unlike those for tracking and sessions."""
    name, _, value = parameter.partition("=")
    if not parameter or _TRACKING.fullmatch(name):
        return False
    if _SESSION_KEY.fullmatch(name):
        return not value or _SESSION_VALUE.fullmatch(value) is None
    # Such short names have other meanings, too; a session id has digits and letters.
    is_id = len(value) >= 24 and value.isalnum() and not value.isdigit() and not value.isalpha()
    return not (_SHORT_SESSION_KEY.fullmatch(name) and is_id)


def web_location(location: str, prefix: str) -> str:
    """Return the canonical form of a location such as `crawl+https://site/folder/`."""
    url = location.strip()
    if url[: len(prefix)].lower() == prefix:
        url = url[len(prefix) :]
    canonical = canonical_url(url)
    if "@" in urlsplit(canonical).netloc:
        raise UnusableSource(
            f"{refused(url)!r} has a user name or a password, which would be stored: web sites are read as anyone "
            "sees them; save pages that need a password as files, and ingest the folder"
        )
    return prefix + canonical


def origin(url: str) -> str:
    """Return the scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def is_trap(url: str) -> bool:
    """Return whether an address looks as if a server makes ever longer ones."""
    parts = urlsplit(url)
    segments = [segment for segment in parts.path.split("/") if segment]
    words = Counter(segment for segment in segments if not segment.isdigit())
    names = [parameter.partition("=")[0] for parameter in parts.query.split("&")]
    return (
        len(segments) > MAX_SEGMENTS
        or len(names) > MAX_PARAMETERS
        or any(count > MAX_REPEATS for count in words.values())
    )


@dataclass(frozen=True, slots=True)
class Scope:
    """Which addresses belong to a crawl: those of its site, below its folder."""

    start: str  # normalised
    subdomains: bool = False
    include: tuple[str, ...] = ()  # patterns of paths with their query; empty: all
    exclude: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """Return the path that all pages are below, with a slash at its end."""
        path = urlsplit(self.start).path
        above, _, last = path.rpartition("/")
        return above + "/" if not last or _FILE_NAME.fullmatch(last) else path + "/"

    def is_same_site(self, url: str) -> bool:
        mine, its = urlsplit(self.start), urlsplit(url)
        if (mine.port or _DEFAULT_PORTS) != (its.port or _DEFAULT_PORTS):
            return False
        host, other = _without_www(mine.hostname), _without_www(its.hostname)
        return other == host or (self.subdomains and other.endswith("." + host))

    def allows(self, url: str) -> bool:
        """Return whether a normalised URL belongs to the crawl."""
        if url == self.start:
            return True
        if not self.is_same_site(url) or is_trap(url):
            return False
        parts = urlsplit(url)
        if not (parts.path + "/").startswith(self.folder):
            return False
        address = parts.path + (f"?{parts.query}" if parts.query else "")
        if any(fnmatchcase(address, pattern) for pattern in self.exclude):
            return False
        return not self.include or any(fnmatchcase(address, pattern) for pattern in self.include)

    def path_of(self, url: str) -> str:
        """Return the path of a page in its source; `url_of` is the inverse."""
        home = origin(self.start) + "/"
        path = url.removeprefix(home)
        if not url.startswith(home) or path.startswith(("/", "http://", "https://")):
            return url
        return path or "/"

    def url_of(self, path: str) -> str:
        if path.startswith(("http://", "https://")):
            return path
        return f"{origin(self.start)}/{'' if path == '/' else path}"


def _without_www(host: str | None) -> str:
    return (host or "").removeprefix("www.")


def patterns(value: str) -> tuple[str, ...]:
    """Read the patterns of an option: with spaces between them, where `*` stands for anything."""
    return tuple(pattern if pattern.startswith(("/", "*")) else f"*{pattern}" for pattern in value.split())
