"""The record shows what a process was running, even after its death."""

from __future__ import annotations

import multiprocessing
import os
import signal

import pytest

from onward.runtime.slots import RunningSlots


def work_and_die(record: RunningSlots) -> None:
    for slot, row in enumerate((11, 12, 13)):
        record.begin(slot, row, time_limit=600.0)
    record.end(1)
    os.kill(os.getpid(), signal.SIGKILL)


def return_and_die(record: RunningSlots) -> None:
    for slot, row in enumerate((11, 12, 13, 14)):
        record.begin(slot, row, time_limit=600.0)
        record.end(slot)
    record.begin(1, 22, time_limit=600.0)
    record._show_commit(1, [13, 14, 15])
    record._show_commit(1, [])
    record.committed([13])
    record._show_commit(1, [31, 32])
    os.kill(os.getpid(), signal.SIGKILL)


def leave(record: RunningSlots) -> None:
    record.begin(0, 11, time_limit=0.0)
    record.set_exit_code(0)


def run(target: object, record: RunningSlots) -> int | None:
    process = multiprocessing.get_context("spawn").Process(target=target, args=(record,))  # type: ignore[arg-type]
    process.start()
    process.join()
    return process.exitcode


def test_it_survives_the_death_of_its_writer() -> None:
    record = RunningSlots.shared()
    assert run(work_and_die, record) == -signal.SIGKILL
    assert record.running() == [11, 13]
    assert record.exit_code() is None
    assert record.has_finished_any()
    record.close()


def test_it_tells_what_was_returned_and_not_committed() -> None:
    record = RunningSlots.shared()
    assert run(return_and_die, record) == -signal.SIGKILL
    assert record.running() == [22]
    assert sorted(record.finished()) == [11, 14, 31, 32], "of each slot the last call, and the commit under way"
    record.close()


def test_a_process_that_ends_by_itself_says_so() -> None:
    record = RunningSlots.shared()
    assert run(leave, record) == 0
    assert record.exit_code() == 0
    assert not record.has_finished_any()
    record.close()


def test_what_is_past_its_time_limit_is_overdue() -> None:
    record = RunningSlots()
    record.begin(0, 11, time_limit=-1.0)
    record.begin(1, 12, time_limit=600.0)
    assert record.overdue(0.5) == [11]
    record.end(0)
    assert record.overdue(0.5) == []


def test_more_slots_than_fit_are_refused_with_a_remedy() -> None:
    record = RunningSlots()
    assert (record.reserve(3), record.reserve(2), record.reserve(1)) == (0, 3, 5)
    with pytest.raises(ValueError, match="lower the concurrency"):
        record.reserve(2000)
