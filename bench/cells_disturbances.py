"""What is done to a queue while a cell runs; each is a context, and yields once the disturbance has begun."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

import psycopg

from bench.cells_definitions import (
    HELD_CONNECTIONS,
    HIGH_LOAD,
    READERS,
    TERMINATIONS_PER_SECOND,
    Cell,
    Disturbance,
)
from bench.cells_processes import Replica
from bench.cells_records import Control
from tests.support.servers import PostgresServer, ServerError

SCAN_PAUSE_SECONDS = 0.1
STOP_SECONDS = 20.0
RESTART_SECONDS = 1.0  # between a kill and the start of the next process, when a worker is killed again and again


@dataclass
class Stage:
    """What a disturbance can reach."""

    cell: Cell
    server: PostgresServer
    database: str
    hot_table: str
    replicas: Sequence[Replica]
    control: Control
    rate: float
    times: dict[str, float] = field(default_factory=dict)
    """When the cause was at work, where that is not the whole time: `down` and `up`."""
    notes: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.server.url(self.database)


@contextmanager
def disturbed(stage: Stage) -> Iterator[None]:
    """Disturb the queue for the duration of the block."""
    with DISTURBANCES[stage.cell.disturbance](stage):
        yield


@contextmanager
def _open_transaction(stage: Stage) -> Iterator[None]:
    with psycopg.connect(stage.url) as connection:
        connection.execute("SELECT txid_current()")  # has an id: it keeps back what vacuum may remove
        yield
        connection.rollback()


@contextmanager
def _active_readers(stage: Stage) -> Iterator[None]:
    query = f"SELECT count(*) FROM {stage.hot_table}".encode()

    def read(ended: threading.Event) -> None:
        # One transaction for all the time, as in the public definition: so the snapshot grows old, too.
        with psycopg.connect(stage.url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            while not ended.wait(SCAN_PAUSE_SECONDS):
                connection.execute(query).fetchall()
            connection.rollback()

    with ExitStack() as readers:
        for _ in range(READERS):
            readers.enter_context(_thread(read))
        yield


@contextmanager
def _high_load(stage: Stage) -> Iterator[None]:
    stage.rate *= HIGH_LOAD
    stage.control.keep(stage.rate)
    yield
    stage.rate /= HIGH_LOAD


@contextmanager
def _kill(stage: Stage) -> Iterator[None]:
    stage.times["down"] = time.monotonic()
    stage.replicas[0].kill()

    def restart(ended: threading.Event) -> None:
        ended.wait(stage.cell.seconds / 2)
        stage.replicas[0].start()
        stage.times["up"] = time.monotonic()

    with _thread(restart):
        yield


@contextmanager
def _repeated_kills(stage: Stage) -> Iterator[None]:
    def kill(ended: threading.Event) -> None:
        kills = 0
        while not ended.wait(stage.cell.period_seconds):
            stage.times.setdefault("down", time.monotonic())
            stage.replicas[0].kill()
            kills += 1
            ended.wait(RESTART_SECONDS)
            stage.replicas[0].start()
            stage.times["up"] = time.monotonic()
        stage.notes.append(f"{kills} kills")

    with _thread(kill):
        yield


@contextmanager
def _server_restart(stage: Stage) -> Iterator[None]:
    down = stage.times["down"] = time.monotonic()
    try:
        stage.server.stop(STOP_SECONDS)
    except ServerError:  # its last checkpoint takes too long on this disk: it was killed
        stage.notes.append(f"the server was killed, it did not stop in {STOP_SECONDS:g} s")

    def restart(ended: threading.Event) -> None:
        ended.wait(max(0.0, down + stage.cell.seconds / 2 - time.monotonic()))
        stage.server.start()
        stage.times["up"] = time.monotonic()

    with _thread(restart):
        yield


@contextmanager
def _backends_terminated(stage: Stage) -> Iterator[None]:
    def terminate(ended: threading.Event) -> None:
        terminated = 0
        busy = "datname = %s AND pid <> pg_backend_pid() AND state IN ('active', 'idle in transaction')"
        query = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {busy}".encode()
        with psycopg.connect(stage.server.url("postgres"), autocommit=True) as connection:
            while not ended.wait(1 / TERMINATIONS_PER_SECOND):
                terminated += len(connection.execute(query, [stage.database]).fetchall())
        stage.times["up"] = time.monotonic()
        stage.notes.append(f"{terminated} terminated")

    with _thread(terminate):
        yield


@contextmanager
def _connections_held(stage: Stage) -> Iterator[None]:
    held: list[psycopg.Connection] = []
    try:
        with suppress(psycopg.OperationalError):  # the server has no more
            while len(held) < HELD_CONNECTIONS:
                held.append(psycopg.connect(stage.url, autocommit=True))
        if len(held) < HELD_CONNECTIONS:
            stage.notes.append(f"{len(held)} held")
        yield
    finally:
        for connection in held:
            connection.close()


@contextmanager
def _thread(run: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run a function in a thread until the block ends; an error that it raised is raised here."""
    ended, errors = threading.Event(), []

    def guarded() -> None:
        try:
            run(ended)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    for error in errors:
        raise error


DISTURBANCES = {
    Disturbance.KILL: _kill,
    Disturbance.REPEATED_KILLS: _repeated_kills,
    Disturbance.SERVER_RESTART: _server_restart,
    Disturbance.BACKENDS_TERMINATED: _backends_terminated,
    Disturbance.CONNECTIONS_HELD: _connections_held,
    Disturbance.OPEN_TRANSACTION: _open_transaction,
    Disturbance.ACTIVE_READERS: _active_readers,
    Disturbance.HIGH_LOAD: _high_load,
    Disturbance.BURST: _high_load,
}
