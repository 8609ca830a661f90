"""What is watched on the server while a cell runs: dead rows of its tables, and the statements that cost most."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psycopg

from tests.support.servers import PostgresServer
from tests.support.servers.postgres import find_binaries

SAMPLE_SECONDS = 1.0

# As the public server is set. That one naps for 60 s between two rounds of autovacuum; the phases here are up to
# ten times shorter, and most would end before the first.
OPTIONS = {
    "max_connections": "400",
    "shared_buffers": "256MB",
    "work_mem": "8MB",
    "maintenance_work_mem": "128MB",
    "synchronous_commit": "on",
    "autovacuum_naptime": "15s",
}

_TABLES = b"""
SELECT schemaname || '.' || relname, n_live_tup, n_dead_tup FROM pg_stat_user_tables WHERE n_tup_ins > 0
"""
_STATEMENTS = b"""
SELECT calls, total_exec_time, rows, shared_blks_hit + shared_blks_read, query FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
ORDER BY total_exec_time DESC LIMIT 12
"""


@dataclass(frozen=True, slots=True)
class Statement:
    """What one statement cost the server."""

    calls: int
    milliseconds: float
    rows: int
    pages: int
    text: str


@dataclass(frozen=True, slots=True)
class Sample:
    """Live and dead rows by table, at a moment."""

    at: float
    tables: Mapping[str, tuple[int, int]]

    @property
    def dead(self) -> int:
        return sum(dead for _, dead in self.tables.values())


@dataclass
class Watch:
    """What was seen of a database."""

    url: str
    samples: list[Sample] = field(default_factory=list)
    statements: dict[str, list[Statement]] = field(default_factory=dict)

    def count_statements(self, phase: str) -> None:
        """Keep what the statements cost since the last call, by the name of a phase."""
        with suppress(psycopg.Error), psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            found = connection.execute(_STATEMENTS).fetchall()
            self.statements[phase] = [
                Statement(calls, spent, rows, pages, " ".join(text.split()))
                for calls, spent, rows, pages, text in found
            ]
            connection.execute("SELECT pg_stat_statements_reset()")


def private_server() -> PostgresServer:
    """Return a server that syncs every commit to the disk, and counts statements where it can."""
    return PostgresServer(options=OPTIONS | ({"shared_preload_libraries": _COUNTS} if _can_count() else {}))


@contextmanager
def watched(url: str) -> Iterator[Watch]:
    """Sample a database at intervals; while the server is away, there are no samples."""
    watch, ended = Watch(url), threading.Event()

    def sample() -> None:
        connection: psycopg.Connection | None = None
        while not ended.wait(SAMPLE_SECONDS):
            try:
                connection = connection or psycopg.connect(url, autocommit=True)
                tables = {name: (live, dead) for name, live, dead in connection.execute(_TABLES)}
                watch.samples.append(Sample(time.monotonic(), tables))
            except psycopg.Error:
                if connection is not None:
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        ended.set()
        thread.join()


_COUNTS = "pg_stat_statements"


def _can_count() -> bool:
    binaries = find_binaries()
    return binaries is not None and any(binaries.parent.glob(f"lib/**/{_COUNTS}.so"))
