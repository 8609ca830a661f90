"""Uploads as sources, identified by the digest of their bytes and their name."""

from __future__ import annotations

import re
from typing import NamedTuple

SCHEME = "upload"
MAX_NAME_CHARACTERS = 200
_LOCATION = re.compile(rf"{SCHEME}://([0-9a-f]{{64}})/([^/\\]+)")


class Upload(NamedTuple):
    digest: str
    name: str

    @property
    def location(self) -> str:
        return f"{SCHEME}://{self.digest}/{self.name}"


def read_location(location: str) -> Upload | None:
    """Return the upload that a location names, or None."""
    found = _LOCATION.fullmatch(location)
    return Upload(found[1], found[2]) if found and clean_name(found[2]) == found[2] else None


def clean_name(given: str) -> str:
    """Return a name without folders and control characters, of bounded length."""
    name = given.replace("\\", "/").rstrip("/").rpartition("/")[2]
    name = " ".join("".join(character if character.isprintable() else " " for character in name).split())
    if len(name) > MAX_NAME_CHARACTERS:
        stem, dot, suffix = name.rpartition(".")
        end = dot + suffix if stem and len(suffix) < 20 else ""
        name = name[: MAX_NAME_CHARACTERS - len(end)].rstrip() + end
    return name if name.strip(".") else "upload"
