"""`onward summaries` says what the threads are about."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.support.command_runs import SAMPLE, onward


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
