"""Archives on a website with one mailbox for each month, and the detection of months that have changed."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import urlsplit

from onward.pipeline.fetch.fetch_errors import Refused, TooLarge, UnusableSource
from onward.pipeline.fetch.http_client import HttpClient, Response
from onward.pipeline.fetch.limited_file import limited_file
from onward.pipeline.fetch.location import canonical_url, refused
from onward.pipeline.source_kinds.host_turns import GoOnLater
from onward.pipeline.source_kinds.page_links import written_links
from onward.pipeline.source_kinds.polite_client import Pace
from onward.pipeline.source_kinds.source_kind import Entry, SourceOption, SourceRun

MAX_INDEX_BYTES = 20_000_000
GAP_SECONDS = 1.0  # between two requests to a host
_BLOCK_BYTES = 1 << 18
# Lines of an mbox that a program may write in another way each time: separators, and the boundaries of parts.
_CHANGING_LINE = re.compile(rb"From |.*={15}", re.DOTALL)


class Month(NamedTuple):
    """A month, or another period, of an archive."""

    path: str  # "2026-03"
    order: str  # sorts as time does
    url: str


def parse_recheck(text: str) -> int | None:
    """Check the option `recheck`; None for all months."""
    if text == "all":
        return None
    if not text.isdecimal():
        raise ValueError("give a number of months, or all")
    return int(text)


RECHECK = SourceOption(
    "recheck", "3", "how many of the last months are asked for again; all for every month", parse_recheck
)


def canonical_archive(location: str, prefix: str) -> str:
    """Return the one form of the URL of an archive, with a slash at its end; refuse credentials in it."""
    url = location.strip()[len(prefix) :]
    if not url.lower().startswith(("http://", "https://")):
        raise UnusableSource(f"{refused(location)!r} is no URL of an archive: give {prefix}https://…")
    parts = urlsplit(canonical_url(url))
    if "@" in parts.netloc:
        raise UnusableSource(
            f"{refused(location)!r} has credentials in it, which would be stored: only public archives are read; "
            "download others, and ingest the mailboxes"
        )
    if parts.query:
        raise UnusableSource(f"{refused(location)!r} has a query in it: give the URL of the archive without it")
    return prefix + parts._replace(path=parts.path.rstrip("/") + "/").geturl()


@dataclass(frozen=True, slots=True)
class PacedClient:
    """Requests the mailboxes of a site at a modest pace. They are there for programs: robots.txt is not asked."""

    client: HttpClient
    pace: Pace
    run: str

    def get(self, url: str, target: BinaryIO, *, headers: Mapping[str, str] | None = None) -> Response:
        with self.pace.request(urlsplit(url).netloc, GAP_SECONDS, self.run):
            return self.client.get(url, target, headers=headers)


def archive_entries(
    run: SourceRun,
    url: str,
    pace: Pace,
    months_of: Callable[[str, list[str]], Sequence[Month]],
    version_of: Callable[[Response, Path], str],
) -> Iterator[Entry]:
    """Yield one mailbox for each month that a page links to."""
    with HttpClient(run.limits, run.guard) as client:
        paced = PacedClient(client, pace, str(run.notes or run.location))
        try:
            yield from month_entries(run, paced, months_of(*links(paced, url, run.scratch)), version_of)
        except GoOnLater as later:
            run.continue_after = later.seconds


def links(client: PacedClient, url: str, scratch: Path) -> tuple[str, list[str]]:
    """Return the URL of a page after its redirects, and the targets of its links."""
    page = scratch / "index"
    refusal = f"{url} has more than {MAX_INDEX_BYTES:,} bytes: it is no list of months"
    with limited_file(page, MAX_INDEX_BYTES, refusal) as target:
        response = client.get(url, target)
    return response.url, list(written_links(page.read_text("utf-8", "replace")))


def month_entries(
    run: SourceRun, client: PacedClient, months: Sequence[Month], version_of: Callable[[Response, Path], str]
) -> Iterator[Entry]:
    """Yield one mailbox for each month.

    Of the months that are known, only the last ones are asked for again, however many have come since: the last
    of them was not over when it was read. They come first, so that a run that ends early is not taken to have
    asked for them. A month is downloaded before its entry is yielded, as only its content or the head of its
    response says whether it has changed.
    """
    recheck = parse_recheck(run.options.get(RECHECK.name, RECHECK.default))
    ordered = sorted(months, key=lambda month: (month.order, month.path), reverse=True)
    again = {month.path: month for month in [one for one in ordered if run.versions.get(one.path)][:recheck]}
    for month in (*again.values(), *(month for month in ordered if month.path not in again)):
        known = run.versions.get(month.path, "")
        if known and month.path not in again:
            yield Entry(month.path, known)
            continue
        file = run.scratch / "month"
        try:
            with file.open("wb") as target:
                response = client.get(month.url, target, headers=conditions(known))
        except (Refused, TooLarge) as error:
            yield Entry(month.path, "", problem=error, url=month.url)
            continue
        version = known if response.not_modified else version_of(response, file)
        yield Entry(month.path, version, partial(_copy, file), size=file.stat().st_size)


def conditions(version: str) -> dict[str, str]:
    """Return the headers that ask for content only if it is not this version."""
    try:
        state = json.loads(version) if version.startswith("{") else {}
    except ValueError:
        state = {}
    named = {"If-None-Match": state.get("etag"), "If-Modified-Since": state.get("modified")}
    return {name: value for name, value in named.items() if isinstance(value, str) and value}


def version_by_response(response: Response, file: Path) -> str:
    """Return what the server calls this version, or a digest of the content."""
    named = {"etag": response.etag, "modified": response.last_modified}
    given = {name: value for name, value in named.items() if value}
    return json.dumps(given, sort_keys=True) if given else version_by_content(response, file)


def version_by_content(_: Response, file: Path) -> str:
    """Return a digest of a mailbox, without the lines that are written anew for each response."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        for line in _lines(_unpacked(stream)):
            if not _CHANGING_LINE.match(line):
                digest.update(line)
    return digest.hexdigest()


def _unpacked(stream: BinaryIO) -> Iterator[bytes]:
    """Yield a file in blocks, decompressed if it is; what is damaged is yielded as it is."""
    blocks = iter(partial(stream.read, _BLOCK_BYTES), b"")
    first = next(blocks, b"")
    if not first.startswith(b"\x1f\x8b"):
        yield first
        yield from blocks
        return
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
    for block in chain([first], blocks):
        try:
            data = decoder.decompress(block, _BLOCK_BYTES)
            while data:
                yield data
                data = decoder.decompress(decoder.unconsumed_tail, _BLOCK_BYTES)
        except zlib.error:
            yield block


def _lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
        if len(rest) > _BLOCK_BYTES:
            yield rest
            rest = b""
    yield rest


def _copy(file: Path, target: BinaryIO) -> None:
    with file.open("rb") as stream:
        shutil.copyfileobj(stream, target, _BLOCK_BYTES)
