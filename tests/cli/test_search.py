"""`onward search` shows what answers a question, and how to go on."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.command_runs import ESCAPE, SAMPLE, onward


def first_id(output: str) -> str:
    found = re.search(r"^     ([0-9a-f]{8,})  ", output, re.MULTILINE)
    assert found is not None, output
    return found[1]


def test_the_best_answer_comes_first_with_its_words_marked(library: Path) -> None:
    result = onward(library, "search", "who has the key to the boathouse")
    assert result.exit_code == 0
    assert re.match(r"  1  .*\*[Bb]oathouse\*", result.stdout)
    assert "Davy Isbister" in result.stdout
    assert "2026-03-05" in result.stdout
    assert ESCAPE not in result.stdout


def test_a_result_is_opened_by_its_short_id(library: Path) -> None:
    id = first_id(onward(library, "search", "boathouse", "key").stdout)
    shown = onward(library, "show", id)
    assert shown.exit_code == 0
    assert "boathouse" in shown.stdout.lower()


def test_pages_follow_each_other(library: Path) -> None:
    first = onward(library, "search", "tide", "gauge", "--limit", "2")
    assert "1 to 2 of " in first.stdout
    command = re.search(r"The next page: onward (.*)", first.stdout)
    assert command is not None
    second = onward(library, *command[1].split())
    assert second.stdout.startswith("  3  ")
    far = onward(library, "search", "tide", "gauge", "--page", "9999")
    assert "behind the last" in far.stdout


def test_the_filters_leave_out_others(library: Path) -> None:
    facts = json.loads(
        onward(
            library,
            *("search", "gauge", "--author", "priya", "--since", "2026-03-03", "--until", "2026-03-05", "--json"),
        ).stdout
    )
    assert facts["total"] > 0
    assert {one["author"] for one in facts["results"]} == {"Priya Raman <priya.raman@ocean.example.org>"}
    assert all("2026-03-03" <= one["date"] < "2026-03-05" for one in facts["results"])
    thread = facts["results"][0]["thread_id"]
    inside = json.loads(onward(library, "search", "gauge", "--thread", thread[:12], "--json").stdout)
    assert {one["thread_id"] for one in inside["results"]} == {thread}
    named = json.loads(onward(library, "search", "gauge", "--source", SAMPLE.name, "--json").stdout)
    assert named["total"] >= facts["total"]


def test_nothing_found_is_no_error(library: Path) -> None:
    result = onward(library, "search", "zyzzyva", "--author", "nobody", "--json")
    assert result.exit_code == 0
    assert (json.loads(result.stdout)["total"], json.loads(result.stdout)["results"]) == (0, [])


@pytest.mark.parametrize("given", ("soon", "2026-13-01", "2026-02-30", "26"))
def test_a_wrong_date_is_named_with_what_is_allowed(library: Path, given: str) -> None:
    result = onward(library, "search", "lamp", "--since", given)
    assert result.exit_code == 2
    assert all(word in result.stderr for word in ("--since", repr(given), "2026-03-09"))


@pytest.mark.parametrize(
    "given", ("yesterday", "today", "2026", "2026-03", "2026-03-09T14:30", "2026-03-09T14:30Z")
)
def test_dates_are_given_as_people_do(library: Path, given: str) -> None:
    assert onward(library, "search", "lamp", "--until", given).exit_code == 0


def test_a_query_without_words_is_refused(library: Path) -> None:
    result = onward(library, "search", "!!")
    assert result.exit_code == 1
    assert "'!!'" in result.stderr


def test_an_unknown_source_lists_the_known_ones(library: Path) -> None:
    result = onward(library, "search", "lamp", "--source", "other.mbox")
    assert result.exit_code == 2
    assert all(name in result.stderr for name in ("'other.mbox'", str(SAMPLE)))


def test_without_a_store_it_says_how_to_begin_and_leaves_nothing_behind(home: Path) -> None:
    result = onward(home, "search", "lamp")
    assert result.exit_code == 2
    assert "onward ingest SOURCE" in result.stderr
    assert not home.exists()


def test_while_the_embedder_is_down_words_are_searched_with_a_warning(library: Path) -> None:
    down = {"ONWARD_EMBEDDER": "http://127.0.0.1:9/v1", "ONWARD_EMBEDDER_MODEL": "some"}
    result = onward(library, "search", "boathouse", "--json", more=down)
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["results"]
    assert "words alone" in found["note"]
    assert "Warning: found by words alone: the embedder cannot be used" in result.stderr
