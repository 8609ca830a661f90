"""How everything stands is told quickly: what takes a look at many documents is counted only where it is said."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from onward import App, Settings
from onward.model.ledger import DeadLettered
from onward.ops.queries.needs import NeedKind
from onward.ops.queries.status import Overdue, SystemStatus, read_status
from onward.ops.text.needs import need_command
from onward.runtime.process_identity import describe_process
from tests.support.store_pages import Clock, Stage, failure


def test_what_is_overdue_is_asked_for_only_if_a_need_speaks_of_it(tmp_path: Path) -> None:
    app = App(settings=Settings(home=tmp_path))
    stage = Stage(app.store, Clock(app.store.now()))
    asked: list[SystemStatus] = []

    def late(standing: SystemStatus) -> Overdue:
        asked.append(standing)
        return Overdue(3)

    stage.bring("a")
    assert read_status(app, count_overdue=late).needs[0].kind is NeedKind.NO_WORKER
    assert not asked, "an event is due, which is said instead"
    stage.settle(stage.take(), DeadLettered(["a"], failure=failure()))
    need = read_status(app, count_overdue=late).needs[0]
    assert (need.kind, need.count) == (NeedKind.OVERDUE, 3)
    assert len(asked) == 1
    app.store.register_worker("anna", {"services": ["reading"]})
    read_status(app, count_overdue=late)
    assert len(asked) == 1, "with a worker alive it is no need"
    app.close()


def ended_process() -> dict[str, Any]:
    """What a process of this machine said of itself, which has ended since."""
    child = subprocess.Popen(["sleep", "60"])
    about = {"pid": child.pid, **describe_process(child.pid)}
    child.kill()
    child.wait()
    return about


@pytest.mark.parametrize("claimed", (False, True), ids=("waiting", "claimed"))
def test_workers_that_died_on_this_machine_are_known_to_be_dead_at_once(tmp_path: Path, claimed: bool) -> None:
    app = App(settings=Settings(home=tmp_path))
    stage = Stage(app.store, Clock(app.store.now()))
    stage.bring("a")
    app.store.register_worker("anna", {"services": {"reading": 1}} | ended_process())
    if claimed:
        stage.claim(worker="anna")
    standing = read_status(app)
    assert standing.workers == []
    assert [(need.kind, need.count, need_command(need)) for need in standing.needs] == [
        (NeedKind.NO_WORKER, 1, "onward worker --app MODULE:APP")
    ]
    app.store.register_worker("bert", {"services": {"reading": 1}, "pid": os.getpid(), **describe_process()})
    assert read_status(app).needs == []
    app.close()
