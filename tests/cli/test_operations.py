"""Operations on the command line: listed, shown, stopped, and continued in the command itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onward.model.operations import OperationStatus
from tests.support.command_runs import onward
from tests.support.failed_pages import fail, stage


@pytest.fixture
def operation(home: Path) -> str:
    """A requeue of two dead letters that was interrupted."""
    with stage(home) as on:
        fail(on, "page-a", "page-b")
        parameters = {"selection": {"queue": "reading.failed"}}
        begun = on.store.begin_operation(
            "Put dead letters back", "anna", "console", action="RequeueDeadLetters", parameters=parameters
        )
        on.store.end_operation(begun.id, 1, OperationStatus.INTERRUPTED, done=0, total=2)
    return begun.id


def test_they_are_listed_by_status(home: Path, operation: str) -> None:
    (found,) = json.loads(onward(home, "operations", "--json").stdout)
    assert (found["id"], found["status"], found["can_continue"]) == (operation, "interrupted", True)
    assert json.loads(onward(home, "operations", "--status", "done", "--json").stdout) == []
    shown = onward(home, "operations", "show", operation).stdout
    assert "queue: reading.failed" in shown
    assert f"onward operations continue {operation}" in shown


def test_one_is_continued_in_this_command(home: Path, operation: str) -> None:
    assert "2 dead letters put back." in onward(home, "operations", "continue", operation).stdout
    found = json.loads(onward(home, "operations", "show", operation, "--json").stdout)
    assert (found["status"], found["runs"], found["done"]) == ("done", 2, 2)
    again = onward(home, "operations", "continue", operation)
    assert (again.exit_code, "it is done" in again.stderr) == (1, True)


def test_one_that_runs_elsewhere_is_asked_to_stop(home: Path, operation: str) -> None:
    assert "there is nothing to stop" in onward(home, "operations", "stop", operation).stdout
    with stage(home) as on:
        assert on.store.continue_operation(operation) is not None
    assert "It is asked to stop." in onward(home, "operations", "stop", operation).stdout
    with stage(home) as on:
        assert on.store.save_operation(operation, 2, 0, 2, "") is True
