"""A kind of source for tests: shelves in memory, which a test fills, damages and empties."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO

import pytest

from onward.pipeline.fetch.fetch_errors import UnusableSource
from onward.pipeline.source_kinds import Entry, SourceOption, SourceRun, registry

SHELVES: dict[str, Shelf] = {}


@dataclass
class Book:
    content: bytes
    version: str
    name: str = ""
    fails: Exception | None = None  # when it is fetched
    problem: Exception | None = None  # when it is listed


@dataclass
class Shelf:
    """What there is at a location, and what was done with it."""

    books: dict[str, Book] = field(default_factory=dict)
    fails: Exception | None = None  # after everything was listed
    fetched: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)  # of the last run
    at_fetch: Callable[[str], object] = lambda path: None
    at_list: Callable[[SourceRun], object] = lambda run: None  # may fail, or end the listing by `continue_after`

    def put(self, path: str, content: str | bytes, version: str = "", *, name: str = "") -> None:
        data = content.encode() if isinstance(content, str) else content
        self.books[path] = Book(data, version or f"v{hash(data)}", name or f"{path}.txt")

    def taken(self) -> list[str]:
        """Return what was fetched since the last call, sorted."""
        found, self.fetched = sorted(self.fetched), []
        return found


def _depth(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("give a number, such as 3")
    return int(text)


class ShelfSource:
    name = "Shelf"
    schemes = ("shelf",)
    options = (
        SourceOption("depth", "1", "Its depth.", _depth),
        SourceOption("only", "", "A prefix."),
    )

    def canonical(self, location: str) -> str:
        if not location.partition("://")[2]:
            raise UnusableSource(f"{location!r} names no shelf")
        return location.lower().rstrip("/")

    def entries(self, run: SourceRun) -> Iterator[Entry]:
        shelf = SHELVES[run.location.partition("://")[2]]
        shelf.options = dict(run.options)
        shelf.at_list(run)
        if run.continue_after is not None:
            return
        for path, book in list(shelf.books.items()):
            fetch = partial(self._fetch, shelf, path, book)
            yield Entry(path, book.version, fetch, name=book.name, problem=book.problem)
        if shelf.fails is not None:
            raise shelf.fails

    def _fetch(self, shelf: Shelf, path: str, book: Book, target: BinaryIO) -> None:
        shelf.fetched.append(path)
        target.write(book.content[:5])
        shelf.at_fetch(path)
        if book.fails is not None:
            raise book.fails
        target.write(book.content[5:])


def shelf_for(monkeypatch: pytest.MonkeyPatch, name: str = "books") -> Shelf:
    """Return a new shelf, which is at `shelf://NAME` for the time of a test."""
    kind = ShelfSource()
    original = registry.kind_of_scheme
    monkeypatch.setattr(registry, "kind_of_scheme", lambda scheme: kind if scheme == "shelf" else original(scheme))
    monkeypatch.setitem(SHELVES, name, Shelf())
    return SHELVES[name]
