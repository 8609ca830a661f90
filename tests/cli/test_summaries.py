"""`onward summaries` says what the threads are about."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.command_runs import SAMPLE, mail, onward, write_mailbox


def test_the_threads_are_listed_newest_first(library: Path) -> None:
    facts = json.loads(onward(library, "summaries", "--json", "--limit", "1000").stdout)
    assert facts["total"] == len(facts["summaries"]) > 30
    dates = [one["latest_message"] for one in facts["summaries"] if one["latest_message"]]
    assert dates == sorted(dates, reverse=True)


def test_the_list_has_first_lines_without_markup(library: Path) -> None:
    listed = onward(library, "summaries", "--limit", "3", "--source", SAMPLE.name).stdout
    assert len(re.findall(r"^[0-9a-f]{8}  ", listed, re.MULTILINE)) == 3
    assert "**" not in listed


def test_one_is_shown_whole_as_markdown(library: Path) -> None:
    (first,) = json.loads(onward(library, "summaries", "--limit", "1", "--json").stdout)["summaries"]
    command = ("summaries", "--thread", first["id"][:12])
    whole = onward(library, *command)
    assert whole.exit_code == 0
    facts = json.loads(onward(library, *command, "--json").stdout)
    assert facts["id"] == first["id"]
    assert facts["markdown"].strip() in whole.stdout


def test_an_unknown_thread_is_an_error(library: Path) -> None:
    assert onward(library, "summaries", "--thread", "zzzz").exit_code == 2


@pytest.mark.prove  # tests/ops/test_thread_lists.py has the quick form
def test_files_are_listed_only_if_asked_for(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "handbook"
    folder.mkdir()
    (folder / "gauge.md").write_text("# The gauge\n\nThe gauge is kept in the boathouse.\n")
    (folder / "ferry.txt").write_text("The ferry leaves at nine in the morning.\n")
    assert onward(home, "ingest", str(folder)).exit_code == 0
    listed = onward(home, "summaries")
    assert "2 files and pages are not listed; --all lists them, too." in listed.stdout
    assert "gauge" not in listed.stdout
    write_mailbox(folder / "list.mbox", [mail(1, "Where is the key?", "Who has the key of the boathouse?")])
    assert onward(home, "ingest", str(folder)).exit_code == 0
    facts = json.loads(onward(home, "summaries", "--json").stdout)
    assert ([one["subject"] for one in facts["summaries"]], facts["files_left_out"]) == (["Where is the key?"], 2)
    assert onward(home, "summaries").stdout.count("\n\n") == 1
    facts = json.loads(onward(home, "summaries", "--all", "--json").stdout)
    assert (facts["total"], facts["files_left_out"]) == (3, 0)
    assert "not listed" not in onward(home, "summaries", "--all").stdout
