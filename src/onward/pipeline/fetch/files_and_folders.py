"""The items of files and folders: `.gitignore` by git's own rules, and a Maildir as one mbox."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pathspec import GitIgnoreSpec, RegexPattern

from onward.pipeline.fetch.fetch_errors import SourceMissing, UnreadableSource, UnusableSource
from onward.pipeline.fetch.fetched_items import (
    TOOLS,
    FetchedItem,
    SkippedFiles,
    SkipReason,
    problem_item,
    reason_to_skip,
)
from onward.pipeline.fetch.location import printable
from onward.pipeline.fetch.mbox_writer import write_mail
from onward.pipeline.fetch.unpacker import FoundFile, Unpacker

# A folder with one of these files is made by a tool: a virtual environment, a cache.
_TOOL_MARKS = ("pyvenv.cfg", "CACHEDIR.TAG")
MBOX_TYPE = "application/mbox"
_MAX_GITIGNORE_BYTES = 1_000_000
_MAILDIR_PARTS = ("cur", "new", "tmp")
_MAIL_SERVER = SkipReason("mail_server", "a mail server's own file in a Maildir")
_DEVICE = SkipReason("device", "a device or pipe")
_OUTSIDE = SkipReason("link", "a link that leads out of the folder")
_LEADS_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
# A folder, relative to the source ("" or "docs/"), and the rules of its `.gitignore`.
_IgnoreRules = tuple[str, list[RegexPattern]]


class _FolderEntry(NamedTuple):
    """A file or folder in the source, with the ignore rules that apply to it."""

    path: str  # as in the file system; see `printable`
    rules: tuple[_IgnoreRules, ...] = ()
    folder: bool = True
    maildir: bool = False


@dataclass(frozen=True, slots=True)
class FoundPath:
    """A file that is ingested, a Maildir, or something that cannot be opened."""

    path: str  # relative to the source; "" for the source itself
    file: Path  # a Maildir is a folder
    mails: Mapping[str, str] | None = None  # of a Maildir: where each mail is, by its name without flags
    problem: Exception | None = None

    def copy_mails(self, target: BinaryIO, skipped: SkippedFiles) -> None:
        """Write the mails of a Maildir in mboxrd format, the same whatever flags they have."""
        base = self.path + "/" if self.path else ""
        for unique, place in sorted((self.mails or {}).items()):
            if not _copy_mail(self.file, unique, place, target):
                skipped.add(SkipReason("empty", "an empty mail"), base + printable(place))


def fetch_path(root: Path, unpacker: Unpacker) -> Iterator[FetchedItem]:
    """Yield the items of a file or folder."""
    for found in list_path(root, unpacker.skipped):
        if found.problem is not None:
            yield problem_item(found.path, found.problem)
        elif found.mails is not None:
            copy_to = partial(found.copy_mails, skipped=unpacker.skipped)
            yield FetchedItem(found.path, "mbox", copy_to, MBOX_TYPE)
        else:
            yield from take_file(found.file, found.path, unpacker)


def list_path(root: Path, skipped: SkippedFiles, *, own: Path | None = None) -> Iterator[FoundPath]:
    """List what is ingested of a file or folder; raise if there is nothing at all.

    `own` is a folder of Onward itself, which is left out: each run would find what the one before has stored.
    """
    try:
        mode = root.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise SourceMissing(f"there is no file or folder {str(root)!r}: check its name") from None
    except PermissionError as error:
        raise _access_error(error, str(root), "source") from error
    if stat.S_ISDIR(mode):
        yield from _list_folder(root, skipped, own)
    elif stat.S_ISREG(mode):
        yield FoundPath("", root)
    else:
        raise UnusableSource(f"{str(root)!r} is neither a file nor a folder: give one of these, or a URL")


def take_file(
    file: Path, path: str, unpacker: Unpacker, *, name: str = "", media_type: str = "", url: str = ""
) -> Iterator[FetchedItem]:
    """Yield the items of a file on disk, which has `path` in the source."""
    try:
        stream = file.open("rb")
    except OSError as error:
        yield problem_item(path, _access_error(error, path or str(file), "file"))
        return
    with stream:
        name, size = name or printable(file.name), os.fstat(stream.fileno()).st_size
        yield from unpacker.items(FoundFile(path, name, stream, size, media_type, url, file=stream))


def _list_folder(root: Path, skipped: SkippedFiles, own: Path | None) -> Iterator[FoundPath]:
    entries = [_FolderEntry("", maildir=_is_maildir(root))]
    while entries:
        entry = entries.pop()
        path = printable(entry.path)
        if not entry.folder:
            yield FoundPath(path, root / entry.path)
            continue
        if own is not None and root / entry.path == own:
            skipped.add(TOOLS, path)
            continue
        try:
            mails = _mails(root / entry.path, path, skipped) if entry.maildir else {}
            # A stack, so that the content of a folder comes where the folder would.
            entries += reversed(list(_entries(root, entry, skipped)))
        except OSError as error:
            problem = _access_error(error, path or str(root), "folder")
            yield FoundPath(path, root / entry.path, problem=problem)
            continue
        if mails:
            yield FoundPath(path, root / entry.path, mails)


def _entries(root: Path, parent: _FolderEntry, skipped: SkippedFiles) -> Iterator[_FolderEntry]:
    """Yield the entries of a folder that are ingested, in order; count the others as skipped."""
    folder = root / parent.path
    base = parent.path + "/" if parent.path else ""
    rules = parent.rules + _read_ignore_rules(folder, base)
    with os.scandir(folder) as listing:
        found = sorted(listing, key=lambda child: child.name)
    if parent.path and any(child.name in _TOOL_MARKS for child in found):
        skipped.add(TOOLS, printable(parent.path))
        return
    for entry in found:
        path = base + entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        maildir = is_folder and _is_maildir(folder / entry.name)
        if parent.maildir:
            # Its mails are one item; of the rest only Maildirs are entered, which are often hidden.
            if not maildir and entry.name in _MAILDIR_PARTS:
                continue
            reason = None if maildir else _MAIL_SERVER
        else:
            reason = reason_to_skip(entry.name, folder=is_folder)
            if reason is None and _is_ignored(rules, path, folder=is_folder):
                reason = SkipReason("gitignore", "ignored by .gitignore")
            elif reason is None and not is_folder:
                reason = _reason_to_skip_file(entry, root)
        if reason is None:
            yield _FolderEntry(path, rules, folder=is_folder, maildir=maildir)
        else:
            skipped.add(reason, printable(path))


def _reason_to_skip_file(entry: os.DirEntry[str], root: Path) -> SkipReason | None:
    if not entry.is_symlink():
        return None if entry.is_file() else _DEVICE
    try:
        target = Path(entry.path).resolve(strict=True)
    except (OSError, RuntimeError) as error:
        if not isinstance(error, OSError) or error.errno in _LEADS_NOWHERE:
            return SkipReason("link", "a link that leads nowhere")
        # It may be a file of the folder, which must not be removed: then opening it says what is wrong.
        return None if Path(entry.path).resolve().is_relative_to(root) else _OUTSIDE
    if not target.is_relative_to(root):
        return _OUTSIDE
    if target.is_dir():
        return SkipReason("link", "a link to a folder, whose files are taken where they are")
    return None if target.is_file() else _DEVICE


def _access_error(error: OSError, path: str, what: str) -> Exception:
    """Make a denied access permanent; other errors of the disk are transient."""
    if isinstance(error, PermissionError):
        return UnreadableSource(f"the {what} {path!r} may not be read: allow it for this user, or leave it out")
    return error


def _read_ignore_rules(folder: Path, base: str) -> tuple[_IgnoreRules, ...]:
    """Return the rules of the `.gitignore` of a folder; none without a readable one."""
    file = folder / ".gitignore"
    try:
        if file.is_symlink() or not file.is_file():
            return ()
        with file.open("rb") as stream:
            lines = stream.read(_MAX_GITIGNORE_BYTES).decode("utf-8-sig", "surrogateescape").splitlines()
    except OSError:
        return ()
    patterns: list[RegexPattern] = []
    for line in lines:
        with suppress(ValueError):  # an invalid line must not disable the whole file
            patterns += GitIgnoreSpec.from_lines([line]).patterns
    return ((base, patterns),)


def _is_ignored(rules: Sequence[_IgnoreRules], path: str, *, folder: bool) -> bool:
    """Return whether the last matching rule of the nearest `.gitignore` that has one ignores a path."""
    # Rules that match a folder above it do not count: an ignored folder is never entered.
    for base, patterns in reversed(rules):
        inside = path.removeprefix(base)
        for pattern in reversed(patterns):
            if pattern.include is None or pattern.regex is None:
                continue
            # Its only group is the slash after the name of a matching folder; a path goes on below that folder.
            match = pattern.regex.search(inside)
            itself = match is not None and match.lastindex is None
            if folder and not itself:
                matches = pattern.regex.finditer(inside + "/")
                itself = any(match.lastindex and match.end() == len(inside) + 1 for match in matches)
            if itself:
                return pattern.include
    return False


def _is_maildir(folder: Path) -> bool:
    """Return whether a folder is a Maildir; also if that cannot be seen now, which is reported when it is listed.

    Listed as something else, it would lose its mails.
    """
    try:
        return all((folder / part).is_dir() for part in _MAILDIR_PARTS)
    except OSError:
        return True


def _mails(folder: Path, path: str, skipped: SkippedFiles) -> dict[str, str]:
    """Return where each mail of a Maildir is."""
    mails, others = _maildir_entries(folder)
    for place in others:
        skipped.add(_MAIL_SERVER, (path + "/" if path else "") + printable(place))
    return mails


def _maildir_entries(folder: Path) -> tuple[dict[str, str], list[str]]:
    """Return where each mail is now, by its name without flags; and the other entries of `cur` and `new`."""
    mails: dict[str, str] = {}
    others: list[str] = []
    for part in ("cur", "new"):
        with os.scandir(folder / part) as entries:
            for entry in entries:
                place = f"{part}/{entry.name}"
                if entry.name.startswith(".") or not entry.is_file(follow_symlinks=False):
                    others.append(place)
                else:
                    mails.setdefault(entry.name.partition(":2,")[0], place)
    return mails, others


def _copy_mail(folder: Path, unique: str, place: str, target: BinaryIO) -> bool:
    """Copy one mail as part of an mbox; return False if it is empty."""
    for _ in range(5):
        try:
            with (folder / place).open("rb") as mail:
                # The name of a mail begins with the time of its delivery.
                delivered = re.match(r"(\d{1,11})\.", unique)
                return write_mail(mail, target, int(delivered[1]) if delivered else 0)
        except FileNotFoundError:
            # A mail program has moved it, or deleted it: then it is left out.
            moved = _maildir_entries(folder)[0].get(unique)
            if moved is None:
                return True
            place = moved
        except PermissionError as error:
            raise UnreadableSource(
                f"the mail {str(folder / place)!r} may not be read: allow it, or move it away"
            ) from error
    raise FileNotFoundError(f"the mail {unique!r} in {str(folder)!r} moves faster than it can be read")
