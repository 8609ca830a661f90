"""A canary in growing steps is an operation: it is continued after a crash, and does nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from onward import App
from onward.ledger.operations import OPERATION_LEASE_SECONDS
from onward.model.ledger import DeadLettered, Processed
from onward.ops.actions.action import ActionStopped, Actor, Completion
from onward.ops.actions.group_canary import RetryGroupInSteps
from onward.ops.bad_input import BadInput, NotPossible
from onward.ops.canary_operation import last_canary, open_canary
from onward.ops.operation_run import OperationRun
from onward.settings import load_settings
from tests.support.command_runs import environment, onward
from tests.support.failed_pages import fail, failure
from tests.support.store_pages import Clock, Stage

ANNA = Actor("anna", "cli")
GROUP = "f00d1234"
PAGES = [f"page-{number:03}" for number in range(70)]


@contextmanager
def opened(clock: Clock, **settings: str) -> Iterator[tuple[App, Stage]]:
    app = App(settings=load_settings(settings or {"ONWARD_STORE": "sqlite://:memory:"}), clock=clock)
    try:
        yield app, Stage(app.store, clock)
    finally:
        app.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def shop(clock: Clock) -> Iterator[tuple[App, Stage]]:
    with opened(clock) as (app, stage):
        fail(stage, *PAGES)
        yield app, stage


def work(stage: Stage, limit: int = 100) -> int:
    taken = stage.claim(limit)
    for delivery in taken:
        stage.settle(delivery, Processed([one.id for one in delivery.inputs]))
    return len(taken)


def with_workers(run: OperationRun, stage: Stage, *, sleeps: int = 10_000) -> OperationRun:
    """Let workers work while the canary waits; after so many waits, the process is stopped."""
    left = iter(range(sleeps))

    def sleep(seconds: float) -> None:
        if next(left, None) is None:
            raise ActionStopped
        stage.clock.advance(seconds)
        work(stage)

    run.sleep = sleep  # type: ignore[method-assign]
    return run


def rounds(stage: Stage) -> dict[int, int]:
    found = [state.round for state in stage.store.states("pages", limit=1000)]
    return {round: found.count(round) for round in set(found)}


def test_it_is_stopped_and_continued_from_its_step(shop: tuple[App, Stage]) -> None:
    app, stage = shop
    stage.clock.advance(1)
    run = with_workers(open_canary(app, RetryGroupInSteps("f00d"), ANNA), stage, sleeps=1)
    outcome = run.execute(ANNA)
    assert outcome.stopped
    assert "Stopped in step 2 of 4." in outcome.text
    last = last_canary(app, GROUP)
    assert last is not None
    assert (last.status, last.cursor["step"]) == ("stopped", 1)
    again = with_workers(open_canary(app, RetryGroupInSteps("f00d", resume=True), ANNA), stage)
    assert again.execute(ANNA).completion is Completion.WHOLE
    work(stage)
    assert rounds(stage) == {2: 70}, "each was put back once"
    done = last_canary(app, GROUP)
    assert done is not None
    assert (done.id, done.status, done.run) == (last.id, "done", 2)


def test_what_was_put_back_is_in_the_action_log_once(shop: tuple[App, Stage]) -> None:
    app, stage = shop
    stage.clock.advance(1)
    with_workers(open_canary(app, RetryGroupInSteps(GROUP), ANNA), stage, sleeps=1).execute(ANNA)
    with_workers(open_canary(app, RetryGroupInSteps(GROUP, resume=True), ANNA), stage).execute(ANNA)
    assert sum(entry.touched for entry in app.store.actions()) == 70


def test_there_must_be_something_to_go_on_with(shop: tuple[App, Stage]) -> None:
    app, stage = shop
    with pytest.raises(NotPossible, match="there is no canary of f00d1234 to go on with"):
        open_canary(app, RetryGroupInSteps(GROUP, resume=True), ANNA)
    run = open_canary(app, RetryGroupInSteps(GROUP), ANNA)
    with pytest.raises(NotPossible, match="is running since"):
        open_canary(app, RetryGroupInSteps(GROUP, resume=True), ANNA)
    stage.clock.advance(1)
    with_workers(run, stage).execute(ANNA)
    with pytest.raises(NotPossible, match="has ended well"):
        open_canary(app, RetryGroupInSteps(GROUP, resume=True), ANNA)


def test_it_stops_when_the_failure_comes_back_and_says_which(shop: tuple[App, Stage]) -> None:
    app, stage = shop
    stage.clock.advance(1)
    run = open_canary(app, RetryGroupInSteps(GROUP), ANNA)

    def sleep(seconds: float) -> None:
        stage.clock.advance(seconds)
        for delivery in stage.claim():
            other = failure("password=tinder is wrong", "beef5678")
            stage.settle(delivery, DeadLettered([one.id for one in delivery.inputs], failure=other, final=True))

    run.sleep = sleep  # type: ignore[method-assign]
    outcome = run.execute(ANNA)
    assert outcome.completion is Completion.FAILED
    assert "failed in another way (group beef5678)" in outcome.text
    assert "tinder" not in outcome.text
    assert (outcome.facts["outcome"], outcome.facts["left_untouched"]) == ("failed", 69)
    assert outcome.facts["failures"][0]["same_group"] is False


@pytest.mark.parametrize("share", (0.0, 1.1, float("nan")))
def test_a_share_that_makes_no_sense_is_refused(shop: tuple[App, Stage], share: float) -> None:
    with pytest.raises(BadInput, match="is no share"):
        RetryGroupInSteps(GROUP, share=share).plan(shop[0])


def test_a_plan_says_the_steps(shop: tuple[App, Stage]) -> None:
    plan = RetryGroupInSteps(GROUP).plan(shop[0])
    assert (plan.touches, plan.slow) == (70, True)
    assert "70 would be put back: 1, then 5, then 50, then the rest." in plan.text


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    while not condition():
        assert process.poll() is None, "it has ended by itself"
        time.sleep(0.01)


@pytest.mark.prove
def test_the_process_is_killed_in_the_middle_and_another_one_goes_on(tmp_path: Path) -> None:
    now = Clock(time.time() - 10)
    with opened(now, ONWARD_HOME=str(tmp_path)) as (_, stage):
        fail(stage, *PAGES)
    command = [sys.executable, "-m", "onward", "failures", "retry", GROUP, "--canary"]
    process = subprocess.Popen(command, env={**os.environ, **environment(tmp_path)}, stderr=subprocess.DEVNULL)
    try:
        with opened(Clock(now.time + 20), ONWARD_HOME=str(tmp_path)) as (_, stage):
            wait_for(lambda: stage.rows("waiting") == 1, process)  # the first step
            assert work(stage) == 1
            wait_for(lambda: stage.rows("waiting") >= 3, process)  # in the middle of the second
            process.send_signal(signal.SIGKILL)
            process.wait()
            put_back = 1 + work(stage)
            assert put_back in range(4, 7)
    finally:
        process.kill()
        process.wait()
    refused = onward(tmp_path, "failures", "retry", GROUP, "--resume")
    assert (refused.exit_code, "is running since" in refused.output) == (1, True), refused.output
    later = Clock(now.time + 60 + OPERATION_LEASE_SECONDS)
    with opened(later, ONWARD_HOME=str(tmp_path)) as (app, stage):
        run = with_workers(open_canary(app, RetryGroupInSteps(GROUP, resume=True), ANNA), stage)
        outcome = run.execute(ANNA)
        assert outcome.completion is Completion.WHOLE
        work(stage)
        assert rounds(stage) == {2: 70}, "nothing was put back twice, and nothing forgotten"
