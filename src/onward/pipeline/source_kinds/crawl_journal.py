"""The requests of a crawl, in a file: a run that goes on later, or that was killed, requests nothing twice."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self, TypedDict

if TYPE_CHECKING:
    from onward.pipeline.source_kinds.feed_process import Item


class Record(TypedDict, total=False):
    """The result of requesting one URL."""

    url: str
    tries: int  # that failed so far, if it is to be tried again
    version: str  # of a page that is an entry
    text: str  # the digest of its visible text
    links: list[str]
    redirect: str
    problem: str
    status: int  # of a problem that is permanent
    gone: bool
    skipped: list[str]  # the kind and the text of the reason
    copy: bool  # whether it has the text of another page
    pages: list[list[str]]  # of a sitemap, with the time of the last change
    sitemaps: list[list[str]]  # of a sitemap that is an index
    items: list[Item]  # of a feed
    canonical: str  # the page that it is a copy of, as it says


class CrawlJournal:
    """Appends a line for each URL. A loss of the file, or of its end, costs only requests that are repeated."""

    def __init__(self, file: Path | None) -> None:
        self._path = file
        self._file: IO[str] | None = None
        self.records: dict[str, Record] = {}

    def __enter__(self) -> Self:
        if self._path is None:
            return self
        with suppress(FileNotFoundError), self._path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                with suppress(ValueError, TypeError, KeyError):  # a line that a killed process left
                    record: Record = json.loads(line)
                    self.records[record["url"]] = record
        self._file = self._path.open("a", encoding="utf-8")
        self._file.write("\n")  # ends a torn line
        return self

    def __exit__(self, *_: Any) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, record: Record) -> None:
        self.records[record["url"]] = record
        if self._file is not None:
            self._file.write(json.dumps(record, ensure_ascii=True, separators=(",", ":")) + "\n")
            self._file.flush()
