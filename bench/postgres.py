"""No-op events through PostgreSQL, beside queues that live in its tables, too.

Ours commits a document with every event, settles it by its fencing token and keeps its history; the others mark
a job as done. Everyone finds the same number of jobs waiting and works them off with one, two and four
worker processes. The server is a private one, started for this run, that syncs every commit to the disk.
"""

from __future__ import annotations

import itertools

import psycopg

from bench import peers_pgqueuer, peers_procrastinate
from bench.peers_onward import Onward
from bench.peers_pgqueuer import PgQueuerPeer
from bench.peers_procrastinate import ProcrastinatePeer
from bench.peers_race import OURS, Contestant, Entry, drain, race
from bench.table import Row
from tests.support.servers import PostgresServer

JOBS = 20_000
FEW_JOBS = 2_000
"""For those who would take minutes; the rate is what counts."""


def run() -> list[Row]:
    """Measure everyone in turn, each time in a database of its own."""
    with PostgresServer() as server:
        numbers = itertools.count(1)

        def fresh() -> str:
            return server.create_database(f"bench{next(numbers)}")

        def ours(processes: int) -> float:
            onward = Onward(JOBS, fresh())
            with onward.left() as left:
                return drain(onward, processes, left)

        def pgqueuer(processes: int) -> float:
            peer = PgQueuerPeer(JOBS, fresh())
            return _drain(peer, processes, peer.url, peers_pgqueuer.UNFINISHED)

        def usual_pgqueuer(processes: int) -> float:
            peer = PgQueuerPeer(FEW_JOBS, fresh(), peers_pgqueuer.USUAL_BATCH)
            return _drain(peer, processes, peer.url, peers_pgqueuer.UNFINISHED)

        def procrastinate(processes: int) -> float:
            peer = ProcrastinatePeer(FEW_JOBS, fresh())
            return _drain(peer, processes, peer.url, peers_procrastinate.UNFINISHED)

        contestants = {
            OURS: Entry(ours, "a document with each"),
            "pgqueuer": Entry(pgqueuer, "asyncpg, batches of 500; no document"),
            "pgqueuer, default settings": Entry(usual_pgqueuer, "batches of 10; 2,000 events", repeats=1),
            "procrastinate": Entry(procrastinate, "no document; 2,000 events", repeats=1),
        }
        return race(contestants, f"{JOBS:,} no-op events, PostgreSQL", (1, 2, 4))


def _drain(peer: Contestant, processes: int, url: str, unfinished: str) -> float:
    with psycopg.connect(url, autocommit=True) as connection:

        def left() -> int:
            ((count,),) = connection.execute(unfinished.encode())
            return int(count)

        return drain(peer, processes, left)
