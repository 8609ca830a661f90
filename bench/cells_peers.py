"""The queues that go through the cells: how each is installed, filled, worked off and counted.

Every handler sleeps for a millisecond, as in the public definition, and has one effect on the outside.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import psycopg

from bench.cells_records import Effect
from onward import App, Document, Event, Settings, Work

WORK_SECONDS = 0.001
URL, EFFECTS, WORKERS = "BENCH_URL", "BENCH_EFFECTS", "BENCH_WORKERS"  # how a worker process is told

Publish = Callable[[Sequence[int]], None]


@dataclass(frozen=True, slots=True)
class Standing:
    """What a queue knows of its events: those that are not settled, and how many works it has committed."""

    waiting: int
    running: int
    failed: int = 0
    commits: int | None = None
    doubled_commits: int | None = None

    @property
    def unfinished(self) -> int:
        return self.waiting + self.running + self.failed


class Peer(Protocol):
    """A queue in a database of its own."""

    name: ClassVar[str]
    hot_table: ClassVar[str]
    """The table that readers scan."""
    takes_over_seconds: ClassVar[float]
    """Within this time it runs the events of a worker that has died again; 0: not by itself."""

    def __init__(self, url: str) -> None: ...

    def install(self) -> None: ...

    def publisher(self) -> Publish:
        """Return a function that stores events durably, and raises if it is not known that they are."""
        ...

    def work(self, effect: Effect, workers: int) -> None:
        """Be a worker process that runs this many handlers at the same time, until it is killed."""
        ...

    def standing(self) -> Standing: ...


class Ping(Event):
    """Something happened."""

    number: int


class Pong(Document):
    """What came of it."""

    number: int


@dataclass(frozen=True)
class Onward:
    """Onward: a supervisor and a worker process, which commits a document with each event."""

    url: str
    name: ClassVar[str] = "onward"
    hot_table: ClassVar[str] = "onward.ledger"
    takes_over_seconds: ClassVar[float] = 100.0  # a lease of 60 s, and what a worker without its store waits

    def install(self) -> None:
        self.app(_ignore).close()

    def publisher(self) -> Publish:
        app = self.app(_ignore)

        def publish(numbers: Sequence[int]) -> None:
            app.publish(*(Ping(number=number) for number in numbers))

        return publish

    def work(self, effect: Effect, workers: int) -> None:
        from onward.worker import supervise

        logging.basicConfig(level=logging.INFO)
        del effect  # the app of each worker process opens it
        supervise("bench.cells_onward_app:app", concurrency=workers, log_level=logging.INFO)

    def standing(self) -> Standing:
        app = self.app(_ignore)
        try:
            ((waiting, running, dead),) = (
                (queue.waiting, queue.claimed, queue.dead) for queue in app.store.queues(["answering"])
            )
        finally:
            app.close()
        counted = "count(*), count(DISTINCT split_part(id, '.', 1))"
        ((commits, events),) = _rows(
            self.url, f"SELECT {counted} FROM onward.documents WHERE collection = '{Pong.collection}'"
        )
        return Standing(waiting, running, dead, commits, commits - events)

    def app(self, effect: Effect) -> App:
        app = App(store=self.url, settings=Settings(store=self.url, metrics_address="off"))

        @app.service("answering", on=Ping)
        async def answer(event: Ping, work: Work) -> None:
            await asyncio.sleep(WORK_SECONDS)
            # A document of its own for every run of the handler: two commits of an event would be counted.
            work.add(Pong(id=f"{event.number}.{uuid.uuid4().hex}", number=event.number))
            effect(event.number)

        return app


@dataclass
class AwaJob:
    """What awa stores of an event."""

    number: int


@dataclass(frozen=True)
class Awa:
    """awa with its queue storage and its defaults."""

    url: str
    name: ClassVar[str] = "awa"
    hot_table: ClassVar[str] = "awa.ready_entries"
    takes_over_seconds: ClassVar[float] = 100.0  # a heartbeat is stale after 90 s

    def install(self) -> None:
        import awa

        with awa.Client(self.url) as client:
            client.migrate()
            client.install_queue_storage()

    def publisher(self) -> Publish:
        import awa

        client = awa.Client(self.url)

        def publish(numbers: Sequence[int]) -> None:
            client.enqueue_many_copy([AwaJob(number) for number in numbers], queue="cells")

        return publish

    def work(self, effect: Effect, workers: int) -> None:
        asyncio.run(self._work(effect, workers))

    async def _work(self, effect: Effect, workers: int) -> None:
        import awa

        client = awa.AsyncClient(self.url)

        async def run(job: awa.Job[AwaJob]) -> None:
            await asyncio.sleep(WORK_SECONDS)
            effect(job.args.number)

        client.task(AwaJob, queue="cells")(run)
        await client.start([("cells", workers)])
        await asyncio.Event().wait()

    def standing(self) -> Standing:
        import awa

        # Without statistics of its tables, the query behind its counts took more than eight minutes.
        _rows(self.url, "ANALYZE")
        with awa.Client(self.url) as client:
            queues = client.queue_stats()
        return Standing(
            sum(queue.available + queue.scheduled + queue.retryable for queue in queues),
            sum(queue.running for queue in queues),
            sum(queue.failed for queue in queues),
        )


@dataclass(frozen=True)
class Procrastinate:
    """procrastinate with asynchronous tasks; finished jobs stay in its table, as is its default."""

    url: str
    name: ClassVar[str] = "procrastinate"
    hot_table: ClassVar[str] = "procrastinate_jobs"
    takes_over_seconds: ClassVar[float] = 0.0  # its users write a periodic task that looks for stalled jobs

    def install(self) -> None:
        with self._app().open() as app:
            app.schema_manager.apply_schema()

    def publisher(self) -> Publish:
        app = self._app()
        app.open()

        def publish(numbers: Sequence[int]) -> None:
            app.configure_task("job").batch_defer(*({"number": number} for number in numbers))

        return publish

    def work(self, effect: Effect, workers: int) -> None:
        logging.basicConfig(level=logging.WARNING)
        app = self._app()

        async def job(number: int) -> None:
            await asyncio.sleep(WORK_SECONDS)
            effect(number)

        app.task(name="job")(job)
        app.run_worker(concurrency=workers)

    def standing(self) -> Standing:
        counts = dict(_rows(self.url, "SELECT status::text, count(*) FROM procrastinate_jobs GROUP BY status"))
        return Standing(counts.get("todo", 0), counts.get("doing", 0), counts.get("failed", 0))

    def _app(self) -> Any:  # its types are not installed for development
        from procrastinate import App as ProcrastinateApp
        from procrastinate import PsycopgConnector

        return ProcrastinateApp(connector=PsycopgConnector(conninfo=self.url))


PEERS: Mapping[str, type[Peer]] = {peer.name: peer for peer in (Onward, Awa, Procrastinate)}


def worker_environment(url: str, effects: str, workers: int) -> dict[str, str]:
    """Return the environment of a worker process."""
    return {**os.environ, URL: url, EFFECTS: effects, WORKERS: str(workers)}


def _rows(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(query.encode())
        return found.fetchall() if found.description else []


def _ignore(number: int) -> None:
    del number
