"""Watched sources: each is ingested again when its interval has passed, by whichever process sees it first."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from functools import partial

from onward import App, OnwardError, Status
from onward.pipeline.documents import Archive, Source, source_id
from onward.pipeline.source_settings import changed_options, check_options, source_settings, store_settings
from onward.pipeline.sources import submit

log = logging.getLogger("onward")

MIN_EVERY_SECONDS = 10.0
CHECK_SECONDS = 60.0  # settings that another process changes are noticed after this time
FAILED_SECONDS = 60.0  # a source whose run cannot be begun is tried again after this time


class WrongInterval(OnwardError):
    """An interval in which no source can be ingested."""


def watch(
    app: App,
    source: str,
    *,
    every: float | None = None,
    options: Mapping[str, str] | None = None,
    on_vanished: str | None = None,
) -> Source:
    """Ingest a source (a canonical location) now and at intervals; what is not given stays as it is."""
    check_options(source, options or {})

    def put() -> Source:
        settings = locked_settings(app, source)
        given = checked_interval(settings, every)
        changes: dict[str, object] = {
            "every": given,
            "paused": False,
            "options": changed_options(source, settings.options, options or {}),
            "on_vanished": on_vanished or settings.on_vanished,
            "next_run": app.store.now() + given,
        }
        settings = settings.model_copy(update=changes)
        store_settings(app, settings)
        if not is_running(app, source):
            submit(app, source)
        return settings

    return app.atomically(put)


def checked_interval(settings: Source, every: float | None) -> float:
    """Return the seconds between two runs of a source: those given, else those stored; raise `WrongInterval`."""
    if every is None:
        every = settings.every
    if every is None:
        raise WrongInterval("say how often it is ingested, such as every 15m")
    if not MIN_EVERY_SECONDS <= every < math.inf:
        raise WrongInterval(f"every {every:g} s is too often: give at least {MIN_EVERY_SECONDS:g}s, such as 15m")
    return every


def pause(app: App, source: str) -> bool:
    """Begin no further run of a watched source; return False if it is not watched, or paused already."""
    return app.atomically(lambda: _change(app, source, lambda one: {"paused": True} if one.watched else {}))


def resume(app: App, source: str) -> bool:
    """Go on with a paused source: its next run begins now."""
    now = app.store.now()
    changes = {"paused": False, "next_run": now}
    return app.atomically(lambda: _change(app, source, lambda one: changes if one.paused else {}))


def unwatch(app: App, source: str) -> bool:
    """Ingest a source no longer by itself; its documents and options stay."""
    changes = {"every": None, "paused": False, "next_run": None}
    return app.atomically(lambda: _change(app, source, lambda one: changes if one.every is not None else {}))


def _change(app: App, source: str, changes_of: Callable[[Source], Mapping[str, object]]) -> bool:
    settings = locked_settings(app, source)
    changes = changes_of(settings)
    if changes:
        store_settings(app, settings.model_copy(update=changes))
    return bool(changes)


def locked_settings(app: App, source: str) -> Source:
    """Return the settings of a source, locked to the end of the transaction."""
    app.store.states_of([(Source.collection, source_id(source))])
    return source_settings(app, source)


def watched_sources(app: App) -> list[Source]:
    ids = app.store.ids(Source, "watched", "yes")
    return app.store.get_many(Source, ids)


def next_run(app: App) -> float | None:
    """Return when the next run of a watched source begins."""
    now = app.store.now()
    return min((_due(one, now) for one in watched_sources(app)), default=None)


def _due(settings: Source, now: float) -> float:
    """Return when the next run of a watched source begins: now, if it was stored by a clock that was ahead."""
    assert settings.every is not None
    # A clock that is corrected by less than an interval delays a run, and does not double it.
    latest = now + 2 * settings.every + FAILED_SECONDS
    return now if settings.next_run is None or settings.next_run > latest else settings.next_run


def begin_due_runs(app: App, stopped: Callable[[], bool] = lambda: False) -> int:
    """Begin the runs that are due; return how many. A source that cannot be ingested does not stop the others."""
    now, begun = app.store.now(), 0
    for settings in watched_sources(app):
        if stopped():
            break
        if _due(settings, now) > now:
            continue
        try:
            begun += app.atomically(partial(_begin, app, settings.location))
        except Exception as error:  # its plug-in is gone, for example, or has a fault
            from onward.pipeline.fetch.location import shown

            log.warning("%s is not ingested: %s", shown(settings.location), app.error_text(error))
            app.atomically(partial(_put_off, app, settings.location))
    return begun


def _begin(app: App, source: str) -> bool:
    """Submit a source if it is still due, and store when it is due next, in one transaction."""
    settings, now = locked_settings(app, source), app.store.now()
    if not settings.watched or _due(settings, now) > now:
        return False  # another process was first
    store_settings(app, settings.model_copy(update={"next_run": following(settings, now)}))
    if is_running(app, source):
        return False
    submit(app, source, retries_failed=False)
    return True


def following(settings: Source, now: float) -> float:
    """Return the first due time after now; missed ones in between are made up for by one run."""
    assert settings.every is not None
    last = _due(settings, now)
    missed = math.floor((now - last) / settings.every)
    due = last + (missed + 1) * settings.every
    return due if now < due <= now + settings.every else now + settings.every


def _put_off(app: App, source: str) -> None:
    later = app.store.now() + FAILED_SECONDS
    _change(app, source, lambda one: {"next_run": later} if one.watched else {})


def is_running(app: App, source: str) -> bool:
    """Return whether a run of a source waits for a worker or is under way; one that waits for a retry is not."""
    state = app.store.state(Archive, source_id(source))
    if state is None or state.status != Status.PENDING:
        return False
    if state.last_error is None:
        return True
    if state.row is None:
        return False
    # A failed try changes both times; `work.wait`, with which a run in several parts goes on, only the first.
    return state.updated_at != state.last_attempt_time or app.store.row_states([state.row])[state.row] == "claimed"


def begin_now(app: App, source: str) -> bool:
    """Begin a run of a watched source before it is due; return False if one is still under way."""

    def put() -> bool:
        settings = locked_settings(app, source)
        if not settings.watched:
            return True
        if is_running(app, source):
            return False
        submit(app, source, retries_failed=False)
        return True

    return app.atomically(put)
