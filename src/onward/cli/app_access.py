"""Opens the app and its store for a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from onward.ops.lookup import check_store
from onward.settings import load_settings

if TYPE_CHECKING:
    from onward import App


@contextmanager
def open_store_app() -> Iterator[App]:
    """Open an app without services, which starts quickly, for a command that only reads.

    A store that does not exist is not created: a command in the wrong folder must leave nothing behind.
    """
    settings = load_settings()
    check_store(settings.store)
    from onward import App

    app = App(settings=settings)
    try:
        yield app
    finally:
        app.close()


@contextmanager
def open_pipeline() -> Iterator[App]:
    """Open the pipeline with all its services, for a command that submits or runs something."""
    from onward.pipeline.app import build

    app = build(load_settings())
    try:
        yield app
    finally:
        app.close()


def check_models(app: App) -> None:
    """Open the models now, so that a wrong setting is reported at the start and not by a worker."""
    _ = app.embedder, app.summarizer
