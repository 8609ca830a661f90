"""Points in time as programs exchange them: ISO 8601, in UTC."""

from __future__ import annotations

import math
from datetime import UTC, datetime

MILLISECONDS_FROM = 1e11  # As seconds, that is the year 5138: a larger number counts milliseconds
_MAX_SECONDS = 253_402_300_800.0  # The end of the year 9999


def iso_time(at: float) -> str:
    """Return a point in time, given in seconds since the epoch, as ISO 8601 text with a Z.

    >>> iso_time(1_705_314_600)
    '2024-01-15T10:30:00Z'
    """
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def read_time(given: object) -> float | None:
    """Return a point in time that another program wrote, in seconds since the epoch; None if it is none.

    Text is ISO 8601, in UTC if it names no zone. A number is seconds, or milliseconds if it is large.

    >>> read_time("2024-01-15T11:30:00+01:00") == read_time(1_705_314_600_000) == 1_705_314_600
    True
    """
    try:
        if isinstance(given, str):
            there = datetime.fromisoformat(given.strip().upper())
            at = (there if there.tzinfo else there.replace(tzinfo=UTC)).timestamp()
        elif isinstance(given, int | float) and not isinstance(given, bool):
            at = float(given) / (1000 if given > MILLISECONDS_FROM else 1)
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return at if math.isfinite(at) and 0 <= at < _MAX_SECONDS else None
