"""The page on searching: its operators are those of the query language, and its commands run on the sample."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from onward.pipeline import query_language
from onward.pipeline.app import build
from onward.pipeline.query_language import parse
from onward.pipeline.sources import submit
from onward.settings import load_settings
from tests.support.command_runs import ROOT, SAMPLE, onward

PAGE = (ROOT / "docs" / "how-to" / "search.md").read_text()
OPERATORS = re.findall(r"^\| `([^`]+)` \| (.*) \|$", PAGE[: PAGE.index("## Filter")], re.MULTILINE)
COMMANDS = re.findall(
    r"^onward ((?:search|similar|show|searches|summaries)\b.*?)(?: +[#>].*)?$", PAGE, re.MULTILINE
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    app = build(load_settings({"ONWARD_HOME": str(folder)}))
    submit(app, str(SAMPLE))
    app.work_until_idle()
    app.close()
    return folder


def test_every_operator_is_described() -> None:
    described = {
        part.operator for typed, _ in OPERATORS if typed[0] != "@" for part in parse(f"word {typed}").parts
    }
    assert described == {"", *query_language._ALLOWED}


@pytest.mark.parametrize("typed", [one for _, text in OPERATORS for one in re.findall(r"`(-?\w+:[^`]+)`", text)])
def test_what_the_table_mentions_can_be_typed(typed: str) -> None:
    assert parse(f"word {typed}").parts[1].operator


def test_all_kinds_are_described() -> None:
    (kinds,) = (text for typed, text in OPERATORS if typed == "kind:pdf")
    assert set(re.findall(r"`(\w+)`", kinds)) == set(query_language.KINDS)


def test_the_commands_of_the_page_run_in_their_order(home: Path) -> None:
    (first,) = json.loads(onward(home, "search", "wrong charger setting", "--limit", "1", "--json").stdout)[
        "results"
    ]
    ids = {"4e682402": first["id"][:8], "e46e80d2": first["thread_id"][:8]}
    assert len(COMMANDS) > 20
    for command in COMMANDS:
        for named, real in ids.items():
            command = command.replace(named, real)  # noqa: PLW2901
        done = onward(home, *shlex.split(command))
        assert done.exit_code == 0, f"onward {command}: {done.stderr}"
        assert "Nothing found" not in done.stdout, f"onward {command}"
