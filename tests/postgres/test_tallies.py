"""Changes of counts are appended, then added up; what cancels out does not stay."""

from __future__ import annotations

from typing import Any

from onward.ledger.store import SWEEP_SECONDS
from onward.model.ledger import Processed
from tests.postgres.stage import Opener
from tests.support.store_pages import Clock, Stage

SOURCES = 20


def stages(opened: Opener, url: str, clock: Clock) -> list[Stage]:
    """Stores that share a schema; each has connections of its own."""
    return [Stage(opened(url, clock), clock) for _ in range(4)]


def counted(stage: Stage) -> int:
    store: Any = stage.store
    with store.db.connections.use() as connection:
        return int(connection.execute(b"SELECT count(*) FROM all_status_counts").fetchone()[0])


def finish_sources(some: list[Stage]) -> None:
    """Each document is added over one connection, and finished over another."""
    for n in range(SOURCES):
        some[n % 4].bring(f"a {n}", f"b {n}", source=f"source {n}")
        delivery = some[(n + 1) % 4].take(worker=f"worker {n}")
        some[(n + 2) % 4].settle(delivery, Processed([f"a {n}", f"b {n}"]))


def test_what_was_forgotten_leaves_no_counts(opened: Opener, postgres_store_url: str) -> None:
    some = stages(opened, postgres_store_url, Clock())
    finish_sources(some)
    for n in range(SOURCES):
        some[(n + 3) % 4].store.forget(f"source {n}")
    assert counted(some[0]) == 0


def test_counts_that_cancel_out_are_merged_by_and_by(opened: Opener, postgres_store_url: str) -> None:
    clock = Clock()
    some = stages(opened, postgres_store_url, clock)
    finish_sources(some)
    assert counted(some[0]) > SOURCES, "those of `pending` add up to nothing"
    for _ in range(2):
        clock.advance(SWEEP_SECONDS)
        some[0].store.prune(keep_seconds=3600, keep_count=1000)
    assert counted(some[0]) == SOURCES
    assert some[1].store.document_counts() == {"pages": {"processed": 2 * SOURCES}}
    assert some[1].store.document_counts("source 7") == {"pages": {"processed": 2}}
