"""The items of one entry of a source, which is fetched into a temporary file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from onward.pipeline.fetch.fetched_items import FetchedItem
from onward.pipeline.fetch.files_and_folders import take_file
from onward.pipeline.fetch.limited_file import limited_file
from onward.pipeline.fetch.location import printable
from onward.pipeline.fetch.unpacker import Unpacker

if TYPE_CHECKING:
    from onward.pipeline.source_kinds import Entry


def storable(entry: Entry) -> Entry:
    """Return an entry whose path every store can hold."""
    path = printable(entry.path).replace("\0", "\\x00")
    return entry if path == entry.path else replace(entry, path=path)


def fetch_entry(entry: Entry, file: Path, unpacker: Unpacker) -> Iterator[FetchedItem]:
    """Fetch an entry into a file, or raise why that failed; return an iterator over its items."""
    if entry.file is not None:
        name = entry.name or printable(entry.file.name)
        return take_file(entry.file, entry.path, unpacker, name=name, media_type=entry.media_type, url=entry.url)
    refusal = f"{entry.path!r} is larger than ONWARD_FETCH_MAX_BYTES allows: raise it, or leave this entry out"
    with limited_file(file, unpacker.limits.max_bytes, refusal) as target:
        entry.fetch(target)
    name = entry.name or entry.path.rstrip("/").rpartition("/")[2]
    return take_file(file, entry.path, unpacker, name=name, media_type=entry.media_type, url=entry.url)
