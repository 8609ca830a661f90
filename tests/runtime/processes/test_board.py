"""The board tells what a process was running, even after its death."""

from __future__ import annotations

import multiprocessing
import os
import signal

import pytest

from onward.runtime.board import Board


def work_and_die(board: Board) -> None:
    for slot, row in enumerate((11, 12, 13)):
        board.begin(slot, row, time_limit=600.0)
    board.end(1)
    os.kill(os.getpid(), signal.SIGKILL)


def leave(board: Board) -> None:
    board.begin(0, 11, time_limit=0.0)
    board.part(0)


def run(target: object, board: Board) -> int | None:
    process = multiprocessing.get_context("spawn").Process(target=target, args=(board,))  # type: ignore[arg-type]
    process.start()
    process.join()
    return process.exitcode


def test_it_survives_the_death_of_its_writer() -> None:
    board = Board.shared()
    assert run(work_and_die, board) == -signal.SIGKILL
    assert board.running() == [11, 13]
    assert board.parted() is None
    assert board.has_finished_any()
    board.close()


def test_a_process_that_ends_by_itself_says_so() -> None:
    board = Board.shared()
    assert run(leave, board) == 0
    assert board.parted() == 0
    assert not board.has_finished_any()
    board.close()


def test_what_is_past_its_time_limit_is_overdue() -> None:
    board = Board()
    board.begin(0, 11, time_limit=-1.0)
    board.begin(1, 12, time_limit=600.0)
    assert board.overdue(0.5) == [11]
    board.end(0)
    assert board.overdue(0.5) == []


def test_more_slots_than_fit_are_refused_with_a_remedy() -> None:
    board = Board()
    assert (board.reserve(3), board.reserve(2), board.reserve(1)) == (0, 3, 5)
    with pytest.raises(ValueError, match="lower the concurrency"):
        board.reserve(2000)
