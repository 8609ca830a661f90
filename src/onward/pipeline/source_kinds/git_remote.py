"""Locations of git repositories, their refs, and links to what is in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from onward.pipeline.fetch.fetch_errors import UnusableSource
from onward.pipeline.fetch.location import AddressGuard, canonical_url, refused

PREFIX = "git+"
SCHEMES = ("git+https", "git+http", "git+ssh", "git+file")
_PORTS = {"https": 443, "http": 80, "ssh": 22}
_ALLOWED = "give git+https://host/repo.git, git+ssh://git@host/repo.git or git+file:///folder/repo"
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
# What git allows, and no ".." or "@{", which are expressions.
_REF = re.compile(r"(?!.*(?:\.\.|@\{|//))[^\s\-./~^:?*\[\\\x00-\x20\x7f][^\s~^:?*\[\\\x00-\x20\x7f]*(?<![./])")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# Where known hosts show a file at a commit.
_WEB_PATHS = {
    "github.com": "/blob/{commit}/{path}",
    "gitlab.com": "/-/blob/{commit}/{path}",
    "codeberg.org": "/src/commit/{commit}/{path}",
    "bitbucket.org": "/src/{commit}/{path}",
}


@dataclass(frozen=True, slots=True)
class GitRemote:
    """The address of a repository, as it is passed to git."""

    url: str
    transport: str  # "https", "http", "ssh" or "file"
    host: str = ""
    port: int = 0

    @property
    def folder(self) -> Path:
        """Return the folder of a repository on this machine."""
        return Path(unquote(urlsplit(self.url).path, errors="surrogateescape"))

    def network_settings(self, guard: AddressGuard, *, environment_proxies: bool) -> tuple[str, ...]:
        """Return settings that let git connect to allowed addresses only; raise if the host has none.

        ssh looks up its host itself, after this check. A redirect would lead elsewhere, and is not followed.
        """
        if self.transport == "file":
            return ()
        web = self.transport != "ssh"
        settings = ["http.followRedirects=false"] if web else []
        settings += ["http.proxy="] if web and not environment_proxies else []
        if guard.allow_private:
            return tuple(settings)
        try:
            addresses = guard.addresses(self.host.strip("[]"), self.port)
        except ConnectionError:
            if not (web and environment_proxies):
                raise
            addresses = []  # a name that only the proxy knows cannot be checked here
        if web and addresses:
            joined = ",".join(f"[{address}]" if ":" in address else address for address in addresses)
            settings.append(f"http.curloptResolve={self.host}:{self.port}:{joined}")
        return tuple(settings)

    def link(self, commit: str, path: str) -> str:
        """Return the URL of a file's web page, at the hosts whose addresses are known; else ""."""
        form = _WEB_PATHS.get(self.host)
        if form is None:
            return ""
        repository = urlsplit(self.url).path.strip("/").removesuffix(".git")
        return f"https://{self.host}/{repository}" + form.format(commit=commit, path=quote(path))


def canonical_remote(location: str) -> str:
    """Return the one form of the location of a repository; refuse credentials in it."""
    remote = parse_remote(location)
    return PREFIX + remote.url


def parse_remote(location: str) -> GitRemote:
    """Return where a repository is; raise `UnusableSource` if it cannot be one."""
    scheme, _, rest = location.strip().partition("://")
    transport = scheme.lower().removeprefix(PREFIX)
    if scheme.lower() not in SCHEMES:
        raise UnusableSource(f"{refused(location)!r} is no location of a git repository: {_ALLOWED}")
    if re.search(r"[\x00-\x20\x7f\\]|%0[0ad]", rest, re.IGNORECASE):
        raise UnusableSource(f"{refused(location)!r} has a space or control character in it: {_ALLOWED}")
    try:
        parts = urlsplit(f"{transport}://{rest}")
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        raise UnusableSource(f"{refused(location)!r} is no URL, by its host or port: {_ALLOWED}") from None
    if parts.query or parts.fragment:
        raise UnusableSource(
            f"{refused(location)!r} has more than host and path: name a branch, tag or commit with "
            "--option ref=…, a folder with --option path=…"
        )
    path = parts.path.rstrip("/")
    if transport == "file":
        return _on_this_machine(location, parts.netloc, path)
    _refuse_credentials(location, transport, parts.username, parts.password)
    host = f"[{host}]" if ":" in host else host
    if not _HOST.fullmatch(host) or not path.strip("/"):
        raise UnusableSource(f"{refused(location)!r} names no repository on a host: {_ALLOWED}")
    port = port or _PORTS[transport]
    if transport != "ssh":
        return GitRemote(canonical_url(f"{transport}://{parts.netloc}{path}"), transport, host, port)
    user = f"{parts.username}@" if parts.username else ""
    where = host if port == _PORTS["ssh"] else f"{host}:{port}"
    return GitRemote(f"ssh://{user}{where}{path}", transport, host, port)


def _on_this_machine(location: str, host: str, path: str) -> GitRemote:
    if host not in ("", "localhost") or not path:
        raise UnusableSource(f"{refused(location)!r} names no folder on this machine: {_ALLOWED}")
    folder = Path(unquote(path, errors="surrogateescape")).resolve()
    return GitRemote("file://" + quote(str(folder), errors="surrogateescape"), "file")


def _refuse_credentials(location: str, transport: str, user: str | None, password: str | None) -> None:
    if transport == "ssh" and password is None and (user is None or _USER.fullmatch(user)):
        return  # the user of ssh is no secret
    if user is not None or password is not None:
        remedy = (
            "leave them out and use a key of ssh"
            if transport == "ssh"
            else "leave them out, and put them into ~/.netrc or a credential helper of git"
        )
        raise UnusableSource(f"{refused(location)!r} has credentials in it, which would be stored: {remedy}")


def parse_ref(text: str) -> str:
    """Check the name of a branch or tag, or a whole commit id."""
    if not _REF.fullmatch(text) or text.endswith(".lock") or len(text) > 1000:
        raise ValueError("give the name of a branch or tag, a whole commit id, or HEAD")
    return text


def is_commit_id(ref: str) -> bool:
    return _COMMIT.fullmatch(ref) is not None


def parse_folder(text: str) -> str:
    """Check a path in a repository; return it without slashes at its ends."""
    path = text.strip("/")
    if "\0" in path or (path and any(part in ("", ".", "..") for part in path.split("/"))):
        raise ValueError("give a path from the top of the repository, such as docs/guide")
    return path
