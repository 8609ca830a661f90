"""`onward policies` shows the retry ladder with the numbers that are set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from onward.cli import main


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def onward(*args: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, args, env={"COLUMNS": "80", **(env or {})})


def rungs(**env: str) -> dict[str, dict[str, Any]]:
    result = onward("policies", "--json", env=env)
    assert result.exit_code == 0, result.output
    return {rung["name"]: rung for rung in json.loads(result.stdout)["rungs"]}


def fixed(*seconds: float) -> list[list[float]]:
    """Waits that are not random."""
    return [[wait, wait] for wait in seconds]


def test_each_rung_has_its_waits() -> None:
    found = rungs()
    assert {name: (rung["rung"], rung["endless"]) for name, rung in found.items()} == {
        "not ready": (1, False),
        "transient": (2, False),
        "fetching": (2, False),
        "failed batch": (3, True),
        "retry job": (4, True),
        "operator": (5, False),
    }
    assert found["not ready"]["waits"] == [[0, 0.25 * 2**number] for number in range(8)]
    assert found["transient"]["waits"] == fixed(5, 10)
    assert found["fetching"]["waits"] == fixed(2, 4)
    assert found["failed batch"]["waits"] == fixed(60, 300, 600, 1200, 2400, 3600, 3600, 3600)
    assert found["retry job"]["waits"] == fixed(300, 600, 1200, 2400, 3600, 3600, 3600, 3600)
    assert found["operator"]["waits"] == []


def test_each_rung_has_its_limit() -> None:
    found = rungs()
    assert "9 tries" in found["not ready"]["gives_up"]
    assert "30 min" in found["not ready"]["gives_up"]
    assert "3 tries" in found["transient"]["gives_up"]
    assert "archives 3, messages 3, chunks 5, threads 5" in found["retry job"]["gives_up"]


def test_settings_change_the_rungs(tmp_path: Path) -> None:
    (tmp_path / "onward.toml").write_text("[retry_job]\nmax_attempts_archives = 4\n")
    found = rungs(ONWARD_MAX_RETRIES="2", RETRY_JOB_MAX_DELAY_SECONDS="1e9")
    assert found["transient"]["waits"] == fixed(5)
    assert found["retry job"]["waits"] == fixed(*(300 * 2**number for number in range(8)))
    assert "archives 4," in found["retry job"]["gives_up"]


def test_the_base_delay_of_fetching_is_a_setting() -> None:
    found = rungs(ONWARD_FETCH_BACKOFF_SECONDS="0.5")
    assert found["fetching"]["waits"] == fixed(0.5, 1)
    assert found["transient"]["waits"] == fixed(5, 10)


def test_without_time_to_live_rung_1_has_one_try() -> None:
    found = rungs(RETRY_TTL_MINUTES="0")["not ready"]
    assert (found["waits"], found["gives_up"]) == ([], "after 1 try")


def test_without_retries_there_is_no_wait() -> None:
    assert rungs(ONWARD_MAX_RETRIES="1")["transient"]["waits"] == []
