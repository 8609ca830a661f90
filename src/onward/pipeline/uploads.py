"""Uploads as sources: bytes that somebody handed over, named by what they are and what they are called."""

from __future__ import annotations

import re
from typing import NamedTuple

SCHEME = "upload"
LONGEST_NAME = 200
NAMELESS = "upload"
_LOCATION = re.compile(rf"{SCHEME}://([0-9a-f]{{64}})/([^/\\]+)")


class Upload(NamedTuple):
    """Which blob an upload is, and what it was called."""

    digest: str
    name: str

    @property
    def location(self) -> str:
        """The source that it is: the same bytes under the same name are the same source."""
        return f"{SCHEME}://{self.digest}/{self.name}"


def read_location(location: str) -> Upload | None:
    """The upload that a location names, if it names one."""
    found = _LOCATION.fullmatch(location)
    return Upload(found[1], found[2]) if found and clean_name(found[2]) == found[2] else None


def clean_name(given: str) -> str:
    """A name that is only a name: no path leads anywhere from it, and it can be shown."""
    name = given.replace("\\", "/").rstrip("/").rpartition("/")[2]
    name = " ".join("".join(one if one.isprintable() else " " for one in name).split())
    if len(name) > LONGEST_NAME:
        stem, dot, suffix = name.rpartition(".")
        end = dot + suffix if stem and len(suffix) < 20 else ""
        name = name[: LONGEST_NAME - len(end)].rstrip() + end
    return name if name.strip(".") else NAMELESS
