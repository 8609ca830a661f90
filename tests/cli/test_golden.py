"""The text that each command prints, kept in one golden file a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onward.cli import COMMANDS
from tests.cli.transcripts import FOLDER, Transcript
from tests.support.command_runs import SAMPLE, onward
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


@pytest.mark.parametrize("name", ("policies", "schema"))
def test_a_command_without_a_store(home: Path, name: str) -> None:
    text = Transcript(name, home)
    text.run(name)
    text.check()


def test_status(home: Path, shop: Path, library: Path) -> None:
    text = Transcript("status", shop)
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


def test_show(shop: Path, library: Path) -> None:
    text = Transcript("show", shop)
    for id in ("page-1", "page-3", "page-4", "page-5"):
        text.run("show", id)
    text.run("show", "nosuch", code=2)
    text.check()
    text = Transcript("show-of-the-pipeline", library)
    search = ("search", "who has the key to the boathouse")
    text.run("show", f"messages/{first_id(library, *search, field='id')}")
    text.run("show", f"threads/{first_id(library, *search, field='thread_id')}")
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


def test_workers_and_the_retry_job(shop: Path) -> None:
    text = Transcript("workers", shop)
    text.run("workers")
    text.run("workers", "--here", code=1)
    text.check()
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
