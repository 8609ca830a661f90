"""Operations are stored: begun, saved while they run, ended, interrupted and continued."""

from __future__ import annotations

import pytest

from onward.ledger.operations import KEEP_OPERATIONS_SECONDS, OPERATION_LEASE_SECONDS
from onward.model.operations import Operation, OperationStatus
from tests.support.store_pages import NOON, Stage

LAPSED = OPERATION_LEASE_SECONDS + 1.0


def begin(stage: Stage, title: str = "Put back", who: str = "anna", action: str = "RequeueDeadLetters") -> str:
    begun = stage.store.begin_operation(
        title, who, "console", action=action, parameters={"rate": 5}, back="/queues"
    )
    return begun.id


def found(stage: Stage, id: str) -> Operation:
    operation = stage.store.operation(id)
    assert operation is not None
    return operation


def end(stage: Stage, id: str, status: OperationStatus, run: int = 1) -> bool:
    return stage.store.end_operation(id, run, status, done=7, total=9, text="7 put back.", problem="")


def listed(stage: Stage, **filters: str) -> list[str]:
    return [one.title for one in stage.store.operations(**filters)]  # type: ignore[arg-type]


def test_what_was_begun_is_read_as_it_was_begun(stage: Stage) -> None:
    begun = stage.store.begin_operation("Put back", "anna", "cli", action="A", parameters={"keys": [["a", "b"]]})
    assert found(stage, begun.id) == begun
    assert (begun.status, begun.running, begun.began_at, begun.run, begun.cursor) == (
        OperationStatus.RUNNING,
        True,
        NOON,
        1,
        None,
    )
    assert stage.store.operation("nothing") is None


def test_progress_and_cursor_are_kept_while_it_runs(stage: Stage) -> None:
    id = begin(stage)
    assert stage.store.save_operation(id, 1, 3, 9, "under way") is False
    assert stage.store.checkpoint_operation(id, 1, {"after": [3, "x"]})
    operation = found(stage, id)
    assert (operation.done, operation.total, operation.text, operation.cursor) == (
        3,
        9,
        "under way",
        {"after": [3, "x"]},
    )


def test_its_end_is_stored_once(stage: Stage) -> None:
    id = begin(stage)
    stage.clock.advance(5)
    assert end(stage, id, OperationStatus.DONE)
    assert not end(stage, id, OperationStatus.FAILED)
    operation = found(stage, id)
    assert (operation.status, operation.ended_at, operation.text) == ("done", NOON + 5, "7 put back.")
    assert stage.store.save_operation(id, 1, 8, 9, "later") is None
    assert stage.store.continue_operation(id) is None, "what is done is not run again"


def test_without_saves_it_is_interrupted_and_can_be_continued(stage: Stage) -> None:
    id = begin(stage)
    stage.store.checkpoint_operation(id, 1, {"after": 3})
    stage.clock.advance(LAPSED)
    assert (found(stage, id).status, found(stage, id).can_continue) == ("interrupted", True)
    continued = stage.store.continue_operation(id)
    assert continued == found(stage, id)
    assert continued is not None
    assert (continued.status, continued.run, continued.cursor) == ("running", 2, {"after": 3})
    assert stage.store.continue_operation(id) is None, "it runs"


def test_a_save_renews_its_lease(stage: Stage) -> None:
    id = begin(stage)
    for _ in range(3):
        stage.clock.advance(OPERATION_LEASE_SECONDS - 1)
        stage.store.save_operation(id, 1, 0, 0, "")
    assert found(stage, id).running


def test_nothing_is_saved_of_a_run_that_another_process_has_continued(stage: Stage) -> None:
    id = begin(stage)
    stage.clock.advance(LAPSED)
    stage.store.continue_operation(id)
    assert stage.store.save_operation(id, 1, 5, 5, "late") is None
    assert not stage.store.checkpoint_operation(id, 1, "late")
    assert not end(stage, id, OperationStatus.DONE)
    assert (found(stage, id).status, found(stage, id).cursor, found(stage, id).done) == ("running", None, 0)


def test_a_checkpoint_is_part_of_the_transaction_that_it_is_made_in(stage: Stage) -> None:
    id = begin(stage)

    def fails() -> None:
        stage.store.checkpoint_operation(id, 1, "not kept")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stage.store.atomically(fails)
    assert found(stage, id).cursor is None


def test_its_process_reads_that_it_must_stop(stage: Stage) -> None:
    id = begin(stage)
    assert stage.store.stop_operation(id)
    assert found(stage, id).stopping
    assert stage.store.save_operation(id, 1, 1, 2, "") is True
    end(stage, id, OperationStatus.STOPPED)
    assert not stage.store.stop_operation(id)
    continued = stage.store.continue_operation(id)
    assert continued is not None
    assert not continued.stopping


def test_what_is_no_action_cannot_be_continued(stage: Stage) -> None:
    id = begin(stage, action="")
    stage.clock.advance(LAPSED)
    assert not found(stage, id).can_continue
    assert stage.store.continue_operation(id) is None


def test_they_are_listed_by_status_and_person_the_latest_first(stage: Stage) -> None:
    ids = {}
    for title, who in (("one", "anna"), ("two", "ben"), ("three", "anna"), ("four", "anna")):
        stage.clock.advance(LAPSED)
        ids[title] = begin(stage, title, who)
    end(stage, ids["three"], OperationStatus.DONE)
    assert listed(stage) == ["four", "three", "two", "one"]
    assert listed(stage, status="running") == ["four"]
    assert listed(stage, status="interrupted") == ["two", "one"]
    assert listed(stage, status="done") == ["three"]
    assert listed(stage, who="anna", before=ids["four"]) == ["three", "one"]
    assert [one.title for one in stage.store.operations(limit=1)] == ["four"]


def test_old_ones_are_removed_when_a_new_one_begins(stage: Stage) -> None:
    begin(stage, "old")
    stage.clock.advance(KEEP_OPERATIONS_SECONDS + 1)
    assert listed(stage) == ["old"]
    begin(stage, "new")
    assert listed(stage) == ["new"]
