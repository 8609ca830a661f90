"""The time zone of whoever looks at a page: all times that a page shows or takes are in it.

A script stores the browser's zone in a cookie (`static/zone.js`). The server renders every time in that zone, so
that tables, charts and forms agree. The API takes and returns UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from onward.ops.text.format import offset_text

COOKIE = "onward_zone"
_NAME = re.compile(r"[A-Za-z][\w+-]{0,30}(?:/[\w+-]{1,30}){0,2}", re.ASCII)


class ViewerZone(NamedTuple):
    name: str
    info: tzinfo
    told: bool = False  # by the browser; else it is that of the settings

    @property
    def text(self) -> str:
        """Return the zone with its distance to UTC now: Europe/Berlin (UTC+01:00)."""
        return self.name if self.name == "UTC" else f"{self.name} ({offset_text(datetime.now(self.info))})"


_UTC = ViewerZone("UTC", UTC)
_SHOWN: ContextVar[ViewerZone] = ContextVar("viewer_zone", default=_UTC)


def viewer_zone() -> ViewerZone:
    """Return the zone in which the page that is rendered now shows its times."""
    return _SHOWN.get()


@lru_cache(1_000)
def read_zone(name: str) -> ViewerZone | None:
    """Return the zone of this name; None if there is none, or this machine does not know it."""
    if name == "UTC":
        return ViewerZone("UTC", UTC, told=True)  # needs no time zone database
    try:
        return ViewerZone(name, ZoneInfo(name), told=True) if _NAME.fullmatch(name) else None
    except (LookupError, OSError, ValueError):
        return None


def set_viewer_zone(told: str, default: str) -> None:
    """Set the zone for all that is rendered for this request."""
    _SHOWN.set(read_zone(told) or (read_zone(default) or _UTC)._replace(told=False))


@contextmanager
def shown_in(name: str) -> Iterator[None]:
    """Render times in this zone, outside of a request."""
    before = _SHOWN.set(read_zone(name) or _UTC)
    try:
        yield
    finally:
        _SHOWN.reset(before)


def local(at: float | str) -> datetime | None:
    """Return a point in time in the viewer's zone; None if no calendar has it. Text without a zone is UTC."""
    try:
        there = datetime.fromisoformat(at) if isinstance(at, str) else datetime.fromtimestamp(at, UTC)
        return (there if there.tzinfo else there.replace(tzinfo=UTC)).astimezone(viewer_zone().info)
    except (OverflowError, OSError, ValueError):
        return None
