"""Take sources in tests: every item with its bytes, read while it is good."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

from onward.pipeline.fetch import AddressGuard, FetchedItem, FetchLimits, canonical, fetch


@dataclass(frozen=True)
class Taken:
    """What came of a source."""

    items: list[FetchedItem]
    data: dict[str, bytes]
    problems: dict[str, Exception]

    @property
    def kinds(self) -> dict[str, str]:
        return {item.path: item.kind for item in self.items if item.problem is None}

    @property
    def paths(self) -> list[str]:
        return [item.path for item in self.items]


def take(
    source: Path | str, scratch: Path, limits: FetchLimits | None = None, guard: AddressGuard | None = None
) -> Taken:
    """Fetch a source to its end as the ingestion does, and see that it leaves nothing behind."""
    taken = Taken([], {}, {})
    for item in fetch(canonical(str(source)), limits or FetchLimits(), scratch, guard=guard):
        taken.items.append(item)
        if item.problem is None:
            copy = io.BytesIO()
            try:
                item.copy_to(copy)
                taken.data[item.path] = copy.getvalue()
            except Exception as problem:  # as with a problem that was known before
                taken.problems[item.path] = problem
        else:
            taken.problems[item.path] = item.problem
    assert list(scratch.iterdir()) == []
    return taken
