"""The text that each command prints, kept in one golden file a command."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from onward import App
from onward.cli import COMMANDS
from onward.cli.pipeline_run import PlainDisplay, picture
from onward.model.ledger import DeadLettered, Processed
from onward.pipeline.app import build
from onward.pipeline.documents import source_id
from onward.pipeline.progress import OutageProgress, RunProgress
from onward.pipeline.sources import submit
from onward.settings import load_settings
from tests.cli import scenes
from tests.cli.transcripts import FOLDER, Transcript
from tests.support.command_runs import SAMPLE, mail, onward, write_mailbox
from tests.support.failed_pages import SOURCE, fail, finish, set_aside, stage
from tests.support.small_models import write_table_model
from tests.support.store_pages import failure


@pytest.fixture
def shop(home: Path) -> Path:
    """A store of another app: two failed pages, a finished one, a failed batch, a waiting one, no worker."""
    with stage(home) as on:
        fail(on, "page-1", "page-2")
        finish(on, "page-3")
        set_aside(on, "page-4")
        on.bring("page-5")
    return home


STATUS_SCENES: dict[str, Callable[[Path], None]] = {
    "an event is due, and the only worker runs another service": scenes.other_worker,
    "dependencies are down: for a day, with a remedy, by hand, just now": scenes.outages,
    "documents wait for the retry job, which has never run": lambda home: scenes.retry_job(home, None),
    "the retry job ran lately": lambda home: scenes.retry_job(home, 60.0),
    "the retry job has not run for hours": lambda home: scenes.retry_job(home, 3 * scenes.HOUR),
    "documents are due to be retried, and no worker runs": lambda home: scenes.overdue(home, "note-1", "note-2"),
    "events for other programs have just been published": lambda home: scenes.outbox(
        home, seconds_ago=1.0, trouble="", unroutable=True
    ),
    "events for other programs wait for minutes, and no worker has a gateway": lambda home: scenes.outbox(
        home, seconds_ago=400.0
    ),
    "events for other programs wait for a broker that is away": lambda home: scenes.outbox(
        home, seconds_ago=400.0, trouble="nothing listens at mq:5672. Start RabbitMQ there"
    ),
    "events for other programs are refused": lambda home: scenes.outbox(home, seconds_ago=400.0, trouble=""),
    "a document was given up after all rounds": scenes.given_up,
    "a dead letter that only a person puts back": scenes.dead_letters_of_no_document,
    "events of other programs that cannot be read": scenes.malformed,
    "a failed batch that keeps failing": lambda home: scenes.failed_batch(home, retries=10),
    "an outage of a dependency that was noticed at once": scenes.model_outage,
    "more sources than are shown": scenes.many_sources,
    "more failures than are shown": scenes.many_failures,
}


def damaged(home: Path) -> None:
    home.mkdir()
    (home / "onward.db").write_bytes(b"Dear diary, " * 500)


def database_of_another_program(home: Path) -> None:
    home.mkdir()
    scenes.write(home, "CREATE TABLE cats (name)")


def changed_store(statement: str) -> Callable[[Path], None]:
    """A store with one document that a statement has changed."""

    def set_up(home: Path) -> None:
        scenes.one_document(home)
        scenes.write(home, statement)

    return set_up


DOCTOR_SCENES: tuple[tuple[str, Callable[[Path], None], int], ...] = (
    ("a vanished worker, a time in the future, a row that does not exist", scenes.inconsistent, 0),
    ("dependencies are down", scenes.outages, 0),
    ("documents wait for the retry job, which has never run", lambda home: scenes.retry_job(home, None), 0),
    ("documents are due to be retried", lambda home: scenes.overdue(home, "note-1", "note-2"), 0),
    ("events for other programs do not leave", lambda home: scenes.outbox(home, seconds_ago=400.0), 0),
    ("no database", damaged, 1),
    ("a database of another program", database_of_another_program, 1),
    ("a store of a newer version", changed_store("PRAGMA user_version = 99"), 1),
    ("a store without a table", changed_store("DROP TABLE openings"), 1),
)


def documents(home: Path, collection: str) -> list[dict[str, Any]]:
    lines = onward(home, "documents", "--collection", collection, "--json").stdout.splitlines()
    return [json.loads(line) for line in lines]


def first_id(home: Path, *command: str, field: str) -> str:
    found: str = json.loads(onward(home, *command, "--json").stdout)["results"][0][field]
    return found


def test_the_command_itself(home: Path) -> None:
    text = Transcript("onward", home)
    text.run("--help")
    text.run("nosuch", code=2)
    text.check()


@pytest.mark.parametrize("name", COMMANDS)
def test_help(home: Path, name: str) -> None:
    text = Transcript(f"help-{name}", home)
    text.run(name, "--help")
    text.check()


def test_policies(home: Path) -> None:
    text = Transcript("policies", home, masked=False)
    text.run("policies")
    text.run("policies", more={"ONWARD_MAX_RETRIES": "2", "RETRY_JOB_MAX_DELAY_SECONDS": "1e9"})
    text.run("policies", more={"ONWARD_MAX_RETRIES": "1"})
    text.run("policies", more={"RETRY_TTL_MINUTES": "0", "ONWARD_FETCH_BACKOFF_SECONDS": "0.5"})
    text.check()


@pytest.mark.prove
def test_simulate(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.ops.simulation.scenario.CALLS_IN_ALL", 600)
    text = Transcript("simulate", home, masked=False)
    load = ("--service", "summarization", "--load", "2/s", "--duration", "300ms", "--workers", "1")
    text.run("simulate", *load, "--outage", "2h", "--capacity", "3/s", "--what-if", "no-breaker")
    text.run("simulate", *load, "--set", "breaker.probe_max=60s", "--compare", "workers=2 retry.max_attempts=5")
    text.run("simulate", "--service", "embedding", code=2)
    text.run("simulate", *load, "--outage", "soon", code=2)
    text.check()


def test_schema(home: Path) -> None:
    text = Transcript("schema", home)
    text.run("schema")
    text.check()


def test_new_service(tmp_path: Path) -> None:
    text = Transcript("new-service", tmp_path)
    args = ("new-service", "invoice-reading", "--into", str(tmp_path / "services"))
    text.run(*args, "--dry-run")
    text.run(*args)
    text.run(*args, code=2)
    text.run("new-service", "InvoiceReading", code=2)
    text.run("new-service", "email", code=2)
    text.check()


def test_status(tmp_path: Path, shop: Path, library: Path) -> None:
    text = Transcript("status", shop)
    text.run("status")
    text.scene("no store yet", tmp_path / "none")
    text.run("status")
    for number, (title, set_up) in enumerate(STATUS_SCENES.items()):
        set_up(tmp_path / f"scene-{number}")
        text.scene(title, tmp_path / f"scene-{number}")
        text.run("status")
    text.check()
    text = Transcript("status-of-the-pipeline", library)
    text.run("status")
    text.check()


def test_documents(tmp_path: Path, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Transcript("documents", shop)
    text.run("documents")
    text.run("documents", "--status", "failed", "--limit", "1")
    text.run("documents", "--collection", "nosuch", code=2)
    text.run("documents", "--after", "0a1b", code=2)
    text.run("documents", "--full", code=2)
    home = tmp_path / "failed"
    scenes.failed_documents(home)
    text.scene("three documents failed; a fourth was made from one of them", home)
    wide = {"COLUMNS": "300"}  # this line is wrapped
    text.run("documents", "export", "--status", "failed", "--output", str(home / "failed.ndjson"), more=wide)
    text.run("documents", "archive", "--status", "failed", "--output", str(home / "failed.ndjson"), code=2)
    text.run("documents", "archive", "--status", "failed", "--output", str(home / "none" / "x.ndjson"), code=1)
    group = ("--group", "f00d1234", "--output", str(home / "group.ndjson"))
    text.run("documents", "archive", *group, "--dry-run")
    text.run("documents", "archive", *group)
    text.run("documents", "discard", "--collection", "pages", code=2)
    text.run("documents", "discard", "--collection", "pages", "--dry-run")
    text.run("documents", "discard", "--collection", "pages", "--confirm")
    text.run("documents", "purge", "--older-than", "1h", "--confirm")
    text.run("documents", "purge", "--status", "discarded", code=2)
    text.run("documents", "purge", "--status", "discarded", "--dry-run")
    text.run("documents", "purge", "--status", "discarded", "--confirm")
    text.run("documents", "purge", "--confirm", code=2)
    archives = tmp_path / "archives"
    scenes.archives_with_messages(archives)
    text.scene("archives with messages, and threads with a summary", archives)
    text.run("documents", "purge", "--source", SOURCE, "--dry-run")
    text.run("documents", "purge", "--source", SOURCE, "--confirm", code=3)
    text.run("documents", "purge", "--source", SOURCE, "--confirm", code=2)
    changing = tmp_path / "changing"
    scenes.failed_documents(changing)
    scenes.change_while_chosen(changing, monkeypatch)
    text.scene("a document that somebody else changes meanwhile", changing)
    text.run("documents", "discard", "--status", "failed", "--confirm")
    stopped = tmp_path / "stopped"
    scenes.failed_documents(stopped)
    monkeypatch.setattr("onward.ops.actions.documents.PAGE", 2)
    scenes.stop_in(monkeypatch, "remove_documents", signal.SIGINT)
    text.scene("Ctrl-C", stopped)
    text.run("documents", "archive", "--status", "failed", "--output", str(stopped / "x.ndjson"), code=130)
    scenes.stop_in(monkeypatch, "discard", signal.SIGINT)
    monkeypatch.setattr("onward.ops.actions.documents.PAGE", 1)
    scenes.failed_documents(tmp_path / "again")
    text.scene("Ctrl-C while documents are discarded", tmp_path / "again")
    text.run("documents", "discard", "--status", "failed", "--confirm", code=130)
    text.check()


def test_show(tmp_path: Path, shop: Path) -> None:
    text = Transcript("show", shop)
    for id in ("page-1", "page-3", "page-4", "page-5"):
        text.run("show", id)
    text.run("show", "nosuch", code=2)
    text.run("show", "p", code=2)
    text.run("show", "page", code=2)
    text.run("show", "--raw", "page-1", code=2)
    scenes.retry_job(tmp_path / "failed-round", None)
    text.scene("a failed round", tmp_path / "failed-round")
    text.run("show", "note-1")
    scenes.given_up(tmp_path / "given-up")
    text.scene("given up after all rounds", tmp_path / "given-up")
    text.run("show", "note-1")
    scenes.failed_batch(tmp_path / "batch", retries=10)
    text.scene("in a failed batch that keeps failing", tmp_path / "batch")
    text.run("show", "note-1")
    scenes.invalid_fields(tmp_path / "invalid")
    text.scene("fields that another program has changed", tmp_path / "invalid")
    text.run("show", "note-1")
    text.check()


def test_show_documents_of_the_pipeline(tmp_path: Path, library: Path) -> None:
    text = Transcript("show-of-the-pipeline", library)
    boathouse = ("search", "who has the key to the boathouse")
    message = first_id(library, *boathouse, field="id")
    thread = first_id(library, *boathouse, field="thread_id")
    text.run("show", f"messages/{message}")
    text.run("show", f"threads/{thread}")
    (chunk,) = (one["id"] for one in documents(library, "chunks") if one["parent"] == f"messages/{message}")
    text.run("show", f"chunks/{chunk}")
    with_attachment = ("search", "comparing the predictions for my thesis", "--author", "priya")
    text.run("show", f"messages/{first_id(library, *with_attachment, field='id')}")
    (failed,) = (one["id"] for one in documents(library, "messages") if one["status"] == "failed")
    text.run("show", f"messages/{failed}")
    source = source_id(str(SAMPLE))
    text.run("show", f"archives/{source}")
    (archive,) = (one["id"] for one in documents(library, "archives") if one["id"] != source)
    text.run("show", f"archives/{archive}")
    (task,) = documents(library, "tasks")
    text.run("show", f"tasks/{task['id']}")
    (report,) = (one["id"] for one in documents(library, "reports") if one["parent"] == f"archives/{archive}")
    text.run("show", f"reports/{report}")
    text.run("show", "--raw", f"threads/{thread}", code=2)
    copy = shutil.copytree(library, tmp_path / "copy")
    app = scenes.app_of(copy)
    app.store.reset("messages", message)
    app.store.reset("threads", thread)
    app.close()
    text.scene("a thread with a message that is not finished", copy)
    text.run("show", f"threads/{thread}")
    text.check()


def test_decisions_about_failures(tmp_path: Path) -> None:
    text = Transcript("failure-decisions", tmp_path)
    scenes.two_groups(tmp_path)
    text.scene("a group is closed, reopened, noted and assigned")
    text.run("failures", "fixed", "beef", "--in", "1.1", "--dry-run")
    text.run("failures", "fixed", "beef", "--in", "1.1")
    text.run("failures", "list")
    text.run("failures", "list", "--state", "closed")
    text.run("failures", "note", "beef", "The vendor knows;", "password=tinder")
    text.run("failures", "assign", "beef", "ana")
    text.run("failures", "show", "beef")
    text.run("failures", "reopen", "beef")
    text.run("failures", "reopen", "beef")
    text.run("failures", "fixed", "cafe")
    text.run("failures", "list", "--all")
    text.run("failures", "list", "--owner", "ben")
    text.scene("what makes no sense")
    text.run("failures", "fixed", "beef", "--in", " ", code=2)
    text.run("failures", "fixed", "zzz", code=2)
    text.run("failures", "note", "beef", "", code=2)
    text.run("failures", "assign", "beef", code=2)
    text.run("failures", "merge", "beef", "beef", code=2)
    text.run("failures", "split", "beef", code=2)
    text.run("failures", "undo", "9", code=2)
    text.scene("groups are merged and split")
    text.run("failures", "rules")
    text.run("failures", "merge", "beef", "cafe", "--dry-run")
    text.run("failures", "merge", "beef", "cafe")
    text.run("failures", "list")
    text.run("failures", "show", "cafe")
    text.run("failures", "split", "beef", "--message", "TOO SLOW", "--dry-run")
    text.run("failures", "split", "beef", "--message", "TOO SLOW")
    text.run("failures", "rules")
    text.run("failures", "undo", "1", "--dry-run")
    text.run("failures", "undo", "2")
    text.run("failures", "undo", "1")
    text.run("failures", "list", "--all")
    text.check()


def test_failures(tmp_path: Path) -> None:
    text = Transcript("failures", tmp_path)
    with scenes.stage_an_hour_ago(tmp_path) as stage:
        scenes.finish(stage, "good")
    text.scene("nothing has failed")
    text.run("failures", "list")
    groups = tmp_path / "groups"
    scenes.two_groups(groups)
    text.scene("a group of six documents, and one of a document that waits", groups)
    text.run("failures", "list")
    text.run("failures", "list", "--limit", "1")
    text.run("failures", "list", "--since", "tomorrow")
    text.run("failures", "list", "--service", "raeding", code=2)
    text.run("failures", "show", "beef")
    text.run("failures", "show", "cafe")
    text.run("failures", "show", "zzz", code=2)
    text.run("failures", "retry", "beef", "--dry-run", "--canary", "2")
    text.run("failures", "retry", "beef", "--dry-run", "--canary")
    text.run("failures", "retry", "beef", "--canary", "0", code=2)
    text.run("failures", "retry", "beef", "--canary", "3", "--share", "0.9", code=2)
    text.run("failures", "retry", "beef", "--resume", "--canary", code=2)
    text.run("failures", "retry", "beef", "--resume", code=1)
    text.run("failures", "retry", "cafe", "--dry-run")
    text.run("failures", "retry", "cafe")
    text.run("failures", "discard", "beef", code=2)
    text.run("failures", "discard", "beef", "--dry-run")
    text.run("failures", "retry", "beef")
    text.run("failures", "discard", "beef", "--confirm")
    text.run("failures", "discard", "beef", "--confirm")
    text.run("failures", "list")
    many = tmp_path / "many"
    with scenes.stage_an_hour_ago(many) as stage:
        for number in range(14):
            scenes.fail_for_good(stage, f"page-{number:02}")
        for id in ("slow", "slower", "slowest"):
            scenes.fail_once(stage, id)
        scenes.fail_for_good(stage, "other", replace(scenes.BROKEN, fingerprint="beef" * 3 + "dead"))
    text.scene("more documents than are shown, and two groups with the same prefix", many)
    text.run("failures", "show", "beef", code=2)
    text.run("failures", "show", scenes.BROKEN.fingerprint)
    text.run("failures", "retry", "cafe", "--canary", "1", code=3)
    reported = tmp_path / "reported"
    with scenes.stage_an_hour_ago(reported) as stage:
        context = '{"event": {"event_type": "ChunksPrepared"}, "retry_count": 3}'
        stage.store.report_failure("embedding", replace(scenes.BROKEN, context=context))
    text.scene("an error that was reported with its context", reported)
    text.run("failures", "show", "beef")
    outage = tmp_path / "outage"
    scenes.model_outage(outage)
    text.scene("an outage that was noticed at once", outage)
    text.run("failures", "list")
    text.run("failures", "show", "cafe")
    text.run("failures", "discard", "cafe", "--confirm")
    with scenes.stage_an_hour_ago(outage, "model") as stage:
        stage.store.close_breaker("model")
    text.scene("the outage is over")
    text.run("failures", "list")
    text.run("failures", "show", "cafe")
    unclear = tmp_path / "unclear"
    scenes.unclear_group(unclear)
    text.scene("a cause that is unclear", unclear)
    text.run("failures", "show", "beef")
    event = tmp_path / "event"
    scenes.event_without_documents(event)
    text.scene("an event without documents", event)
    text.run("failures", "list")
    text.run("failures", "discard", "beef", "--confirm")
    text.check()


def test_failed(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Transcript("failed", home)
    with scenes.opened(home):
        pass
    text.scene("nothing has failed")
    text.run("failed", "list")
    text.run("failed", "list", "reading")
    text.run("failed", "inspect", "reading")
    text.run("failed", "requeue", "reading")
    scenes.failed_queues(home)
    text.scene("three dead letters of a service, one of another, and one that was for no service")
    text.run("failed", "list")
    text.run("failed", "list", "--limit", "1")
    text.run("failed", "list", "reading")
    text.run("failed", "list", "reading", "--limit", "2")
    text.run("failed", "list", "nothing.failed", code=2)
    text.run("failed", "inspect", "reading", "--limit", "1")
    text.run("failed", "inspect", "events.failed")
    text.run("failed", "inspect", "9999", code=2)
    text.run("failed", "export", "reading", "--output", str(home / "reading.ndjson"))
    text.run("failed", "requeue", "--all", "--dry-run")
    text.run("failed", "requeue", "reading", "--canary", "1", "--dry-run")
    text.run("failed", "requeue", "reading", "--canary", "99", "--dry-run")
    text.run("failed", "archive", "reading", "--error-type", "KeyError", "--dry-run")
    text.run("failed", "archive", "reading", "--error-type", "KeyError")
    text.run("failed", "list")
    text.run("failed", "list", "--archived")
    text.run("failed", "requeue", "3", code=2)
    text.run("failed", "archive", "3", "--restore")
    text.run("failed", "purge", "reading", code=2)
    text.run("failed", "purge", "reading", "--dry-run")
    text.run("failed", "purge", "1", "--recovered", "--confirm")
    text.run("failed", "purge", "3", "--confirm")
    text.run("failed", "requeue", "--all", code=3)
    late = tmp_path / "late"
    scenes.recovered(late)
    text.scene("a dead letter of a document that was processed meanwhile", late)
    text.run("failed", "purge", "--all", "--recovered", "--dry-run")
    text.run("failed", "requeue", "--all", "--dry-run")
    text.run("failed", "requeue", "--all")
    passing, failing = tmp_path / "passing", tmp_path / "failing"
    scenes.failed_queues(passing)
    scenes.work_during_sleep(passing, monkeypatch, lambda stage: stage.settle(stage.take(), Processed(["page-a"])))
    text.scene("a canary that is processed", passing)
    text.run("failed", "requeue", "reading", "--canary", "1")
    scenes.failed_queues(failing)
    again = DeadLettered(["page-a"], failure=failure("still broken"))
    scenes.work_during_sleep(failing, monkeypatch, lambda stage: stage.settle(stage.take(), again))
    text.scene("a canary that fails again", failing)
    text.run("failed", "requeue", "reading", "--canary", "1", code=1)
    monkeypatch.setattr(time, "sleep", interrupt)
    text.scene("Ctrl-C")
    text.run("failed", "requeue", "reading", "--rate", "1", code=130)
    monkeypatch.setattr("onward.ops.actions.dead_letters.PAGE", 1)
    scenes.stop_in(monkeypatch, "archive_dead_letters", signal.SIGINT)
    text.run("failed", "archive", "reading", code=130)
    text.check()


def interrupt(seconds: float) -> None:
    raise KeyboardInterrupt


def test_batches(home: Path) -> None:
    text = Transcript("batches", home)
    with stage(home):
        pass
    text.scene("no failed batches")
    text.run("batches")
    text.run("batches", "retry", "--all")
    scenes.failed_batches(home)
    text.scene("a batch of two documents, and one of another source")
    text.run("batches")
    with stage(home) as on:
        ids = {batch.source: batch.id for batch in on.store.failed_batches()}
        id, other = ids[SOURCE], ids[scenes.OTHER_SOURCE]
    text.run("batches", "show", id)
    text.run("batches", "show", "nope", code=2)
    text.run("batches", "retry", code=2)
    text.run("batches", "retry", id, "--dry-run")
    text.run("batches", "retry", id)
    text.run("batches", "discard", other, code=2)
    text.run("batches", "discard", other, "--dry-run")
    text.run("batches", "discard", other, "--confirm")
    with stage(home) as on:
        assert on.store.reschedule_batch(id, 0.0)
        for number in range(10):
            assert on.store.claim_batch(id, retry_count=number, until=0.0)
    text.scene("a batch that keeps failing, and is due")
    text.run("batches")
    text.check()


def test_retry(tmp_path: Path, home: Path) -> None:
    text = Transcript("retry", home)
    scenes.documents_to_retry(home)
    text.run("retry", "bbbb", "--dry-run")
    text.run("retry", "bbbb")
    text.run("retry", "bbbb", "--in", "2h", "--priority", "9")
    text.run("retry", "bbbb", "--cancel")
    text.run("retry", "bbbb", "--cancel")
    text.run("retry", "cccc-1")
    text.run("retry", "cccc-1", "--reset")
    text.run("retry", "--collection", "pages", "--status", "pending", "--dry-run")
    text.run("retry", "--source", SOURCE)
    text.run("retry", "--group", "1234", code=2)
    text.run("retry", "bbbb", "--at", "2020-01-01", code=2)
    text.run("retry", code=2)
    with stage(home) as on:
        on.store.register_worker("anna", {"host": "here"})
    text.scene("a worker is alive")
    text.run("retry", "bbbb")
    text.run("retry", "bbbb", "--in", "1h")
    working = tmp_path / "working"
    with stage(working) as on:
        finish(on, "aaaa-1")
        on.bring("bbbb-1")
        on.take()
    text.scene("a worker runs a document, and nothing has failed", working)
    text.run("retry", "bbbb-1")
    text.run("retry", "--collection", "pages")
    text.check()


def test_breakers(tmp_path: Path, home: Path) -> None:
    text = Transcript("breakers", home)
    scenes.one_document(home)
    text.run("breakers")
    printers = tmp_path / "printers"
    scenes.events_that_need_a_printer(printers)
    text.scene("a dependency of two services", printers)
    text.run("breakers", "--history")
    text.run("breakers", "close", "printer")
    text.run("breakers", "close", "plotter", code=2)
    with stage(printers) as on:
        on.store.open_breaker("printer", "no paper: password=tinder", remedy="buy some")
    text.scene("it is down")
    text.run("breakers")
    text.run("breakers", "open", "printer", "--reason", "new toner")
    text.run("breakers", "open", "printer", "--reason", "new drum")
    text.run("breakers")
    text.run("breakers", "close", "printer")
    text.run("breakers", "--history")
    text.run("breakers", "open", "printer", "--reason", "again")
    text.check()


def test_services(tmp_path: Path, home: Path) -> None:
    text = Transcript("services", home)
    scenes.one_document(home)
    text.run("services")
    removed = tmp_path / "removed"
    scenes.service_without_worker(removed)
    text.scene("a service without a worker", removed)
    text.run("services")
    text.run("services", "retire", "raeding", code=2)
    text.run("services", "retire", "listening", "--confirm", code=2)
    text.run("services", "retire", "reading", code=2)
    text.run("services", "retire", "reading", "--dry-run")
    text.run("services", "retire", "reading", "--confirm")
    text.run("services")
    text.run("failed", "requeue", "reading", code=3)
    text.run("services", "retire", "drawing", "--confirm")
    text.check()


def test_schedules(tmp_path: Path, home: Path) -> None:
    text = Transcript("schedules", home)
    scenes.one_document(home)
    text.run("schedules")
    declared = tmp_path / "declared"
    scenes.schedules(declared)
    text.scene("one that runs, and one that nobody runs any more", declared)
    text.run("schedules")
    text.check()


def test_joins(home: Path) -> None:
    text = Transcript("joins", home)
    scenes.one_document(home)
    text.run("joins")
    scenes.joins(home)
    text.scene("events that wait for documents")
    text.run("joins")
    text.run("joins", "--limit", "1")
    text.check()


def test_actions(home: Path) -> None:
    text = Transcript("actions", home)
    scenes.one_document(home)
    text.run("actions")
    with stage(home) as on:
        on.store.log_action("ada", "cli", "retry", {"collection": "pages", "ids": ["a", "b", "c", "d"]}, 1234)
        on.store.log_action("bob", "console", "breakers open", {"dependency": "printer"}, 1)
    text.scene("two actions")
    text.run("actions")
    text.run("actions", "--limit", "1")
    text.run("actions", "--before", "1")
    text.check()


def test_operations(home: Path) -> None:
    text = Transcript("operations", home)
    scenes.one_document(home)
    text.run("operations")
    text.run("operations", "--status", "failed")
    text.run("operations", "show", "nothing", code=2)
    text.run("operations", "continue", "nothing", code=2)
    text.check()


@pytest.mark.prove
def test_forget_and_models(tmp_path: Path, home: Path) -> None:
    for number, name in enumerate(("one.mbox", "two.mbox"), 1):
        write_mailbox(tmp_path / name, [mail(number, f"Mail {number}", "Who has the key?")])
    text = Transcript("models", home)
    text.scene("nothing is ingested")
    text.run("models", "--no-speed")
    better = {"ONWARD_EMBEDDER_UPGRADE": "local:makers/good-model"}
    text.run("models", "--no-speed", code=1, more=better)
    app = build(load_settings({"ONWARD_HOME": str(home)}))
    for name in ("one.mbox", "two.mbox"):
        submit(app, str(tmp_path / name))
    app.work_until_idle()
    app.close()
    write_table_model(home / "models" / "makers" / "good-model")
    text.scene("two chunks")
    text.run("models", "--no-speed")
    text.run("models", "prune")
    text.scene("a better model is set")
    text.run("models", "--no-speed", more=better)
    text.run("models", "pause", more=better)
    text.run("models", "--no-speed", more=better)
    text.run("models", "resume", more=better)
    text.run("reembed", "--dry-run", more=better)
    result = onward(home, "reembed", "--processes", "1", more=better)
    assert result.exit_code == 0, result.output
    text.add(result.stdout, "reembed", "--processes", "1")
    text.run("models", "--no-speed", more=better)
    text.scene("it is not set any more")
    text.run("models", "--no-speed")
    text.run("models", "prune", "--dry-run")
    text.run("models", "prune")
    text.check()
    text = Transcript("reembed", home)
    text.run("reembed")
    app = build(load_settings({"ONWARD_HOME": str(home)}))
    app.store.db.run("delete_vectors", list(range(1000)))  # as a new model would
    app.close()
    text.scene("chunks without a vector")
    text.run("reembed", "--dry-run")
    result = onward(home, "reembed", "--processes", "1")
    assert result.exit_code == 0, result.output
    text.add(result.stdout, "reembed", "--processes", "1")
    text.check()
    text = Transcript("forget", tmp_path)
    for args, code in (
        (("one.mbox", "three.mbox"), 2),
        (("one.mbox", "--dry-run"), 0),
        (("one.mbox", "two.mbox"), 0),
    ):
        result = onward(home, "forget", *args)
        assert result.exit_code == code, result.output
        text.add(result.output, "forget", *args, code=code)
    text.check()


def test_publish(tmp_path: Path, home: Path) -> None:
    event = {"event_type": "ArchiveIngested", "event_id": "theirs-1", "data": {"archive_id": "a"}}
    (tmp_path / "event.json").write_text(json.dumps(event))
    (tmp_path / "events.ndjson").write_text(
        json.dumps(event) + '\n{"event_type": "ArchiveIngested", "data": {}}\n'
    )
    text = Transcript("publish", tmp_path)
    for args, code in (
        (("event.json", "--dry-run"), 0),
        (("event.json",), 0),
        (("event.json",), 0),
        (("events.ndjson",), 2),
        (("events.ndjson", "--keep"), 3),
    ):
        file, *options = args
        result = onward(home, "publish", str(tmp_path / file), *options)
        assert result.exit_code == code, result.output
        text.add(result.output, "publish", *args, code=code)
    text.check()


def test_search_and_summaries(library: Path) -> None:
    text = Transcript("search", library)
    text.run("search", "tide", "gauge", "--limit", "2")
    text.run("search", "xylophone", "--author", "nobody")
    text.run("search", "boathuose")
    text.run("search", "tide gauge", "-storm", "--facets", "--explain", "--sort", "date", "--limit", "1")
    text.run("search", "from:davy after:2026-03", "--limit", "1")
    text.run("search", code=2)
    text.run("search", "!!", code=2)
    text.run("search", "lamp kind:docx", code=2)
    text.run("search", "lamp", "--since", "soon", code=2)
    text.run("search", "lamp", "--source", "other.mbox", code=2)
    text.check()
    text = Transcript("summaries", library)
    text.run("summaries", "--limit", "2")  # the third has the same date as the fourth
    text.run("summaries", "--thread", "zzzz", code=2)
    text.check()


def test_similar(library: Path) -> None:
    text = Transcript("similar", library)
    id = first_id(library, "search", "who has the key to the boathouse", field="id")
    text.run("similar", id, "--limit", "2")
    text.run("similar", "zzzz", code=2)
    text.check()


def test_saved_searches(tmp_path: Path, library: Path) -> None:
    text = Transcript("searches", shutil.copytree(library, tmp_path / "copy"))
    text.run("searches")
    text.run("search", "--save", "keys", "boathouse", "-ferry", "--limit", "1")
    text.run("search", "--save", "my keys", "boathouse", code=2)
    text.run("search", "--save", "keys", "boathouse", "--author", "davy", code=2)
    text.run("searches")
    text.run("search", "@key", code=2)
    text.run("searches", "remove", "keys")
    text.run("searches", "remove", "keys", code=2)
    text.check()


def test_ask(library: Path) -> None:
    text = Transcript("ask", library)
    text.run("ask", "why", "did", "the", "tide", "gauge", "drift")
    text.run("ask", "Who wrote Hamlet?", "--limit", "1")
    text.run("ask", "what is xylophone", "--author", "nobody")
    text.run("ask", "???", code=2)
    text.check()


@pytest.mark.prove
def test_ingest(tmp_path: Path) -> None:
    text = Transcript("ingest", tmp_path)
    text.run("ingest", "--no-wait", str(SAMPLE))
    text.run("ingest", "/nosuch.mbox", "ftp://example.org/list.mbox", "", code=1)
    text.run("ingest", str(SAMPLE), code=1, more={"ONWARD_EMBEDDER": "magic"})
    folder, mailbox = tmp_path / "folder", tmp_path / "list.mbox"
    folder.mkdir()
    (folder / "notes.txt").write_text("The lamp burns.")
    (folder / "empty.txt").touch()
    (folder / "lamp.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    for number in range(7):
        (folder / f"{number}.zip").write_bytes(b"PK\x03\x04 cut off")
    first, unreadable = mail(1, "Lamp", "It burns."), b"From nobody Mon Mar  2 09:03:00 2026\n\x80\xa5\xca\xef\n\n"
    write_mailbox(mailbox, [first, mail(2, "Re: Lamp", "Still.", thread=1), first, unreadable])
    url = "http://127.0.0.1:9/list.mbox"
    text.scene("a mailbox, a missing one, a folder and a server that may not be asked", tmp_path / "first")
    run_ingest(text, tmp_path / "first", str(mailbox), str(tmp_path / "missing.mbox"), str(folder), url)
    text.scene("the mailbox again", tmp_path / "first")
    run_ingest(text, tmp_path / "first", str(mailbox))
    text.scene("a server that does not answer", tmp_path / "second")
    run_ingest(text, tmp_path / "second", url, ONWARD_FETCH_ALLOW_PRIVATE="true", ONWARD_MAX_RETRIES="1")
    text.check()


def test_ingest_that_is_stopped(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Transcript("ingest-stopped", home)
    monkeypatch.setattr("onward.cli.ingest_run.run", lambda *args, **more: True)
    text.run("ingest", str(SAMPLE), code=130)
    text.check()


def test_progress_of_ingest(home: Path) -> None:
    text = Transcript("ingest-progress", home)
    file = io.StringIO()
    out = Console(file=file, width=100, emoji=False)
    text.scene("on a terminal")
    out.print(picture(scenes.PROGRESS, "list.mbox", "parsing: 1a2b failed", 1))
    text.add(file.getvalue(), "ingest", "list.mbox")
    file.truncate(file.seek(0))
    text.scene("elsewhere")
    display = PlainDisplay(out)
    for problem in ("", "parsing: 1a2b failed", "parsing: 3c4d failed", "embedding: 5e6f failed"):
        display.show(scenes.PROGRESS, problem, 0)
    outage = OutageProgress("summarizer", None, None, "refused", "", 1)
    for stopping in (0, 1, 2):
        display.show(RunProgress([], 20.0, [outage]), "", stopping)
    display.end()
    text.add(file.getvalue(), "ingest", "list.mbox")
    text.check()


def run_ingest(text: Transcript, home: Path, *sources: str, **more: str) -> None:
    """Add what `onward ingest` prints, without the lines of its progress: how many there are varies."""
    result = onward(home, "ingest", *sources, "--processes", "1", more=more)
    assert result.exit_code == 3, result.output
    lines = [line for line in result.output.splitlines() if not re.match(r" *[\d.]+ s  ", line)]
    # Ids order the archives, and depend on the folder.
    output = re.sub(r"'\d\.zip'", "'<number>.zip'", "\n".join(lines))
    args = [source.replace(str(home.parent), "<folder>") for source in sources]
    text.add(output.replace(str(home.parent), "<folder>"), "ingest", *args, code=3, more=more)


def test_workers(home: Path) -> None:
    text = Transcript("workers", home)
    text.run("workers", code=2)
    reader = {"host": "box", "pid": 17, "version": "shop 1.1", "services": {"reading": 1}, "alone": False}
    with stage(home) as on:
        text.scene("no worker, and nothing to do")
        text.run("workers")
        on.bring("a1")
        text.scene("no worker, and an event waits")
        text.run("workers")
        text.run("workers", "--here", code=1)
        on.store.register_worker("box:17:f00d", reader)
        text.scene("a worker with nothing to do")
        text.run("workers")
        for ids in ("b2", "c3"), ("d4", "e5"):
            on.bring(*ids)
        on.claim(worker="box:17:f00d")
        on.store.publish([on.noticed("one"), on.noticed("two")])
        on.store.register_worker("box:18:beef", reader | {"pid": 18, "alone": True})
        since = {"since": on.store.now() - 7200}
        on.store.register_worker("den:17:cafe", reader | {"host": "den", "version": "shop 1.2"} | since)
        on.bring("f6")
        on.claim(worker="den:16:dead")
        text.scene("workers of two versions, a silent one, one for a suspect event, and a service without one")
        text.run("workers")
    text.check()


@pytest.mark.prove
def test_worker(home: Path) -> None:
    text = Transcript("worker", home)
    args = ("worker", "--services", "parsing,chunking", "--until-idle", "1", "--concurrency", "2")
    text.run_process(*args)
    text.run("worker", "--services", "chunking, mailing", code=2)
    text.run("worker", "--services", " , ", code=2)
    text.scene("the store of another app", home.with_name("other"))
    scenes.no_worker(home.with_name("other"))
    text.run("worker", code=2)
    text.check()


@pytest.mark.prove
def test_retry_job(home: Path, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Transcript("retry-job", shop)
    text.run_process("retry-job", "--once", code=3)
    text.run("retry-job", "--json", code=2)
    text.scene("no store yet", home.with_name("none"))
    text.run_process("retry-job", "--once", code=2)
    notes = home.with_name("notes")
    scenes.overdue(notes, "note-1", "note-2")
    app = scenes.failing_app(notes, TimeoutError("too slow"))
    monkeypatch.setattr(sys.modules[__name__], "app", app, raising=False)
    text.scene("two documents are due", notes)
    text.run("retry-job", "--once", "--app", f"{__name__}:app")
    text.run("retry-job", "--once", "--app", f"{__name__}:app")
    text.check()


@pytest.fixture
def _large_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=10**12)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)


@pytest.mark.usefixtures("_large_disk")
def test_upgrade(tmp_path: Path, home: Path) -> None:
    text = Transcript("upgrade", home)
    text.run("upgrade")
    text.run("upgrade")
    damaged(tmp_path / "damaged")
    text.scene("no database", tmp_path / "damaged")
    text.run("upgrade", code=1)
    text.check()


def test_doctor(tmp_path: Path, shop: Path) -> None:
    text = Transcript("doctor", shop)
    text.run("doctor")
    text.scene("no store yet", tmp_path / "none")
    text.run("doctor")
    text.scene("settings that are wrong, unknown or changed", tmp_path / "none")
    text.run("doctor", code=1, more={"ONWARD_CONCURRENCY": "none", "ONWARD_STROE": "sqlite:///other.db"})
    changed = {
        "ONWARD_CONCURRENCY": "7",
        "ONWARD_TOKEN": "sesame-open",
        "ONWARD_GATEWAY": "amqp://me:sesame@127.0.0.1:9/",
    }
    text.run("doctor", code=1, more={**changed, "ONWARD_EMBEDDER": "crystal-ball"})
    for number, (title, set_up, code) in enumerate(DOCTOR_SCENES):
        home = tmp_path / f"scene-{number}"
        set_up(home)
        text.scene(f"{title}; without what is ok", home)
        result = onward(home, "doctor")
        assert result.exit_code == code, result.output
        text.add(re.sub(r"(?m)^ok .*\n(?: {22}.*\n)*", "", result.output), "doctor", code=code)
    text.check()


@pytest.mark.usefixtures("_large_disk")
def test_doctor_of_a_server(home: Path, postgres_url: str) -> None:
    text = Transcript("doctor-of-a-server", home)
    text.scene("no tables yet")
    run_doctor(text, home, postgres_url)
    App(settings=load_settings({"ONWARD_STORE": postgres_url})).store.close()
    text.scene("a healthy store")
    run_doctor(text, home, postgres_url)
    text.check()


def run_doctor(text: Transcript, home: Path, url: str) -> None:
    result = onward(home, "doctor", more={"ONWARD_STORE": url})
    assert result.exit_code == 0, result.output
    output = result.output.replace(url.rpartition("=")[2], "<schema>")
    for pattern, name in (
        (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
        (r"PostgreSQL \d\S*(?: \([^)]*\))?", "PostgreSQL <version>"),
        (r"\d+ of \d+ are free", "<number> of <number> are free"),
        # On a machine that is busy, the server is slow.
        (r"(?m)^\w+ +latency .*\n(?: {22}.*\n)*", ""),
        (r"(?m)^Nothing is wrong.*", "Nothing is wrong"),
    ):
        output = re.sub(pattern, name, output)
    text.add(output, "doctor", more={"ONWARD_STORE": "postgresql://…"})


def test_no_golden_file_is_left_over() -> None:
    parts = {"status-of-the-pipeline", "show-of-the-pipeline", "doctor-of-a-server"}
    parts |= {"ingest-progress", "ingest-stopped", "failure-decisions"}
    named = {"onward", *COMMANDS, *(f"help-{name}" for name in COMMANDS), *parts}
    assert {file.stem for file in FOLDER.iterdir()} <= named
