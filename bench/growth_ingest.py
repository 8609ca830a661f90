"""The rate of an ingest as the store grows, and where the bytes of a store are.

An archive is ingested again and again into one store, each time with Message-IDs of its own. A rate is that of the
copy in which the wanted message is: a whole `onward ingest` command. Processor time is what to compare where other
programs use the machine, too; with that of the database's server.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click
import psycopg

from bench.console import processor_seconds
from bench.pipeline import SAMPLE
from bench.table import Sheet

MESSAGES = [int(count) for count in os.environ.get("BENCH_GROWTH_MESSAGES", "5000 50000").split()]
SIZED = 14  # tables and indexes that are listed; the others are summed up
RATE_COLUMNS = ("database", "messages in the store", "a second", "processor ms a message", "against the first")


@dataclass(frozen=True, slots=True)
class IngestStore:
    """A store that an archive is ingested into."""

    name: str
    settings: Mapping[str, str]
    server: int  # the process of its server, or 0
    sizes: Callable[[], dict[str, int]]  # bytes by table or index


@dataclass(slots=True)
class Measured:
    """What was ingested into a store, and how fast."""

    messages: int = 0
    raw: int = 0  # bytes of the archive
    rates: list[tuple[int, float, float]] | None = None  # messages before, a second, processor seconds of each


def measure_ingest(stores: list[IngestStore], archive: Path | None, scratch: Path) -> list[Sheet]:
    """Ingest into each store; return the rates, and the sizes."""
    if not MESSAGES:
        return []
    copies = _Copies(archive or SAMPLE, scratch)
    done = {store.name: _ingest(store, copies) for store in stores}
    rates = []
    for name, measured in done.items():
        first = (measured.rates or [])[0][2]
        for before, rate, used in measured.rates or []:
            rates.append((name, f"{before:,}", f"{rate:,.0f}", f"{used * 1e3:.1f}", f"{used / first:.2f} ×"))
    sheets = [Sheet("An ingest as the store grows", RATE_COLUMNS, rates, labels=1)]
    return [*sheets, _size_sheet(stores, done)]


class _Copies:
    """Copies of an archive, numbered through."""

    def __init__(self, archive: Path, scratch: Path) -> None:
        self._whole = gzip.decompress(archive.read_bytes()) if archive.suffix == ".gz" else archive.read_bytes()
        self._scratch = scratch
        self.messages = len(re.findall(rb"^From ", self._whole, re.MULTILINE))

    def write(self, first: int, count: int) -> Path:
        path = self._scratch / f"copies-{first}.mbox"
        with path.open("wb") as file:
            for copy in range(first, first + count):
                file.write(re.sub(rb"<(?=[^<>@\s]+@)", b"<%d." % copy, self._whole))
        return path


def _ingest(store: IngestStore, copies: _Copies) -> Measured:
    measured = Measured(rates=[])
    number = 0
    for wanted in MESSAGES:
        target = max(number, wanted // copies.messages)  # the copy that has this message
        if target > number:
            ingest_into(store, copies.write(number, target - number), measured)
            number = target
        before = measured.messages
        seconds, used = ingest_into(store, copies.write(number, 1), measured)
        number += 1
        count = measured.messages - before
        assert measured.rates is not None
        measured.rates.append((before, count / seconds, used / count))
        click.echo(
            f"  {store.name}: {count / seconds:,.0f} messages a second, {used / count * 1e3:.1f} ms of processor "
            f"time each, after {before:,}",
            err=True,
        )
    return measured


def ingest_into(store: IngestStore, archive: Path, measured: Measured) -> tuple[float, float]:
    """Run `onward ingest`; return the seconds that passed, and processor seconds with those of the server."""

    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        server = processor_seconds(store.server, family=True) if store.server else 0.0
        return children.ru_utime + children.ru_stime + server

    before, began = used(), time.perf_counter()
    command = [sys.executable, "-m", "onward", "ingest", str(archive), "--json"]
    done = subprocess.run(
        command, env={**os.environ, **store.settings}, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 3):
        raise RuntimeError(f"onward ingest {archive} ended with {done.returncode}: {done.stderr[-2000:]}")
    result = time.perf_counter() - began, used() - before
    (source,) = json.loads(done.stdout)["sources"]
    measured.messages += int(source["messages"]["messages"])
    measured.raw += archive.stat().st_size
    archive.unlink()
    return result


# -- sizes


def sqlite_sizes(home: Path) -> dict[str, int]:
    """Return the bytes of each table and index of a store, of its blobs and of free pages."""
    path = home / "onward.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        sizes = dict(database.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").fetchall())
    sizes["free pages"] = path.stat().st_size - sum(sizes.values())
    others = sum(file.stat().st_size for file in home.rglob("*") if file.is_file() and file.suffix != ".db")
    return {_shown(name): size for name, size in sizes.items()} | {"blobs (a folder)": others}


def postgres_sizes(url: str, home: Path) -> dict[str, int]:
    """Return the bytes of each table, with what is stored out of line, and each index, and of the blobs."""
    query = """SELECT c.relname, pg_relation_size(c.oid)
                      + coalesce(pg_total_relation_size(nullif(c.reltoastrelid, 0)), 0)
               FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = 'onward' AND c.relkind IN ('r', 'i', 'S')"""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")
        sizes: dict[str, int] = dict(connection.execute(query).fetchall())
    others = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
    return {_shown(name): int(size) for name, size in sizes.items()} | {"blobs (a folder)": others}


_NAMES = {
    "sqlite_autoindex_documents_1": "documents: index by id",
    "documents_collection_id_key": "documents: index by id",
    "sqlite_autoindex_vectors_1": "vectors: index by document",
    "vectors_pkey": "vectors: index by document",
}


def _shown(name: str) -> str:
    return _NAMES.get(name, name)


def _size_sheet(stores: list[IngestStore], done: Mapping[str, Measured]) -> Sheet:
    sizes = {store.name: store.sizes() for store in stores}
    raw = {store.name: done[store.name].raw / done[store.name].messages for store in stores}
    each = {
        name: {what: size / done[name].messages for what, size in found.items()} for name, found in sizes.items()
    }
    largest = sorted({what for found in each.values() for what in found}, key=lambda what: -_most(each, what))

    def cells(what: str, values: Iterator[tuple[float, float]]) -> tuple[str, ...]:
        return (what, *(text for size, of in values for text in (f"{size:,.0f}", f"{size / of:.2f}")))

    rows = [cells("raw archive", ((raw[store.name], raw[store.name]) for store in stores))]
    rows += [
        cells(what, ((each[store.name].get(what, 0.0), raw[store.name]) for store in stores))
        for what in largest[:SIZED]
    ]
    left = largest[SIZED:]
    rows.append(
        cells(
            f"{len(left)} others",
            ((sum(each[one.name].get(what, 0.0) for what in left), raw[one.name]) for one in stores),
        )
    )
    rows.append(cells("all", ((sum(each[store.name].values()), raw[store.name]) for store in stores)))
    counts = " and ".join(f"{measured.messages:,}" for measured in done.values())
    columns = ("bytes a message", *(text for store in stores for text in (store.name, "× raw")))
    return Sheet(f"Where the bytes of a store are, with {counts} messages", columns, rows, labels=1)


def _most(each: Mapping[str, Mapping[str, float]], what: str) -> float:
    return max(found.get(what, 0.0) for found in each.values())
