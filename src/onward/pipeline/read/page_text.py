"""What the readers of files return: a text with its title, author and date."""

from __future__ import annotations

from typing import NamedTuple

from onward import Permanent

MAX_CHARACTERS = 2_000_000  # the text of a message; the rest stays in the blob of its archive
MAX_TITLE_CHARACTERS = 1_000


class PageText(NamedTuple):
    """The text of a page or file, with its title, author and date."""

    title: str
    author: str
    date: float | None  # Unix seconds, in UTC
    text: str
    defects: tuple[str, ...] = ()  # what was damaged or left out


class NoText(Permanent):
    """The page or file has no text."""


class UnreadableFile(Permanent):
    """The file is damaged, needs a password, or its reader fails."""


def cut_text(text: str) -> tuple[str, list[str]]:
    """Return the text that is kept, and the defect to report if it was cut."""
    if len(text) <= MAX_CHARACTERS:
        return text, []
    cut = f"text cut after {MAX_CHARACTERS:,} of {len(text):,} characters; all of it is in the archive"
    return text[:MAX_CHARACTERS], [cut]
