"""`onward forget` removes a source and all that came from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onward.pipeline.app import build
from onward.pipeline.sources import submit
from onward.settings import load_settings
from tests.support.command_runs import mail, onward, write_mailbox


@pytest.fixture
def filled(home: Path, tmp_path: Path) -> Path:
    """Two sources, each with one mail."""
    app = build(load_settings({"ONWARD_HOME": str(home)}))
    for number, name in enumerate(("one.mbox", "two.mbox"), 1):
        submit(app, str(write_mailbox(tmp_path / name, [mail(number, f"Mail {number}", "Who has the key?")])))
    app.work_until_idle()
    app.close()
    return home


def test_a_dry_run_counts_what_would_be_removed(filled: Path, tmp_path: Path) -> None:
    result = onward(filled, "forget", "one.mbox", "--dry-run", "--json")
    forgotten = [{"source": f"{tmp_path}/one.mbox", "documents": 10}]
    assert json.loads(result.stdout) == {"dry_run": True, "forgotten": forgotten}
    assert json.loads(onward(filled, "search", "key", "--json").stdout)["total"] == 2


def test_a_source_is_forgotten_and_the_other_stays(filled: Path, tmp_path: Path) -> None:
    result = onward(filled, "forget", str(tmp_path / "one.mbox"), "--json")
    assert result.exit_code == 0, result.output
    forgotten = [{"source": f"{tmp_path}/one.mbox", "documents": 10}]
    assert json.loads(result.stdout) == {"dry_run": False, "forgotten": forgotten}
    (left,) = json.loads(onward(filled, "search", "key", "--json").stdout)["results"]
    assert left["subject"] == "Mail 2"


def test_one_unknown_source_and_nothing_is_forgotten(filled: Path, tmp_path: Path) -> None:
    result = onward(filled, "forget", "one.mbox", "three.mbox")
    assert result.exit_code == 2
    assert f"\n  {tmp_path}/one.mbox\n  {tmp_path}/two.mbox" in result.stderr
    assert json.loads(onward(filled, "search", "key", "--json").stdout)["total"] == 2


def test_forgetting_is_kept_among_the_actions(filled: Path, tmp_path: Path) -> None:
    assert onward(filled, "forget", "one.mbox", "--dry-run").exit_code == 0
    assert json.loads(onward(filled, "actions", "--json").stdout) == []
    assert onward(filled, "forget", "one.mbox", "two.mbox").exit_code == 0
    kept = json.loads(onward(filled, "actions", "--json").stdout)
    assert [(one["action"], one["via"], one["about"], one["touched"]) for one in kept] == [
        ("forget", "cli", {"source": f"{tmp_path}/two.mbox"}, 10),
        ("forget", "cli", {"source": f"{tmp_path}/one.mbox"}, 10),
    ]
