"""How many documents stand where, as bars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ORDER = ("processed", "pending", "failed", "failed_max_retries", "discarded")
WHOLE = 1000
LEAST = 8
"""Of a thousand; what is fewer must be seen all the same."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One status of a bar."""

    status: str
    count: int
    x: float
    width: float


def stack(counts: Mapping[str, int]) -> list[Piece]:
    """The pieces of a bar, side by side; none is too small to be seen."""
    known = [one for one in ORDER if counts.get(one)]
    names = known + sorted(one for one in counts if one not in ORDER and counts[one])
    total = sum(counts[one] for one in names)
    widths = {one: max(LEAST, counts[one] / total * WHOLE) for one in names}
    if names and (over := sum(widths.values()) - WHOLE) > 0:
        widest = max(widths, key=lambda one: widths[one])
        widths[widest] = max(LEAST, widths[widest] - over)
    pieces, x = [], 0.0
    for one in names:
        pieces.append(Piece(one, counts[one], round(x, 1), round(widths[one], 1)))
        x += widths[one]
    return pieces
