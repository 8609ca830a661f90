"""Programs that know nothing of Onward publish to the exchange; each event is entered into the ledger once."""

from __future__ import annotations

import json

import aiormq
import pytest

from onward import App, Work
from onward.torture.servers import PostgresServer
from tests.rabbitmq.stage import EXCHANGE, by_hand, eventually, publish
from tests.runtime.cast import Noticed, raw_event
from tests.wire.stage import Broker, Fleet, rows

KEY = Noticed.routing_key

pytestmark = pytest.mark.usefixtures("only_by_wire")


@pytest.fixture
def heard() -> list[tuple[str, str]]:
    """Which service heard what."""
    return []


@pytest.fixture
def app(fleet: Fleet, heard: list[tuple[str, str]]) -> App:
    return listeners(fleet, heard)


def listeners(fleet: Fleet, heard: list[tuple[str, str]]) -> App:
    app = fleet.app()

    @app.service("listening", on=Noticed)
    async def listen(event: Noticed, work: Work) -> None:
        heard.append(("listening", event.what))

    @app.service("heeding", on=Noticed)
    async def heed(event: Noticed, work: Work) -> None:
        heard.append(("heeding", event.what))

    fleet.hire(app)
    eventually(app.store.workers, "the engine is there")
    return app


def test_a_bare_event_reaches_each_of_two_services_once(
    app: App, heard: list[tuple[str, str]], broker: Broker
) -> None:
    eventually(lambda: broker.messages("heeding.failed") == 0, "the exchange is there")
    publish(broker.url, raw_event("Noticed", data={"what": "smoke"}), key=KEY)
    eventually(lambda: len(heard) == 2, "both have heard it")
    assert broker.all_acknowledged("onward.inbox", "listening", "heeding")
    assert sorted(heard) == [("heeding", "smoke"), ("listening", "smoke")]


def test_the_same_event_twice_is_one_event(
    fleet: Fleet, app: App, heard: list[tuple[str, str]], broker: Broker
) -> None:
    listeners(fleet, heard)
    eventually(lambda: broker.messages("heeding.failed") == 0, "the exchange is there")
    for n in range(20):
        publish(broker.url, raw_event("Noticed", data={"what": f"{n}"}, event_id="one and the same"), key=KEY)
    assert broker.all_acknowledged("onward.inbox")
    eventually(lambda: len(heard) >= 2, "both services have heard it")
    assert broker.all_acknowledged("listening", "heeding")
    assert (rows(app, "listening", "done"), rows(app, "heeding", "done")) == (1, 1)


def test_a_message_id_serves_as_well(app: App, heard: list[tuple[str, str]], broker: Broker) -> None:
    eventually(lambda: broker.messages("heeding.failed") == 0, "the exchange is there")
    for _ in range(2):
        publish(broker.url, raw_event("Noticed", data={"what": "smoke"}), key=KEY, message_id="m1")
    assert broker.all_acknowledged("onward.inbox")
    eventually(lambda: len(heard) >= 2, "both services have heard it")
    assert broker.all_acknowledged("listening", "heeding")
    assert len(heard) == 2


def test_garbage_becomes_a_dead_letter_with_its_bytes(app: App, broker: Broker) -> None:
    eventually(lambda: broker.messages("heeding.failed") == 0, "the exchange is there")
    publish(broker.url, b"\xff\x00 no JSON", key=KEY)
    (letter,) = eventually(app.store.dead_letters, "it is kept")
    assert (letter.raw, letter.abandoned_reason, letter.service_name) == (b"\xff\x00 no JSON", "malformed", "")
    assert broker.all_acknowledged("onward.inbox")


def test_where_it_says_what_it_should_have_been_a_copy_is_in_the_failed_queues(app: App, broker: Broker) -> None:
    eventually(lambda: broker.messages("heeding.failed") == 0, "the exchange is there")
    publish(broker.url, raw_event("Noticed", data={"what": ["not", "a", "text"]}), key=KEY)
    eventually(lambda: len(app.store.dead_letters()) == 2, "one for each service")
    for queue in ("listening.failed", "heeding.failed"):
        eventually(lambda queue=queue: broker.messages(queue), f"a copy is in {queue}")  # type: ignore[misc]
        copy = json.loads(broker.take_from(queue) or b"")
        assert copy["abandoned_reason"] == "malformed"
        assert copy["raw"], "with its bytes"


def test_garbage_in_a_service_s_own_queue_is_kept_as_well(app: App, broker: Broker) -> None:
    eventually(lambda: broker.messages("heeding.failed") == 0, "the queues are there")
    publish(broker.url, b"who put me here?", key="listening", exchange="")
    (letter,) = eventually(app.store.dead_letters, "it is kept")
    assert letter.raw == b"who put me here?"
    assert broker.all_acknowledged("listening")


def test_what_comes_while_the_store_goes_away_is_entered_when_it_is_back(
    app: App, heard: list[tuple[str, str]], broker: Broker, postgres_server: PostgresServer
) -> None:
    eventually(lambda: broker.messages("heeding.failed") == 0, "the exchange is there")

    async def send(channel: aiormq.Channel) -> None:
        for n in range(200):
            body = raw_event("Noticed", data={"what": f"{n}"}, event_id=f"e{n}")
            await channel.basic_publish(body, exchange=EXCHANGE, routing_key=KEY)

    by_hand(broker.url, send)
    eventually(lambda: rows(app, "heeding", "done"), "the first have come")
    postgres_server.kill()
    postgres_server.start()
    eventually(lambda: len({*heard}) == 400, "both have heard all of them")
    assert broker.all_acknowledged("onward.inbox", "listening", "heeding")
