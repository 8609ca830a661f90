"""Filters and page numbers that several lists of the console share."""

from __future__ import annotations

from onward.app import App
from onward.ops.bad_input import NotFound
from onward.ops.queries.documents import source_key, source_named
from onward.ops.text.format import source_name

MAX_SOURCE_CHOICES = 100
"""Of more sources than this, one is typed and not chosen from a list."""


def source_choices(app: App) -> list[tuple[str, str]] | None:
    """Return the key and the name of every source; None: there are too many to choose from."""
    sources = app.store.sources()
    if len(sources) > MAX_SOURCE_CHOICES:
        return None
    return [(source_key(source), source_name(source)) for source in sorted(sources)]


def chosen_source(app: App, given: str) -> tuple[str | None, str]:
    """Return the source that was typed or chosen, and what is wrong with it, if anything."""
    try:
        return (source_named(app, given) if given else None), ""
    except NotFound as error:
        return None, f"{str(error)[:1].upper()}{str(error)[1:]}."


def page_number(given: str, most: int = 100_000) -> int:
    """Return the number of a page; 1 for anything that is not a number."""
    number = int(given) if given.isascii() and given.isdecimal() and len(given) < 8 else 1
    return min(max(1, number), most)
