"""Stores in states that commands report on: tests check the facts, golden files keep the text."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from onward import App, Document, Event, names
from onward.settings import load_settings
from onward.testing import SimulatedClock
from tests.support import failed_pages

LAST_RUN = "retry_job_last_success_timestamp_seconds"
HOUR = 3600.0


class Note(Document):
    text: str


class NoteWritten(Event):
    note_id: str = names(Note)


def app_of(home: Path, *, seconds_ago: float = 0.0) -> App:
    """An app without services; with `seconds_ago`, on a clock that stands still in the past."""
    clock = SimulatedClock(time.time() - seconds_ago) if seconds_ago else None
    return App(settings=load_settings({"ONWARD_HOME": str(home), "ONWARD_MAX_RETRIES": "1"}), clock=clock)


def failing_app(
    home: Path, error: Exception, *, needs: str = "", sets_aside: bool = False, seconds_ago: float = 0.0
) -> App:
    """An app whose only service reads notes, and fails."""
    app = app_of(home, seconds_ago=seconds_ago)

    @app.service("reading", on=NoteWritten, finishes=Note, needs=needs or (), sets_aside=sets_aside)
    def read(note: Note, work: object) -> None:
        raise error

    return app


def publish(app: App, *ids: str, source: str | None = None) -> None:
    notes = [Note(id=id, text="Hello") for id in ids]
    app.publish(*(NoteWritten(note_id=note.id) for note in notes), documents=notes, source=source)


def run(app: App, *ids: str) -> None:
    """Publish notes, and handle them until nothing is due."""
    publish(app, *ids)
    app.work_until_idle()
    app.close()


# -- what needs a person


def no_worker(home: Path) -> None:
    """An event is due, and no worker runs."""
    app = failing_app(home, TimeoutError("too slow"))
    publish(app, "note-1")
    app.close()


def other_worker(home: Path) -> None:
    """An event is due, and the only worker runs another service."""
    no_worker(home)
    app = app_of(home)
    app.store.register_worker("somebody", {"services": {"writing": 1}})
    app.close()


def outages(home: Path) -> None:
    """One dependency has been down for a day, one has a remedy, one was just opened, one was opened by hand."""
    app = app_of(home, seconds_ago=25 * HOUR)
    app.add(Note(id="note-1", text=""))
    app.store.open_breaker("printer", "no paper")
    app.close()
    app = app_of(home)
    app.store.open_breaker("embedder", "401 Unauthorized", remedy="Check ONWARD_EMBEDDER_KEY")
    app.store.open_breaker("kettle", "new plug", by_hand=True)
    app.store.open_breaker("lamp", "no light")
    app.close()


def retry_job(home: Path, seconds_ago: float | None) -> None:
    """Two documents wait for the retry job, which ran that long ago, or never."""
    run(failing_app(home, TimeoutError("too slow")), "note-1", "note-2")
    if seconds_ago is not None:
        retry_job_ran(home, seconds_ago)


def retry_job_ran(home: Path, seconds_ago: float) -> None:
    app = app_of(home)
    app.store.set_gauge(LAST_RUN, "", time.time() - seconds_ago)
    app.close()


def overdue(home: Path, *ids: str, sets_aside: bool = False) -> None:
    """Notes that failed two hours ago; the retry job has run since, but there is no worker."""
    error = TimeoutError("too slow")
    run(failing_app(home, error, needs="lamp", sets_aside=sets_aside, seconds_ago=2 * HOUR), *ids)
    retry_job_ran(home, 0.0)


def given_up(home: Path) -> None:
    """A document was given up after all rounds."""
    run(failing_app(home, TimeoutError("too slow")), "note-1")
    app = app_of(home)
    app.store.give_up([("notes", "note-1")])
    app.close()


def dead_letters_of_no_document(home: Path) -> None:
    """A dead letter of a service that finishes no documents: only a person puts it back."""
    app = app_of(home)

    @app.service("telling", on=NoteWritten)
    def tell(event: NoteWritten, work: object) -> None:
        raise ConnectionError("nobody listens")

    app.publish(NoteWritten(note_id="note-1"))
    app.work_until_idle()
    app.close()


def failed_batch(home: Path, *, retries: int) -> None:
    """A failed batch that was retried this often."""
    app = failing_app(home, TimeoutError("too slow"), sets_aside=True)
    publish(app, "note-1", source="desk")
    app.work_until_idle()
    (batch,) = app.store.failed_batches()
    if retries:
        assert app.store.reschedule_batch(batch.id, 0.0)
    for number in range(retries):
        assert app.store.claim_batch(batch.id, retry_count=number, until=0.0)
    app.close()
    retry_job_ran(home, 0.0)


def invalid_fields(home: Path) -> None:
    """A document whose fields another program has changed to values that make no sense."""
    run(failing_app(home, TimeoutError("too slow")), "note-1")
    with closing(sqlite3.connect(home / "onward.db")) as connection, connection:
        connection.execute(
            "UPDATE documents SET status = 'processing', attempt_count = 'many', created_at = 'once', "
            "last_attempt_time = 'soon', last_error = 'oops', attempts = '[3]'"
        )


# -- many of a kind


def many_sources(home: Path) -> None:
    """Fourteen sources; more than are shown."""
    app = app_of(home)
    for number in range(14):
        app.add(Note(id=f"note-{number}", text=""), source=f"desk-{number:02}")
    app.close()


def many_failures(home: Path) -> None:
    """Nine failure groups; more than are shown."""
    with failed_pages.stage(home) as on:
        for number in range(9):
            failed_pages.fail(on, f"page-{number}", fingerprint=f"f00d{number}")
