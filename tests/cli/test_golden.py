"""The text that each command prints, kept in one golden file a command."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onward.cli import COMMANDS
from onward.pipeline.documents import source_id
from tests.cli import scenes
from tests.cli.transcripts import FOLDER, Transcript
from tests.support.command_runs import SAMPLE, onward, onward_process
from tests.support.failed_pages import fail, finish, set_aside, stage


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
    "a document was given up after all rounds": scenes.given_up,
    "a dead letter that only a person puts back": scenes.dead_letters_of_no_document,
    "a failed batch that keeps failing": lambda home: scenes.failed_batch(home, retries=10),
    "more sources than are shown": scenes.many_sources,
    "more failures than are shown": scenes.many_failures,
}


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
    text.check()


def test_schema(home: Path) -> None:
    text = Transcript("schema", home)
    text.run("schema")
    text.check()


def test_status(tmp_path: Path, shop: Path, library: Path) -> None:
    text = Transcript("status", shop)
    text.run("status")
    text.scene("no store yet", tmp_path / "none")
    text.run("status")
    for number, (title, build) in enumerate(STATUS_SCENES.items()):
        build(tmp_path / f"scene-{number}")
        text.scene(title, tmp_path / f"scene-{number}")
        text.run("status")
    text.check()
    text = Transcript("status-of-the-pipeline", library)
    text.run("status")
    text.check()


def test_documents(shop: Path) -> None:
    text = Transcript("documents", shop)
    text.run("documents")
    text.run("documents", "--status", "failed", "--limit", "1")
    text.run("documents", "--collection", "nosuch", code=2)
    text.run("documents", "--after", "0a1b", code=2)
    text.run("documents", "--full", code=2)
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


def test_search_and_summaries(library: Path) -> None:
    text = Transcript("search", library)
    text.run("search", "tide", "gauge", "--limit", "2")
    text.run("search", "xylophone", "--author", "nobody")
    text.run("search", "!!", code=1)
    text.run("search", "lamp", "--since", "soon", code=2)
    text.run("search", "lamp", "--source", "other.mbox", code=2)
    text.check()
    text = Transcript("summaries", library)
    text.run("summaries", "--limit", "2")  # the third has the same date as the fourth
    text.run("summaries", "--thread", "zzzz", code=2)
    text.check()


def test_ingest(home: Path) -> None:
    text = Transcript("ingest", home)
    text.run("ingest", "--no-wait", str(SAMPLE))
    text.run("ingest", "/nosuch.mbox", code=1)
    text.check()


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


def test_worker(home: Path) -> None:
    text = Transcript("worker", home)
    args = ("worker", "--services", "parsing,chunking", "--until-idle", "1", "--concurrency", "2")
    result = onward_process(home, *args)
    assert result.returncode == 0, result.stderr
    lines = result.stderr.splitlines()
    text.add("\n".join(line for line in lines if not line.startswith("{")), *args)
    text.run("worker", "--services", "chunking, mailing", code=2)
    text.run("worker", "--services", " , ", code=2)
    text.scene("the store of another app", home.with_name("other"))
    scenes.no_worker(home.with_name("other"))
    text.run("worker", code=2)
    text.check()


def test_retry_job(shop: Path) -> None:
    text = Transcript("retry-job", shop)
    text.run("retry-job", "--once", code=3)
    text.check()


def test_doctor(shop: Path) -> None:
    text = Transcript("doctor", shop)
    text.run("doctor")
    text.check()


def test_no_golden_file_is_left_over() -> None:
    named = {f"help-{name}" for name in COMMANDS} | {"onward", "status-of-the-pipeline", "show-of-the-pipeline"}
    assert {file.stem for file in FOLDER.iterdir()} <= named | set(COMMANDS)
