"""`onward search` shows what answers a question, and how to go on."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onward.pipeline.app import build
from onward.pipeline.sources import submit
from onward.settings import load_settings
from tests.support.command_runs import ESCAPE, SAMPLE, environment, mail, onward, write_mailbox


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


@pytest.mark.parametrize(
    ("query", "refused"),
    (
        ("!!", "'!!' has nothing to look for; give at least one word"),
        ("-tide", "nothing to look for"),
        ("tide kind:docx", "kind: cannot be 'docx'; give one of calendar, code, contacts,"),
        ("tide after:soon", "after: cannot be 'soon'; give a date such as 2026-03-09"),
        ("@nosuch", "there is no saved search 'nosuch'"),
    ),
)
def test_a_query_that_cannot_be_read_is_refused(library: Path, query: str, refused: str) -> None:
    result = onward(library, "search", query)
    assert (result.exit_code, refused in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize(
    ("args", "refused"),
    (
        ((), "Give words to search for, or a filter such as --author or --since"),
        (("  ",), "Give words to search for"),
        (("tide", "--csv", "--json"), "Give --csv or --json, not both"),
        (("tide", "--save", "x", "--since", "2026"), "--save keeps the words of a query, and no --since"),
        (("tide", "--kind", "docx"), "'docx' is not one of 'calendar', 'code', 'contacts'"),
        (("tide", "--sort", "size"), "'size' is not one of 'relevance', 'date'"),
        (("tide", "--limit", "0"), "0 is not in the range"),
        (("tide", "--nosuch"), "No such option"),
    ),
)
def test_wrong_usage_is_refused(library: Path, args: tuple[str, ...], refused: str) -> None:
    result = onward(library, "search", *args)
    assert (result.exit_code, refused in result.stderr) == (2, True), result.stderr


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


# -- operators, filters and order


def results(home: Path, *args: str) -> list[dict[str, Any]]:
    done = onward(home, "search", "--json", *args)
    assert done.exit_code == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return found


def test_words_with_a_minus_need_no_quotes(library: Path) -> None:
    everywhere = {one["id"] for one in results(library, "boathouse", "--limit", "50")}
    without = {one["id"] for one in results(library, "boathouse", "-key", "--limit", "50")}
    assert without < everywhere
    assert without == {one["id"] for one in results(library, "--limit", "50", "--", "-key", "boathouse")}
    assert without == {one["id"] for one in results(library, "boathouse -key", "--limit", "50")}


def test_what_follows_an_option_is_its_value_even_with_a_minus(library: Path) -> None:
    assert results(library, "boathouse", "--author", "-key") == []


def test_help_is_still_asked_for_by_its_short_option(library: Path) -> None:
    assert "Examples:" in onward(library, "search", "tide", "-h").stdout


def test_without_words_the_newest_of_the_filters_come_first(library: Path) -> None:
    found = results(library, "--author", "priya", "--limit", "50")
    assert {one["author"] for one in found} == {"Priya Raman <priya.raman@ocean.example.org>"}
    dates = [one["date"] for one in found]
    assert dates == sorted(dates, reverse=True)
    assert [one["id"] for one in results(library, "from:priya", "--limit", "50")] == [one["id"] for one in found]


def test_the_newest_come_first_if_asked_for(library: Path) -> None:
    best = results(library, "tide", "gauge", "--limit", "50")
    newest = results(library, "tide", "gauge", "--limit", "50", "--sort", "date")
    assert {one["id"] for one in newest} <= {one["id"] for one in best}, "only those that match well"
    dates = [one["date"] for one in newest]
    assert dates == sorted(dates, reverse=True)
    assert dates != [one["date"] for one in best][: len(dates)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with two sources: a folder with code, text and a mailbox inside, and another mailbox."""
    place = tmp_path_factory.mktemp("sources")
    (place / "docs" / "guide").mkdir(parents=True)
    (place / "docs" / "tide.py").write_text("def tide(gauge):\n    return gauge.level\n")
    (place / "docs" / "guide" / "gauges.md").write_text(
        "# Gauges\n\nA tide gauge measures the level of the sea.\n"
    )
    write_mailbox(place / "docs" / "list.mbox", [mail(1, "The gauge", "Who reads the tide gauge today?")])
    write_mailbox(place / "other.mbox", [mail(2, "=1+1", "@tide gauge\u202e of the harbour", author="Bert")])
    app = build(load_settings({"ONWARD_HOME": str(place / "home")}))
    for source in ("docs", "other.mbox"):
        submit(app, str(place / source))
    app.work_until_idle()
    app.close()
    return place / "home"


def test_hits_show_their_path_inside_their_source(folder: Path) -> None:
    assert {one["path"] for one in results(folder, "tide gauge", "--limit", "50")} == {
        *("tide.py", "guide/gauges.md", "list.mbox", "")
    }
    shown = onward(folder, "search", "tide gauge").stdout
    for place in ("docs/guide/gauges.md", "docs/list.mbox", "other.mbox"):
        assert re.search(rf"^     [0-9a-f]{{8}}  (.* · )?{place}$", shown, re.MULTILINE), shown
    assert [one["path"] for one in results(folder, "path:guide tide")] == ["guide/gauges.md"]


@pytest.mark.parametrize(
    ("args", "paths"),
    (
        (("--kind", "code"), {"tide.py"}),
        (("--kind", "mail"), {"list.mbox", ""}),
        (("--language", "Python"), {"tide.py"}),
        (("--kind", "markdown", "lang:python"), set()),
        (("-kind:mail", "-lang:python"), {"guide/gauges.md"}),
    ),
)
def test_only_messages_of_a_kind_or_language(folder: Path, args: tuple[str, ...], paths: set[str]) -> None:
    assert {one["path"] for one in results(folder, "tide", *args)} == paths


def test_facets_count_all_results_whatever_is_shown(folder: Path) -> None:
    found = json.loads(onward(folder, "search", "tide", "--facets", "--limit", "1", "--json").stdout)
    facets = {name: {one["value"]: one["count"] for one in found["facets"][name]} for name in ("kind", "year")}
    assert facets == {"kind": {"code": 1, "markdown": 1, "mbox": 2}, "year": {"2026": 2}}
    shown = onward(folder, "search", "tide", "--facets").stdout
    assert re.search(r"^kind +mbox 2 · ", shown, re.MULTILINE)
    assert re.search(r"^source +docs 3 · other.mbox 1$", shown, re.MULTILINE)
    assert re.search(r"^author +(Ada 1 · Bert 1|Bert 1 · Ada 1)$", shown, re.MULTILINE)


def test_an_explanation_says_how_the_query_was_read_and_what_each_word_adds(folder: Path) -> None:
    shown = onward(folder, "search", "tide", "gauge", "-harbour", "--explain").stdout
    assert shown.startswith("Messages with tide or gauge, without harbour.\n")
    assert re.search(r"^     Score 1.00: words \d.\d\d \(.*tide \d", shown, re.MULTILINE)
    listed = onward(folder, "search", "--kind", "code", "--explain").stdout
    assert listed.startswith("All messages, the newest first.\n")
    assert "it passes the filters" in listed


# -- for other programs


def test_many_results_come_in_parts_that_nobody_sees(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = results(library, "the", "--limit", "60")
    assert len(whole) > 7
    monkeypatch.setattr("onward.ops.queries.search_results.PART", 3)
    assert results(library, "the", "--limit", "60") == whole
    assert [one["rank"] for one in results(library, "the", "--limit", "7", "--page", "2")] == [*range(8, 15)]
    assert onward(library, "search", "the", "--limit", "60").stdout.count("\n     ") > 60


def test_a_table_for_a_spreadsheet_has_no_formulas_and_no_control_characters(folder: Path) -> None:
    done = onward(folder, "search", "gauge", "from:bert", "--csv")
    (row,) = csv.DictReader(io.StringIO(done.stdout))
    assert (row["rank"], row["subject"], row["author"]) == ("1", "'=1+1", "Bert <bert@example.org>")
    assert row["excerpt"] == "'@tide gauge of the harbour"
    assert onward(folder, "search", "zyzzyva", "--csv").stdout.splitlines() == done.stdout.splitlines()[:1]


def test_a_reader_may_stop_reading(library: Path) -> None:
    command = [sys.executable, "-m", "onward", "search", "the", "--limit", "100", "--json"]
    env = {**os.environ, **environment(library)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "{\n"
        process.stdout.close()
        assert process.stderr.read() == ""


def test_an_empty_store_is_no_error(home: Path) -> None:
    build(load_settings({"ONWARD_HOME": str(home)})).store.close()
    assert "onward ingest SOURCE" in onward(home, "search", "tide").stdout
    assert json.loads(onward(home, "search", "tide", "--json").stdout)["results"] == []


# -- saved searches and similar messages


def test_a_saved_search_runs_by_its_name(library: Path, tmp_path: Path) -> None:
    home = shutil.copytree(library, tmp_path / "copy")
    assert "No search is saved" in onward(home, "searches").stdout
    saved = onward(home, "search", "--save", "keys", "boathouse", "-ferry", "--json")
    assert (saved.exit_code, saved.stderr) == (0, "Saved: onward search @keys\n")
    wanted = json.loads(saved.stdout)["results"]
    assert results(home, "@keys") == wanted
    assert json.loads(onward(home, "searches", "--json").stdout) == [{"name": "keys", "query": "boathouse -ferry"}]
    narrower = results(home, "@keys", "from:callum")
    assert {one["author"] for one in narrower} == {"Callum Reid <callum@sparks.example.org>"}
    assert onward(home, "searches", "remove", "@keys").stdout == "Removed @keys: boathouse -ferry\n"
    assert onward(home, "searches", "list", "--json").stdout == "[]\n"
    assert onward(home, "searches", "remove", "keys").exit_code == 2


def test_messages_about_the_same_are_listed_without_the_message_itself(library: Path) -> None:
    (first,) = results(library, "who has the key to the boathouse", "--limit", "1")
    done = onward(library, "similar", first["id"][:10], "--limit", "3", "--json")
    found = json.loads(done.stdout)["results"]
    assert len(found) == 3
    assert first["id"] not in {one["id"] for one in found}
    assert found[0]["thread_id"] == first["thread_id"]
    shown = onward(library, "similar", first["id"], "--limit", "3").stdout
    assert [found[0]["id"][:8], "*the*" in shown] == [first_id(shown), False]
    assert onward(library, "similar", "zzzz").exit_code == 2


def test_a_search_imports_only_what_it_needs(library: Path) -> None:
    """Most of the time of a search on the command line is spent on imports."""
    needless = (
        *("asyncio", "fastapi", "multiprocessing", "safetensors", "ssl", "tomllib"),
        *("onward.pipeline.events", "onward.runtime.engine"),
    )
    program = (
        "import sys; from onward.cli import main; main(['search', 'boathouse'], standalone_mode=False); "
        f"print([name for name in {needless} if name in sys.modules])"
    )
    env = {**os.environ, **environment(library)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert "oathouse" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
