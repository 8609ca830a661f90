"""Backends, chosen here and nowhere else, from a URL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from onward.ports import Blobs, Clock, Store, StoreError, Wire
from onward.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.ports.models import Embedder, Summarizer
    from onward.ports.reporting import ErrorReporter


def open_store(url: str, clock: Clock | None = None) -> Store:
    """Open the store that a URL names: `sqlite:///path/to/file.db`, `sqlite://:memory:` or `postgresql://host/name`."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "sqlite", f"/{url}" if url != ":memory:" else url
    if scheme == "sqlite":
        from onward.backends.sqlite import SQLiteStore

        return SQLiteStore(rest.removeprefix("/") or ":memory:", clock)
    if scheme in ("postgresql", "postgres"):
        try:
            from onward.backends.postgres import PostgresStore
        except ModuleNotFoundError as error:
            raise StoreError(
                f"a store on PostgreSQL needs the package {error.name!r}: pip install 'onward[postgres]'"
            ) from error
        return PostgresStore(url, clock)
    raise StoreError(
        f"no backend for a store URL that starts with {scheme!r}; use sqlite:///path/to/file.db "
        "(sqlite:////absolute/path.db for an absolute path), sqlite://:memory: or postgresql://user@host/name"
    )


def open_wire(url: str, *, name: str = "") -> Wire:
    """Open the wire that a URL names: `amqp://user:password@host:5672/` or `amqps://…`."""
    scheme = url.partition("://")[0]
    if scheme in ("amqp", "amqps"):
        try:
            from onward.backends.rabbitmq import RabbitWire
        except ModuleNotFoundError as error:
            raise StoreError(
                f"a bus on RabbitMQ needs the package {error.name!r}: pip install 'onward[rabbitmq]'"
            ) from error
        return RabbitWire(url, name=name)
    raise StoreError(
        f"no backend for a bus URL that starts with {scheme!r}; use amqp://user@host:5672/ or amqps://…"
    )


def open_blobs(place: str | None, home: Path, store: str = "") -> Blobs:
    """Open what keeps the blobs: a folder, or a PostgreSQL database by its URL.

    If none is named, it is the database of a store on PostgreSQL, which a fleet shares, or a folder below `home`.
    """
    url = place or store
    if not url.startswith(("postgresql://", "postgres://")):
        if place and re.match(r"[a-z][a-z0-9+.-]+://", place):
            scheme = place.partition("://")[0]
            raise StoreError(
                f"no backend for blobs whose URL starts with {scheme!r}; let ONWARD_BLOBS name a folder, or a "
                "database as in postgresql://user@host/name"
            )
        from onward.backends.blobs import FolderBlobs

        return FolderBlobs(Path(place).expanduser() if place else home / "blobs")
    try:
        from onward.backends.postgres.blobs import PostgresBlobs
    except ModuleNotFoundError as error:
        raise StoreError(
            f"blobs in PostgreSQL need the package {error.name!r}: pip install 'onward[postgres]'"
        ) from error
    return PostgresBlobs(url, home / "scratch")


def open_embedder(settings: Settings) -> Embedder:
    """Open the embedder that the settings name: the built-in `static` one, or a server by its URL."""
    from onward.backends import models

    return models.open_embedder(
        settings.embedder,
        model=settings.embedder_model,
        key=settings.embedder_key.get_secret_value() if settings.embedder_key else None,
        batch=settings.embedder_batch,
        max_tokens=settings.embedder_max_tokens,
        concurrency=settings.concurrency,
        timeout=settings.embedder_timeout_seconds,
    )


def open_summarizer(settings: Settings) -> Summarizer:
    """Open the summarizer that the settings name: the built-in `extractive` one, or a server by its URL."""
    from onward.backends import models

    return models.open_summarizer(
        settings.summarizer,
        model=settings.summarizer_model,
        key=settings.summarizer_key.get_secret_value() if settings.summarizer_key else None,
        concurrency=settings.concurrency,
        timeout=settings.summarizer_timeout_seconds,
    )


def open_reporter(settings: Settings, store: Callable[[], Store]) -> ErrorReporter:
    """Open what errors are reported to: the store, also another Onward by its URL, or nothing."""
    from onward.backends.reporting import HTTPReporter, NoReporter, StoreReporter

    if settings.error_reporter_type == "noop":
        return NoReporter()
    counting = StoreReporter(store)
    if settings.error_reporter_type == "store":
        return counting
    token = settings.token.get_secret_value() if settings.token else None
    return HTTPReporter(settings.error_reporter_url or "", counting=counting, token=token)
