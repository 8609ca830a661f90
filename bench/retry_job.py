"""The retry job: the same work in a store ten times as large takes the same time."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench.table import Row, medians
from onward import App, Document, Event, Settings, Work, names
from onward.ledger.sqlite import SQLiteStore
from onward.recovery.retry_decision import RetryJobRules
from onward.recovery.retry_job import RetryJob
from onward.testing import SimulatedClock

DUE = 10_000
SMALL, LARGE = 100_000, 1_000_000
REPEATS = 5
_BACKLOG = """
WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)
INSERT INTO documents (collection, id, status, attempt_count, last_attempt_time, created_at, updated_at, round,
                       attempts, size)
SELECT 'pages', printf('%032x', n * 2654435761 % 4294967296 * 1000003 + n), 'processed', 1, ?1, ?1, ?1, 1,
       '{"total": 1, "first": {"at": 1, "outcome": "processed", "worker": "w", "round": 1}, "last": []}', 100
FROM n
"""


class Page(Document):
    """Something to be put back."""


class PagesFound(Event):
    """Pages to be read."""

    page_ids: list[str] = names(Page)


def _app() -> App:
    app = App(settings=Settings())

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        """Never called: only what is put back counts."""

    return app


class _Store:
    """A store with documents, some of which become due again and again."""

    def __init__(self, folder: Path, documents: int) -> None:
        app, self.clock = _app(), SimulatedClock()
        self.store = SQLiteStore(folder / f"{documents}.db", self.clock)
        subscriptions = app.registry.subscriptions()
        self.store.subscribe(subscriptions)
        rules = RetryJobRules.of(app.settings, subscriptions)
        self.job = RetryJob(self.store, app.registry, rules, holder="bench")
        connection = self.store.db._writer
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(_BACKLOG, (documents - DUE,))
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("ANALYZE")
        self.round = 0

    def put_back(self) -> float:
        """Let documents fall due, and measure how long the retry job takes to put them back."""
        self.round += 1
        connection = self.store.db._writer
        connection.execute("DELETE FROM ledger")
        connection.execute("DELETE FROM documents WHERE status = 'pending'")
        connection.execute("DELETE FROM bodies")
        pages = [Page(id=f"{self.round}-{number:06}") for number in range(DUE)]
        app = App(store=self.store, settings=Settings())
        app.add(*pages)
        self.clock.advance(3600.0)
        began = time.perf_counter()
        run = self.job.run(full=True)
        took = time.perf_counter() - began
        if run.requeued != {"pages": DUE}:
            raise RuntimeError(f"put back were {run.requeued}, not {DUE}")
        return DUE / took


def run() -> list[Row]:
    """Measure both stores in turn."""
    with tempfile.TemporaryDirectory(prefix="onward-bench-") as folder:
        stores = {count: _Store(Path(folder), count) for count in (SMALL, LARGE)}
        rates = medians({str(count): backlog.put_back for count, backlog in stores.items()}, REPEATS)
        for backlog in stores.values():
            backlog.store.close()
    measure = f"retry job, {DUE:,} due"
    return [
        Row(f"among {LARGE:,}", True, rates[str(LARGE)], "documents requeued per second", measure),
        Row(f"among {SMALL:,}", False, rates[str(SMALL)], "the same work in a tenth of the store", measure),
    ]
