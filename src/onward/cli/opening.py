"""Opening the pipeline's store for a command, and finding in it what somebody means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onward.cli.output import SHORT_ID, one_line, printable, source_name
from onward.retry.errors import OnwardError
from onward.settings import Settings, load_settings

if TYPE_CHECKING:
    from onward import App

PIPELINE = "onward.pipeline.app:app"
EMPTY = "Nothing has been ingested yet. Begin with:\n  onward ingest SOURCE…   (a mailbox, a folder or a URL)"
LEAST_PREFIX = 4
_SHOWN_MATCHES = 10
_PREFERRED = ("messages", "threads", "archives", "chunks", "summaries", "tasks", "reports")


class NotFound(OnwardError):
    """What somebody named is not in the store, or could be several things."""


@contextmanager
def reading() -> Iterator[App]:
    """The app for a command that only reads; it knows no services, so that it starts quickly.

    A store that does not exist is not made: whoever looks in the wrong folder should not leave one behind.
    """
    settings = load_settings()
    file = store_file(settings)
    if file is not None and not file.exists():
        raise NotFound(f"there is no store at {file}.\n{EMPTY}")
    from onward import App

    app = App(settings=settings)
    try:
        yield app
    finally:
        app.close()


@contextmanager
def pipeline() -> Iterator[App]:
    """The app with all its services, for a command that submits or runs something."""
    from onward.pipeline.app import build

    app = build(load_settings())
    try:
        yield app
    finally:
        app.close()


def check_models(app: App) -> None:
    """Refuse a setting that names no model now, not in a worker an hour later."""
    _ = app.embedder, app.summarizer


def store_file(settings: Settings) -> Path | None:
    """The file that holds the store, if it is one."""
    rest = settings.store.partition("://")[2].removeprefix("/")
    return Path(rest) if settings.store.startswith("sqlite:") and rest != ":memory:" else None


def known(app: App, location: str) -> str:
    """The source that somebody means, which must be one that was ingested."""
    from onward.pipeline.sources import known_source

    source = known_source(app, location)
    sources = app.store.sources()
    if source not in sources:
        listed = "\n".join(f"  {source_name(one)}" for one in sorted(sources)) or "  (none)"
        raise NotFound(f"there is no source {one_line(location)!r}. The known ones are:\n{listed}")
    return source


def resolve(app: App, prefix: str, among: Sequence[str] = ()) -> tuple[str, str]:
    """The collection and id of the one document that an id, or the beginning of one, means.

    A thread and its summary share their id: of such documents the first collection wins.
    """
    order = [*(among or _PREFERRED)]
    prefix = prefix.strip()
    if len(prefix) < LEAST_PREFIX:
        raise click.UsageError(
            f"{prefix!r} is too short: give at least the first {LEAST_PREFIX} characters of an id"
        )
    found = [one for one in app.store.ids_like(printable(prefix), limit=1000) if not among or one[0] in among]
    found = [one for one in found if one[1] == prefix] or found
    if not found:
        raise NotFound(f"no document has an id that begins with {one_line(prefix)!r}; see `onward documents`")
    if len({id for _, id in found}) > 1:
        ids = sorted({id: name for name, id in reversed(found)}.items(), key=lambda one: one[0])
        lines = [f"  {id}  ({name})" for id, name in ids[:_SHOWN_MATCHES]]
        more = len(ids) - _SHOWN_MATCHES
        lines += [f"  … and {more} more"] if more > 0 else []
        matches = "\n".join(lines)
        raise NotFound(f"{prefix!r} begins the ids of {len(ids)} documents; give more of one:\n{matches}")
    return min(found, key=lambda one: order.index(one[0]) if one[0] in order else len(order))


def short_ids(app: App, ids: Sequence[str]) -> dict[str, str]:
    """How much of each id is needed to name it: 8 characters, or more where others begin the same."""
    shorter = {}
    for id in ids:
        length = SHORT_ID
        while length < len(id) and len({one for _, one in app.store.ids_like(id[:length], limit=4)}) > 1:
            length += 4
        shorter[id] = id[:length]
    return shorter
