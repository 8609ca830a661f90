"""`onward documents` lists documents, and exports them so that two runs can be compared."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from onward import App, Document
from onward.pipeline.app import build
from onward.pipeline.documents import Chunk, source_id
from onward.pipeline.sources import submit
from onward.settings import load_settings
from tests.support.command_runs import SAMPLE, onward


def test_failed_documents_with_their_errors(library: Path) -> None:
    result = onward(library, "documents", "--status", "failed", "--json")
    assert result.exit_code == 0
    (failed,) = map(json.loads, result.stdout.splitlines())
    assert (failed["collection"], failed["status"]) == ("messages", "failed")
    assert failed["lastError"]["error_type"] == "UnreadableMail"


def lines(home: Path, *args: str) -> list[dict[str, Any]]:
    result = onward(home, "documents", *args)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_long_names_of_collections_are_apart_from_the_status(home: Path) -> None:
    class VeryLongInvoiceReadingInput(Document):
        text: str

    app = App(store=f"sqlite:///{home}/onward.db")
    home.mkdir(exist_ok=True)
    app.add(VeryLongInvoiceReadingInput(id="a", text="hello"))
    app.close()
    assert "  very_long_invoice_reading_inputs  processed" in onward(home, "documents").stdout


STATE = ("status", "attemptCount", "lastAttemptTime", "lastError", "createdAt", "updatedAt")


def test_the_fields_of_a_documents_state_have_the_same_names_everywhere(home: Path) -> None:
    app = build(load_settings({"ONWARD_HOME": str(home)}))
    archive = source_id(submit(app, str(SAMPLE)).source)
    (new,) = lines(home, "--collection", "archives", "--json")
    assert (new["status"], new["attemptCount"], new["lastError"]) == ("pending", 1, None), "a round was begun"
    app.store.reset("archives", archive)
    shown = json.loads(onward(home, "show", archive, "--json").stdout)
    (exported,) = lines(home, "export", "--collection", "archives")
    (listed,) = lines(home, "--collection", "archives", "--json")
    for found in (shown, exported, listed):
        state = {name: found[name] for name in STATE}
        assert (state["status"], state["attemptCount"], state["lastAttemptTime"]) == ("pending", 0, None)
        assert datetime.fromisoformat(state["createdAt"]) <= datetime.fromisoformat(state["updatedAt"])
        assert datetime.fromisoformat(state["createdAt"]).utcoffset() == timedelta(0)
        assert "embedding_generated" not in found
    app.close()


def test_a_chunk_says_whether_it_is_embedded(library: Path, home: Path) -> None:
    assert {one["embedding_generated"] for one in lines(library, "--collection", "chunks", "--json")} == {True}
    app = build(load_settings({"ONWARD_HOME": str(home)}))
    app.add(Chunk(id="new", message_id="m", thread_id="t", position=0, start=0, end=1, text="a", tokens=1))
    app.close()
    assert json.loads(onward(home, "show", "chunks/new", "--json").stdout)["embedding_generated"] is False
    assert [one["embedding_generated"] for one in lines(home, "export", "--collection", "chunks")] == [False]


def test_list_is_what_is_meant_without_a_word(library: Path) -> None:
    for options in (
        (),
        ("--status", "failed"),
        ("--json", "--limit", "3"),
        ("--collection", "threads", "--limit", "2"),
    ):
        plain = onward(library, "documents", *options)
        assert (plain.exit_code, plain.stdout) == (0, onward(library, "documents", "list", *options).stdout)
        assert plain.stdout


def test_pages_follow_each_other_without_a_gap(library: Path) -> None:
    everything = onward(library, "documents", "--json").stdout.splitlines()
    keys = [(one["collection"], one["id"]) for one in map(json.loads, everything)]
    assert keys == sorted(keys)
    seen: list[tuple[str, str]] = []
    after = ""
    while page := onward(library, "documents", "--json", "--limit", "100", "--after", after).stdout.splitlines():
        seen += [(one["collection"], one["id"]) for one in map(json.loads, page)]
        after = "/".join(seen[-1])
    assert seen == keys


def test_the_list_says_how_to_go_on(library: Path) -> None:
    first = onward(library, "documents", "--collection", "messages", "--limit", "2", "--source", SAMPLE.name)
    command = next(line for line in first.stdout.splitlines() if line.startswith("  onward "))
    assert f"--collection messages --source {SAMPLE.name} --limit 2 --after messages/" in command
    second = onward(library, *command.split()[1:])
    assert second.exit_code == 0
    assert not set(first.stdout.splitlines()[:2]) & set(second.stdout.splitlines()[:2])


@pytest.mark.parametrize(
    ("args", "named"),
    (
        (("--collection", "nothings"), ("'nothings'", "archives", "chunks")),
        (("--after", "0a1b"), ("'0a1b'", "COLLECTION/ID")),
        (("--full",), ("--json",)),
        (("--status", "done"), ("'done'", "'pending'", "'processed'", "'failed'")),
    ),
)
def test_wrong_usage_names_what_was_given_and_what_is_allowed(
    library: Path, args: tuple[str, ...], named: tuple[str, ...]
) -> None:
    result = onward(library, "documents", *args)
    assert result.exit_code == 2
    assert all(word in result.stderr for word in named)


def test_two_runs_over_the_same_source_are_exported_alike(library: Path, home: Path) -> None:
    app = build(load_settings({"ONWARD_HOME": str(home)}))
    submit(app, str(SAMPLE))
    app.work_until_idle()
    app.close()
    export = ("documents", "--json", "--full", "--without-times")
    lines = onward(home, *export).stdout.splitlines()
    assert lines == onward(library, *export).stdout.splitlines()
    assert json.loads(lines[0])["body"]["source"] == str(SAMPLE)
    timed = json.loads(onward(home, "documents", "--json").stdout.splitlines()[0])
    assert timed["createdAt"] is not None


def test_documents_are_found_by_words_of_a_title(library: Path) -> None:
    found = onward(library, "documents", "--collection", "threads", "--limit", "1").stdout.splitlines()[0]
    title = found.partition("processed")[2].strip()
    lines = onward(library, "documents", "--title", title, "--json").stdout.splitlines()
    assert {"threads", "messages"} <= {json.loads(line)["collection"] for line in lines}
    assert "No such documents." in onward(library, "documents", "--title", "zzzz-nothing").stdout
    assert onward(library, "documents", "--title", " ").exit_code == 2
