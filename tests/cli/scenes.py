"""Stores in states that commands report on: tests check the facts, golden files keep the text."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onward import App, Document, DocumentState, Event, names
from onward.backend_urls import open_store
from onward.ledger.store import Store
from onward.model.failures import Failure
from onward.model.ledger import (
    Charge,
    DeadLettered,
    DependencyReport,
    GatewayReport,
    NewDocument,
    OutgoingEvents,
    Processed,
    RetryLater,
    Subscription,
)
from onward.pipeline.documents import Archive, origin_of
from onward.pipeline.progress import OutageProgress, RunProgress, StageProgress
from onward.retry import Reason
from onward.runtime.schedules import Ticker
from onward.settings import load_settings
from onward.testing import SimulatedClock
from tests.support import failed_pages
from tests.support.command_runs import ESCAPE
from tests.support.failed_pages import SOURCE
from tests.support.store_pages import READING, Clock, Stage, word
from tests.support.store_pages import failure as page_failure

LAST_RUN = "retry_job_last_success_timestamp_seconds"
HOUR = 3600.0


class Note(Document):
    text: str


class NoteWritten(Event):
    note_id: str = names(Note)


class NotesFiled(Event):
    folder: str


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


def schedules(home: Path) -> None:
    """A schedule that has just ticked, and one of a process that ended two days ago."""
    for name, seconds_ago in (("cleanup", 48 * HOUR), ("report", 0.0)):
        app = app_of(home, seconds_ago=seconds_ago)
        app.task(name=name, schedule="0 7 * * *", timezone="Europe/Berlin")(lambda: None)
        Ticker(lambda app=app: app.store, app.registry).run_due()  # type: ignore[misc]
        app.close()


def joins(home: Path) -> None:
    """Two events that wait for notes; the second allows none to fail."""
    app = failing_app(home, ValueError("it is not run"), seconds_ago=2 * HOUR)
    notes = [Note(id=f"n{number}", text="Hello") for number in range(7)]
    app.publish(*map(NoteWritten.of, notes), documents=notes)
    app.when_all(notes, then=NotesFiled(folder="a"))
    app.when_all(notes[:1], then=NotesFiled(folder="b"), allow_failed=False)
    app.store.discard("notes", "n6")
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


def outbox(home: Path, *, seconds_ago: float, trouble: str | None = None, unroutable: bool = False) -> None:
    """Two events wait to leave for other programs; with `trouble`, a process has the gateway and reports this."""
    app = failing_app(home, TimeoutError("too slow"), seconds_ago=seconds_ago)
    app.store.outgoing = OutgoingEvents(None)
    publish(app, "note-1", "note-2")
    if unroutable:
        app.store.settle_outgoing([], unroutable=[one.id for one in app.store.due_outgoing(limit=1)])
    app.close()
    app = app_of(home)
    if trouble is not None:
        app.store.store_name()
        app.store.report_gateway(GatewayReport("box:17", app.store.now(), trouble))
    app.store.register_worker("somebody", {"services": {"reading": 1}})
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
    app.store.mark_out_of_rounds([("notes", "note-1")])
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


def malformed(home: Path) -> None:
    """Two events of other programs that cannot be read: one of a known service, one of an unknown type."""
    app = app_of(home)

    @app.service("reading", on=NoteWritten, finishes=Note)
    def read(note: Note, work: object) -> None: ...

    app.publish_raw(b'{"event_type": "NoteWritten", "data": {}}')
    app.publish_raw(b'{"event_type": "NoteSung", "data": {}}')
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


def write(home: Path, statement: str, *values: object) -> None:
    """Change a store as a person with an editor would."""
    with closing(sqlite3.connect(home / "onward.db")) as connection, connection:
        connection.execute(statement, values)


def invalid_fields(home: Path) -> None:
    """A document whose fields another program has changed to values that make no sense."""
    run(failing_app(home, TimeoutError("too slow")), "note-1")
    write(
        home,
        "UPDATE documents SET status = 'processing', attempt_count = 'many', created_at = 'once', "
        "last_attempt_time = 'soon', last_error = 'oops', attempts = '[3]'",
    )


def one_document(home: Path) -> None:
    app = app_of(home)
    app.add(Note(id="note-1", text=""))
    app.close()


def inconsistent(home: Path) -> None:
    """A worker vanished; a document was changed in the future, and points to no row."""
    app = app_of(home, seconds_ago=HOUR)
    app.store.register_worker("box:17:f00d", {})
    app.close()
    one_document(home)
    write(home, "UPDATE documents SET row = 4711, updated_at = ?", time.time() + 24 * HOUR)


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


# -- failure groups

BROKEN = Failure(
    at=0.0,
    error_type="KeyError",
    message="'subject'",
    fingerprint="beef" * 4,
    version="1.0",
    traceback="Traceback …\nKeyError: 'subject'\n",
    kind="permanent",
    place="pages:read",
)
SLOW = replace(BROKEN, error_type="ValueError", message="too slow", fingerprint="cafe" * 4, kind="transient")


@contextmanager
def stage_an_hour_ago(home: Path, *needs: str) -> Iterator[Stage]:
    """The store of a data folder, an hour ago; reading needs these dependencies."""
    clock = Clock(time.time() - HOUR)
    store = open_store(f"sqlite:///{home / 'onward.db'}", clock)
    try:
        found = Stage(store, clock)
        store.subscribe([replace(READING, needs=needs)])
        yield found
    finally:
        store.close()


def fail_for_good(stage: Stage, id: str, failure: Failure = BROKEN) -> None:
    """A page that is given up for good."""
    stage.bring(id)
    failure = replace(failure, at=stage.store.now())
    stage.settle(stage.take(), DeadLettered([id], reason=Reason.NON_RETRYABLE, failure=failure, final=True))


def fail_once(stage: Stage, id: str, failure: Failure = SLOW) -> None:
    """A page that failed, and waits for its next try in two hours."""
    stage.bring(id)
    failure = replace(failure, at=stage.store.now())
    stage.settle(stage.take(), RetryLater([id], after=2 * HOUR, charge=Charge.TRY, failure=failure))


def finish(stage: Stage, id: str) -> None:
    stage.bring(id)
    stage.settle(stage.take(), Processed([id]))


def two_groups(home: Path) -> None:
    """Six pages that fail for one reason, one that waits for another, and one that was processed."""
    with stage_an_hour_ago(home) as stage:
        fail_once(stage, "slow")
        for id in "abcdef":
            fail_for_good(stage, f"page-{id}")
        finish(stage, "good")


def model_outage(home: Path) -> None:
    """The model is down, which was noticed at once: three pages wait for it, and none was charged."""
    with stage_an_hour_ago(home, "model") as stage:
        for id in ("page-a", "page-b", "page-c"):
            stage.bring(id)
        (delivery,) = stage.claim(limit=1)
        failure = replace(SLOW, at=stage.store.now(), kind="unavailable", dependency="model")
        down = DependencyReport(opens="model", ids=["page-a"], reason="refused")
        stage.settle(delivery, RetryLater(["page-a"], failure=failure), dependencies=down)


def unclear_group(home: Path) -> None:
    """Two pages that fail, and nothing that they could be compared with."""
    with stage_an_hour_ago(home) as stage:
        for number in range(1, 3):
            fail_for_good(stage, f"page-{number}", replace(BROKEN, error_type="ValueError", message="too long"))


def event_without_documents(home: Path) -> None:
    """A dead letter of an event that names no document."""
    with stage_an_hour_ago(home) as stage:
        stage.store.publish([stage.noticed("smoke")])
        failure = replace(BROKEN, at=stage.store.now())
        dead = DeadLettered([], reason=Reason.NON_RETRYABLE, failure=failure)
        stage.settle(stage.take(service="listening"), dead)


# -- failed queues

HARMFUL = f"no [bold]luck[/bold] {ESCAPE}[31m password=hunter2"


@contextmanager
def opened(home: Path) -> Iterator[Stage]:
    """The store as a worker would open it."""
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    try:
        yield Stage(app.store, Clock())
    finally:
        app.close()


def give_up(stage: Stage, *ids: str, message: str = "it broke", error_type: str = "ValueError") -> int:
    """Give pages up; return the row of their dead letter."""
    stage.bring(*ids)
    delivery = stage.take()
    error = Failure(stage.store.now(), error_type, message, error_type.lower(), traceback="Traceback: here")
    stage.settle(delivery, DeadLettered(ids, failure=error, charge=Charge.TRY))
    return delivery.row


def failed_queues(home: Path) -> None:
    """Three dead letters of a service that reads, one of another, and one that was for no service."""
    with opened(home) as stage:
        give_up(stage, "page-a")
        give_up(stage, "page-b")
        give_up(stage, "page-c", message=HARMFUL, error_type="KeyError")
        stage.store.publish([stage.noticed("x")])
        stage.settle(stage.take(service="listening"), DeadLettered(failure=page_failure("deaf")))
        stage.store.keep_malformed(b"\xff\x1b[31m", page_failure("not JSON"))


def recovered(home: Path) -> None:
    """A dead letter of a document that was processed meanwhile."""
    with opened(home) as stage:
        stage.publish("late")
        stage.settle(stage.take(), DeadLettered(["late"], failure=page_failure()))
        finish(stage, "late")


def work_during_sleep(home: Path, monkeypatch: pytest.MonkeyPatch, settle: Callable[[Stage], object]) -> None:
    """Let a worker settle events while a command sleeps."""

    def sleep(seconds: float) -> None:
        with opened(home) as stage:
            settle(stage)

    monkeypatch.setattr(time, "sleep", sleep)


# -- failed batches

OTHER_SOURCE = "/lists/other.mbox"


def failed_batches(home: Path) -> None:
    """Two pages of one source set aside, and one of another."""
    with failed_pages.stage(home) as on:
        failed_pages.set_aside(on, "aaaa-1", "aaaa-2", message="too long: api_key=tinder123")
        failed_pages.set_aside(on, "bbbb-1", source=OTHER_SOURCE)


# -- documents to give up or remove


def failed_documents(home: Path) -> None:
    """Three pages that failed, one of them with a word made from it, and one that was processed."""
    with failed_pages.stage(home) as on:
        failed_pages.fail(on, "aaaa-1", "aaaa-2", message="it broke: password=tinder")
        failed_pages.fail(on, "bbbb-1", fingerprint="cafe9999")
        failed_pages.finish(on, "cccc-1")
        on.store.add_documents([word("wwww-1", parent="pages/aaaa-1", source=SOURCE)])


def archives_with_messages(home: Path) -> None:
    """Given up: a source, an archive that brought a message, one that brought none, and one that is gone."""

    def archive(id: str, path: str = "", origin: str = "") -> NewDocument:
        found = Archive(id=id, source=SOURCE, source_id="source-1", path=path, origin=origin)
        return NewDocument(
            "archives", id, found.to_json(), source=SOURCE, failure=failed_pages.failure("it broke", "f00d1234")
        )

    full, gone = origin_of(SOURCE, "full"), origin_of(SOURCE, "gone")
    with failed_pages.stage(home) as on:
        on.store.add_documents(
            [
                archive("source-1"),
                archive("empty-1", "empty", origin_of(SOURCE, "empty")),
                archive("full-1", "full", full),
                archive("gone-1", "gone"),
                *(
                    NewDocument("messages", f"mail-{place}", "{}", source=SOURCE, keys=[("origin", place)])
                    for place in (full, gone)
                ),
                NewDocument("messages", "mail-3", "{}", source=SOURCE, keys=[("thread_id", "thread-1")]),
                *(
                    NewDocument(
                        "threads",
                        f"thread-{n}",
                        "{}",
                        source=SOURCE,
                        failure=failed_pages.failure("no", "f00d1234"),
                    )
                    for n in (1, 2, 3)
                ),
                NewDocument("summaries", "thread-2", "{}", source=SOURCE),
            ]
        )


def change_while_chosen(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Discard a document after a command has chosen its documents, before it changes them."""
    original, changed = Store.find_states, list[bool]()

    def find_states(self: Store, **how: Any) -> list[DocumentState]:
        found = original(self, **how)
        if not found and not changed:  # all are chosen, and none is changed yet
            with failed_pages.stage(home) as on:
                changed.append(on.store.discard("pages", "bbbb-1"))
        return found

    monkeypatch.setattr(Store, "find_states", find_states)
    return changed


def documents_to_retry(home: Path) -> None:
    """Three pages that failed (one of them of another group), one processed, one waiting, one set aside."""
    with failed_pages.stage(home) as on:
        failed_pages.fail(on, "aaaa-1", "aaaa-2")
        failed_pages.fail(on, "bbbb-1", fingerprint="cafe9999")
        failed_pages.finish(on, "cccc-1")
        failed_pages.set_aside(on, "eeee-1")
        on.bring("dddd-1", source=SOURCE)
        on.settle(on.take(), RetryLater(["dddd-1"], after=600.0))


def stop_in(monkeypatch: pytest.MonkeyPatch, method: str, number: signal.Signals) -> None:
    """Raise a signal in the middle of the first step of an action."""
    original = getattr(Store, method)
    came: list[int] = []

    def step(self: Store, *args: Any, **more: Any) -> Any:
        if not came:
            came.append(number)
            signal.raise_signal(number)
        return original(self, *args, **more)

    monkeypatch.setattr(Store, method, step)


# -- services, workers and dependencies

LISTENER = {"host": "box", "pid": 17, "version": "shop 1.1", "services": {"listening": 1}, "alone": False}
READER = LISTENER | {"pid": 18, "services": {"reading": 1}}


def service_without_worker(home: Path, more: dict[str, str] | None = None) -> None:
    """One service has a worker; the other has none any more, though pages wait for it."""
    with failed_pages.stage(home, more) as on:
        on.store.register_worker("box:18:dead", READER)
        failed_pages.fail(on, "broken")
        failed_pages.set_aside(on, "aside")
        on.bring("a", "b")
        on.bring("c")
        on.store.unregister_worker("box:18:dead")
        on.store.register_worker("box:17:f00d", LISTENER)


def events_that_need_a_printer(home: Path) -> None:
    with failed_pages.stage(home) as on:
        on.store.subscribe(
            [Subscription("printing", "Noticed", needs=("printer",), failed_queue="printing.failed")]
        )
        on.store.publish([on.noticed("one"), on.noticed("two")])


# -- the progress of a run

PROGRESS = RunProgress(
    stages=[
        StageProgress("ingestion", "source", done=1, share=1.0),
        StageProgress("parsing", "message", done=3000, share=0.5, rate=9),
    ],
    elapsed=12.0,
    outages=[OutageProgress("embedder", 172_800.0, None, "[red]refused", "Start it", 7)],
    left=200.0,
)
