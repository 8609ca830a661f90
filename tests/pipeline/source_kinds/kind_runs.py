"""Runs of one kind of source, with what is stored between them, as ingestion does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from onward.pipeline.fetch.fetched_items import FetchLimits, SkippedFiles
from onward.pipeline.fetch.location import AddressGuard
from onward.pipeline.source_kinds import Entry, SourceKind, SourceRun


@dataclass
class _Target:
    """Has only the method that ingestion offers."""

    content: bytearray = field(default_factory=bytearray)

    def write(self, data: bytes) -> int:
        self.content += data
        return len(data)


@dataclass
class KindRuns:
    """A source, and what is stored of it."""

    kind: SourceKind
    location: str
    folder: Path
    limits: FetchLimits = field(default_factory=FetchLimits)
    guard: AddressGuard = field(default_factory=lambda: AddressGuard(allow_private=True))
    stopped: Callable[[], bool] = lambda: False
    stored: dict[str, bytes] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    problems: dict[str, Exception] = field(default_factory=dict)
    skipped: SkippedFiles = field(default_factory=SkippedFiles)
    continue_after: float | None = None  # of the last run

    def run(self, **options: str) -> list[str]:
        """List the source, fetch what has changed, remove what is gone; return the paths that were fetched."""
        self.skipped, self.problems = SkippedFiles(), {}
        scratch = self.folder / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        given: dict[str, Any] = {"skipped": self.skipped, "scratch": scratch, "stopped": self.stopped}
        run = SourceRun(
            self.kind.canonical(self.location), options, dict(self.versions), self.limits, self.guard,
            cache=self.folder / "cache", **given,
        )  # fmt: skip
        fetched, seen = [], {}
        for entry in self.kind.entries(run):
            assert entry.path not in seen, "a path is listed once"
            seen[entry.path] = entry
            if entry.problem is not None:
                self.problems[entry.path] = entry.problem
            elif not run.is_known(entry):
                target = _Target()
                entry.fetch(cast("BinaryIO", target))
                self.stored[entry.path], self.versions[entry.path] = bytes(target.content), entry.version
                fetched.append(entry.path)
        self.entries, self.continue_after = seen, run.continue_after
        if run.continue_after is not None:
            return sorted(fetched)
        for path in self.versions.keys() - seen.keys():
            del self.versions[path], self.stored[path]
        return sorted(fetched)
