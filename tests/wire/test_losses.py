"""Whatever happens to the broker and its queues: what waits in the ledger is worked off all the same, once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from threading import Event

import aiormq
import pytest

from onward import App, Work
from onward.backends.rabbitmq import RabbitWire
from onward.runtime import relay
from onward.runtime.engine import Engine
from onward.torture.servers import Proxy, RabbitServer
from tests.rabbitmq.stage import by_hand, eventually
from tests.runtime.cast import Page, PagesFound
from tests.wire.stage import PATIENCE, Broker, Fleet, bring, read, rows

FORTY = [f"{n:02}" for n in range(40)]


class Gate:
    """Readers wait before it until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = Event(), Event()
        self.calls: Counter[str] = Counter()

    def reader(self, app: App) -> App:
        @app.service("reading", on=PagesFound, finishes=Page, concurrency=2)
        def read_page(page: Page, work: Work) -> None:
            self.calls[page.id] += 1
            self.reached.set()
            assert self.opened.wait(PATIENCE), "nobody opened the gate"

        return app


@pytest.fixture
def gate() -> Gate:
    return Gate()


async def purge(channel: aiormq.Channel) -> None:
    await channel.queue_purge("reading")


async def delete(channel: aiormq.Channel) -> None:
    await channel.queue_delete("reading")


@pytest.mark.usefixtures("soon_missed")
@pytest.mark.parametrize("lose", (purge, delete), ids=("purged", "deleted"))
def test_a_queue_that_somebody_empties_while_rows_wait(
    fleet: Fleet, broker: Broker, gate: Gate, lose: Callable[[aiormq.Channel], Awaitable[None]]
) -> None:
    app = gate.reader(fleet.app())
    fleet.hire(app)
    bring(app, *FORTY)
    assert gate.reached.wait(PATIENCE)
    eventually(lambda: broker.messages("reading") > 10, "messages wait")
    by_hand(broker.url, lose)
    gate.opened.set()
    assert read(app, len(FORTY))
    assert gate.calls == Counter(FORTY)
    assert broker.all_acknowledged("reading")


@pytest.mark.usefixtures("soon_missed")
def test_a_broker_that_is_killed_in_the_middle(
    fleet: Fleet, broker: Broker, gate: Gate, rabbit_server: RabbitServer
) -> None:
    app = gate.reader(fleet.app())
    fleet.hire(app)
    bring(app, *FORTY[:20])
    assert gate.reached.wait(PATIENCE)
    rabbit_server.settle()
    rabbit_server.kill()
    gate.opened.set()
    bring(app, *FORTY[20:])
    assert read(app, len(FORTY)), "without a broker, workers look in the ledger"
    rabbit_server.start()
    bring(app, "after")
    assert read(app, len(FORTY) + 1)
    assert gate.calls == Counter([*FORTY, "after"])
    assert broker.all_acknowledged("reading")


def test_a_broker_that_is_away_when_an_engine_starts(
    fleet: Fleet, broker: Broker, gate: Gate, rabbit_server: RabbitServer, network: Callable[[int], Proxy]
) -> None:
    proxy = network(rabbit_server.port)
    proxy.refuse()
    app = gate.reader(fleet.app(bus_url=broker.url.replace(f":{rabbit_server.port}/", f":{proxy.port}/")))
    gate.opened.set()
    engine = fleet.hire(app)
    bring(app, *FORTY)
    assert read(app, len(FORTY))
    proxy.heal()
    eventually(lambda: not trouble(engine), "the wire is opened after all")
    bring(app, "after")
    assert read(app, len(FORTY) + 1)
    assert gate.calls == Counter([*FORTY, "after"])
    assert broker.all_acknowledged("reading")


def trouble(engine: Engine) -> str:
    assert isinstance(engine.bus, RabbitWire)
    return engine.bus.trouble


@pytest.mark.usefixtures("soon_missed")
def test_a_broker_that_is_short_of_memory(
    fleet: Fleet, broker: Broker, gate: Gate, short_of_memory: Callable[[bool], None]
) -> None:
    app = gate.reader(fleet.app())
    engine = fleet.hire(app)
    bring(app, "before")
    gate.opened.set()
    assert read(app, 1)
    short_of_memory(True)
    bring(app, *FORTY)
    assert read(app, len(FORTY) + 1)
    assert "blocked" in trouble(engine)
    short_of_memory(False)
    bring(app, "after")
    assert read(app, len(FORTY) + 2)
    assert gate.calls == Counter(["before", *FORTY, "after"])
    assert broker.all_acknowledged("reading")


@pytest.mark.usefixtures("only_by_wire")
def test_a_queue_that_takes_nothing_more_holds_up_no_other(
    fleet: Fleet, broker: Broker, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "FIRST_OUT", 1000)
    app, counted = fleet.app(), Event()

    @app.service("counting", on=PagesFound, concurrency=1)
    def count_pages(event: PagesFound, work: Work) -> None:
        assert counted.wait(PATIENCE)

    fleet.hire(gate.reader(app))
    gate.opened.set()
    eventually(lambda: broker.messages("reading.failed") == 0, "the queues are there")
    broker.limit("counting", 1)
    for start in range(0, len(FORTY), 10):
        bring(app, *FORTY[start : start + 10])
        assert read(app, start + 10)
    assert 0 <= broker.messages("counting") < len(FORTY), "some were refused"
    counted.set()
    eventually(lambda: rows(app, "counting", "done") == len(FORTY), "they are announced when there is room")


@pytest.mark.usefixtures("only_by_wire")
def test_an_engine_that_ends_gives_its_messages_back(fleet: Fleet, broker: Broker, gate: Gate) -> None:
    leaving = fleet.app()

    @leaving.service("reading", on=PagesFound, finishes=Page)
    async def never_end(page: Page, work: Work) -> None:
        gate.reached.set()
        await asyncio.Event().wait()

    staying = gate.reader(fleet.app())
    engine = fleet.hire(leaving)
    bring(leaving, *FORTY)
    assert gate.reached.wait(PATIENCE)
    fleet.dismiss(engine, at_once=True)
    assert rows(staying, "reading", "waiting") == len(FORTY), "a shutdown burns nothing"
    gate.opened.set()
    fleet.hire(staying)
    assert read(staying, len(FORTY))
    assert gate.calls == Counter(FORTY)
    assert broker.all_acknowledged("reading")
