"""procrastinate: jobs in PostgreSQL, taken and finished one by one."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from procrastinate import App, PsycopgConnector

from bench.peers_race import Mark

# A worker fetches one job at a time, however many it may run; a few let it finish jobs meanwhile, more
# only make its connections wait for each other.
CONCURRENCY = 3

UNFINISHED = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"


@dataclass(frozen=True)
class ProcrastinatePeer:
    """procrastinate with asynchronous tasks."""

    jobs: int
    url: str

    def fill(self) -> None:
        with self._app().open() as app:
            app.schema_manager.apply_schema()
            app.configure_task("job").batch_defer(*({"number": number} for number in range(self.jobs)))

    def work(self, mark: Mark) -> None:
        logging.getLogger("procrastinate").setLevel(logging.ERROR)
        app = self._app()

        async def job(number: int) -> None:
            mark(number)

        app.task(name="job")(job)
        app.run_worker(concurrency=CONCURRENCY)

    def _app(self) -> App:
        connections = CONCURRENCY + 2  # one more to fetch with, and one to listen
        return App(connector=PsycopgConnector(conninfo=self.url, min_size=connections, max_size=connections))
