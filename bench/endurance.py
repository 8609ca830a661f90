"""Millions of events through one PostgreSQL, with a transaction left open for some of the time: what stays behind.

    make bench ARGS="endurance"          # 10 million events, a transaction open for 10 minutes
    BENCH_EVENTS=1000000 BENCH_OPEN_SECONDS=60 make bench ARGS="endurance"

A publisher keeps a backlog, two workers work it off as fast as they can; their handler does nothing. Dead rows and
sizes are what the server says of the tables of the store.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import click
import psycopg

from bench.cells_server import private_server
from bench.peers_onward import PUBLISHED_AT_ONCE, Ping
from bench.table import Sheet
from onward import App, Settings, Work
from onward.worker import tune_process

EVENTS = int(os.environ.get("BENCH_EVENTS", "10000000"))
OPEN_SECONDS = float(os.environ.get("BENCH_OPEN_SECONDS", "600"))
OPEN_AFTER = 0.3  # of the events
WORKERS = 2
BACKLOG = 20_000
WINDOW_SECONDS = 20.0
SETTLE_SECONDS = 60.0  # after the end, for the last vacuum
PART = 10  # of all events, between two rows of the table
SERVICE = "answering"
_TABLES = b"""
SELECT relname, n_dead_tup, pg_relation_size(relid), pg_indexes_size(relid)
FROM pg_stat_user_tables WHERE schemaname = 'onward'
"""
_DONE = b"SELECT coalesce(sum(n), 0) FROM onward.all_successes"
_UPDATES = b"SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'ledger'"


@dataclass(frozen=True, slots=True)
class Sample:
    """The store at a moment."""

    at: float
    done: int
    dead: int
    ledger_bytes: int  # with its indexes
    all_bytes: int
    open: bool


def run() -> list[Sheet]:
    with private_server() as server:
        url = server.create_database("endurance")
        with closing(_app(url)) as app:
            app.store.counts()  # opening the store makes its tables
        with _processes(url):
            samples = _watch(url)
        time.sleep(SETTLE_SECONDS)
        with psycopg.connect(url, autocommit=True) as connection:
            last = _sample(connection, open=False)
            ((updates, hot),) = connection.execute(_UPDATES).fetchall()
    click.echo(f"  {updates:,} updates of the ledger, {hot:,} of them without its indexes", err=True)
    return [_sheet(samples, last)]


def _app(url: str) -> App:
    app = App(store=url, settings=Settings(store=url))

    @app.service(SERVICE, on=Ping)
    async def answer(event: Ping, work: Work) -> None:
        del event, work

    return app


@contextmanager
def _processes(url: str) -> Iterator[None]:
    spawning = multiprocessing.get_context("spawn")
    processes = [spawning.Process(target=_work, args=(url,)) for _ in range(WORKERS)]
    processes.append(spawning.Process(target=_publish, args=(url,)))
    try:
        for process in processes:
            process.start()
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _work(url: str) -> None:
    tune_process()
    _app(url).engine().run()


def _publish(url: str) -> None:
    app = _app(url)
    published = 0
    with psycopg.connect(url, autocommit=True) as connection:
        while True:  # until it is ended
            room = BACKLOG - (published - _done(connection))
            for _ in range(max(0, room) // PUBLISHED_AT_ONCE):
                app.publish(*(Ping(number=published + number) for number in range(PUBLISHED_AT_ONCE)))
                published += PUBLISHED_AT_ONCE
            if room < PUBLISHED_AT_ONCE:
                time.sleep(0.05)


def _watch(url: str) -> list[Sample]:
    samples: list[Sample] = []
    opened: psycopg.Connection | None = None
    closing_at = math.inf  # of the transaction
    with psycopg.connect(url, autocommit=True) as connection:
        while not samples or samples[-1].done < EVENTS or time.monotonic() < closing_at + SETTLE_SECONDS:
            if samples and math.isinf(closing_at) and samples[-1].done >= EVENTS * OPEN_AFTER:
                opened = psycopg.connect(url)
                opened.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                opened.execute("SELECT txid_current()")
                closing_at = time.monotonic() + OPEN_SECONDS
            sample = _sample(connection, open=opened is not None)
            samples.append(sample)
            click.echo(
                f"  {sample.done:,} done, {sample.dead:,} dead rows, {sample.all_bytes / 1e6:,.0f} MB"
                f"{', a transaction is open' if sample.open else ''}",
                err=True,
            )
            if opened is not None and time.monotonic() >= closing_at:
                opened.close()
                opened = None
            time.sleep(WINDOW_SECONDS if EVENTS >= 1_000_000 else 1.0)
    return samples


def _sample(connection: psycopg.Connection, *, open: bool) -> Sample:
    tables = connection.execute(_TABLES).fetchall()
    ledger = sum(table + indexes for name, _, table, indexes in tables if name == "ledger")
    dead = sum(dead for _, dead, _, _ in tables)
    whole = sum(table + indexes for _, _, table, indexes in tables)
    return Sample(time.monotonic(), _done(connection), dead, ledger, whole, open)


def _done(connection: psycopg.Connection) -> int:
    return int((connection.execute(_DONE).fetchone() or (0,))[0])


def _sheet(samples: list[Sample], last: Sample) -> Sheet:
    """Return a row for each part of the events, one where the transaction opens and closes, and the end."""
    rows = []
    before, part = samples[0], 0
    for sample, following in zip(samples[1:], [*samples[2:], None], strict=True):
        changes = following is not None and following.open != sample.open
        if not changes and following is not None and sample.done < (part + 1) * EVENTS / PART:
            continue
        rows.append(_row(before, sample))
        before, part = sample, int(sample.done * PART / EVENTS)
    done = f"{last.done:,}, {SETTLE_SECONDS:.0f} s later"
    rows.append((done, "", "", f"{last.dead:,}", _megabytes(last.ledger_bytes), _megabytes(last.all_bytes)))
    columns = ("events", "transaction", "a second", "dead rows", "ledger with indexes: MB", "all tables: MB")
    return Sheet(f"{last.done:,} events, a transaction open for {OPEN_SECONDS:.0f} s", columns, rows, labels=2)


def _row(before: Sample, sample: Sample) -> tuple[str, ...]:
    rate = (sample.done - before.done) / (sample.at - before.at)
    return (
        f"{sample.done:,}",
        "open" if sample.open else "",
        f"{rate:,.0f}",
        f"{sample.dead:,}",
        _megabytes(sample.ledger_bytes),
        _megabytes(sample.all_bytes),
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f}"
