"""The items of files and folders."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from onward.pipeline.fetch.fetch_errors import SourceMissing, UnreadableSource, UnusableSource
from onward.pipeline.fetch.fetched_item import FetchedItem, problem_item, reason_to_skip
from onward.pipeline.fetch.gitignore import IgnoreRules, is_ignored, read_ignore_rules
from onward.pipeline.fetch.location import printable
from onward.pipeline.fetch.maildir import PARTS, is_maildir, maildir_item
from onward.pipeline.fetch.skipped_files import (
    DEAD_LINK,
    DEVICE,
    FOLDER_LINK,
    GITIGNORE,
    MAIL_SERVER,
    OUTER_LINK,
    TOOLS,
    SkipReason,
)
from onward.pipeline.fetch.unpacker import FoundFile, Unpacker

# A folder with one of these files is made by a tool: a virtual environment, a cache.
_TOOL_MARKS = ("pyvenv.cfg", "CACHEDIR.TAG")


@dataclass(frozen=True, slots=True)
class _FolderEntry:
    """A file or folder in the source, with the ignore rules that apply to it."""

    path: str  # as in the file system; see `printable`
    rules: tuple[IgnoreRules, ...] = ()
    folder: bool = True
    maildir: bool = False


def fetch_path(root: Path, unpacker: Unpacker) -> Iterator[FetchedItem]:
    """Yield the items of a file or folder."""
    try:
        mode = root.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise SourceMissing(f"there is no file or folder {str(root)!r}: check its name") from None
    except PermissionError as error:
        raise _access_error(error, str(root), "source") from error
    if stat.S_ISDIR(mode):
        yield from _fetch_folder(root, unpacker)
    elif stat.S_ISREG(mode):
        yield from take_file(root, "", unpacker)
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
        size = os.fstat(stream.fileno()).st_size
        yield from unpacker.items(
            FoundFile(path, name or printable(file.name), stream, size, media_type, url, file=stream)
        )


def _fetch_folder(root: Path, unpacker: Unpacker) -> Iterator[FetchedItem]:
    entries = [_FolderEntry("", maildir=is_maildir(root))]
    while entries:
        entry = entries.pop()
        path = printable(entry.path)
        if entry.folder:
            try:
                item = maildir_item(root / entry.path, path, unpacker.skipped) if entry.maildir else None
                # A stack, so that the content of a folder comes where the folder would.
                entries += reversed(list(_entries(root, entry, unpacker)))
            except OSError as error:
                yield problem_item(path, _access_error(error, path or str(root), "folder"))
                continue
            if item is not None:
                yield item
        else:
            yield from take_file(root / entry.path, path, unpacker)


def _entries(root: Path, parent: _FolderEntry, unpacker: Unpacker) -> Iterator[_FolderEntry]:
    """Yield the entries of a folder that are ingested, in order; count the others as skipped."""
    folder = root / parent.path
    base = parent.path + "/" if parent.path else ""
    own = read_ignore_rules(folder, base)
    rules = parent.rules if own is None else (*parent.rules, own)
    with os.scandir(folder) as listing:
        found = sorted(listing, key=lambda child: child.name)
    if parent.path and any(child.name in _TOOL_MARKS for child in found):
        unpacker.skipped.add(TOOLS, printable(parent.path))
        return
    for entry in found:
        path = base + entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        maildir = is_folder and is_maildir(folder / entry.name)
        if parent.maildir:
            # Its mails are one item; of the rest only Maildirs are entered, which are often hidden.
            if maildir:
                yield _FolderEntry(path, rules, folder=True, maildir=True)
            elif entry.name not in PARTS:
                unpacker.skipped.add(MAIL_SERVER, printable(path))
        elif (reason := reason_to_skip(entry.name, folder=is_folder)) is not None:
            unpacker.skipped.add(reason, printable(path))
        elif is_ignored(rules, path, folder=is_folder):
            unpacker.skipped.add(GITIGNORE, printable(path))
        elif (reason := None if is_folder else _reason_to_skip_file(entry, root)) is not None:
            unpacker.skipped.add(reason, printable(path))
        else:
            yield _FolderEntry(path, rules, folder=is_folder, maildir=maildir)


def _reason_to_skip_file(entry: os.DirEntry[str], root: Path) -> SkipReason | None:
    if entry.is_symlink():
        try:
            target = Path(entry.path).resolve(strict=True)
        except (OSError, RuntimeError):
            return DEAD_LINK
        if not target.is_relative_to(root):
            return OUTER_LINK
        if target.is_dir():
            return FOLDER_LINK
        return None if target.is_file() else DEVICE
    return None if entry.is_file() else DEVICE


def _access_error(error: OSError, path: str, what: str) -> Exception:
    """Make a denied access permanent; other errors of the disk are transient."""
    if isinstance(error, PermissionError):
        return UnreadableSource(f"the {what} {path!r} may not be read: allow it for this user, or leave it out")
    return error
