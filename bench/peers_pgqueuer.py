"""pgqueuer: jobs in PostgreSQL, taken and logged in batches."""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.peers_race import Mark

# Its own benchmark takes 10 at once over each of 5 connections; one connection and batches of hundreds are
# faster. So is asyncpg, its first choice of a driver, than psycopg.
BATCH = 500
USUAL_BATCH = 10
"""The default batch of its command."""

UNFINISHED = "SELECT count(*) FROM pgqueuer"
"""A job that is done leaves this table for the log."""


@dataclass(frozen=True)
class PgQueuerPeer:
    """pgqueuer with its durable tables, on uvloop as its own command runs it."""

    jobs: int
    url: str
    batch: int = BATCH

    def fill(self) -> None:
        uvloop.run(self._enqueue())

    def work(self, mark: Mark) -> None:
        uvloop.run(self._consume(mark))

    async def _enqueue(self) -> None:
        connection = await asyncpg.connect(self.url)
        queries = Queries.from_asyncpg_connection(connection)
        await queries.install()
        payloads: list[bytes | None] = [b"%d" % number for number in range(self.jobs)]
        await queries.enqueue(["job"] * self.jobs, payloads, [0] * self.jobs)
        await connection.close()

    async def _consume(self, mark: Mark) -> None:
        queuer = PgQueuer.from_asyncpg_connection(await asyncpg.connect(self.url))

        async def run(job: Job) -> None:
            mark(int(job.payload or b""))

        queuer.entrypoint("job")(run)
        await queuer.run(batch_size=self.batch)
