"""A small store for commands to work on: pages that failed, wait, or are set aside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onward.backend_urls import open_store
from onward.model.failures import Failure
from onward.model.ledger import DeadLettered, InFailedBatch, Processed, Subscription
from onward.settings import load_settings
from tests.support.store_pages import Clock, Stage

SOURCE = "/lists/harbour.mbox"
DRAWING = Subscription("drawing", "Drawn", needs=("printer",), failed_queue="drawing.failed")


@contextmanager
def stage(home: Path, more: dict[str, str] | None = None, *, subscribe: bool = True) -> Iterator[Stage]:
    """The store of a data folder, with a service that reads pages and one that needs a printer."""
    store = open_store(load_settings({"ONWARD_HOME": str(home), **(more or {})}).store)
    try:
        found = Stage(store, Clock(store.now()), subscribe=subscribe)
        if subscribe:
            store.subscribe([DRAWING])
        yield found
    finally:
        store.close()


def failure(message: str, fingerprint: str) -> Failure:
    return Failure(at=1_700_000_000.0, error_type="ValueError", message=message, fingerprint=fingerprint)


def fail(on: Stage, *ids: str, fingerprint: str = "f00d1234", message: str = "it broke") -> None:
    """Pages that fail for good, each with its dead letter."""
    for id in ids:
        on.bring(id, text=f"text of {id}", source=SOURCE)
        on.settle(on.take(), DeadLettered([id], failure=failure(message, fingerprint), final=True))


def finish(on: Stage, *ids: str) -> None:
    on.bring(*ids, source=SOURCE)
    on.settle(on.take(), Processed(list(ids)))


def set_aside(on: Stage, *ids: str, source: str = SOURCE, message: str = "too long") -> None:
    on.bring(*ids, source=source)
    on.settle(on.take(), InFailedBatch(list(ids), failure(message, "beef5678"), after=3600.0))
