"""`onward actions` shows what people have changed by hand."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command_runs import ESCAPE, onward
from tests.support.failed_pages import finish, stage


def test_the_latest_come_first(home: Path) -> None:
    with stage(home) as on:
        on.store.log_action("ada", "cli", "retry", {"collection": "pages", "ids": ["a", "b", "c", "d"]}, 1234)
        on.store.log_action("bob", "console", "breakers open", {"dependency": "printer"}, 1)
    first, second = json.loads(onward(home, "actions", "--json").stdout)
    assert (first["who"], first["via"], first["action"], first["touched"]) == (
        "bob",
        "console",
        "breakers open",
        1,
    )
    assert (second["who"], second["touched"]) == ("ada", 1234)
    assert second["about"] == {"collection": "pages", "ids": ["a", "b", "c", "d"]}


def test_for_programs(home: Path) -> None:
    with stage(home) as on:
        on.store.log_action("ada", "cli", "retry", {"reset": True}, 2)
    (one,) = json.loads(onward(home, "actions", "--json").stdout)
    assert one.pop("at").endswith("Z")
    assert one == {"id": 1, "who": "ada", "via": "cli", "action": "retry", "about": {"reset": True}, "touched": 2}


def test_pages_follow_each_other(home: Path) -> None:
    with stage(home) as on:
        for number in range(5):
            on.store.log_action("ada", "cli", f"act-{number}", {}, 0)
    page = onward(home, "actions", "--limit", "3").stdout.splitlines()
    assert [line.split()[4] for line in page[:-1]] == ["act-4", "act-3", "act-2"]
    assert page[-1].endswith(" onward actions --before 3")
    rest = onward(home, *page[-1].split()[3:]).stdout.splitlines()
    assert [line.split()[4] for line in rest] == ["act-1", "act-0"]
    assert json.loads(onward(home, "actions", "--before", "1", "--json").stdout) == []


def test_the_text_drives_no_terminal_and_has_no_secrets(home: Path) -> None:
    with stage(home) as on:
        on.store.log_action("ada", "cli", "retry", {"why": f"{ESCAPE}[31m[red]x[/red] password=tinder"}, 1)
    text = onward(home, "actions").stdout
    assert ESCAPE not in text
    assert "[red]x[/red]" in text
    assert "tinder" not in text


def test_numbers_that_are_too_large_are_refused(home: Path) -> None:
    with stage(home) as on:
        on.bring("aaaa-1")
    for option in ("--limit", "--before"):
        result = onward(home, "actions", option, "9" * 20)
        assert (result.exit_code, "is not in the range" in result.stderr) == (2, True)


def test_what_changed_nothing_is_no_action(home: Path) -> None:
    with stage(home) as on:
        finish(on, "aaaa-1")
    assert onward(home, "retry", "aaaa-1").exit_code == 0
    with stage(home) as on:
        assert on.store.actions() == []


def test_before_anything_was_changed(home: Path) -> None:
    with stage(home) as on:
        on.bring("aaaa-1")
    assert json.loads(onward(home, "actions", "--json").stdout) == []
