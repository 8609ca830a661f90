"""Backends, chosen here and nowhere else, from a URL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from onward.ports import Blobs, Clock, Store, StoreError
from onward.settings import Settings

if TYPE_CHECKING:
    from onward.ports.models import Embedder, Summarizer


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


def open_blobs(folder: str | None, home: Path) -> Blobs:
    """Open the folder for blobs: the one that is named, or one below the data folder."""
    from onward.backends.blobs import FolderBlobs

    return FolderBlobs(Path(folder).expanduser() if folder else home / "blobs")


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
