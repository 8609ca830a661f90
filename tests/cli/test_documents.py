"""`onward documents` lists documents, and exports them so that two runs can be compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onward.pipeline.app import build
from onward.pipeline.sources import submit
from onward.settings import load_settings
from tests.cli.stage import SAMPLE, onward


def test_failed_documents_with_their_errors(library: Path) -> None:
    result = onward(library, "documents", "--status", "failed")
    assert result.exit_code == 0
    assert "messages  failed" in result.stdout
    assert "UnreadableMail: no headers in a mail" in result.stdout
    assert "1 document.\nTo look at one: onward show " in result.stdout


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
    assert "\n2 of 150 shown; to go on:\n" in first.stdout
    assert f"--collection messages --source {SAMPLE.name} --limit 2 --after messages/" in command
    second = onward(library, *command.split()[1:])
    assert second.exit_code == 0
    assert not set(first.stdout.splitlines()[:2]) & set(second.stdout.splitlines()[:2])


@pytest.mark.parametrize(
    ("args", "problem"),
    (
        (("--collection", "nothings"), "'nothings' has no documents; there are: archives, chunks"),
        (("--after", "0a1b"), "'0a1b' must be COLLECTION/ID"),
        (("--full",), "go with --json"),
        (("--status", "done"), "'done' is not one of 'pending', 'processed', 'failed'"),
    ),
)
def test_wrong_usage_is_told(library: Path, args: tuple[str, ...], problem: str) -> None:
    result = onward(library, "documents", *args)
    assert result.exit_code == 2
    assert problem in result.stderr


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
    assert timed["times"]["created_at"] is not None
