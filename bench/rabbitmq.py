"""No-op events, beside celery and dramatiq on RabbitMQ with late acknowledgements.

Onward has its events in PostgreSQL and commits a document with each; the others have their jobs in the broker and
write nothing. Everyone finds the same number of jobs waiting and processes them with one, then with two worker
processes. The servers are private ones, started for this run: PostgreSQL syncs every commit to the disk, queues
are durable and messages persistent.
"""

from __future__ import annotations

import itertools
from functools import partial

from bench import peers_celery, peers_dramatiq
from bench.peers_celery import CeleryPeer
from bench.peers_dramatiq import DramatiqPeer
from bench.peers_onward import Onward
from bench.peers_race import OURS, Contestant, Entry, drain, race
from bench.table import Row
from tests.support.servers import PostgresServer, RabbitServer

JOBS = 5_000


def run() -> list[Row]:
    """Measure everyone in turn: Onward in a new database each time, the others in their queues."""
    with PostgresServer() as postgres, RabbitServer() as rabbit:
        numbers = itertools.count(1)

        def ours(processes: int) -> float:
            onward = Onward(JOBS, postgres.create_database(f"bench{next(numbers)}"))
            with onward.left() as left:
                return drain(onward, processes, left)

        def theirs(peer: Contestant, queue: str, processes: int) -> float:
            return drain(peer, processes, lambda: _messages(rabbit, queue))

        celery, dramatiq = CeleryPeer(JOBS, rabbit.url()), DramatiqPeer(JOBS, rabbit.url())
        contestants = {
            OURS: Entry(ours, "a document with each, in PostgreSQL"),
            "celery": Entry(partial(theirs, celery, peers_celery.QUEUE), "RabbitMQ, late acks; no document"),
            "dramatiq": Entry(partial(theirs, dramatiq, peers_dramatiq.QUEUE), "RabbitMQ, late acks; no document"),
        }
        return race(contestants, f"{JOBS:,} no-op events, brokers")


def _messages(rabbit: RabbitServer, queue: str) -> int:
    """Count the messages of a queue, also those that a worker holds unacknowledged."""
    return int(
        rabbit.evaluate(
            f'{{ok, Queue}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"{queue}">>)), '
            "[{messages, Count}] = rabbit_amqqueue:info(Queue, [messages]), Count"
        )
    )
