"""Fetch a source: a file, a folder or a URL, as the pages, files and mailboxes in it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from onward.pipeline import uploads
from onward.pipeline.fetching.addresses import Guard as Guard
from onward.pipeline.fetching.containers import Found, Taker
from onward.pipeline.fetching.errors import Broken as Broken
from onward.pipeline.fetching.errors import Encrypted as Encrypted
from onward.pipeline.fetching.errors import EndlessRedirects as EndlessRedirects
from onward.pipeline.fetching.errors import HTTPAnswerError as HTTPAnswerError
from onward.pipeline.fetching.errors import NothingToIngest as NothingToIngest
from onward.pipeline.fetching.errors import NotWhatItClaims as NotWhatItClaims
from onward.pipeline.fetching.errors import PrivateAddress as PrivateAddress
from onward.pipeline.fetching.errors import Refused as Refused
from onward.pipeline.fetching.errors import SourceMissing as SourceMissing
from onward.pipeline.fetching.errors import TooLarge as TooLarge
from onward.pipeline.fetching.errors import Unreadable as Unreadable
from onward.pipeline.fetching.errors import UnsafeMember as UnsafeMember
from onward.pipeline.fetching.errors import UnusableSource as UnusableSource
from onward.pipeline.fetching.files import fetch_path, take_file
from onward.pipeline.fetching.items import Item as Item
from onward.pipeline.fetching.items import Limits as Limits
from onward.pipeline.fetching.location import canonical as canonical
from onward.pipeline.fetching.location import is_url, shown


def fetch(
    location: str,
    limits: Limits,
    scratch: Path,
    *,
    guard: Guard | None = None,
    open_blob: Callable[[str], BinaryIO] | None = None,
) -> Iterator[Item]:
    """Yield what is in a source, one item after the other; raise if the source itself cannot be taken.

    `location` is canonical. An item is good until the next is asked for. What cannot be taken of a source is an
    item with a `problem`, and the others go on. Temporary files in `scratch` are gone when the iterator ends or
    is closed. `open_blob` opens the bytes of an upload.
    """
    with tempfile.TemporaryDirectory(dir=scratch, prefix="fetch-") as folder:
        taker = Taker(limits, Path(folder))
        if open_blob is not None and (upload := uploads.read_location(location)) is not None:
            items = _take_upload(upload, taker, open_blob)
        elif is_url(location):
            items = _fetch_url(location, taker, guard or Guard(allow_private=limits.allow_private))
        else:
            items = fetch_path(Path(location), taker)
        empty = True
        for item in items:
            if empty and item.path == "" and item.problem is not None:
                raise item.problem
            empty = False
            yield item
        if empty:
            raise NothingToIngest(
                f"there is nothing to ingest in {shown(location)!r}: {taker.skipped}; give mail, web pages, "
                "PDF, Markdown, reST, source code or other text"
            )


def _take_upload(upload: uploads.Upload, taker: Taker, open_blob: Callable[[str], BinaryIO]) -> Iterator[Item]:
    with closing(open_blob(upload.digest)) as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(0)
        yield from taker.take(Found("", upload.name, stream, size, file=stream))


def _fetch_url(url: str, taker: Taker, guard: Guard) -> Iterator[Item]:
    from onward.pipeline.fetching.web import download  # takes a while to import, and files need it not

    file = taker.scratch / "answer"
    with file.open("wb") as target:
        answer = download(url, target, taker.limits, guard)
    name = answer.name or urlsplit(answer.url).netloc
    yield from take_file(file, "", taker, name=name, media_type=answer.media_type, url=answer.url)
