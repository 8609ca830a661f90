"""Opening the pipeline's store for a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from onward.facts.finding import check_store
from onward.settings import load_settings

if TYPE_CHECKING:
    from onward import App

PIPELINE = "onward.pipeline.app:app"
app_option = click.option(
    "--app",
    "reference",
    default=PIPELINE,
    metavar="MODULE:APP",
    help="The app, such as shop.orders:app; Onward's own pipeline by default.",
)


@contextmanager
def reading() -> Iterator[App]:
    """The app for a command that only reads; it knows no services, so that it starts quickly.

    A store that does not exist is not made: whoever looks in the wrong folder should not leave one behind.
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
def pipeline() -> Iterator[App]:
    """The app with all its services, for a command that submits or runs something."""
    from onward.pipeline.app import build

    app = build(load_settings())
    try:
        yield app
    finally:
        app.close()


def check_models(app: App) -> None:
    """Refuse a setting that names no model now, not in a worker an hour later."""
    _ = app.embedder, app.summarizer
