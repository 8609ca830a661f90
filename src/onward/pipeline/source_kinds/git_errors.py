"""Turns the messages of git into errors that name the remedy and say whether a retry can help."""

from __future__ import annotations

import errno
import re

from onward.pipeline.fetch.fetch_errors import (
    HTTPAnswerError,
    Refused,
    SourceMissing,
    UnreadableSource,
    UnusableSource,
)
from onward.pipeline.source_kinds.git_program import DamagedCopy, GitFailed
from onward.pipeline.source_kinds.git_remote import GitRemote, is_commit_id

_MAX_SAID_CHARACTERS = 300
_STATUS = re.compile(r"(?:returned error: |HTTP )(\d{3})")
_NO_REF = re.compile(r"couldn't find remote ref|not our ref|unadvertised object|no such remote ref")
_LOGIN = re.compile(r"could not read (?:Username|Password)|Authentication failed|terminal prompts disabled")
_KEY = re.compile(r"Permission denied \(|Too many authentication failures|Load key ")
_MISSING = re.compile(
    r"not found|does not exist|does not appear to be a git repository|not a git repository"
    r"|No such file or directory"
)
_REDIRECT = re.compile(r"unable to update url base from redirection|redirect", re.IGNORECASE)
_NETWORK = re.compile(
    r"Could not resolve host|Failed to connect|Couldn't connect|Connection (?:refused|reset|timed out|closed)"
    r"|timed out|early EOF|RPC failed|hung up unexpectedly|unexpected disconnect|Operation too slow"
    r"|Network is unreachable|No route to host|Name or service not known|Temporary failure|SSL|TLS"
    r"|GnuTLS|Could not read from remote",
)
_DAMAGED = re.compile(
    r"corrupt|bad object|missing (?:blob|tree|commit)|did not send all|unresolved deltas|bad tree"
)


def fetch_error(remote: GitRemote, ref: str, stderr: bytes) -> Exception:
    """Return the error of a fetch that has failed."""
    text = stderr.decode("utf-8", "replace")
    name = remote.url
    said = _last_words(text)
    if "No space left" in text or "Disk quota exceeded" in text:
        return OSError(errno.ENOSPC, f"there is no space for a copy of {name}: free some in the data folder")
    if _NO_REF.search(text):
        if is_commit_id(ref):
            remedy = "check it; some servers give commits of branches and tags only, so name one of these"
        elif ref == "HEAD":
            remedy = "it is empty, or has no default branch; name one with --option ref=…"
        else:
            remedy = "give a branch, a tag or a whole commit id; `git ls-remote` lists them"
        return UnusableSource(f"{name} has no ref {ref!r}: {remedy}")
    if "dubious ownership" in text:
        return UnreadableSource(
            f"{name} belongs to another user, and git refuses it: "
            f"git config --global --add safe.directory {remote.folder}"
        )
    if (status := _STATUS.search(text)) is not None:
        return _by_status(name, int(status[1]))
    if _LOGIN.search(text):
        return Refused(
            f"{name} does not exist or is not open to everyone: check it, or put credentials into ~/.netrc or a "
            "credential helper of git", 401
        )  # fmt: skip
    if "Host key verification failed" in text:
        return UnreadableSource(
            f"{name}: the key of the host is not known: `ssh-keyscan {remote.host}`, compare it, and add it to "
            "~/.ssh/known_hosts"
        )
    if _KEY.search(text):
        return UnreadableSource(f"{name} refuses the keys of this user ({said}): add one with ssh-add, or there")
    if "dumb http" in text:
        return UnusableSource(f"{name} serves files only, not git's own protocol: clone it yourself")
    if _REDIRECT.search(text):
        return UnusableSource(f"{name} redirects, which is not followed ({said}): give the URL it ends at")
    if _DAMAGED.search(text):
        return DamagedCopy(f"{name}: the copy of the repository is damaged ({said})")
    if _NETWORK.search(text) and not _MISSING.search(text):
        return ConnectionError(f"{name} could not be fetched: {said}")
    if _MISSING.search(text):
        return SourceMissing(f"there is no git repository at {name} ({said}): check its name")
    return GitFailed(f"{name} could not be fetched: {said}")


def _by_status(name: str, status: int) -> Exception:
    answer = f"{name} answered {status}"
    if status >= 500 or status in (408, 425, 429):
        return HTTPAnswerError(f"{answer}: the server cannot answer now", status)
    if 300 <= status < 400:
        return UnusableSource(f"{name} redirects, which is not followed: give the URL it ends at")
    if status in (401, 403, 407):
        return Refused(
            f"{answer}: it is not open to everyone; put credentials into ~/.netrc or a credential helper of git",
            status,
        )
    return Refused(f"{answer}: there is no git repository there; check the URL", status)


def _last_words(text: str) -> str:
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    important = [line for line in lines if line.startswith(("fatal:", "error:", "ssh:"))] or lines
    said = "; ".join(dict.fromkeys(important)) or "git said nothing"
    said = "".join(filter(str.isprintable, said))
    # The configuration of git may put credentials into a URL.
    return re.sub(r"//[^/@\s]*@", "//***@", said)[:_MAX_SAID_CHARACTERS]
