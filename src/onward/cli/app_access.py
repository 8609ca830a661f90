"""Opens the app and its store for a command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import click

from onward.ledger.replica_reads import reading_from_replica
from onward.ops.lookup import check_store
from onward.settings import load_settings

if TYPE_CHECKING:
    from onward import App


def open_store_app() -> closing[App]:
    """Open an app without services, which starts quickly, for a command that only reads.

    A store that does not exist is not created: a command in the wrong folder must leave nothing behind.
    """
    settings = load_settings()
    check_store(settings.store)
    # For numpy: it starts a thread for each core when it is imported, and a query is too small to use them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from onward import App

    return closing(App(settings=settings))


@contextmanager
def open_reading_app() -> Iterator[App]:
    """Open an app without services, which reads from the replica if there is one; say if that is behind."""
    with open_store_app() as app:
        if app.settings.store_replica is None:
            yield app
            return
        with reading_from_replica(app.store) as reads:
            yield app
        if reads.note:
            click.echo(reads.note, err=True)


def open_pipeline() -> closing[App]:
    """Open the pipeline with all its services, for a command that submits or runs something."""
    from onward.pipeline.app import build

    return closing(build(load_settings()))
