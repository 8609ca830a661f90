"""The cost of a search as the store grows, and how many of the nearest vectors it finds.

A store on SQLite and one on a private PostgreSQL get the same made-up mails (see `scale_store.py`) from the
paragraphs of an archive (`--archive ARCHIVE`; the shipped sample by default), and are measured at each size. A
command is `onward search`, as a process of its own. A warm search is one of a process that has searched before,
such as the console. Processor time is what to compare: other programs make the time that passes longer.

`BENCH_SCALE_CHUNKS` has the sizes, in chunks; a million needs 8 GB of disk and an hour.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import click
import numpy as np
import psycopg

from bench.console import processor_seconds
from bench.pipeline import SAMPLE, ingest
from bench.quality import messages_of
from bench.scale_store import MailMaker, Paragraphs, StoreFiller
from bench.table import Sheet
from onward import App
from onward.pipeline.app import build
from onward.pipeline.documents import Chunk, Message
from onward.pipeline.search import Query, search
from onward.settings import load_settings
from tests.support.servers import PostgresServer

CHUNKS = [int(size) for size in os.environ.get("BENCH_SCALE_CHUNKS", "10000 100000 400000 1000000").split()]
COMMANDS = 9
WARM_UP, WARM_SEARCHES = 20, 200
RECALL_QUERIES, RECALL_DEPTH = 100, 10
SERVER_OPTIONS = {"shared_buffers": "256MB"}
_MEASURE = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(code)
"""
COLUMNS = (
    "chunks",
    "mails",
    "database",
    "command: processor ms",
    "server: processor ms",
    "command: MB",
    "first search: ms",
    "warm: p50 ms",
    "warm: p95 ms",
    "warm: processor p95 ms",
    f"recall@{RECALL_DEPTH}",
    "store: MB",
)


@dataclass(frozen=True, slots=True)
class Measured:
    """A store that is measured."""

    name: str
    settings: dict[str, str]
    size: Callable[[], int]  # in bytes
    server: int = 0  # the process of its server


def run(archive: Path | None = None) -> list[Sheet]:
    """Fill both stores step by step, and measure at each size."""
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory(prefix="onward-bench-") as folder, ExitStack() as stack:
        scratch = Path(folder)
        server = stack.enter_context(PostgresServer(fsync=False, options=SERVER_OPTIONS))
        stores = [
            Measured("SQLite", {"ONWARD_HOME": str(scratch / "sqlite")}, lambda: _bytes_below(scratch / "sqlite")),
            Measured(
                "PostgreSQL",
                {"ONWARD_HOME": str(scratch / "postgres"), "ONWARD_STORE": server.url()},
                lambda: _database_size(server.url()),
                server.pid,
            ),
        ]
        ingest(archive or SAMPLE, scratch / "real")
        with closing(_open({"ONWARD_HOME": str(scratch / "real")})) as app:
            paragraphs = Paragraphs(app, messages_of(app))
        apps = [stack.enter_context(closing(_open(one.settings))) for one in stores]
        vectors = scratch / "vectors"
        filler = StoreFiller(apps, MailMaker(paragraphs), vectors)
        for chunks in CHUNKS:
            began = time.perf_counter()
            filler.fill(chunks)
            server.execute("ANALYZE", "app")
            click.echo(f"  {chunks:,} chunks after {time.perf_counter() - began:,.0f} s …", err=True)
            nearest = _Nearest(vectors, filler.chunks)
            sizes = (f"{len(filler.chunks):,}", f"{filler.mails:,}")
            rows += [(*sizes, *_measure(one, paragraphs.questions(), nearest)) for one in stores]
    return [Sheet("Search as the store grows", COLUMNS, rows, labels=3)]


def _measure(store: Measured, questions: Iterator[str], nearest: _Nearest) -> tuple[str, ...]:
    commands = [_command(store, next(questions)) for _ in range(COMMANDS)]
    seconds, at_server, memory = (statistics.median(values) for values in zip(*commands, strict=True))
    with closing(_open(store.settings)) as app:
        first, _ = _search(app, next(questions))
        for _ in range(WARM_UP):
            _search(app, next(questions))
        passed, used = zip(*(_search(app, next(questions)) for _ in range(WARM_SEARCHES)), strict=True)
        recall = nearest.recall(app, list(islice(questions, RECALL_QUERIES)))
    return (
        store.name,
        f"{seconds * 1e3:,.0f}",
        f"{at_server * 1e3:,.0f}" if store.server else "",
        f"{memory / 1e6:,.0f}",
        f"{first * 1e3:,.0f}",
        f"{_percentile(passed, 50) * 1e3:,.0f}",
        f"{_percentile(passed, 95) * 1e3:,.0f}",
        f"{_percentile(used, 95) * 1e3:,.0f}",
        f"{recall:.3f}",
        f"{store.size() / 1e6:,.0f}",
    )


def _command(store: Measured, question: str) -> tuple[float, float, float]:
    """Run `onward search`; return its processor time, that of the database's server, and its memory in bytes."""
    before = processor_seconds(store.server, family=True) if store.server else 0.0
    # From a small process: the most memory of a process counts from its fork on, so also what this one has.
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, sys.executable, "-m", "onward", "search", "--json", "--", question],
        env={**os.environ, **store.settings},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"onward search {question!r} ended with {done.returncode}")
    seconds, kilobytes = map(float, done.stdout.split())
    after = processor_seconds(store.server, family=True) if store.server else 0.0
    return seconds, after - before, kilobytes * 1024.0


def _search(app: App, question: str) -> tuple[float, float]:
    """Search as the console does; return the time that passed, and the processor time of this process."""
    began, used = time.perf_counter(), time.process_time()
    search(app, Query(question), facets=True)
    return time.perf_counter() - began, time.process_time() - used


class _Nearest:
    """The nearest chunks by comparing all vectors."""

    def __init__(self, vectors: Path, ids: Sequence[str]) -> None:
        self._matrix = np.memmap(vectors, "<f4", "r").reshape(len(ids), -1)
        self._places = {id: place for place, id in enumerate(ids)}

    def recall(self, app: App, questions: Sequence[str]) -> float:
        """Return the mean share of the nearest chunks that the store finds."""
        queries = app.embedder.embed(questions, query=True).astype("<f4")
        found = 0.0
        for query in queries:
            best = np.sort(np.partition(self._matrix @ query, -RECALL_DEPTH)[-RECALL_DEPTH:])
            model = app.embedder.model
            hits = app.store.nearest(query.tobytes(), Chunk, model=model, parents=Message, limit=RECALL_DEPTH)
            scores = self._matrix[[self._places[hit.id] for hit in hits]] @ query
            # By similarity: of chunks that are equally near, any may be found.
            found += float((scores >= best[0] - 1e-6).sum()) / RECALL_DEPTH
        return found / len(queries)


def _open(settings: dict[str, str]) -> App:
    return build(load_settings(dict(settings), path=os.devnull))


def _database_size(url: str) -> int:
    with psycopg.connect(url) as connection:
        ((size,),) = connection.execute("SELECT pg_database_size(current_database())")
        return int(size)


def _percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1]


def _bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
