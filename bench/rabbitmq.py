"""No-op events through RabbitMQ, beside celery and dramatiq with late acknowledgements.

Ours keeps its ledger in PostgreSQL, commits a document with every event there and only then acknowledges the
message; the others keep their jobs in the broker alone and write nothing. Everyone finds the same number of
jobs waiting and works them off with one, then with two worker processes. The servers are private ones, started
for this run: PostgreSQL syncs every commit to the disk, queues are durable and messages persistent.
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
from onward.torture.servers import PostgresServer, RabbitServer

JOBS = 5_000


def run() -> list[Row]:
    """Measure everyone in turn: us in a new database and virtual host each time, the others in their queues."""
    with PostgresServer() as postgres, RabbitServer() as rabbit:
        numbers = itertools.count(1)

        def ours(processes: int) -> float:
            name = f"bench{next(numbers)}"
            onward = Onward(JOBS, postgres.create_database(name), rabbit.create_vhost(name))
            with onward.left() as left:
                rate = drain(onward, processes, left)
            if not int(rabbit.evaluate(f'length(rabbit_amqqueue:list(<<"{name}">>))')):
                raise RuntimeError("there is no queue: the events did not go through RabbitMQ")
            rabbit.delete_vhost(name)
            return rate

        def theirs(peer: Contestant, queue: str, processes: int) -> float:
            return drain(peer, processes, lambda: _messages(rabbit, queue))

        celery, dramatiq = CeleryPeer(JOBS, rabbit.url()), DramatiqPeer(JOBS, rabbit.url())
        contestants = {
            OURS: Entry(ours, "a document with each, in PostgreSQL"),
            "celery": Entry(partial(theirs, celery, peers_celery.QUEUE), "late acks; no document"),
            "dramatiq": Entry(partial(theirs, dramatiq, peers_dramatiq.QUEUE), "late acks; no document"),
        }
        return race(contestants, f"{JOBS:,} no-op events, RabbitMQ")


def _messages(rabbit: RabbitServer, queue: str) -> int:
    """Count the messages of a queue, also those that a worker holds unacknowledged."""
    return int(
        rabbit.evaluate(
            f'{{ok, Queue}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"{queue}">>)), '
            "[{messages, Count}] = rabbit_amqqueue:info(Queue, [messages]), Count"
        )
    )
