"""A run that is stopped leaves nothing behind: no process, no file."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.torture.stopping import crews, is_alive, start, until, workers

pytestmark = pytest.mark.prove


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM))
def test_a_run_that_is_stopped_clears_away_what_it_made(number: signal.Signals, tmp_path: Path) -> None:
    run = start(tmp_path, "--documents", "5000", "--kills", "0")
    started = [*(all_crews := crews(run.pid)), *(one for crew in all_crews for one in workers(crew))]
    assert len(started) >= 4, "two supervisors, with two workers each as soon as they are up"
    run.send_signal(number)
    said = run.communicate(timeout=60)[1]
    assert run.returncode == 130
    assert said.endswith("Stopped.\n")
    assert list(tmp_path.glob("onward_torture_*")) == []
    until(lambda: not any(map(is_alive, started)), "nobody of the fleet is left")


def test_the_fleet_ends_with_the_run_that_started_it(tmp_path: Path) -> None:
    run = start(tmp_path, "--documents", "5000", "--kills", "0")
    started = [*(all_crews := crews(run.pid)), *(one for crew in all_crews for one in workers(crew))]
    assert started
    run.kill()
    run.communicate()
    until(lambda: not any(map(is_alive, started)), "nobody of the fleet is left")
