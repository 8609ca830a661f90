"""Processes that tick are killed at random moments: no tick is lost, and none is doubled."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random

import pytest

from onward.runtime.schedules import ScheduleState
from tests.runtime.processes import ticking
from tests.support.supervised_workers import until

pytestmark = pytest.mark.prove

KILLS = int(os.environ.get("TICK_TEST_KILLS", "60"))
PROCESSES = 3
ROOT = Path(__file__).parents[3]


def start(store_url: str, began: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", ticking.__name__, store_url, str(began)], cwd=ROOT)


@pytest.mark.parametrize("kind", ("sqlite", "postgres"))
def test_killed_processes_lose_and_double_no_tick(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = (
        f"sqlite:///{tmp_path / 'ticks.db'}" if kind == "sqlite" else request.getfixturevalue("postgres_store_url")
    )
    seed = Random().randrange(10**9)
    print("seed", seed)  # shown if it fails
    random, began = Random(seed), time.time()
    app = ticking.ticking_app(url, began)
    with closing(app), ExitStack() as stack:

        def begin() -> subprocess.Popen[bytes]:
            process = stack.enter_context(start(url, began))
            stack.callback(process.kill)
            return process

        def state() -> ScheduleState | None:
            return app.store.get(ScheduleState, "beat")

        processes = [begin() for _ in range(PROCESSES)]
        until(lambda: (now := state()) is not None and now.last_tick is not None, "the first tick")
        first = app.store.states("beat_calls", limit=1)[0].id
        for _ in range(KILLS):
            until(partial(lambda before: state() != before, state()), "somebody ticks")
            time.sleep(random.uniform(0.0, 0.1))  # not a wait: the random moment of the kill
            victim = processes.pop(random.randrange(len(processes)))
            assert victim.poll() is None, "it goes on until it is killed"
            victim.kill()
            victim.wait()
            processes.append(begin())
        for process in processes:
            process.kill()
            process.wait()
        last = state()
        assert last is not None
        assert last.last_tick is not None
        found = []
        after = ""
        while page := app.store.states("beat_calls", after=after, limit=1_000):
            after = page[-1].id
            found += page
        assert {(one.round, one.attempt_count) for one in found} == {(1, 1)}
        ticks = {one.id for one in found}
        begins, ends = ticking_second(first), int(last.last_tick.timestamp())
        assert len(found) == len(ticks) == ends - begins + 1, "every second from the first to the last"
        assert app.store.counts()["beat"] == {"waiting": len(found)}, "and one event for each"


def ticking_second(id: str) -> int:
    return int(datetime.fromisoformat(id.removeprefix("tick-")).timestamp())
