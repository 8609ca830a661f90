"""The files of a source that the last fetch skipped: counts by kind, and a bounded list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onward.ops.text.format import number

if TYPE_CHECKING:
    from onward import App
    from onward.pipeline.documents import Report, SkippedItem


@dataclass(frozen=True, slots=True)
class SkippedFiles:
    """The files that the last fetch of a source skipped."""

    kinds: Mapping[str, int] = field(default_factory=dict)
    items: list[SkippedItem] = field(default_factory=list)
    """The first of each kind: the list is bounded, the counts are exact."""
    ignored: Mapping[str, int] = field(default_factory=dict)
    """Counts of files that are ignored on purpose. They are not listed."""

    @property
    def total(self) -> int:
        return sum(self.kinds.values())

    @property
    def not_listed(self) -> int:
        """Return how many skipped files are not in `items`."""
        return self.total - len(self.items)

    @classmethod
    def of(cls, report: Report | None) -> SkippedFiles:
        """Return the skipped files of a fetch report; none if there is no report yet."""
        return cls() if report is None else cls(report.passed_over, report.passed_over_items, report.ignored)

    def counts(self) -> dict[str, Any]:
        """Return the counts, for programs."""
        return {
            "passed_over": {"total": self.total, "kinds": dict(self.kinds)},
            "ignored": {"total": sum(self.ignored.values()), "kinds": dict(self.ignored)},
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the counts and the list, for programs."""
        facts = self.counts()
        facts["passed_over"]["items"] = [file.model_dump() for file in self.items]
        facts["passed_over"]["not_listed"] = self.not_listed
        return facts

    def lines(self) -> list[str]:
        """Return the counts in words, as in "12 passed over: 5 office, 2 pictures"; no line for no files."""
        groups = (("passed over", self.kinds), ("ignored", self.ignored))
        return [
            f"{number(sum(counts.values()))} {verb}: {kinds_text(counts)}" for verb, counts in groups if counts
        ]


def kinds_text(counts: Mapping[str, int]) -> str:
    """Return counts by kind in words: 5 office, 2 pictures."""
    from onward.pipeline.fetch.skipped_files import kind_noun, most_first

    return ", ".join(f"{number(count)} {kind_noun(kind, count)}" for kind, count in most_first(counts))


def read_skipped_files(app: App, source: str) -> SkippedFiles:
    """Return the files that the last fetch of a source skipped."""
    from onward.pipeline.sources import fetch_report

    return SkippedFiles.of(fetch_report(app, source))


def report_of(app: App, collection: str, id: str) -> Report | None:
    """Return the fetch report of a task or a source, or the report with this id."""
    from onward.pipeline.documents import Archive, Report, Task, report_id

    if collection == Report.collection:
        return app.get(Report, id)
    about = app.get(Task, id) if collection == Task.collection else app.get(Archive, id)
    return None if about is None else app.get(Report, report_id(about))
