"""`onward policies` shows the ladder with the numbers that are set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from onward.cli import main


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def onward(*args: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, args, env={"COLUMNS": "80", **(env or {})})


def test_it_says_what_happens_on_each_rung() -> None:
    result = onward("policies")
    assert result.exit_code == 0
    assert result.output == (
        "1 not ready     the event came before its document can be read\n"
        "  waits         0–0.25, 0–0.5, 0–1, 0–2, 0–4, 0–8, 0–16, 0–32 s\n"
        "  gives up      after 9 tries or 30 min of being able to try\n"
        "  then          dead letter\n"
        "\n"
        "2 transient     the handler raised something that may pass\n"
        "  waits         5, 10 s\n"
        "  gives up      after 3 tries\n"
        "  then          dead letter; the document stays pending, for rung 4\n"
        "\n"
        "2 fetching      a source could not be fetched, which may pass\n"
        "  waits         2, 4 s\n"
        "  gives up      after 3 tries\n"
        "  then          dead letter; the document stays pending, for rung 4\n"
        "\n"
        "3 failed batch  part of a task failed\n"
        "  waits         1, 5, 10, 20, 40, 60 min, then every 60 min\n"
        "  gives up      never\n"
        "  then          from retry 10 on, shown to the operator as persistent\n"
        "\n"
        "4 retry job     a document is unfinished and its time has come\n"
        "  waits         5, 10, 20, 40, 60 min, then every 60 min\n"
        "  gives up      archives 3, messages 3, chunks 5, threads 5, others 5 rounds\n"
        "  then          the document is failed_max_retries\n"
        "\n"
        "5 operator      someone decides\n"
        "  waits         –\n"
        "  gives up      –\n"
        "  then          requeue, schedule, reset, export, archive, purge\n"
        "\n"
        "So an archive gets up to 3 × 3 tries before it is given up:\n"
        "3 rounds of the retry job, 3 tries in each.\n"
    )


def test_it_shows_what_is_set_not_what_is_usual(tmp_path: Path) -> None:
    (tmp_path / "onward.toml").write_text("[retry_job]\nmax_attempts_archives = 4\n")
    output = onward("policies", env={"ONWARD_MAX_RETRIES": "2", "RETRY_JOB_MAX_DELAY_SECONDS": "1e9"}).output
    assert "  waits         5 s\n" in output
    assert "  waits         5, 10, 20, 40, 80, 160, 320, 640, … min\n" in output
    assert "4 × 2 tries" in output


def test_without_retries_there_is_no_wait() -> None:
    output = onward("policies", env={"ONWARD_MAX_RETRIES": "1"}).output
    assert "  waits         –\n  gives up      after 1 try\n" in output


def test_programs_get_json() -> None:
    facts = json.loads(onward("policies", "--json").output)
    assert [rung["rung"] for rung in facts["rungs"]] == [1, 2, 2, 3, 4, 5]
    assert facts["rungs"][0]["waits"][:2] == [[0, 0.25], [0, 0.5]]
    assert facts["rungs"][3]["endless"] is True
    assert "3 × 3 tries" in facts["archive"]
