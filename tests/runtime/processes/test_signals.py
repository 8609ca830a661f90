"""Signals to a supervisor: draining, giving back, reading the settings again; and its own death."""

from __future__ import annotations

import os
from signal import Signals

import pytest

from tests.runtime.processes.trial import Trial
from tests.support.supervised_workers import group_members, until

pytestmark = pytest.mark.prove


@pytest.mark.parametrize("whole_group", (False, True), ids=("supervisor", "whole group"))
@pytest.mark.parametrize("number", (Signals.SIGTERM, Signals.SIGINT), ids=("SIGTERM", "Ctrl-C"))
def test_a_signal_finishes_what_runs_and_ends_well(trial: Trial, number: Signals, whole_group: bool) -> None:
    trial.notice("gated")
    supervised = trial.start(processes=2)
    trial.begun("gated")
    (supervised.signal_group if whole_group else supervised.signal)(number)
    trial.go_on()
    assert supervised.wait() == 0
    assert trial.word("gated")
    assert trial.ledger("SELECT token, deaths, lapses, state FROM ledger") == [(1, 0, 0, "done")]
    assert "Traceback" not in supervised.says()
    until(lambda: not group_members(supervised.pid), "nobody of the group is left")


def test_a_second_signal_gives_back_at_once_and_burns_nothing(trial: Trial) -> None:
    trial.notice("gated")
    supervised = trial.start()
    trial.begun("gated")
    supervised.signal(Signals.SIGTERM)
    until(lambda: "a second signal releases" in supervised.says(), "the first one is heard")
    supervised.signal(Signals.SIGTERM)
    assert supervised.wait() == 0
    assert trial.ledger("SELECT tries, deaths, lapses, state FROM ledger") == [(0, 0, 0, "waiting")]


def test_hangup_lets_new_processes_with_new_settings_take_over(trial: Trial) -> None:
    settings = trial.folder / "onward.toml"
    settings.write_text("max_retries = 4")
    supervised = trial.start()
    trial.notice("before")
    pid, retries = trial.word("before").split()
    assert retries == "4"
    settings.write_text("max_retries = 5")
    supervised.signal(Signals.SIGHUP)
    until(lambda: int(pid) not in supervised.workers(), "the old process ends")
    trial.notice("after")
    assert trial.word("after").split()[1] == "5"


def test_settings_that_make_no_sense_change_nothing_not_even_after_a_crash(trial: Trial) -> None:
    settings = trial.folder / "onward.toml"
    settings.write_text("max_retries = 4")
    supervised = trial.start()
    trial.notice("before")
    pid, _ = trial.word("before").split()
    settings.write_text("max_retries = 'many'")
    supervised.signal(Signals.SIGHUP)
    until(lambda: "the settings stay as they are" in supervised.says(), "the supervisor complains")
    assert "max_retries" in supervised.says()
    trial.notice("after")
    assert trial.word("after").split() == [pid, "4"], "the same process goes on"
    os.kill(int(pid), Signals.SIGKILL)
    trial.notice("after the crash")
    assert trial.word("after the crash").split()[1] == "4"


def test_workers_whose_supervisor_is_killed_finish_and_end(trial: Trial) -> None:
    trial.notice("gated")
    supervised = trial.start(lease=5.0)
    trial.begun("gated")
    supervised.signal(Signals.SIGKILL)
    supervised.wait()
    trial.notice("left for others")
    trial.go_on()
    assert trial.word("gated")
    until(lambda: not group_members(supervised.pid), "nobody of the group is left")
    assert trial.ledger("SELECT state, token, deaths FROM ledger") == [("done", 1, 0), ("waiting", 0, 0)]
