"""Runs of a kind of source for web sites, on a clock that tests control, and the pages of a site."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from onward.pipeline.fetch import FetchLimits
from onward.pipeline.source_kinds import Entry, SourceKind, SourceRun
from onward.pipeline.source_kinds.polite_client import Pace
from tests.pipeline.fetch.public import GUARD
from tests.support.web_server import Handler, Site


@dataclass
class Clock:
    """Time that passes only when somebody waits."""

    seconds: float = 1_800_000_000.0  # 2027-01-15 08:00 UTC
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


@dataclass
class Taken:
    """What a run listed, and what Onward would store of it."""

    versions: dict[str, str] = field(default_factory=dict)
    fetched: dict[str, bytes] = field(default_factory=dict)
    problems: dict[str, Exception] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    incomplete: bool = False
    waits: list[float] = field(default_factory=list)


def take(
    kind: SourceKind,
    location: str,
    before: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    *,
    clock: Clock | None = None,
    deliveries: int = 100,
    limits: FetchLimits | None = None,
) -> Taken:
    """List a source as the ingestion does, in as many deliveries as it needs."""
    versions, taken = dict(before or {}), Taken()
    with tempfile.TemporaryDirectory() as folder:
        for delivery in range(deliveries):
            taken = _deliver(kind, location, versions, Path(folder), limits or FetchLimits(), options or {})
            if not taken.waits:
                break
            assert delivery < deliveries - 1, "the listing does not end"
            if clock is not None:
                clock.seconds += taken.waits[0]
    return taken


def _deliver(
    kind: SourceKind,
    location: str,
    versions: dict[str, str],
    folder: Path,
    limits: FetchLimits,
    options: Mapping[str, str],
) -> Taken:
    chosen = {option.name: option.default for option in kind.options} | dict(options)
    notes = folder / "notes"
    run = SourceRun(kind.canonical(location), chosen, versions, limits, GUARD, scratch=folder, notes=notes)
    taken = Taken()
    for entry in kind.entries(run):
        assert entry.path
        assert entry.path not in taken.entries, f"{entry.path} is listed twice"
        taken.entries[entry.path] = entry
        if entry.problem is not None:
            taken.problems[entry.path] = entry.problem
            continue
        taken.versions[entry.path] = entry.version
        if not run.is_known(entry):
            entry.fetch(data := io.BytesIO())
            taken.fetched[entry.path] = data.getvalue() if entry.file is None else entry.file.read_bytes()
            versions[entry.path] = entry.version
    taken.skipped, taken.incomplete = dict(run.skipped.counts), run.incomplete
    if run.continue_after is not None:
        taken.waits.append(run.continue_after)
    return taken


def pace(clock: Clock) -> Pace:
    return Pace(clock.now, clock.sleep, clock.now)


def html(text: str, links: Iterable[str] = (), head: str = "") -> bytes:
    anchors = " ".join(f'<a href="{escape(link)}">{escape(link)}</a>' for link in links)
    page = f"<!doctype html><html><head><title>{escape(text)}</title>{head}</head><body><p>{escape(text)}</p>"
    return f"{page}{anchors}</body></html>".encode()


def put(site: Site, path: str, text: str, *links: str, head: str = "", etag: bool = True, **headers: str) -> None:
    """Put a page at a path, with an ETag that the server compares."""
    site.answers[path] = lambda handler: give_page(handler, html(text, links, head), etag=etag, **headers)


def give_page(handler: Handler, body: bytes, *, etag: bool = True, **headers: str) -> None:
    """Send a page, or 304 if the client has it."""
    tag = f'"{abs(hash(body)):x}"'
    if etag and handler.headers.get("If-None-Match") == tag:
        handler.give(b"", 304, ETag=tag)
    else:
        more = headers | ({"ETag": tag} if etag else {})
        handler.give(body, 200, **({"Content_Type": "text/html; charset=utf-8"} | more))


def requested(site: Site) -> list[str]:
    """Return what was requested since the last call, without robots.txt."""
    found, site.targets = [target for target in site.targets if target != "/robots.txt"], []
    return found
