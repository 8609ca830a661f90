"""Events leave for other programs: each at least once, under one id, whatever happens to the broker."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiormq
import pytest
from pamqp.commands import Basic

from onward import App, Permanent, Settings, Work
from onward.gateway import Gateway
from onward.gateway.connection import BrokerConnection
from onward.gateway.outbox import EXCHANGE
from onward.ledger.store_errors import StoreUnavailable
from onward.model.ledger import GatewayReport
from onward.retry import Exponential
from onward.runtime.process_identity import describe_process
from tests.support.gateway_broker import by_hand, eventually, publish, waiting_in_inbox
from tests.support.page_app import Noticed, Page, PagesFound, Word, WordsFound, raw_event
from tests.support.servers import Proxy, RabbitServer

LISTENER = "listener"  # the queue of another program


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.gateway.gateway.BACKOFF", Exponential(base=0.2, cap=1, jitter=True))
    monkeypatch.setattr("onward.gateway.gateway.RENEW_SECONDS", 0.2)
    monkeypatch.setattr("onward.gateway.outbox.ROUTE_SECONDS", 0.2)


def build(folder: Path, url: str, **settings: Any) -> App:
    """An app that reads pages, finds words, and gives up on the page `bad`."""
    store = f"sqlite:///{folder}/onward.db"
    app = App(store=store, settings=Settings(store=store, gateway=url, **settings))

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        if page.id == "bad":
            raise Permanent("it cannot be read")
        word = Word(id=f"word of {page.id}")
        work.add(word)
        work.emit(WordsFound.of(word))

    return app


@pytest.fixture
def app(tmp_path: Path, rabbit_url: str) -> Iterator[App]:
    app = build(tmp_path, rabbit_url)
    yield app
    app.close()


Opened = Callable[[App], Gateway]


@pytest.fixture
def started() -> Iterator[Opened]:
    """Starts the gateway of an app."""
    gateways: list[Gateway] = []

    def start(app: App) -> Gateway:
        gateway = app.gateway()
        assert gateway is not None
        gateway.start()
        gateways.append(gateway)
        return gateway

    yield start
    for gateway in gateways:
        gateway.stop()


def listen(url: str, *routing_keys: str, queue: str = LISTENER, **arguments: Any) -> None:
    """Bind another program's queue to the exchange."""

    async def bind(channel: aiormq.Channel) -> None:
        await channel.exchange_declare(EXCHANGE, exchange_type="topic", durable=True)
        await channel.queue_declare(queue, durable=True, arguments=arguments)
        for key in routing_keys or ("#",):
            await channel.queue_bind(queue, EXCHANGE, key)

    by_hand(url, bind)


def received(url: str, queue: str = LISTENER) -> list[tuple[dict[str, Any], Basic.Properties, str]]:
    """Take what is in the queue: body, properties and routing key of each message."""

    async def take(channel: aiormq.Channel) -> list[tuple[dict[str, Any], Basic.Properties, str]]:
        found = []
        while (message := await channel.basic_get(queue, no_ack=True)).delivery is not None:
            if isinstance(message.delivery, Basic.GetEmpty):
                break
            key = message.delivery.routing_key or ""
            found.append((json.loads(message.body), message.header.properties, key))
        return found

    return by_hand(url, take)


class Listener:
    """Another program that collects what leaves, until it has enough."""

    def __init__(self, url: str, queue: str = LISTENER) -> None:
        self._url, self._queue = url, queue
        self.bodies: list[dict[str, Any]] = []

    def wait_for(self, *types: str) -> None:
        """Wait until exactly these types of events have come, each at least once."""

        def has_come() -> bool:
            self.bodies += [body for body, _, _ in received(self._url, self._queue)]
            return len({body["event_id"] for body in self.bodies}) >= len(types)

        eventually(has_come, f"{types}; found {self.bodies}")
        found = {body["event_id"]: body["event_type"] for body in self.bodies}
        assert Counter(found.values()) == Counter(types)


def bring(app: App, *ids: str) -> None:
    for id in ids:
        app.publish(PagesFound.of(page := Page(id=id)), documents=[page])
    app.work_until_idle()


def emptied(app: App) -> None:
    eventually(lambda: app.store.oldest_outgoing() is None, f"all has left: {app.store.outbox_status()}")


def test_events_and_notices_leave_persistent_under_their_routing_keys(
    app: App, started: Opened, rabbit_url: str
) -> None:
    listen(rabbit_url)
    bring(app, "good", "bad")
    started(app)
    emptied(app)
    found = received(rabbit_url)
    assert sorted((key, body["event_type"]) for body, _, key in found) == [
        ("pages.found", "PagesFound"),
        ("pages.found", "PagesFound"),
        ("reading.failed.notice", "ReadingFailed"),
        ("words.found", "WordsFound"),
    ]
    for body, properties, _ in found:
        assert properties.delivery_mode == 2
        assert properties.content_type == "application/json"
        assert (properties.message_id, properties.app_id) == (body["event_id"], "onward")
        assert body["timestamp"].endswith("Z")
    (notice,) = (body["data"] for body, _, _ in found if body["event_type"] == "ReadingFailed")
    assert notice["page_ids"] == ["bad"]
    assert (notice["error_type"], notice["error_message"]) == ("Permanent", "it cannot be read")


def test_only_the_types_of_the_setting_leave(tmp_path: Path, started: Opened, rabbit_url: str) -> None:
    listen(rabbit_url)
    app = build(tmp_path, rabbit_url, gateway_out="WordsFound, ReadingFailed")
    bring(app, "good", "bad")
    started(app)
    emptied(app)
    assert {body["event_type"] for body, _, _ in received(rabbit_url)} == {"WordsFound", "ReadingFailed"}
    app.close()


def test_own_events_that_come_back_to_the_inbox_are_not_entered_again(
    app: App, started: Opened, rabbit_url: str
) -> None:
    started(app)
    bring(app, *(f"page {number}" for number in range(20)))
    emptied(app)
    eventually(lambda: waiting_in_inbox(rabbit_url) == 0, "the inbox is read")
    counts = app.store.counts()
    # One of another program is entered after them, so all of them were looked at.
    publish(rabbit_url, raw_event("PagesFound", data={"page_ids": []}), key="pages.found")
    eventually(lambda: app.store.counts() != counts, "the foreign event is entered")
    assert app.store.counts()["reading"].get("waiting") == 1


def test_an_event_of_another_program_with_copied_properties_is_entered(
    app: App, started: Opened, rabbit_url: str
) -> None:
    started(app)
    copied: dict[str, Any] = {"message_id": "id of the first", "headers": {"onward-store": app.store.store_name()}}
    body = raw_event("PagesFound", event_id="id of the second", data={"page_ids": []})
    publish(rabbit_url, body, key="pages.found", **copied)
    eventually(lambda: app.store.counts().get("reading"), "it is entered", seconds=10)


def test_what_another_store_has_published_is_entered(app: App, started: Opened, rabbit_url: str) -> None:
    started(app)
    body = raw_event("PagesFound", data={"page_ids": []})
    publish(rabbit_url, body, key="pages.found", headers={"onward-store": "another one"})
    eventually(lambda: app.store.counts().get("reading"), "it is entered")


def test_work_goes_on_without_the_broker_and_events_leave_when_it_is_back(
    app: App, started: Opened, rabbit_url: str, rabbit_server: RabbitServer
) -> None:
    listen(rabbit_url)
    gateway = started(app)
    eventually(lambda: gateway.has_been_empty, "connected")
    rabbit_server.settle()
    rabbit_server.kill()
    bring(app, "good")
    state = app.state(Page, "good")
    assert state is not None
    assert state.status == "processed"
    trouble = eventually(lambda: app.store.outbox_status().gateway.trouble, "the trouble is reported")
    assert "RabbitMQ" in trouble
    assert app.store.outbox_status().waiting == 2
    rabbit_server.start()
    Listener(rabbit_url).wait_for("PagesFound", "WordsFound")
    emptied(app)


def test_a_broker_short_of_disk_space_gets_the_events_later(
    app: App, started: Opened, rabbit_url: str, rabbit_server: RabbitServer
) -> None:
    listen(rabbit_url)
    gateway = started(app)
    eventually(lambda: gateway.has_been_empty, "connected")
    rabbit_server.evaluate("rabbit_alarm:set_alarm({{resource_limit, disk, node()}, []})")
    try:
        bring(app, "good")
        eventually(lambda: "takes no messages" in gateway.trouble, "the gateway is blocked")
        assert "disk" in gateway.trouble
        assert app.store.outbox_status().waiting == 2
    finally:
        rabbit_server.evaluate("rabbit_alarm:clear_alarm({resource_limit, disk, node()})")
    Listener(rabbit_url).wait_for("PagesFound", "WordsFound")
    emptied(app)
    eventually(lambda: not gateway.trouble, "nothing is wrong any more")


def test_a_connection_that_the_broker_blocks_is_kept(
    app: App, started: Opened, rabbit_url: str, rabbit_server: RabbitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A blocked connection gets no reply to the declarations either.
    monkeypatch.setattr("onward.gateway.gateway.CHECK_SECONDS", 0.2)
    listen(rabbit_url)
    gateway = started(app)
    eventually(lambda: gateway.has_been_empty and "outbox" in gateway._connections, "connected")
    rabbit_server.evaluate("rabbit_alarm:set_alarm({{resource_limit, disk, node()}, []})")
    try:
        bring(app, "good")
        eventually(lambda: "disk" in gateway.trouble, "the gateway is blocked")
        blocked, inbox = gateway._connections["outbox"], gateway._connections["inbox"]
        checks: list[bool] = []
        declare = gateway._declare

        async def record(connection: BrokerConnection, **more: Any) -> None:
            checks.append(connection is inbox)
            await declare(connection, **more)

        monkeypatch.setattr(gateway, "_declare", record)
        eventually(lambda: len(checks) > 5, "some checks meanwhile")
        assert gateway._connections["outbox"] is blocked
        assert all(checks), "only over the connection that is not blocked"
    finally:
        rabbit_server.evaluate("rabbit_alarm:clear_alarm({resource_limit, disk, node()})")
    emptied(app)
    assert len(received(rabbit_url)) == 2, "each left once"


def test_a_process_that_loses_the_gateway_reports_no_trouble_of_its_own(
    tmp_path: Path, app: App, started: Opened, rabbit_url: str
) -> None:
    gateway = started(app)
    eventually(lambda: gateway.has_been_empty and "outbox" in gateway._connections, "connected")
    gateway._connections["outbox"].blocked = "low on disk"
    assert "low on disk" in gateway.trouble
    acquire = app.store.acquire_role

    def refuse(role: str, holder: str, seconds: float) -> bool:
        return holder != gateway._holder and acquire(role, holder, seconds)

    app.store.acquire_role = refuse  # type: ignore[method-assign]
    eventually(lambda: not gateway.trouble, "another process has the gateway")


def test_a_worker_does_not_wait_for_events_that_leave_later_or_cannot_leave(
    app: App, started: Opened, rabbit_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.gateway.gateway.TROUBLE_SECONDS", 1.0)
    listen(rabbit_url, "noticed", queue="full", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    gateway = started(app)
    app.publish(Noticed(what="tomorrow"), delay=86_400)
    eventually(lambda: not gateway.is_behind(within=10.0), "the other one is not due")
    app.publish(Noticed(what="fits"))
    app.publish(Noticed(what="too much"))
    eventually(lambda: "a queue is full" in gateway.trouble, "one is refused")
    eventually(lambda: not gateway.is_behind(within=60.0), "it cannot leave soon")
    assert app.store.outbox_status().waiting == 2, "they are kept"


def test_a_report_of_a_process_that_has_ended_says_nothing(app: App, rabbit_url: str) -> None:
    app.store.store_name()
    gone = GatewayReport("gone", app.store.now() - 3_600, "nothing listens there", 0.0)
    app.store.report_gateway(gone)
    gateway = app.gateway()
    assert gateway is not None
    gateway._trouble_since = -1e9  # the trouble of another time
    gateway._thread, gateway._started_at = threading.current_thread(), app.store.now()  # as if it ran
    assert gateway.is_behind(), "the inbox is still to be read"
    assert gateway._trouble_since is None


def test_an_error_while_taking_the_gateway_does_not_end_it(
    app: App, started: Opened, rabbit_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen(rabbit_url)
    failures: list[BaseException] = [StoreUnavailable("away"), ValueError("nobody thought of it")]
    name = app.store.store_name

    def fail_first() -> str:
        if failures:
            raise failures.pop(0)
        return name()

    monkeypatch.setattr(app.store, "store_name", fail_first)
    started(app)
    bring(app, "good")
    Listener(rabbit_url).wait_for("PagesFound", "WordsFound")


def test_a_full_queue_holds_up_only_its_own_events(app: App, started: Opened, rabbit_url: str) -> None:
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    listen(rabbit_url, "words.found", queue="small", **full)
    listen(rabbit_url, "pages.found")
    started(app)
    bring(app, "a", "b", "c")
    Listener(rabbit_url).wait_for("PagesFound", "PagesFound", "PagesFound")
    eventually(lambda: app.store.outbox_status().waiting == 2, "two are refused, and wait")
    Listener(rabbit_url, "small").wait_for("WordsFound", "WordsFound", "WordsFound")
    emptied(app)


def test_what_no_queue_takes_is_kept_until_one_does(app: App, started: Opened, rabbit_url: str) -> None:
    started(app)
    bring(app, "a", "b")
    eventually(lambda: app.store.outbox_status().unroutable == 2, "nobody listens to words")
    assert app.store.outbox_status().waiting == 0
    listen(rabbit_url, "words.found")
    Listener(rabbit_url).wait_for("WordsFound", "WordsFound")
    eventually(lambda: app.store.outbox_status().unroutable == 0, "all has left")


def test_a_connection_lost_before_the_confirmation_publishes_again_under_the_same_id(
    tmp_path: Path,
    started: Opened,
    rabbit_url: str,
    rabbit_server: RabbitServer,
    network: Callable[[int], Proxy],
) -> None:
    listen(rabbit_url)
    proxy = network(rabbit_server.port)
    app = build(tmp_path, rabbit_url.replace(f":{rabbit_server.port}/", f":{proxy.port}/"))
    gateway = started(app)
    eventually(lambda: gateway.has_been_empty, "connected")
    settle, lost = app.store.settle_outgoing, list[bool]()

    def lose_the_first(*ids: Any, **more: Any) -> None:
        # The broker has taken the events; the gateway does not get to know it.
        if not lost:
            lost.append(True)
            proxy.refuse()
            proxy.heal()
            raise ConnectionError("lost")
        settle(*ids, **more)

    app.store.settle_outgoing = lose_the_first  # type: ignore[method-assign]
    bring(app, "good")
    listener = Listener(rabbit_url)
    listener.wait_for("PagesFound", "WordsFound")
    emptied(app)
    listener.wait_for("PagesFound", "WordsFound")
    assert len(listener.bodies) > 2, "what was not known to be confirmed left again"
    app.close()


def test_an_event_that_the_broker_cannot_take_does_not_keep_the_others(
    app: App, started: Opened, rabbit_url: str, rabbit_server: RabbitServer
) -> None:
    listen(rabbit_url, "noticed")
    rabbit_server.evaluate("application:set_env(rabbit, max_message_size, 2000)")
    try:
        for what in ("before", "x" * 3000, "after"):
            app.publish(Noticed(what=what))
        started(app)
        seen: set[str] = set()

        def others_have_left() -> bool:
            seen.update(body["data"]["what"] for body, _, _ in received(rabbit_url))
            return seen == {"before", "after"}

        eventually(others_have_left, f"the others have left; {seen}")
        eventually(lambda: app.store.outbox_status().waiting == 1, "they are known to have left")
    finally:
        rabbit_server.evaluate("application:set_env(rabbit, max_message_size, 134217728)")
    emptied(app)
    assert [len(body["data"]["what"]) for body, _, _ in received(rabbit_url)] == [3000]


def test_one_process_has_the_gateway_and_another_takes_over(
    tmp_path: Path, app: App, started: Opened, rabbit_url: str, rabbit_server: RabbitServer
) -> None:
    listen(rabbit_url)
    first = started(app)
    eventually(lambda: first.has_been_empty, "the first is connected")
    other = build(tmp_path, rabbit_url)
    second = started(other)
    connections = "length(rabbit_networking:connections())"
    eventually(lambda: rabbit_server.evaluate(connections) == "2", "one gateway has two connections")
    assert second.trouble == ""
    eventually(lambda: not second.is_behind(), "the other one has found the inbox empty")
    first.stop()
    bring(app, "good")
    Listener(rabbit_url).wait_for("PagesFound", "WordsFound")
    eventually(lambda: second.has_been_empty, "the second reads the inbox")
    other.close()


def test_the_gateway_of_a_killed_process_is_taken_over_at_once(app: App, started: Opened) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        identity = describe_process(other.pid) | {"pid": other.pid}
        other.kill()
    assert app.store.acquire_role("gateway", "other", 3600.0)
    app.store.report_gateway(GatewayReport("other", app.store.now(), process=identity))
    gateway = started(app)
    eventually(lambda: gateway.has_been_empty, "its lease is not waited for")


@pytest.mark.parametrize("given", ("all", "none", "A,B"))
def test_without_a_gateway_nothing_is_put_into_the_outbox(tmp_path: Path, given: str) -> None:
    store = f"sqlite:///{tmp_path}/onward.db"
    app = App(store=store, settings=Settings(store=store, gateway_out=given))
    app.publish(Noticed(what="smoke"))
    assert app.store.outbox_status().waiting == 0
    assert app.gateway() is None
    app.close()
