"""Files and folders as sources."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from onward.pipeline.fetching.containers import Found, Taker
from onward.pipeline.fetching.errors import SourceMissing, Unreadable, UnusableSource
from onward.pipeline.fetching.ignoring import IgnoreRules, is_ignored, read_ignore_rules
from onward.pipeline.fetching.items import Item, reason_to_skip, trouble
from onward.pipeline.fetching.location import printable
from onward.pipeline.fetching.maildir import is_maildir, maildir_item

# A folder with one of these says itself that it is made by a tool: a virtual environment, a cache.
_TOOL_MARKS = ("pyvenv.cfg", "CACHEDIR.TAG")


@dataclass(frozen=True, slots=True)
class _Place:
    """A path inside of the folder that is walked, and what was learned of it on the way there."""

    path: str
    """As the file system spells it; `printable` before it is shown."""
    rules: tuple[IgnoreRules, ...] = ()
    folder: bool = True
    maildir: bool = False


def fetch_path(root: Path, taker: Taker) -> Iterator[Item]:
    """Yield the items of a file or folder."""
    try:
        mode = root.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise SourceMissing(f"there is no file or folder {str(root)!r}: check its name") from None
    except PermissionError as error:
        raise _judged(error, str(root), "source") from error
    if stat.S_ISDIR(mode):
        yield from _fetch_folder(root, taker)
    elif stat.S_ISREG(mode):
        yield from take_file(root, "", taker)
    else:
        raise UnusableSource(f"{str(root)!r} is neither a file nor a folder: give one of these, or a URL")


def take_file(
    file: Path, path: str, taker: Taker, *, name: str = "", media_type: str = "", url: str = ""
) -> Iterator[Item]:
    """Yield the items in a file on disk, which is at `path` in the source."""
    try:
        stream = file.open("rb")
    except OSError as error:
        yield trouble(path, _judged(error, path or str(file), "file"))
        return
    with stream:
        size = os.fstat(stream.fileno()).st_size
        yield from taker.take(
            Found(path, name or printable(file.name), stream, size, media_type, url, file=stream)
        )


def _fetch_folder(root: Path, taker: Taker) -> Iterator[Item]:
    todo = [_Place("", maildir=is_maildir(root))]
    while todo:
        place = todo.pop()
        if place.folder:
            try:
                item = maildir_item(root / place.path, printable(place.path)) if place.maildir else None
                # The last is taken first: so what is in a folder comes where the folder would.
                todo += reversed(list(_look_into(root, place, taker)))
            except OSError as error:
                yield trouble(printable(place.path), _judged(error, printable(place.path) or str(root), "folder"))
                continue
            if item is not None:
                yield item
        else:
            yield from take_file(root / place.path, printable(place.path), taker)


def _look_into(root: Path, place: _Place, taker: Taker) -> Iterator[_Place]:
    """List what is to be taken in a folder, in order; note what is not."""
    folder = root / place.path
    base = place.path + "/" if place.path else ""
    own = read_ignore_rules(folder, base)
    rules = place.rules if own is None else (*place.rules, own)
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    if place.path and any(entry.name in _TOOL_MARKS for entry in found):
        taker.skipped.add("folders of tools and caches", printable(place.path))
        return
    for entry in found:
        path = base + entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        maildir = is_folder and is_maildir(folder / entry.name)
        if place.maildir:
            # Its own mails are taken; of the rest only the Maildirs in it, which are often hidden.
            if maildir:
                yield _Place(path, rules, folder=True, maildir=True)
        elif (reason := reason_to_skip(entry.name, folder=is_folder)) is not None:
            taker.skipped.add(reason, printable(path))
        elif is_ignored(rules, path, folder=is_folder):
            taker.skipped.add("ignored by .gitignore", printable(path))
        elif (reason := None if is_folder else _reason_not_to_open(entry, root)) is not None:
            taker.skipped.add(reason, printable(path))
        else:
            yield _Place(path, rules, folder=is_folder, maildir=maildir)


def _reason_not_to_open(entry: os.DirEntry[str], root: Path) -> str | None:
    if entry.is_symlink():
        try:
            target = Path(entry.path).resolve(strict=True)
        except (OSError, RuntimeError):
            return "links that lead nowhere"
        if not target.is_relative_to(root):
            return "links that lead out of the folder"
        if target.is_dir():
            return "links to folders, whose files are taken where they are"
        return None if target.is_file() else "devices and pipes"
    return None if entry.is_file() else "devices and pipes"


def _judged(error: OSError, path: str, what: str) -> Exception:
    """Tell what only a person can mend from what may pass."""
    if isinstance(error, PermissionError):
        return Unreadable(f"the {what} {path!r} may not be read: allow it for this user, or leave it out")
    return error
