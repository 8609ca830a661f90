"""Stores for the bench of growth: filled as the console's store is, and multiplied by copying rows.

Up to `MOST_FILLED` documents are written as workers write them. A larger store has copies of those that are
processed, with ids, parents, keys and dates of their own. What fails or waits is not copied: all stores have the
same work. The search index is not copied either; `python -m bench scale` measures search in large stores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from bench.console_store import fill
from onward import App
from onward.ledger.postgres.dialect import ID_BLOCK
from onward.ledger.postgres.store_url import SCHEMA

FILLED_AT_ONCE = 100_432  # documents of a store with scale 1
MOST_FILLED = 100_000
FAILURES = 0.1  # of those of the console's store, in a store of any size
_COPIED = "('messages', 'chunks', 'threads', 'summaries')"
# `{copy}` is the number of a copy, `{step}` the distance between the rows of two copies.
_COPY = (
    """INSERT INTO documents (doc, collection, id, status, attempt_count, last_attempt_time, created_at,
                              updated_at, attempts, priority, revision, round, source, parent, size, check_at)
       SELECT doc + {copy} * {step}, collection, id || '-{copy}', status, attempt_count, last_attempt_time,
              created_at, updated_at - {copy} * 60, attempts, priority, revision, round, source,
              parent || '-{copy}', size, check_at
       FROM documents WHERE doc < {step} AND status = 'processed' AND collection IN """
    + _COPIED,
    """INSERT INTO bodies (doc, body)
       SELECT b.doc + {copy} * {step}, replace(b.body, d.id, d.id || '-{copy}')
       FROM bodies b JOIN documents d ON d.doc = b.doc
       WHERE d.doc < {step} AND d.status = 'processed' AND d.collection IN """
    + _COPIED,
    """INSERT INTO keys (doc, name, value)
       SELECT k.doc + {copy} * {step}, k.name,
              CASE k.name WHEN 'thread_id' THEN {own_id} WHEN 'date' THEN {own_date} ELSE k.value END
       FROM keys k JOIN documents d ON d.doc = k.doc
       WHERE d.doc < {step} AND d.status = 'processed' AND d.collection IN """
    + _COPIED,
)
_COUNT = "UPDATE status_counts SET n = n * {times} WHERE status = 'processed' AND collection IN " + _COPIED
_SQLITE_VALUES = {"own_id": "k.value || '-{copy}'", "own_date": "k.value - {copy} * 100000"}
_POSTGRES_VALUES = {
    "own_id": "to_jsonb((k.value #>> '{{}}') || '-{copy}')",
    "own_date": "to_jsonb((k.value #>> '{{}}')::float8 - {copy} * 100000)",
}


def fill_to(app: App, documents: int, url: str = "") -> int:
    """Fill an empty store with about this many documents; return their number. `url` is that of PostgreSQL."""
    filled = min(documents, MOST_FILLED)
    fill(app, scale=filled / FILLED_AT_ONCE, failures=FAILURES)
    times = max(1, round(documents / filled))
    if times > 1:
        if url:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"SET search_path TO {SCHEMA}".encode())
                _multiply(lambda text: connection.execute(text.encode()), times, _POSTGRES_VALUES)
                # The next documents get rows behind the copies.
                last = f"(SELECT max(doc) / {ID_BLOCK} + 1 FROM documents)"
                connection.execute(f"SELECT setval('documents_blocks', {last})".encode())
        else:
            with app.store.db.transaction():
                _multiply(app.store.db._writer.execute, times, _SQLITE_VALUES)  # type: ignore[attr-defined]
    return sum(sum(counts.values()) for counts in app.store.document_counts().values())


def _multiply(execute: Callable[[str], Any], times: int, values: dict[str, str]) -> None:
    ((highest,),) = execute("SELECT max(doc) FROM documents").fetchall()
    for copy in range(1, times):
        for text in _COPY:
            execute(_filled_in(text, copy, highest + 1, values))
    execute(_COUNT.replace("{times}", str(times)))


def _filled_in(text: str, copy: int, step: int, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text.replace("{{}}", "{}").replace("{copy}", str(copy)).replace("{step}", str(step))
