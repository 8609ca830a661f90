"""On a full disk a run ends with one clear message."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from onward.cli.pipeline_run import _logging_to
from onward.ledger.store_errors import StoreFull
from tests.support.command_runs import SAMPLE, onward

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="there is no device that is always full")
def test_a_log_that_cannot_be_written_says_nothing_of_itself(capfd: pytest.CaptureFixture[str]) -> None:
    with _logging_to(FULL):
        logging.getLogger("onward").error("a worker died")
    assert capfd.readouterr().err == ""


def test_what_is_full_is_named_with_the_remedy(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: object, **__: object) -> None:
        raise StoreFull("a worker could not write to the store; see its message above")

    monkeypatch.setattr("onward.worker.supervise", fill)
    result = onward(home, "ingest", str(SAMPLE))
    assert result.exit_code == 1
    assert f"{home}/onward.db cannot be written; its disk is full" in result.stderr
    assert "Nothing was lost. Free some disk space" in result.stderr
