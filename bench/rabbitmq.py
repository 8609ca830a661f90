"""No-op events, beside celery and dramatiq on RabbitMQ with late acknowledgements.

In the first race Onward has its events in PostgreSQL and commits a document with each; the others have their jobs
in the broker and write nothing. In the second one all events wait in the broker, and each has a result that is
sent to another queue. Onward receives and publishes them through its gateway, with publisher confirms, and commits
a document with each; the others write nothing, and do not wait for the broker to confirm.

Everyone finds the same number of jobs waiting and processes them with one, then with two worker processes. The
servers are private ones, started for this run: the databases sync every commit to the disk, queues are durable and
messages persistent.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import aiormq
from pamqp.commands import Basic

from bench import gateway_app, peers_celery, peers_dramatiq
from bench.peers_celery import CeleryPeer
from bench.peers_dramatiq import DramatiqPeer
from bench.peers_onward import PUBLISHED_AT_ONCE, Onward
from bench.peers_race import OURS, Contestant, Entry, drain, drain_by_command, race
from bench.table import Row
from onward import App, Settings
from onward.gateway.outbox import EXCHANGE
from tests.support.servers import PostgresServer, RabbitServer

JOBS = 5_000
RESULTS = "results"


def run() -> list[Row]:
    """Measure everyone in turn: Onward in a new database each time, the others in their queues."""
    with PostgresServer() as postgres, RabbitServer() as rabbit:
        numbers = itertools.count(1)

        def ours(processes: int) -> float:
            onward = Onward(JOBS, postgres.create_database(f"bench{next(numbers)}"))
            with onward.left() as left:
                return drain(onward, processes, left)

        def theirs(peer: Contestant, queue: str, processes: int) -> float:
            return drain(peer, processes, lambda: count_messages(rabbit, queue))

        celery, dramatiq = CeleryPeer(JOBS, rabbit.url()), DramatiqPeer(JOBS, rabbit.url())
        contestants = {
            OURS: Entry(ours, "a document with each, in PostgreSQL"),
            "celery": Entry(partial(theirs, celery, peers_celery.QUEUE), "RabbitMQ, late acks; no document"),
            "dramatiq": Entry(partial(theirs, dramatiq, peers_dramatiq.QUEUE), "RabbitMQ, late acks; no document"),
        }
        rows = race(contestants, f"{JOBS:,} no-op events, brokers")
        return rows + race(_through_the_exchange(postgres, rabbit), f"{JOBS:,} events from RabbitMQ and out again")


def _through_the_exchange(postgres: PostgresServer, rabbit: RabbitServer) -> dict[str, Entry]:
    numbers = itertools.count(1)

    @contextmanager
    def new_vhost() -> Iterator[tuple[str, Callable[[], int]]]:
        """A virtual host for one run, and what counts the results that are missing."""
        name = f"bench{next(numbers)}"
        yield rabbit.create_vhost(name), lambda: JOBS - count_messages(rabbit, RESULTS, name)
        rabbit.delete_vhost(name)

    def ours(kind: str, processes: int) -> float:
        with new_vhost() as (url, left), tempfile.TemporaryDirectory() as folder:
            store = f"sqlite:///{folder}/bench.db"
            if kind == "postgres":
                store = postgres.create_database(f"gateway{next(numbers)}")
            _fill_inbox(url)
            settings = {"ONWARD_STORE": store, "ONWARD_GATEWAY": url, "ONWARD_METRICS_ADDRESS": "off"}
            worker = ("worker", "--app", "bench.gateway_app:app", "--processes", str(processes))
            command = (sys.executable, "-m", "onward", *worker)
            return drain_by_command(command, {**os.environ, **settings}, JOBS, left)

    def theirs(peer: Callable[[int, str, str], Contestant], processes: int) -> float:
        with new_vhost() as (url, left):
            return drain(peer(JOBS, url, RESULTS), processes, left)

    return {
        OURS: Entry(partial(ours, "sqlite"), "a document with each, in SQLite; confirmed"),
        f"{OURS} on PostgreSQL": Entry(partial(ours, "postgres"), "a document with each; confirmed"),
        "celery": Entry(partial(theirs, CeleryPeer), "late acks; no document, not confirmed"),
        "dramatiq": Entry(partial(theirs, DramatiqPeer), "late acks; no document, not confirmed"),
    }


def _fill_inbox(url: str) -> None:
    """Publish the events as another program does, and bind a queue for the results."""
    app = App(store="sqlite://:memory:", settings=Settings(gateway=url))
    app.registry = gateway_app.app.registry
    gateway = app.gateway()
    assert gateway is not None
    gateway.check()
    app.close()

    async def fill() -> None:
        connection = await aiormq.connect(url)
        channel = await connection.channel()
        await channel.queue_declare(RESULTS, durable=True)
        await channel.queue_bind(RESULTS, EXCHANGE, gateway_app.Answered.routing_key)
        properties = Basic.Properties(delivery_mode=2)
        for start in range(0, JOBS, PUBLISHED_AT_ONCE):
            bodies = [
                json.dumps({"event_type": "Ping", "event_id": f"ping-{number}", "data": {"number": number}})
                for number in range(start, min(JOBS, start + PUBLISHED_AT_ONCE))
            ]
            await asyncio.gather(
                *(
                    channel.basic_publish(
                        body.encode(),
                        exchange=EXCHANGE,
                        routing_key=gateway_app.Ping.routing_key,
                        properties=properties,
                    )
                    for body in bodies
                )
            )
        await connection.close()

    asyncio.run(fill())


def count_messages(rabbit: RabbitServer, queue: str, vhost: str = "/") -> int:
    """Count the messages of a queue, also those that a worker holds unacknowledged."""
    return int(
        rabbit.evaluate(
            f'{{ok, Queue}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"{vhost}">>, queue, <<"{queue}">>)), '
            "[{messages, Count}] = rabbit_amqqueue:info(Queue, [messages]), Count"
        )
    )
