"""The versions of the entries of a source, as they are stored: which are not fetched again."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from onward import Document, Reader, Work
from onward.pipeline.documents import Archive, VersionPart

MAX_UNMERGED_PARTS = 32  # above this number, the parts are merged at the end of a run
MERGED_BYTES = 1_000_000  # of JSON in a merged part, if no single entry has more
_READ_PARTS = 50
_REMOVE_PARTS = 200


class StoredEntry(NamedTuple):
    """What is stored of an entry."""

    version: str
    archives: tuple[str, ...]  # ids of the archives that this version made
    conditions: str = ""  # under which something of it could not be read; under others it is fetched again
    skipped: Mapping[str, int] = {}  # counts by kind of what is not ingestible in it


class StoredVersions:
    """The stored entries of a source. Changes are kept here until `write` adds them to a work.

    They are a log: each commit adds one part, with the entries since the last one. So a commit costs what it
    changes, and a killed run continues after its last commit.
    """

    def __init__(self, store: Reader, request: Archive) -> None:
        self._source, self._source_id = request.source, request.source_id
        self._entries: dict[str, StoredEntry] = {}
        self._changes: dict[str, StoredEntry | None] = {}
        self._parts: list[tuple[int, str]] = []  # number and id of each, in order
        self._unmerged = 0
        ids = store.ids(VersionPart, "versions_of", self._source_id)
        parts: list[VersionPart] = []
        for start in range(0, len(ids), _READ_PARTS):
            parts += store.get_many(VersionPart, ids[start : start + _READ_PARTS])
        for part in sorted(parts, key=lambda part: part.number):
            self._parts.append((part.number, part.id))
            self._unmerged += not part.merged
            for path, values in _unpack(part.data).items():
                if values is None:
                    self._entries.pop(path, None)
                else:
                    self._entries[path] = StoredEntry(values[0], tuple(values[1]), *values[2:])

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def get(self, path: str) -> StoredEntry | None:
        return self._entries.get(path)

    def trusted(self, archives: Collection[str], conditions: str) -> dict[str, str]:
        """Return the versions whose archives are all there and that were read under these conditions."""
        return {
            path: entry.version
            for path, entry in self._entries.items()
            if entry.conditions in ("", conditions) and all(id in archives for id in entry.archives)
        }

    def put(self, path: str, entry: StoredEntry) -> None:
        if self._entries.get(path) != entry:
            self._entries[path] = self._changes[path] = entry

    def drop(self, path: str) -> None:
        if self._entries.pop(path, None) is not None:
            self._changes[path] = None

    @property
    def changes(self) -> int:
        return len(self._changes)

    def write(self, work: Work) -> None:
        """Add the changes to a work, which is committed together with their archives."""
        if self._changes:
            self._add(work, {path: entry and _values(entry) for path, entry in self._changes.items()})
            self._unmerged += 1
            self._changes.clear()

    def merge(self, work: Work, checkpoint: Callable[[], None]) -> None:
        """If there are many parts, write all entries anew and remove the old parts.

        The new parts come first: if this is interrupted, both say the same. The old ones are removed in their
        order: a later one may say that an entry of an earlier one is gone.
        """
        if self._unmerged <= MAX_UNMERGED_PARTS:
            return
        old, self._parts, self._unmerged = self._parts, [], 0
        number = old[-1][0]
        values: dict[str, Any] = {}
        size = 0
        for path, entry in self._entries.items():
            values[path] = _values(entry)
            size += len(path) + len(entry.version) + 40 * (1 + len(entry.archives))
            if size > MERGED_BYTES:
                number = self._add(work, values, after=number, merged=True)
                checkpoint()
                values, size = {}, 0
        if values:
            self._add(work, values, after=number, merged=True)
            checkpoint()
        for start in range(0, len(old), _REMOVE_PARTS):
            for part in work.store.get_many(VersionPart, [id for _, id in old[start : start + _REMOVE_PARTS]]):
                work.remove(part)
            checkpoint()

    def _add(self, work: Work, values: Mapping[str, Any], *, after: int = 0, merged: bool = False) -> int:
        number = max(after, self._parts[-1][0] if self._parts else 0) + 1
        id = Document.make_id("versions", self._source, number)
        data = _pack(values)
        part = VersionPart(
            id=id, source=self._source, source_id=self._source_id, number=number, merged=merged, data=data
        )
        work.add(part, parent=None)
        self._parts.append((number, id))
        return number


def _values(entry: StoredEntry) -> list[Any]:
    values: list[Any] = [entry.version, entry.archives]
    if entry.conditions or entry.skipped:
        values += [entry.conditions, dict(entry.skipped)]
    return values


def _pack(values: Mapping[str, Any]) -> str:
    text = json.dumps(values, separators=(",", ":"))  # ASCII: a path may have lone surrogates
    return base64.b64encode(zlib.compress(text.encode("ascii"), 6)).decode("ascii")


def _unpack(data: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(data)))
    return values
