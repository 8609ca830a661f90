"""The history of a repository: its commits as mails, in one mailbox for each month."""

from __future__ import annotations

import hashlib
import io
import secrets
import subprocess
import time
from collections.abc import Iterable, Iterator
from email.header import Header
from email.utils import formatdate
from functools import partial
from itertools import chain
from typing import BinaryIO

from onward.pipeline.fetch.mbox_writer import write_mail
from onward.pipeline.source_kinds.git_program import Git, GitFailed
from onward.pipeline.source_kinds.source_kind import Entry

FOLDER = ":history"  # no file of a repository that a person sees has such a path
MAX_DIFF_BYTES = 20_000  # of one commit, with the list of its paths
MAX_MESSAGE_BYTES = 100_000
_MAX_LINE_BYTES = 4000
_FORMAT = "%H%n%an%n%ae%n%at%n%ct%n%B"
_HEADER_LINES = 5


def history_entries(git: Git, commit: str, folder: str) -> Iterator[Entry]:
    """Yield one mailbox for each month in which there are commits.

    Its version is made of the ids of its commits: a month is read again if commits were added to it or removed.
    """
    for month, commits in _commits_by_month(git, commit, folder).items():
        version = hashlib.sha256("".join(commits).encode()).hexdigest()
        yield Entry(
            path=f"{FOLDER}/{month}.mbox",
            version=version,
            fetch=partial(_write_commits, git, commits, folder),
            media_type="application/mbox",
        )


def _commits_by_month(git: Git, commit: str, folder: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    arguments = ("rev-list", "--timestamp", "--reverse", "--topo-order", "--end-of-options", commit, "--")
    for line in git.fields(*arguments, *filter(None, [folder]), separator=b"\n"):
        seconds, _, id = line.decode().partition(" ")
        month = time.strftime("%Y-%m", time.gmtime(_in_range(seconds)))
        found.setdefault(month, []).append(id)
    return found


def _write_commits(git: Git, commits: list[str], folder: str, target: BinaryIO) -> None:
    for mail, seconds in _commit_mails(git, commits, folder):
        write_mail(io.BytesIO(mail), target, seconds)


def _commit_mails(git: Git, commits: list[str], folder: str) -> Iterator[tuple[bytes, int]]:
    # Random text, which no commit can contain, so that no commit can look like the beginning of another.
    mark = secrets.token_hex(16).encode()
    with git.started(
        "log", "--no-walk=unsorted", "--stdin", f"--format={mark.decode()}%n{_FORMAT}%n{mark.decode()}",
        "--no-color", "--no-ext-diff", "--no-textconv", "--no-notes", "--no-mailmap", "--encoding=UTF-8",
        "--ignore-submodules=none", "--submodule=short", "--patch", "--stat=180,160", "--stat-count=100",
        "--find-renames", "-l200",
        feeds=True, settings=("diff.renameLimit=200",),
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        paths = ["--", folder] if folder else []
        # git reads all of it before it writes anything.
        process.stdin.write("".join(f"{line}\n" for line in [*commits, *paths]).encode())
        process.stdin.close()
        count = 0
        for count, (about, diff) in enumerate(_split_log(process, mark), 1):  # noqa: B007
            yield _as_mail(about, diff)
        if process.wait() != 0 or count != len(commits):
            raise GitFailed(f"git log gave {count} of {len(commits)} commits in {str(git.folder)!r}")


def _split_log(process: subprocess.Popen[bytes], mark: bytes) -> Iterator[tuple[list[bytes], bytes]]:
    """Yield header and message of each commit in lines, and its diff."""
    assert process.stdout is not None
    about: list[bytes] = []
    diff = bytearray()
    marks = cut = size = 0
    for line in _lines(process.stdout):
        if line == mark + b"\n":
            if marks and marks % 2 == 0:
                yield about, _closed(diff, cut)
                about, diff, cut, size = [], bytearray(), 0, 0
            marks += 1
        elif marks % 2 == 1:
            size += len(line)
            if len(about) <= _HEADER_LINES or size <= MAX_MESSAGE_BYTES:
                about.append(line)
        elif len(diff) + len(line) > MAX_DIFF_BYTES or cut:
            cut += len(line)
        else:
            diff += line
    if marks:
        yield about, _closed(diff, cut)


def _lines(stream: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines, and the beginnings of those that are too long."""
    read = getattr(stream, "readline")  # noqa: B009
    begins = True
    while line := read(_MAX_LINE_BYTES):
        ends = line.endswith(b"\n")
        if begins:
            yield line if ends else line + b"\n"
        begins = ends


def _closed(diff: bytearray, cut: int) -> bytes:
    return bytes(diff) + (f"[{cut:,} more bytes of the diff]\n".encode() if cut else b"")


def _as_mail(about: list[bytes], diff: bytes) -> tuple[bytes, int]:
    lines = [line.decode("utf-8", "replace") for line in about]
    id, name, address, authored, committed = (line.strip() for line in lines[:_HEADER_LINES])
    message = "".join(lines[_HEADER_LINES:]).strip()
    subject, _, body = message.partition("\n")
    headers = {
        "From": f"{_encoded(name)} <{''.join(filter(_is_plain, address))}>",
        "Date": formatdate(_in_range(authored)),
        "Subject": _encoded(subject.strip() or "(no message)"),
        "Message-ID": f"<{id}@git>",
        "MIME-Version": "1.0",
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Transfer-Encoding": "8bit",
    }
    head = "".join(f"{key}: {value}\n" for key, value in headers.items())
    parts = chain(
        [head.encode(), b"\n", body.strip().encode(), b"\n"], [b"\n", diff.strip(b"\n"), b"\n"] if diff else []
    )
    return b"".join(parts), _in_range(committed)


def _encoded(text: str) -> str:
    """Return a header value that no name or subject can break out of."""
    text = "".join(character if character.isprintable() else " " for character in text)
    if text.isascii() and "=?" not in text and not set(text) & set('<>"(),;:@\\'):
        return text
    return Header(text, "utf-8", maxlinelen=200).encode()


def _is_plain(character: str) -> bool:
    return character.isprintable() and character not in "<>, \t"


def _in_range(seconds: str) -> int:
    """Return a time of git as one that a calendar has; anybody can write any number."""
    try:
        return min(max(int(seconds), 0), 253_402_300_799)
    except ValueError:
        return 0
