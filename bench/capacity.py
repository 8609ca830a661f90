"""What events and messages cost: the figures of `onward capacity`, and how well it foretells a race.

    make bench ARGS="capacity --archive ARCHIVE --figures src/onward/ops/capacity/figures.json"

Processor time is measured, not rates: so it holds on a machine that has other things to do, too.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import NamedTuple

import click
import psycopg

from bench.console import opened, processor_seconds
from bench.growth_ingest import IngestStore, Measured, ingest_into, postgres_sizes, sqlite_sizes
from bench.peers_onward import Onward, Ping, Pong
from bench.peers_race import Mark, drain
from bench.pipeline import ROOT, SAMPLE, compile_modules, write_copies
from bench.table import Sheet
from onward import App, Settings, Work
from onward.ops.capacity.figures import (
    EMBEDDING,
    POSTGRES,
    SQLITE,
    SUMMARIZATION,
    Figures,
    LedgerCosts,
    MessageCosts,
    StoreCosts,
)
from onward.ops.capacity.fleet import Fleet, simulate
from tests.support.servers import PostgresServer

FEW, MANY = 10_000, 40_000  # events in large batches: what the second needs more is their cost
SLOW, SLOWER = 200, 800  # the same in small ones
SLOW_SLOTS, SLOW_SECONDS = 8, 0.26  # a call that takes more than what is claimed ahead
IDLE_WORKERS, IDLE_SECONDS = 8, 10.0
FLUSHES = 200
RACES = (1, 2, 4)
STEPS = {"parse": "parsing", "chunk": "chunking", "embed": EMBEDDING, "summarize": SUMMARIZATION}
_COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
_LOG_BYTES = "SELECT wal_bytes FROM pg_stat_wal"
_PAGES = "SELECT buffers_checkpoint + buffers_clean + buffers_backend FROM pg_stat_bgwriter"


class Spent(NamedTuple):
    """What events or messages have cost."""

    worker: float
    server: float
    commits: float
    log_bytes: float

    def __sub__(self, other: Spent) -> Spent:
        return Spent(*(mine - its for mine, its in zip(self, other, strict=True)))

    def each(self, count: float) -> Spent:
        return Spent(*(value / count for value in self))


@dataclass(frozen=True)
class SlowOnward(Onward):
    """Onward with a handler that waits, so that few events are settled at once."""

    def _app(self, mark: Mark) -> App:
        import asyncio

        app = App(store=self.store, settings=Settings(store=self.store))

        @app.service("answering", on=Ping, concurrency=SLOW_SLOTS)
        async def answer(event: Ping, work: Work) -> None:
            await asyncio.sleep(SLOW_SECONDS)
            work.add(Pong(id=f"pong-{event.number}", number=event.number))
            mark(event.number)

        return app


def run(archive: Path | None = None, figures: Path | None = None) -> list[Sheet]:
    """Measure all costs; write them into a file, if one is given."""
    compile_modules()
    with PostgresServer() as server:
        ledger = _Ledger(server)
        costs = ledger.costs()
        races = {count: ledger.race(count) for count in RACES}
    with PostgresServer() as server, tempfile.TemporaryDirectory(prefix="onward-bench-") as folder:
        message, stores = _messages(server, archive or SAMPLE, Path(folder))
    machine = f"{os.cpu_count()} shared processors"
    found = Figures(str(date.today()), machine, message, stores, costs)  # noqa: DTZ011
    if figures is not None:
        figures.write_text(found.to_json())
    return [_cost_sheet(found), _race_sheet(costs, races)]


# -- events


class _Ledger:
    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._databases = 0

    def costs(self) -> LedgerCosts:
        many = self._more(Onward, FEW, MANY)
        few = self._more(SlowOnward, SLOW, SLOWER)
        return LedgerCosts(
            *_line(many.commits, many.server, few.commits, few.server),
            *_line(many.commits, many.worker, few.commits, few.worker),
            server_idle=self._idle(),
            log_bytes=many.log_bytes,
            flush_seconds=self._flush(),
        )

    def race(self, processes: int) -> float:
        """Return the events a second of so many processes."""
        rates = []
        for _ in range(3):
            onward = Onward(FEW * 2, self._database())
            with onward.left() as left:
                rates.append(drain(onward, processes, left))
        return statistics.median(rates)

    def _more(self, kind: type[Onward], some: int, more: int) -> Spent:
        """Return what an event costs: so many more of them, without the start of a process."""
        return (self._spent(kind, more) - self._spent(kind, some)).each(more - some)

    def _spent(self, kind: type[Onward], jobs: int) -> Spent:
        url = self._database()
        filled = kind(jobs, url)
        filled.fill()
        before = self._now(url)
        ready = _Filled(kind, jobs, url)
        with filled.left() as left:
            drain(ready, 1, left)
        return self._now(url) - before

    def _now(self, url: str) -> Spent:
        commits, log_bytes = _ask(url, _COMMITS), _ask(url, _LOG_BYTES)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        server = processor_seconds(self._server.pid, family=True)
        return Spent(children.ru_utime + children.ru_stime, server, commits, log_bytes)

    def _idle(self) -> float:
        """Return the seconds of the server that a worker takes in a second in which it waits."""
        url = self._database()
        spawning = multiprocessing.get_context("spawn")
        workers = [spawning.Process(target=Onward(0, url).work, args=(print,)) for _ in range(IDLE_WORKERS)]
        try:
            for worker in workers:
                worker.start()
            with psycopg.connect(url, autocommit=True) as connection:
                known = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                while (connection.execute(known.encode()).fetchone() or (0,))[0] <= IDLE_WORKERS:
                    time.sleep(0.1)
            time.sleep(2)  # what they do at their start
            before = processor_seconds(self._server.pid, family=True)
            time.sleep(IDLE_SECONDS)
            return (processor_seconds(self._server.pid, family=True) - before) / IDLE_SECONDS / IDLE_WORKERS
        finally:
            for worker in workers:
                worker.kill()
                worker.join()

    def _flush(self) -> float:
        """Return how much longer a commit takes that waits for the disk."""
        with psycopg.connect(self._database(), autocommit=True) as connection:
            connection.execute("CREATE TABLE flushed (n int)")

            def took(setting: str) -> float:
                connection.execute(f"SET synchronous_commit TO {setting}".encode())
                began = time.perf_counter()
                for number in range(FLUSHES):
                    connection.execute("INSERT INTO flushed VALUES (%s)", [number])
                return (time.perf_counter() - began) / FLUSHES

            return max(1e-5, took("on") - took("off"))

    def _database(self) -> str:
        self._databases += 1
        return self._server.create_database(f"capacity{self._databases}")


@dataclass(frozen=True)
class _Filled:
    """A queue that is filled already, so that filling it does not count."""

    kind: type[Onward]
    jobs: int
    store: str

    def fill(self) -> None:
        """Nothing is missing."""

    def work(self, mark: Mark) -> None:
        self.kind(self.jobs, self.store).work(mark)


def _line(many: float, cost_of_many: float, few: float, cost_of_few: float) -> tuple[float, float]:
    """Return the cost of a transaction, and of an event, from those of events with many and few transactions."""
    batch = max(0.0, (cost_of_few - cost_of_many) / (few - many))
    return batch, max(0.0, cost_of_many - many * batch)


# -- messages


def _messages(server: PostgresServer, archive: Path, scratch: Path) -> tuple[MessageCosts, dict[str, StoreCosts]]:
    steps = _straight(archive, scratch)
    home, other, url = scratch / "sqlite", scratch / "postgres", server.url()
    stores = {
        SQLITE: IngestStore(SQLITE, {"ONWARD_HOME": str(home)}, 0, lambda: sqlite_sizes(home)),
        POSTGRES: IngestStore(
            POSTGRES,
            {"ONWARD_HOME": str(other), "ONWARD_STORE": url},
            server.pid,
            lambda: postgres_sizes(url, other),
        ),
    }

    message: MessageCosts | None = None
    found: dict[str, StoreCosts] = {}
    for name, store in stores.items():
        measured = Measured(rates=[])
        before = _ask(url, _COMMITS), _ask(url, _LOG_BYTES)
        server.execute("CHECKPOINT", "postgres")
        pages = _ask(url, _PAGES)
        written = resource.getrusage(resource.RUSAGE_CHILDREN).ru_oublock
        server_before = processor_seconds(server.pid, family=True)
        _, used = ingest_into(store, _copied(archive, scratch), measured)
        server_used = processor_seconds(server.pid, family=True) - server_before if store.server else 0.0
        count = measured.messages
        commits, log = _ask(url, _COMMITS) - before[0], _ask(url, _LOG_BYTES) - before[1]
        server.execute("CHECKPOINT", "postgres")
        if not store.server:
            message = _message(home, measured.raw / count, count, steps)
            blocks = resource.getrusage(resource.RUSAGE_CHILDREN).ru_oublock - written
            log, pages_written = 0.0, blocks * 512 / 4096
        else:
            pages_written = _ask(url, _PAGES) - pages
        size = sum(size for what, size in store.sizes().items() if not what.startswith("blob"))
        assert message is not None
        own = (used - server_used) / count - sum(message.processor_seconds.values())
        found[name] = StoreCosts(
            size / count, max(0.0, own), server_used / count, commits / count, log / count, pages_written / count
        )
        click.echo(f"  {name}: {used / count * 1e3:.1f} ms of processor time a message", err=True)
    assert message is not None
    # Works are grouped alike on both; SQLite has no count of its commits.
    found[SQLITE] = replace(found[SQLITE], commits=found[POSTGRES].commits, log_bytes=found[POSTGRES].log_bytes)
    return message, found


def _copied(archive: Path, scratch: Path) -> Path:
    """Return a copy, which `ingest_into` removes; unpacked, as its size is that of its messages."""
    copy = scratch / "copy.mbox"
    write_copies(archive, copy, 1)
    return copy


def _straight(archive: Path, scratch: Path) -> dict[str, float]:
    """Return the seconds that each step of the straight-line script takes."""
    command = [sys.executable, "-m", "bench.straight", str(archive), str(scratch / "straight.db")]
    done = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True)
    return {name: float(seconds) for name, seconds in json.loads(done.stdout).items()}


def _message(home: Path, raw: float, count: int, steps: dict[str, float]) -> MessageCosts:
    with opened({"ONWARD_HOME": str(home)}) as app:
        counts = {name: sum(one.values()) for name, one in app.store.document_counts().items()}
    with closing(sqlite3.connect(home / "onward.db")) as database:
        ((tokens,),) = database.execute(
            "SELECT sum(body ->> 'tokens') FROM bodies JOIN documents USING (doc) WHERE collection = 'chunks'"
        )
    return MessageCosts(
        bytes=raw,
        chunks=counts["chunks"] / count,
        tokens=tokens / count,
        threads=counts["threads"] / count,
        processor_seconds={service: steps[step] / count for step, service in STEPS.items()},
    )


def _ask(url: str, query: str) -> float:
    """Return a number that the server counts."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        return float((connection.execute(query.encode()).fetchone() or (0,))[0])


# -- tables


def _cost_sheet(found: Figures) -> Sheet:
    ledger, message = found.ledger, found.message

    def micro(seconds: float) -> str:
        return f"{seconds * 1e6:,.0f} µs"

    rows = [
        ("an event: server", micro(ledger.server_event)),
        ("an event: worker", micro(ledger.worker_event)),
        ("a transaction: server", micro(ledger.server_batch)),
        ("a transaction: worker", micro(ledger.worker_batch)),
        ("a second of an idle worker: server", micro(ledger.server_idle)),
        ("an event: write-ahead log", f"{ledger.log_bytes:,.0f} bytes"),
        ("a flush to disk", micro(ledger.flush_seconds)),
    ]
    rows += [(f"a message: {name}", micro(seconds)) for name, seconds in message.processor_seconds.items()]
    for name, store in found.stores.items():
        rows += [
            (f"a message: ledger and search index, {name}", micro(store.worker_seconds)),
            (f"a message: size in {name}", f"{store.bytes:,.0f} bytes"),
        ]
    postgres = found.stores[POSTGRES]
    rows += [
        ("a message: server", micro(postgres.server_seconds)),
        ("a message: transactions", f"{postgres.commits:.2f}"),
        ("a message: write-ahead log", f"{postgres.log_bytes:,.0f} bytes"),
    ]
    return Sheet("What events and messages cost in processor time", ("what", "cost"), rows)


def _race_sheet(costs: LedgerCosts, races: dict[int, float]) -> Sheet:
    cores = os.cpu_count() or 1
    rows = []
    for count, rate in races.items():
        # With no time in a handler; a worker settles large batches.
        fleet = Fleet(count, 0.0, slots=100, server_cores=cores, shared_cores=cores)
        foretold = simulate(fleet, FEW * 2, costs).per_second
        rows.append((f"{count}", f"{rate:,.0f}", f"{foretold:,.0f}", f"{foretold / rate:.2f} ×"))
    columns = ("worker processes", "measured: events a second", "foretold", "foretold / measured")
    return Sheet(f"The model beside a race on {cores} processors", columns, rows)
