"""The cast of the tests of engines on RabbitMQ and PostgreSQL: a fleet, and a broker that can be looked into."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import aiormq

from onward import App, Document, Settings, Status
from onward.backends.rabbitmq.messages import ANNOUNCEMENT
from onward.ports import Clock
from onward.runtime.engine import Engine
from onward.runtime.orders import Ending
from onward.torture.servers import RabbitServer
from tests.rabbitmq.stage import by_hand, eventually, publish
from tests.runtime.cast import Page, PagesFound

MOST_ENGINES = 4
PATIENCE = 60.0
NEVER = float("inf")


class Fleet:
    """Engines that share a store and a broker, each in a thread, with an app and connections of its own."""

    def __init__(self, store_url: str, bus_url: str) -> None:
        self.store_url = store_url
        self.bus_url = bus_url
        self._apps: list[App] = []
        self._pool = ThreadPoolExecutor(MOST_ENGINES, "engine")
        self._running: dict[Engine, Future[Ending]] = {}

    def app(self, clock: Clock | None = None, bus_url: str | None = None) -> App:
        """An app as another process would have it."""
        app = App(store=self.store_url, settings=Settings(bus=bus_url or self.bus_url), clock=clock)
        self._apps.append(app)
        return app

    def hire(self, app: App, **options: Any) -> Engine:
        """Let an app work, until it is dismissed or the test is over."""
        engine = app.engine(**options)
        self._running[engine] = self._pool.submit(engine.run)
        return engine

    def dismiss(self, engine: Engine, *, at_once: bool = False) -> Ending:
        if at_once:
            engine.release()
        else:
            engine.drain()
        return self._running.pop(engine).result(PATIENCE)

    def close(self) -> None:
        for engine in self._running:
            engine.release()
        endings = [running.exception(PATIENCE) for running in self._running.values()]
        self._pool.shutdown()
        for app in self._apps:
            app.close()
        assert endings == [None] * len(endings), "no engine failed"


class Broker:
    """A virtual host, seen from the broker's side."""

    def __init__(self, server: RabbitServer, url: str) -> None:
        self._server = server
        self._vhost = urlsplit(url).path.removeprefix("/")
        self.url = url

    def messages(self, queue: str) -> int:
        """How many messages of a queue nobody has acknowledged, delivered or not; -1: there is no queue."""
        return int(
            self._server.evaluate(
                f'case rabbit_amqqueue:lookup(rabbit_misc:r(<<"{self._vhost}">>, queue, <<"{queue}">>)) of '
                "{ok, Q} -> case ra:local_query(amqqueue:get_pid(Q), fun rabbit_fifo:query_messages_total/1) of "
                "{ok, {_, N}, _} -> N; _ -> -1 end; _ -> -1 end"
            )
        )

    def all_acknowledged(self, *queues: str) -> bool:
        """Wait until no message of these queues is left, waiting or held by a worker."""
        return eventually(
            lambda: all(self.messages(queue) == 0 for queue in queues), f"nothing is left in {', '.join(queues)}"
        )

    def limit(self, queue: str, messages: int) -> None:
        """Let a queue refuse what is more than so many messages, as an administrator may."""
        self._server.evaluate(
            f'ok = rabbit_policy:set(<<"{self._vhost}">>, <<"limit">>, <<"^{queue}$">>, '
            f'[{{<<"max-length">>, {messages}}}, {{<<"overflow">>, <<"reject-publish">>}}], '
            '0, <<"queues">>, <<"guest">>)'
        )

    def tell(self, queue: str, rows: Sequence[int], *, service: str | None = None) -> None:
        """Announce rows by hand."""
        body = json.dumps({"service": service or queue, "rows": rows}).encode()
        publish(self.url, body, key=queue, exchange="", content_type=ANNOUNCEMENT)

    def take_from(self, queue: str) -> bytes | None:
        """The next message of a queue, taken out of it; None: there is none."""

        async def take(channel: aiormq.Channel) -> bytes | None:
            found = await channel.basic_get(queue, no_ack=True)
            return found.body or None

        return by_hand(self.url, take)


def bring(app: App, *ids: str, **more: Any) -> None:
    """Write pages, and announce each with an event of its own."""
    found = [Page(id=id) for id in ids]
    app.publish(*(PagesFound.of(page) for page in found), documents=found, **more)


def count(app: App, kind: type[Document], status: str | None = None) -> int:
    """How many documents of a kind there are."""
    found = app.store.document_counts().get(kind.collection, {})
    return sum(n for named, n in found.items() if status in (None, named))


def read(app: App, pages: int) -> bool:
    """Wait until so many pages are processed."""

    ends = time.monotonic() + PATIENCE
    while count(app, Page, Status.PROCESSED) != pages:
        assert time.monotonic() < ends, f"{count(app, Page, Status.PROCESSED)} of {pages}: {app.store.counts()}"
        time.sleep(0.02)
    return True


def rows(app: App, service: str, state: str) -> int:
    """How many rows of a service are in a state."""
    return app.store.counts().get(service, {}).get(state, 0)
