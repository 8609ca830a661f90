"""Other programs publish events to the exchange; each event is entered into the ledger once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import aiormq
import pytest

from onward import App, Settings, Work
from onward.gateway.outbox import EXCHANGE
from tests.support.gateway_broker import SECONDS, Broker, by_hand, eventually, publish
from tests.support.page_app import Noticed, raw_event
from tests.support.servers import PostgresServer

KEY = Noticed.routing_key


@pytest.fixture
def heard() -> Counter[tuple[str, str]]:
    """How often each service has handled each event."""
    return Counter()


@pytest.fixture
def app(postgres_store_url: str, rabbit_url: str, heard: Counter[tuple[str, str]]) -> Iterator[App]:
    """Two services that work until the test is over, beside two gateways: more than one process may read."""
    app = App(store=postgres_store_url, settings=Settings(gateway=rabbit_url))

    @app.service("listening", on=Noticed)
    async def listen(event: Noticed, work: Work) -> None:
        heard["listening", event.what] += 1

    @app.service("heeding", on=Noticed)
    async def heed(event: Noticed, work: Work) -> None:
        heard["heeding", event.what] += 1

    engine = app.engine()
    gateways = [gateway for _ in range(2) if (gateway := app.gateway()) is not None]
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(engine.run)
        for gateway in gateways:
            gateway.start()  # it returns when the inbox is bound: from then on, what is published has a route
        yield app
        for gateway in gateways:
            gateway.stop()
        engine.release()
        running.result(SECONDS)
    app.close()


def rows(app: App, service: str, state: str) -> int:
    """Count the rows of a service in a state."""
    return app.store.counts().get(service, {}).get(state, 0)


def test_an_event_reaches_each_of_two_services_once(
    app: App, heard: Counter[tuple[str, str]], broker: Broker
) -> None:
    publish(broker.url, raw_event("Noticed", data={"what": "smoke"}), key=KEY)
    broker.wait_until_acknowledged()
    eventually(lambda: heard.total() >= 2, "both have handled it")
    assert heard == {("heeding", "smoke"): 1, ("listening", "smoke"): 1}


def test_the_same_event_twice_is_one_event(app: App, heard: Counter[tuple[str, str]], broker: Broker) -> None:
    for n in range(20):
        publish(broker.url, raw_event("Noticed", data={"what": f"{n}"}, event_id="one and the same"), key=KEY)
    broker.wait_until_acknowledged()
    eventually(lambda: rows(app, "listening", "done") + rows(app, "heeding", "done") >= 2, "both are settled")
    assert (rows(app, "listening", "done"), rows(app, "heeding", "done")) == (1, 1)
    assert heard.total() == 2


def test_a_message_id_serves_as_well(app: App, heard: Counter[tuple[str, str]], broker: Broker) -> None:
    for _ in range(2):
        publish(broker.url, raw_event("Noticed", data={"what": "smoke"}), key=KEY, message_id="m1")
    broker.wait_until_acknowledged()
    eventually(lambda: rows(app, "listening", "done") + rows(app, "heeding", "done") >= 2, "both are settled")
    assert heard == {("heeding", "smoke"): 1, ("listening", "smoke"): 1}


@pytest.mark.parametrize("what", (r'"\ud800"', "NaN", "1e999", r'"a\u0000b"'))
@pytest.mark.parametrize("version", (1, 2))
def test_what_cannot_be_stored_becomes_a_dead_letter_with_its_bytes(
    app: App, broker: Broker, what: str, version: int
) -> None:
    raw = f'{{"event_type": "Noticed", "version": {version}, "data": {{"what": {what}}}}}'.encode()
    publish(broker.url, raw, key=KEY)
    dead_letters = eventually(app.store.dead_letters, "it is kept")
    assert {(letter.service_name, letter.abandoned_reason, letter.raw) for letter in dead_letters} == {
        ("listening", "malformed", raw),
        ("heeding", "malformed", raw),
    }
    broker.wait_until_acknowledged()


@pytest.mark.parametrize("raw", (b"", b"\xff\x00 no JSON", b"[" * 100_000, raw_event("Unheard", data={})))
def test_garbage_and_unknown_types_become_a_dead_letter_with_their_bytes(
    app: App, broker: Broker, raw: bytes
) -> None:
    publish(broker.url, raw, key=KEY)
    (letter,) = eventually(app.store.dead_letters, "it is kept")
    assert (letter.raw, letter.abandoned_reason, letter.service_name) == (raw, "malformed", "")
    broker.wait_until_acknowledged()


def test_events_that_arrive_while_the_store_is_away_are_entered_when_it_is_back(
    app: App, heard: Counter[tuple[str, str]], broker: Broker, postgres_server: PostgresServer
) -> None:
    async def send(channel: aiormq.Channel) -> None:
        for n in range(200):
            body = raw_event("Noticed", data={"what": f"{n}"}, event_id=f"e{n}")
            await channel.basic_publish(body, exchange=EXCHANGE, routing_key=KEY)

    by_hand(broker.url, send)
    eventually(lambda: rows(app, "heeding", "done"), "the first have come")
    postgres_server.kill()
    postgres_server.start()
    eventually(lambda: len(heard) == 400, "both have handled all of them")
    broker.wait_until_acknowledged()
    eventually(lambda: rows(app, "listening", "done") == rows(app, "heeding", "done") == 200, "all are settled")
