"""Plain tasks that do nothing, `@app.task`, beside the task queues that their users come from.

Four measures: tasks are enqueued one at a time, each committed; 10,000 are enqueued at once; one worker process
runs 10,000 that wait; one task is enqueued while its worker is idle, from the call to the start of the function.

On PostgreSQL the peers are pgqueuer and procrastinate, and celery and dramatiq on RabbitMQ; on SQLite it is huey.
Each peer has the settings that were fastest for it (`bench/peers_*.py`). A call of Onward is a document with typed
arguments, a status and a history, which is committed with the settlement of its event. The servers are private
ones, started for this run; the databases sync every commit to the disk.
"""

from __future__ import annotations

import itertools
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, MutableSequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import asyncpg
import dramatiq
import psycopg
import uvloop
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from huey import SqliteHuey
from pgqueuer.queries import Queries

from bench import peers_celery, peers_dramatiq, peers_pgqueuer, peers_procrastinate
from bench.peers_celery import CeleryPeer
from bench.peers_dramatiq import DramatiqPeer
from bench.peers_pgqueuer import PgQueuerPeer
from bench.peers_procrastinate import ProcrastinatePeer
from bench.peers_race import Mark, drain
from bench.rabbitmq import count_messages
from bench.table import Row, medians
from onward import App, Settings
from onward.runtime.task import Task
from onward.worker import tune_process
from tests.support.servers import PostgresServer, RabbitServer

OURS = "onward"
OURS_IN_TRANSACTION = "onward, in the caller's transaction"
TASKS = 10_000
FEW_TASKS = 2_000  # for those who would take minutes
ENQUEUED = 1_000
SINGLE = 60
WARM_UP = 10
REPEATS = 3
START_SECONDS = 60.0


class Producer(NamedTuple):
    """What enqueues tasks, on an open connection."""

    put: Callable[[int], object]
    put_all: Callable[[range], object]  # at once, if the queue can


class Queue(Protocol):
    """A task queue with tasks numbered from 0 on; it is pickled, to be run in a worker process."""

    @property
    def jobs(self) -> int: ...

    def producer(self) -> AbstractContextManager[Producer]: ...

    def work(self, mark: Mark) -> None: ...

    def fill(self) -> None: ...


Left = Callable[[], AbstractContextManager[Callable[[], int]]]  # Opens what counts the tasks that are not settled


def fill(queue: Queue) -> None:
    with queue.producer() as producer:
        producer.put_all(range(queue.jobs))


def _one_by_one(put: Callable[[int], object]) -> Producer:
    def put_all(numbers: range) -> None:
        for number in numbers:
            put(number)

    return Producer(put, put_all)


# -- ours


@dataclass(frozen=True)
class OnwardTasks:
    """A task of an app, `async def`, without a result."""

    jobs: int
    store: str
    fill = fill

    def work(self, mark: Mark) -> None:
        tune_process()
        with self._open(mark) as (app, _):
            app.engine().run()  # until it is killed

    @contextmanager
    def producer(self) -> Iterator[Producer]:
        with self._open(_ignore) as (app, task):
            _ = app.store
            yield Producer(task.delay, task.map)

    @contextmanager
    def left(self) -> Iterator[Callable[[], int]]:
        with self._open(_ignore) as (app, task):
            collection = task.call_document.collection
            yield lambda: self.jobs - app.store.document_counts().get(collection, {}).get("processed", 0)

    @contextmanager
    def _open(self, mark: Mark) -> Iterator[tuple[App, Task[..., Any, None]]]:
        app = App(store=self.store, settings=Settings(store=self.store))

        @app.task
        async def job(number: int) -> None:
            mark(number)

        yield app, job
        app.close()


class TasksInTransaction(OnwardTasks):
    """The same, enqueued on a connection of the program's own, in its transactions; a worker moves it."""

    @contextmanager
    def producer(self) -> Iterator[Producer]:
        with self._open(_ignore) as (app, task), psycopg.connect(self.store, autocommit=True) as connection:
            _ = app.store
            options = task.options(connection=connection)
            yield Producer(options.delay, options.map)


# -- peers on PostgreSQL


class PgQueuerTasks(PgQueuerPeer):
    """pgqueuer, whose calls are awaited on one loop."""

    fill = fill

    @contextmanager
    def producer(self) -> Iterator[Producer]:
        with _loop() as run:
            connection = run(asyncpg.connect(self.url))
            queries = Queries.from_asyncpg_connection(connection)
            run(queries.install())

            def put_all(numbers: range) -> None:
                payloads = [b"%d" % number for number in numbers]
                run(queries.enqueue(["job"] * len(numbers), payloads, [0] * len(numbers)))

            yield Producer(lambda number: run(queries.enqueue(["job"], [b"%d" % number], [0])), put_all)
            run(connection.close())


@contextmanager
def _loop() -> Iterator[Callable[[Any], Any]]:
    loop = uvloop.new_event_loop()
    yield loop.run_until_complete
    loop.close()


class ProcrastinateTasks(ProcrastinatePeer):
    """procrastinate, with its connector for programs without a loop."""

    fill = fill

    @contextmanager
    def producer(self) -> Iterator[Producer]:
        with self._app().open() as app:
            app.schema_manager.apply_schema()
            task = app.configure_task("job")
            yield Producer(
                lambda number: task.defer(number=number),
                lambda numbers: task.batch_defer(*({"number": number} for number in numbers)),
            )


@contextmanager
def _counting(url: str, statement: str) -> Iterator[Callable[[], int]]:
    with psycopg.connect(url, autocommit=True) as connection:

        def left() -> int:
            ((count,),) = connection.execute(statement).fetchall()
            return int(count)

        yield left


# -- peers on RabbitMQ


class CeleryTasks(CeleryPeer):
    """celery with one producer that is kept."""

    fill = fill

    @contextmanager
    def producer(self) -> Iterator[Producer]:
        job = self._job(_ignore)
        with job.app.producer_or_acquire() as producer:
            yield _one_by_one(lambda number: job.apply_async((number,), producer=producer))


class DramatiqTasks(DramatiqPeer):
    """dramatiq without publisher confirms, as it is by default."""

    fill = fill

    @contextmanager
    def producer(self) -> Iterator[Producer]:
        broker = RabbitmqBroker(url=self.url)
        job = dramatiq.actor(_ignore, actor_name="job", queue_name=peers_dramatiq.QUEUE, broker=broker)
        yield _one_by_one(job.send)
        broker.close()


# -- a peer on SQLite


@dataclass(frozen=True)
class HueyTasks:
    """huey with one thread; `fsync` syncs every commit, as Onward does."""

    jobs: int
    file: str
    fsync: bool = True
    fill = fill

    def work(self, mark: Mark) -> None:
        huey, _ = self._open(mark)
        huey.create_consumer(workers=1, periodic=False, initial_delay=0.001, max_delay=0.01).run()

    @contextmanager
    def producer(self) -> Iterator[Producer]:
        yield _one_by_one(self._open(_ignore)[1])

    @contextmanager
    def left(self) -> Iterator[Callable[[], int]]:
        yield self._open(_ignore)[0].pending_count

    def _open(self, mark: Mark) -> tuple[Any, Callable[[int], object]]:
        huey = SqliteHuey("bench", filename=self.file, fsync=self.fsync, results=False)

        def job(number: int) -> None:
            mark(number)

        return huey, huey.task(name="job")(job)


# -- measuring


def enqueued_one_at_a_time(queue: Queue, left: Left) -> float:
    with queue.producer() as producer:
        for number in range(WARM_UP):
            producer.put(number)
        began = time.perf_counter()
        for number in range(ENQUEUED):
            producer.put(number)
        return ENQUEUED / (time.perf_counter() - began)


def enqueued_at_once(queue: Queue, left: Left) -> float:
    with queue.producer() as producer:
        began = time.perf_counter()
        producer.put_all(range(queue.jobs))
        return queue.jobs / (time.perf_counter() - began)


def run_by_one_process(queue: Queue, left: Left) -> float:
    opened: list[Callable[[], int]] = []
    closing: list[AbstractContextManager[Callable[[], int]]] = []

    def count() -> int:
        if not opened:  # not earlier: the tables are made when it is filled
            closing.append(left())
            opened.append(closing[0].__enter__())
        return opened[0]()

    try:
        return drain(queue, 1, count)
    finally:
        for one in closing:
            one.__exit__(None, None, None)


def one_at_a_time(queue: Queue, left: Left) -> float:
    """Return how many tasks a second start one after the other, each enqueued while the worker is idle."""
    spawning = multiprocessing.get_context("spawn")
    times: MutableSequence[float] = spawning.RawArray("d", SINGLE + WARM_UP)
    with queue.producer() as producer:
        worker = spawning.Process(target=_work, args=(queue, times))
        worker.start()
        try:
            waits = [_wait(producer, number, times) for number in range(SINGLE + WARM_UP)]
        finally:
            worker.kill()
            worker.join()
    return 1 / statistics.median(waits[WARM_UP:])


def _wait(producer: Producer, number: int, times: MutableSequence[float]) -> float:
    began = time.perf_counter()
    producer.put(number)
    ends = time.monotonic() + START_SECONDS
    while not times[number]:
        if time.monotonic() > ends:
            raise RuntimeError(f"task {number} has not started within {START_SECONDS:g} s")
        time.sleep(0.0005)
    time.sleep(0.02)  # the worker settles the task, and is idle again
    return times[number] - began


def _work(queue: Queue, times: MutableSequence[float]) -> None:
    clock = time.perf_counter  # the same in all processes of a machine

    def mark(number: int) -> None:
        times[number] = clock()

    queue.work(mark)


def _ignore(number: int) -> None:
    del number


# -- the tables

MEASURES: dict[str, Callable[[Queue, Left], float]] = {
    "enqueued one at a time": enqueued_one_at_a_time,
    f"{TASKS:,} enqueued at once": enqueued_at_once,
    f"{TASKS:,} run by 1 worker process": run_by_one_process,
    "one at a time, from the call to its start": one_at_a_time,
}
Entries = dict[str, tuple[Callable[[], tuple[Queue, Left]], str]]  # How a new queue is made, and a note


def run() -> list[Row]:
    """Measure everyone in turn, each time in a database or a queue of its own."""
    numbers = itertools.count(1)
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as postgres, RabbitServer() as rabbit:

        def file() -> str:
            return str(Path(folder) / f"tasks{next(numbers)}.db")

        def ours(store: str, kind: type[OnwardTasks] = OnwardTasks) -> tuple[Queue, Left]:
            queue = kind(TASKS, store)
            return queue, queue.left

        def database() -> str:
            return postgres.create_database(f"tasks{next(numbers)}")

        def in_postgres(peer: Callable[[int, str], Queue], tasks: int, unfinished: str) -> tuple[Queue, Left]:
            url = database()
            return peer(tasks, url), partial(_counting, url, unfinished)

        def in_rabbitmq(peer: Callable[[int, str], Queue], queue: str) -> tuple[Queue, Left]:
            vhost = f"tasks{next(numbers)}"

            @contextmanager
            def left() -> Iterator[Callable[[], int]]:
                yield partial(count_messages, rabbit, queue, vhost)

            return peer(TASKS, rabbit.create_vhost(vhost)), left

        def in_file(*, fsync: bool) -> tuple[Queue, Left]:
            queue = HueyTasks(TASKS, file(), fsync)
            return queue, queue.left

        pgqueuer = partial(in_postgres, PgQueuerTasks, TASKS, peers_pgqueuer.UNFINISHED)
        procrastinate = partial(in_postgres, ProcrastinateTasks, FEW_TASKS, peers_procrastinate.UNFINISHED)
        on_servers: Entries = {
            OURS: (lambda: ours(database()), "a document with each"),
            OURS_IN_TRANSACTION: (lambda: ours(database(), TasksInTransaction), "the same, on its own connection"),
            "pgqueuer": (pgqueuer, "asyncpg, batches of 500"),
            "procrastinate": (procrastinate, f"{FEW_TASKS:,} tasks"),
            "celery": (partial(in_rabbitmq, CeleryTasks, peers_celery.QUEUE), "RabbitMQ; not confirmed"),
            "dramatiq": (partial(in_rabbitmq, DramatiqTasks, peers_dramatiq.QUEUE), "RabbitMQ; not confirmed"),
        }
        on_sqlite: Entries = {
            OURS: (lambda: ours(f"sqlite:///{file()}"), "a document with each, synchronous=FULL"),
            "huey, fsync": (partial(in_file, fsync=True), "a crash loses the task that runs"),
            "huey": (partial(in_file, fsync=False), "its default, synchronous=OFF; the same"),
        }
        return _compare("PostgreSQL", on_servers) + _compare("SQLite", on_sqlite)


def _compare(database: str, entries: Entries) -> list[Row]:
    rows: list[Row] = []
    for title, measure in MEASURES.items():
        turns = {name: partial(_measured, measure, new) for name, (new, _) in entries.items()}
        rates = medians(turns, REPEATS)
        measured = f"no-op tasks, {database}: {title}"
        rows += [Row(name, name == OURS, rate, entries[name][1], measured) for name, rate in rates.items()]
    return rows


def _measured(measure: Callable[[Queue, Left], float], new: Callable[[], tuple[Queue, Left]]) -> float:
    return measure(*new())
