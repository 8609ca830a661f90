"""Handlers that compute and commits take turns; none waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise

import pytest

from onward import App, Document, Event, Work, names
from onward.runtime import work
from onward.runtime.work import GilTurns


class Sum(Document):
    number: int


class SumAsked(Event):
    sum_ids: list[str] = names(Sum)


def test_only_one_thread_computes_at_a_time() -> None:
    given = GilTurns()
    inside = 0
    most: list[int] = []
    ready = threading.Barrier(4)

    def compute() -> None:
        nonlocal inside
        ready.wait()
        for _ in range(200):
            with given.computing():
                inside += 1
                most.append(inside)
                inside -= 1

    threads = [threading.Thread(target=compute) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 800
    assert max(most) == 1


def test_a_commit_goes_before_the_next_computation() -> None:
    given = GilTurns()
    order: list[str] = []
    computing, committing = threading.Event(), threading.Event()

    def compute() -> None:
        with given.computing():
            computing.set()
            committing.wait()
            order.append("first")
        with given.computing():
            order.append("second")

    thread = threading.Thread(target=compute)
    thread.start()
    computing.wait()
    given._no_commit.clear()  # it wants to commit, and says so before it waits
    committing.set()
    with given.committing():
        order.append("commit")
    thread.join()
    assert order == ["first", "commit", "second"]


def test_a_commit_does_not_wait_long_for_a_computation_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "PATIENCE", 0.01)
    given = GilTurns()
    with given.computing(), given.committing():
        assert given._turn.locked(), "it is the computation's still"
    with given.computing():
        assert given._turn.locked()


def test_a_computation_that_hangs_does_not_hold_up_the_others_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "LONGEST_TURN", 0.01)
    given = GilTurns()
    with given.computing():  # and does not come to an end
        other = threading.Thread(target=lambda: given.computing().__enter__(), daemon=True)
        other.start()
        other.join(60)
        assert not other.is_alive()
        assert given._turn.locked(), "it is still the turn of the one that hangs"
    assert not given._turn.locked()


def test_a_handler_that_checkpoints_inside_its_turn_is_slow_but_not_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "PATIENCE", 0.01)
    app = App(store="sqlite://:memory:")

    @app.service("adding", on=SumAsked, finishes=Sum)
    def add(one: Sum, work: Work) -> None:
        with work.computing():
            work.checkpoint(1)

    one = Sum(id="a", number=1)
    app.publish(SumAsked.of(one), documents=[one])
    app.work_until_idle()
    state = app.state(Sum, "a")
    app.close()
    assert state is not None
    assert state.status == "processed"


@pytest.mark.parametrize("given", (2, lambda: 2))
def test_a_service_says_how_many_calls_may_run_at_once(given: int | Callable[[], int]) -> None:
    """As a number, or as a function that is asked when a worker starts."""
    app = App(store="sqlite://:memory:")
    running = 0
    most: list[int] = []
    lock = threading.Lock()
    pairs = threading.Barrier(2)

    @app.service("adding", on=SumAsked, finishes=Sum, concurrency=given)
    def add(one: Sum, work: Work) -> None:
        nonlocal running
        with lock:
            running += 1
            most.append(running)
        pairs.wait(60)  # it takes two to go on
        with lock:
            running -= 1

    sums = [Sum(id=f"{n}", number=n) for n in range(6)]
    app.publish(*(SumAsked.of(one) for one in sums), documents=sums)
    app.work_until_idle()
    app.close()
    assert max(most) == 2
    assert all(later - before <= 1 for before, later in pairwise(most))
