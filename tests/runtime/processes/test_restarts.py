"""Processes that die are replaced: at once if they had done some work, ever later if they had not."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from signal import Signals

import pytest

from onward.app import App
from onward.runtime.engine import Ending
from onward.runtime.process_identity import describe_process, is_gone
from onward.runtime.supervisor import FIRST_RESTART_SECONDS, SLOWEST_RESTART_SECONDS, RestartBackoff
from onward.runtime.work import Work
from tests.runtime.processes.stage import Page, PagesFound, bring
from tests.runtime.processes.trial import Trial

pytestmark = pytest.mark.prove

BROKEN = """
import multiprocessing
from onward import App, Event

class Rang(Event):
    pass

app = App(store="sqlite:///onward.db")
app.service("answering", on=Rang)(lambda event, work: None)
if multiprocessing.parent_process():
    raise RuntimeError("not in a worker, password=hunter2")
app.publish(Rang())
"""


def test_the_delay_doubles_up_to_a_limit_however_often_it_fails() -> None:
    delays = []
    for failures in (0, 1, 2, 3, 4, 5, 6, 7, 8, 1_000_000):
        backoff = RestartBackoff()
        backoff.count(failures, 0.0)
        delays.append(backoff.delay)
    assert delays[:3] == [0.0, FIRST_RESTART_SECONDS, 2 * FIRST_RESTART_SECONDS]
    assert all(later == min(2 * sooner, SLOWEST_RESTART_SECONDS) for sooner, later in pairwise(delays[1:-1]))
    assert delays[-1] == SLOWEST_RESTART_SECONDS


def test_a_replacement_goes_on_where_the_dead_process_was(trial: Trial) -> None:
    supervised = trial.start()
    pids = set()
    for round in range(3):
        trial.notice(f"event {round}")
        pid, _ = trial.word(f"event {round}").split()
        pids.add(pid)
        (worker,) = supervised.workers()
        os.kill(worker, Signals.SIGKILL)
    assert len(pids) == 3


def test_a_process_for_suspects_that_finds_none_says_so(app: App) -> None:
    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        raise AssertionError("no suspect, so not for this process")

    bring(app, "a")
    assert app.engine(suspects=True).run() is Ending.IDLE


def test_a_run_that_somebody_waits_for_ends_when_no_process_gets_to_work(tmp_path: Path) -> None:
    """A service goes on trying, for its trouble may pass."""
    (tmp_path / "broken.py").write_text(BROKEN)
    command = [sys.executable, "-m", "onward", "worker", "--app", "broken:app", "--until-idle", "1"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "not in a worker" in run.stderr
    assert "hunter2" not in run.stderr
    assert "times in a row before they had done anything" in run.stderr


def test_after_everything_was_killed_the_next_supervisor_goes_on_at_once(trial: Trial) -> None:
    killed = trial.start()
    trial.notice("gated")
    trial.begun("gated")
    killed.signal_group(Signals.SIGKILL)
    killed.wait()
    trial.go_on()
    # Its lease is good for another minute; that the processes are gone can be seen right now.
    trial.run()
    assert trial.word("gated")
    assert trial.ledger("SELECT deaths FROM ledger WHERE event_type = 'Noticed'") == [0]


def test_a_process_is_gone_when_another_one_has_its_number() -> None:
    me = {"pid": os.getpid(), **describe_process()}
    assert not is_gone(me)
    assert is_gone(me | {"born": "1"})
    assert is_gone(me | {"pid": 2**22 + 1})
    assert not is_gone(me | {"machine": "elsewhere", "pid": 2**22 + 1}), "only its own machine can tell"
    assert not is_gone({"pid": 2**22 + 1}), "a system that tells nothing is not guessed at"
