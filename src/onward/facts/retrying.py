"""Having documents tried again: now, at a time, or no more at that time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from onward.facts.choosing import Filters, choose, statuses_of
from onward.model.documents import Status
from onward.model.ledger import MAX_COMMIT_DOCUMENTS
from onward.model.recovery import Scheduled

if TYPE_CHECKING:
    from onward import App

Key = tuple[str, str]
_USUAL = (Status.FAILED, Status.FAILED_MAX_RETRIES, Status.PENDING)


def chosen_keys(app: App, filters: Filters, *, cancel: bool) -> list[Key]:
    """The documents that match: what failed or is stuck; to cancel, what has a time set."""
    if cancel:
        statuses = statuses_of(filters.status, (*_USUAL, Status.DISCARDED, Status.PROCESSED))
        found = [one for one in choose(app, filters, statuses) if one.retry_at is not None]
    else:
        found = list(choose(app, filters, statuses_of(filters.status, _USUAL)))
        if not filters.status and not filters.group:
            found = [one for one in found if one.status != Status.PENDING or one.row is None]
    return [(one.collection, one.id) for one in found]


def schedule(
    app: App,
    keys: Sequence[Key],
    at: float,
    *,
    reset: bool = False,
    priority: int | None = None,
    dry_run: bool = False,
) -> dict[Key, Scheduled]:
    """Have documents tried again at a time; a dry run only tells what would become of each."""
    return _in_slices(
        app, keys, lambda some: app.store.schedule(some, at, reset=reset, priority=priority), dry_run=dry_run
    )


def unschedule(app: App, keys: Sequence[Key], *, dry_run: bool = False) -> dict[Key, Scheduled]:
    """Take back the time that was set for documents, as far as it has not come."""
    return _in_slices(app, keys, app.store.unschedule, dry_run=dry_run)


def _in_slices(
    app: App,
    keys: Sequence[Key],
    step: Callable[[list[Key]], Mapping[Key, Scheduled]],
    *,
    dry_run: bool,
) -> dict[Key, Scheduled]:
    outcomes: dict[Key, Scheduled] = {}
    for some in _slices(keys):
        with _undone(app) if dry_run else app.store.transaction():
            outcomes |= step(some)
    return outcomes


def _slices(keys: Sequence[Key]) -> Iterator[list[Key]]:
    unique = list(dict.fromkeys(keys))
    for start in range(0, len(unique), MAX_COMMIT_DOCUMENTS):
        yield unique[start : start + MAX_COMMIT_DOCUMENTS]


class _Undo(Exception):
    """A dry run ends so."""


@contextmanager
def _undone(app: App) -> Iterator[None]:
    """Do something for real, so that its outcome is known, and take it back."""
    try:
        with app.store.transaction():
            yield
            raise _Undo
    except _Undo:
        pass


def touched(outcomes: Mapping[Key, Scheduled]) -> int:
    """How many documents were changed."""
    changed = (Scheduled.SCHEDULED, Scheduled.HURRIED, Scheduled.CANCELLED)
    return sum(one in changed for one in outcomes.values())
