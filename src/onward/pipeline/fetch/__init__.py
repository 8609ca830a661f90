"""Fetch a source: yield the pages, files and mailboxes of a file, a folder or a URL."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from onward.pipeline import uploads
from onward.pipeline.fetch.fetch_errors import UnusableSource, nothing_to_ingest
from onward.pipeline.fetch.fetched_items import FetchedItem, FetchLimits, SkippedFiles
from onward.pipeline.fetch.files_and_folders import fetch_path, take_file
from onward.pipeline.fetch.location import AddressGuard, canonical, is_path, is_url, shown
from onward.pipeline.fetch.unpacker import FoundFile, Unpacker

__all__ = ["AddressGuard", "FetchLimits", "FetchedItem", "SkippedFiles", "canonical", "fetch"]


def fetch(
    location: str,
    limits: FetchLimits,
    scratch: Path,
    *,
    guard: AddressGuard | None = None,
    open_blob: Callable[[str], BinaryIO] | None = None,
    skipped: SkippedFiles | None = None,
) -> Iterator[FetchedItem]:
    """Yield the items of a source; raise if the source itself cannot be fetched.

    `location` is canonical. An item can be copied until the next one is requested. A part of the source that
    cannot be fetched is an item with a `problem`. Temporary files in `scratch` are removed at the end.
    """
    with tempfile.TemporaryDirectory(dir=scratch, prefix="fetch-") as folder, ExitStack() as stack:
        unpacker = Unpacker(limits, Path(folder), SkippedFiles() if skipped is None else skipped)
        if open_blob is not None and (upload := uploads.read_location(location)) is not None:
            stream = stack.enter_context(closing(open_blob(upload.digest)))
            size = stream.seek(0, os.SEEK_END)
            stream.seek(0)
            items = unpacker.items(FoundFile("", upload.name, stream, size, file=stream))
        elif is_url(location):
            from onward.pipeline.fetch.http_client import HttpClient  # slow to import, and not needed for files

            file = Path(folder) / "answer"
            guard = guard or AddressGuard(allow_private=limits.allow_private)
            with HttpClient(limits, guard) as client, file.open("wb") as target:
                response = client.get(location, target)
            name = response.name or urlsplit(response.url).netloc
            items = take_file(file, "", unpacker, name=name, media_type=response.media_type, url=response.url)
        elif not is_path(location):
            raise UnusableSource(f"no kind of source for {shown(location)!r} is installed here")
        else:
            items = fetch_path(Path(location), unpacker)
        empty = True
        for item in items:
            if empty and item.path == "" and item.problem is not None:
                raise item.problem
            empty = False
            yield item
        if empty:
            raise nothing_to_ingest(shown(location), unpacker.skipped)
