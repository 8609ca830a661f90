"""A message only hints: whatever it names that is not there to be claimed, it is acknowledged and forgotten."""

from __future__ import annotations

import time

import pytest

from onward import App, Work
from tests.rabbitmq.stage import eventually
from tests.runtime.cast import Page, PagesFound
from tests.store.stage import Clock
from tests.wire.stage import Broker, Fleet, bring, read, rows

pytestmark = pytest.mark.usefixtures("only_by_wire")


@pytest.fixture
def app(fleet: Fleet) -> App:
    app = fleet.app()

    @app.service("reading", on=PagesFound, finishes=Page)
    async def read_page(page: Page, work: Work) -> None: ...

    @app.service("counting", on=PagesFound)
    async def count_pages(event: PagesFound, work: Work) -> None: ...

    return app


def row_of(app: App, id: str) -> int:
    state = app.state(Page, id)
    assert state is not None
    assert state.row is not None
    return state.row


def test_rows_that_do_not_exist(app: App, fleet: Fleet, broker: Broker) -> None:
    fleet.hire(app)
    bring(app, "a")
    assert read(app, 1)
    broker.tell("reading", [2**62, 2**62 + 1])
    broker.tell("reading", [])
    assert broker.all_acknowledged("reading")


def test_rows_that_are_settled(app: App, fleet: Fleet, broker: Broker) -> None:
    bring(app, "a")
    row = row_of(app, "a")
    fleet.hire(app)
    assert read(app, 1)
    for _ in range(100):
        broker.tell("reading", [row])
    assert broker.all_acknowledged("reading")
    assert rows(app, "reading", "done") == 1


def test_rows_of_another_service(app: App, fleet: Fleet, broker: Broker) -> None:
    bring(app, "a", delay=3600)
    row = row_of(app, "a")
    fleet.hire(app)
    eventually(app.store.workers, "the engine is there")
    bring(app, "b")
    assert read(app, 1)
    broker.tell("counting", [row])
    broker.tell("reading", [row], service="counting")
    assert broker.all_acknowledged("counting", "reading")
    assert rows(app, "reading", "waiting") == 1


def test_rows_that_are_not_due(app: App, fleet: Fleet, broker: Broker) -> None:
    bring(app, "later", delay=3600)
    bring(app, "now")
    fleet.hire(app)
    assert read(app, 1)
    broker.tell("reading", [row_of(app, "later")])
    assert broker.all_acknowledged("reading")
    assert rows(app, "reading", "waiting") == 1


def test_a_worker_whose_clock_is_behind_that_of_the_relay_claims_what_it_is_told_of(
    app: App, fleet: Fleet, broker: Broker
) -> None:
    """Each machine knows the database's time, but only nearly."""
    ahead = fleet.app(Clock(time.time() + 3600))
    assert app.store.subscriptions()
    bring(ahead, "a")
    fleet.hire(app)
    bring(app, "b")
    assert read(app, 1)
    broker.tell("reading", ahead.store.to_announce("reading", limit=10, window=10))
    assert read(app, 2)
