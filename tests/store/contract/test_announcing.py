"""What a wire is told: rows that are due, once, by priority, and no more of them than can be dealt with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onward.model.ledger import Dead, Done
from tests.store.stage import LISTENING, READING, Stage, failure


@pytest.fixture(autouse=True)
def wired(stage: Stage) -> None:
    stage.store.wired = True


def announced(stage: Stage, limit: int = 100, window: int = 100) -> list[int]:
    return stage.store.to_announce("reading", limit=limit, window=window)


def test_a_row_is_announced_once(stage: Stage) -> None:
    stage.bring("a")
    (row,) = announced(stage)
    assert announced(stage) == []
    stage.store.not_announced([row])
    assert announced(stage) == [row], "it could not be sent"


def test_what_is_not_due_is_announced_in_its_time(stage: Stage) -> None:
    stage.store.publish([stage.found("a", due_in=60.0)])
    assert announced(stage) == []
    stage.clock.advance(60)
    assert len(announced(stage)) == 1


def test_no_more_than_a_window_is_out(stage: Stage) -> None:
    for id in "abcde":
        stage.bring(id)
    first = announced(stage, window=2)
    assert len(first) == 2
    assert announced(stage, window=2) == []
    (delivery, _) = stage.store.claim("anna", "reading", limit=2, lease=60.0, among=first)
    stage.settle(delivery, Done([delivery.inputs[0].id]))
    assert len(announced(stage, window=2)) == 2, "what is claimed is not out any more"


def test_the_urgent_comes_first(stage: Stage) -> None:
    stage.bring("a")
    stage.bring("b", priority=5)
    (row,) = announced(stage, limit=1)
    (delivery,) = stage.store.claim("anna", "reading", limit=1, lease=60.0, among=[row])
    assert delivery.inputs[0].id == "b"


def test_a_row_that_comes_back_is_announced_again(stage: Stage) -> None:
    stage.bring("a")
    (row,) = announced(stage)
    stage.store.claim("anna", "reading", limit=1, lease=60.0, among=[row])
    assert announced(stage) == []
    stage.store.release("anna")
    assert announced(stage) == [row]


def test_what_was_announced_long_ago_and_still_waits_is_announced_again(stage: Stage) -> None:
    stage.bring("a")
    (row,) = announced(stage)
    assert stage.store.announce_again("reading", before=stage.clock.now() - 10) == 0
    stage.clock.advance(11)
    assert stage.store.announce_again("reading", before=stage.clock.now() - 10) == 1
    assert announced(stage) == [row]


def test_what_somebody_without_a_wire_has_published_is_announced_too(stage: Stage) -> None:
    stage.store.wired = False
    stage.bring("a")
    stage.store.wired = True
    assert len(announced(stage)) == 1


def test_only_the_rows_that_a_message_names_are_claimed(stage: Stage) -> None:
    stage.bring("a")
    stage.bring("b")
    (row, _) = announced(stage)
    assert [one.row for one in stage.store.claim("anna", "reading", limit=9, lease=60.0, among=[row])] == [row]
    assert stage.store.claim("bert", "reading", limit=9, lease=60.0, among=[row]) == [], "it is somebody's"
    assert stage.store.claim("bert", "listening", limit=9, lease=60.0, among=[row]) == []
    assert stage.store.claim("bert", "reading", limit=9, lease=60.0, among=[10**9]) == []


def test_a_dead_letter_is_copied_once(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    stage.settle(delivery, Dead(["a"], failure=failure("it broke")))
    assert stage.store.letters_to_copy(["listening"], limit=10) == []
    (letter,) = stage.store.letters_to_copy(["reading"], limit=10)
    assert (letter.row, letter.failed_queue, letter.last_error) == (delivery.row, "reading.failed", "it broke")
    assert stage.store.letters_to_copy(["reading"], limit=10) == []
    stage.store.not_copied([letter.row])
    assert len(stage.store.letters_to_copy(["reading"], limit=10)) == 1


def test_an_old_release_does_not_undo_what_a_new_one_has_said(stage: Stage) -> None:
    newer = replace(READING, version=2, needs=("model",))
    stage.store.subscribe([newer, LISTENING])
    stage.store.subscribe([READING])
    assert newer in stage.store.subscriptions()
    assert READING not in stage.store.subscriptions()
