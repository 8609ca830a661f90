"""How everything stands is told quickly: what takes a look at many documents is counted only where it is said."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onward import App, Settings
from onward.model.ledger import DeadLettered, GatewayReport, OutgoingEvents
from onward.ops.queries.needs import NeedKind
from onward.ops.queries.outbox import OutboxBacklog
from onward.ops.queries.status import Overdue, SystemStatus, read_status
from onward.ops.text.needs import need_command, need_sentence, outbox_sentences
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


# -- events that leave for other programs


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[tuple[App, Clock]]:
    """An app whose events leave for other programs, with one worker; one event waits to leave."""
    app = App(settings=Settings(home=tmp_path), clock=(clock := Clock()))
    app.store.outgoing = OutgoingEvents(None)
    Stage(app.store, clock).bring("a")
    app.store.store_name()
    app.store.register_worker("anna", {"services": ["reading"]})
    yield app, clock
    app.close()


def test_an_event_that_waits_to_leave_needs_a_person_after_five_minutes(outbox: tuple[App, Clock]) -> None:
    app, clock = outbox
    app.store.report_gateway(GatewayReport("box:17", clock.now()))
    clock.advance(30)
    assert read_status(app).outbox == OutboxBacklog(1, 30.0, served=True)
    assert read_status(app).needs == []
    clock.advance(271)
    app.store.report_gateway(GatewayReport("box:17", clock.now(), "amqp://me:sesame@mq/ is away. Start it"))
    app.store.register_worker("anna", {"services": ["reading"]})
    status = read_status(app)
    (need,) = status.needs
    assert (need.kind, need.count, need_command(need)) == (NeedKind.OUTBOX, 1, "onward doctor")
    assert "amqp://me:***@mq/ is away" in need_sentence(need)
    assert status.as_dict()["outbox"] == {
        "waiting": 1,
        "oldest_waits_seconds": 301.0,
        "unroutable": 0,
        "served": True,
        "trouble": "amqp://me:***@mq/ is away. Start it",
    }


def test_a_report_that_is_old_is_not_repeated(outbox: tuple[App, Clock]) -> None:
    app, clock = outbox
    app.store.report_gateway(GatewayReport("box:17", clock.now(), "the broker is away"))
    clock.advance(61)
    backlog = read_status(app).outbox
    assert (backlog.served, backlog.trouble) == (False, "")
    (sentence,) = outbox_sentences(backlog)
    assert "start one with ONWARD_GATEWAY set" in sentence
    clock.advance(240)
    app.store.register_worker("anna", {"services": ["reading"]})
    (need,) = read_status(app).needs
    assert need_command(need) == "onward worker --app MODULE:APP"


def test_what_no_queue_takes_is_counted_apart_and_needs_nobody(outbox: tuple[App, Clock]) -> None:
    app, clock = outbox
    app.store.settle_outgoing([], unroutable=[event.id for event in app.store.due_outgoing(limit=10)])
    clock.advance(400)
    app.store.register_worker("anna", {"services": ["reading"]})
    status = read_status(app)
    assert status.outbox == OutboxBacklog(unroutable=1)
    assert status.needs == []
    assert len(outbox_sentences(status.outbox)) == 1
    app.store.report_gateway(GatewayReport("box:17", clock.now(), "the broker is away"))
    assert "the broker is away" in outbox_sentences(read_status(app).outbox)[0], "nothing arrives, either"


def test_nothing_is_said_of_an_empty_outbox() -> None:
    assert outbox_sentences(OutboxBacklog()) == []
    assert outbox_sentences(OutboxBacklog(served=True)) == []
