"""Mailing-list archives of public-inbox: git repositories in which each commit has a mail in the file `m`."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from typing import BinaryIO, NamedTuple

from onward.pipeline.fetch.fetch_errors import Refused, SourceMissing, UnusableSource
from onward.pipeline.fetch.location import refused
from onward.pipeline.fetch.mbox_writer import write_mail
from onward.pipeline.source_kinds import git_remote
from onward.pipeline.source_kinds.git_mirror import GitMirror, RunStopped
from onward.pipeline.source_kinds.git_program import Git, GitFailed, reading_objects
from onward.pipeline.source_kinds.git_remote import GitRemote, parse_remote
from onward.pipeline.source_kinds.source_kind import Entry, SourceOption, SourceRun

PREFIX = "publicinbox+"
BATCH_COMMITS = 1000  # whose mails are one mailbox
_MAX_EPOCHS = 1000
_GONE = (404, 410)


class MissingEpoch(GitFailed):
    """A repository of a list is not there now, and was before."""


class _Mail(NamedTuple):
    blob: str
    seconds: int


class _Epoch(NamedTuple):
    number: int
    git: Git
    commit: str


class PublicInboxes:
    """A mailing list of lore.kernel.org or another server of public-inbox, or from its folder."""

    name = "public-inbox archive"
    schemes = tuple(PREFIX + scheme.removeprefix(git_remote.PREFIX) for scheme in git_remote.SCHEMES)
    options: tuple[SourceOption, ...] = ()

    def canonical(self, location: str) -> str:
        return PREFIX + _parse(location).url

    def entries(self, run: SourceRun) -> Iterator[Entry]:
        with suppress(RunStopped), ExitStack() as stack:
            epochs = list(_fetch_epochs(_parse(run.location), run, stack))
            deleted: set[str] = set()  # the mails that a later commit deletes
            for epoch in reversed(epochs):
                for batch, mails in _batches(epoch, deleted):
                    yield Entry(
                        path=f"{epoch.number}/{batch:06}.mbox",
                        version=hashlib.sha256("".join(mail.blob for mail in mails).encode()).hexdigest(),
                        fetch=partial(_write_mails, epoch.git, mails),
                        media_type="application/mbox",
                    )


def _parse(location: str) -> GitRemote:
    """Return where an archive is; its repositories are below."""
    scheme = location.strip().partition("://")[0].lower()
    if scheme not in PublicInboxes.schemes:
        raise UnusableSource(
            f"{refused(location)!r} is no public-inbox archive: give publicinbox+https://host/list/ or publicinbox+file:///folder"
        )
    return parse_remote(git_remote.PREFIX + location.strip()[len(PREFIX) :])


def _repository(archive: GitRemote, epoch: int) -> GitRemote:
    path = f"/git/{epoch}.git" if archive.transport == "file" else f"/{epoch}"
    return parse_remote(git_remote.PREFIX + archive.url.rstrip("/") + path)


def _fetch_epochs(archive: GitRemote, run: SourceRun, stack: ExitStack) -> Iterator[_Epoch]:
    """Fetch the repositories of an archive, of which each follows the one before when that was full."""
    known = max((int(path.partition("/")[0]) for path in run.versions if path[:1].isdecimal()), default=-1)
    for number in range(_MAX_EPOCHS):
        mirror = GitMirror(_repository(archive, number), run, f"epoch-{number}")
        try:
            commit = stack.enter_context(mirror.fetched("HEAD", history=True))
        except (SourceMissing, Refused) as error:
            if isinstance(error, Refused) and error.status_code not in _GONE:
                raise
            if number == 0:
                raise SourceMissing(
                    f"there is no public-inbox archive at {archive.url}, which has the repository "
                    f"{mirror.remote.url} ({error}). An archive of the first format is one git repository: "
                    "ingest that with git+…"
                ) from error
            if number <= known:
                # A mistake of the server must not remove what is stored.
                raise MissingEpoch(
                    f"{mirror.remote.url} is missing, and was there before. If it is gone for good, forget the "
                    "source and ingest it again"
                ) from error
            return
        yield _Epoch(number, mirror.git, commit)


def _batches(epoch: _Epoch, deleted: set[str]) -> Iterator[tuple[int, list[_Mail]]]:
    """Yield the mails of each batch of commits that are not deleted later, the last batch first."""
    count = int(epoch.git.line("rev-list", "--count", epoch.commit) or 0)
    batch, mails = -1, list[_Mail]()
    for position, seconds, changes in _commits(epoch, count):
        if position // BATCH_COMMITS != batch:
            if mails:
                yield batch, mails[::-1]
            batch, mails = position // BATCH_COMMITS, []
        for name, blob in changes:
            if name == b"d":
                deleted.add(blob)
            elif blob in deleted:
                deleted.discard(blob)  # an equal mail before this one was not deleted, or has its own deletion
            else:
                mails.append(_Mail(blob, seconds))
    if mails:
        yield batch, mails[::-1]


def _commits(epoch: _Epoch, count: int) -> Iterator[tuple[int, int, list[tuple[bytes, str]]]]:
    """Yield position, time and changed files of each commit, the newest first."""
    position, seconds, changes, about = count, 0, list[tuple[bytes, str]](), b""
    fields = epoch.git.fields(
        "log", "-z", "--raw", "--no-abbrev", "--no-renames", "--first-parent", "--format=%ct", epoch.commit, "--"
    )
    for field in fields:
        text = field.lstrip(b"\n")
        if text.startswith(b":"):
            about = text
        elif about:
            blob, status = about.split()[3:5]
            if text in (b"m", b"d") and status in (b"A", b"M"):
                changes.append((text, blob.decode()))
            about = b""
        elif text:
            if position < count:
                yield position, seconds, changes
            position, seconds, changes = position - 1, int(text), []
    if position < count:
        yield position, seconds, changes


def _write_mails(git: Git, mails: list[_Mail], target: BinaryIO) -> None:
    with reading_objects(git) as objects:
        for mail in mails:
            write_mail(io.BytesIO(objects.read(mail.blob)), target, mail.seconds)
