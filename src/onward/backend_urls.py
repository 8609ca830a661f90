"""Backends, chosen here and nowhere else, from a URL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from onward.blobs import Blobs
from onward.ledger.store_errors import StoreError
from onward.model.clock import Clock
from onward.retry import OnwardError, redact
from onward.s3_place import SCHEME as S3
from onward.s3_place import parse_s3_url
from onward.settings import MissingExtra, Settings, variable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from onward.gateway import Gateway
    from onward.ledger.store import Store
    from onward.models.protocol import Embedder, Summarizer
    from onward.runtime.error_reporter import ErrorReporter
    from onward.runtime.publisher import ForeignMessage


def open_store(url: str, clock: Clock | None = None, *, replica: str | None = None) -> Store:
    """Open the store that a URL names: `sqlite:///path/to/file.db`, `sqlite://:memory:` or `postgresql://host/name`.

    A store on PostgreSQL can have a hot standby for reads, see `ledger/replica_reads.py`.
    """
    if (path := _sqlite_path(url)) is not None:
        from onward.ledger.sqlite import SQLiteStore

        if replica:
            raise StoreError(
                "ONWARD_STORE_REPLICA is set, but ONWARD_STORE is a file; unset it, or use a store on PostgreSQL"
            )
        return SQLiteStore(path, clock)
    scheme = url.partition("://")[0]
    if scheme in ("postgresql", "postgres"):
        try:
            from onward.ledger.postgres import PostgresStore
        except ModuleNotFoundError as error:
            raise MissingExtra("a store on PostgreSQL", error.name or "", "postgres") from error
        return PostgresStore(url, clock, replica=replica)
    raise StoreError(
        f"no backend for a store URL that starts with {scheme!r}; use sqlite:///path/to/file.db "
        "(sqlite:////absolute/path.db for an absolute path), sqlite://:memory: or postgresql://user@host/name"
    )


def check_store_file(url: str) -> None:
    """Refuse a store in a file that is not there: a process that joins others must not begin a new one."""
    path = _sqlite_path(url)
    if path is not None and path != ":memory:" and not Path(path).exists():
        raise StoreError(f"{path} was deleted while workers had it open: nothing that they did is kept there")


def _sqlite_path(url: str) -> str | None:
    """Return the file of an embedded store, or None if the URL names another kind of store."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    return rest.removeprefix("/") or ":memory:" if scheme == "sqlite" else None


def open_gateway(
    url: str,
    store: Store,
    enter: Callable[[Sequence[ForeignMessage]], object],
    routing_keys: Sequence[str],
    *,
    name: str = "",
) -> Gateway:
    """Return a gateway to the broker that a URL names: `amqp://user:password@host:5672/` or `amqps://…`.

    `enter` stores messages of other programs; `store` has the outbox.
    """
    scheme = url.partition("://")[0]
    if scheme in ("amqp", "amqps"):
        try:
            from onward.gateway import Gateway
        except ModuleNotFoundError as error:
            raise MissingExtra("a gateway to RabbitMQ", error.name or "", "rabbitmq") from error
        return Gateway(url, store, enter, routing_keys, name=name)
    raise StoreError(
        f"no backend for a gateway URL that starts with {scheme!r}; use amqp://user@host:5672/ or amqps://…"
    )


def open_blobs(place: str | None, home: Path, store: str = "") -> Blobs:
    """Open what keeps the blobs: a folder, or a PostgreSQL database or a bucket by its URL.

    If none is named, it is the database of a store on PostgreSQL, which a fleet shares, or a folder below `home`.
    """
    url = place or store
    if url.startswith(("postgresql://", "postgres://")):
        try:
            from onward.blobs.postgres import PostgresBlobs
        except ModuleNotFoundError as error:
            raise MissingExtra("a PostgreSQL database for blobs", error.name or "", "postgres") from error
        return PostgresBlobs(url, home / "scratch")
    if url.startswith(S3):
        return _open_s3_blobs(url, home)
    if place and re.match(r"[a-z][a-z0-9+.-]+://", place):
        scheme = place.partition("://")[0]
        raise StoreError(
            f"no backend for blobs whose URL starts with {scheme!r}; let ONWARD_BLOBS name a folder, a database "
            "as in postgresql://user@host/name, or a bucket as in s3://bucket/prefix"
        )
    from onward.blobs.folder import FolderBlobs

    return FolderBlobs(Path(place).expanduser() if place else home / "blobs")


def _open_s3_blobs(url: str, home: Path) -> Blobs:
    try:
        place = parse_s3_url(url)
    except ValueError as error:
        raise StoreError(
            f"ONWARD_BLOBS={redact(url)!r} cannot be read: {error}. Write it as in "
            "s3://bucket/prefix?endpoint=https://host:9000&region=eu-central-1, without credentials"
        ) from None
    try:
        from onward.blobs.s3 import S3Blobs
    except ModuleNotFoundError as error:
        raise MissingExtra("an object store for blobs", error.name or "", "s3") from error
    return S3Blobs(place, home / "scratch")


class ModelUnknown(OnwardError):
    """A setting names no known model."""


def open_embedder(settings: Settings, role: str = "embedder") -> Embedder:
    """Open the embedder that a setting names: the built-in `static` one, a local model, or a server by its URL."""
    where: str = getattr(settings, role)
    if where == "static":
        from onward.models.static_embedder import StaticEmbedder

        return StaticEmbedder()
    if where.startswith("local:"):
        try:
            from onward.models.local_models import open_local_embedder
        except ImportError as error:
            raise MissingExtra("a local model", error.name or str(error), "local-models") from error
        return open_local_embedder(settings, where, role)
    model, key = getattr(settings, f"{role}_model"), getattr(settings, f"{role}_key")
    others = "'local:' with the folder or the name of a model, "
    _check_model_server(role, where, model, f"'static', {others}", "nomic-embed-text")
    try:
        from onward.models.http_models import HTTPEmbedder
    except ImportError as error:
        raise MissingExtra("the embedder", error.name or str(error), "pipeline") from error
    return HTTPEmbedder(
        where,
        model,
        key=key.get_secret_value() if key else None,
        batch=settings.embedder_batch,
        max_tokens=settings.embedder_max_tokens,
        concurrency=settings.concurrency,
        read_timeout=settings.embedder_timeout_seconds,
        dependency=role,
    )


def open_summarizer(settings: Settings) -> Summarizer:
    """Open the summarizer that the settings name: the built-in `extractive` one, or a server by its URL."""
    if settings.summarizer == "extractive":
        from onward.models.extractive_summarizer import ExtractiveSummarizer

        return ExtractiveSummarizer()
    _check_model_server("summarizer", settings.summarizer, settings.summarizer_model, "'extractive', ", "llama3")
    try:
        from onward.models.http_summarizer import HTTPSummarizer
    except ImportError as error:
        raise MissingExtra("the summarizer", error.name or str(error), "pipeline") from error
    return HTTPSummarizer(
        settings.summarizer,
        settings.summarizer_model,
        key=settings.summarizer_key.get_secret_value() if settings.summarizer_key else None,
        concurrency=settings.concurrency,
        read_timeout=settings.summarizer_timeout_seconds,
    )


def _check_model_server(role: str, where: str, model: str, others: str, example: str) -> None:
    setting = variable(role)
    if not where.startswith(("http://", "https://")):
        raise ModelUnknown(
            f"{setting}={redact(where)!r} names no {role.partition('_')[0]}; use {others}or the address of a "
            "server that speaks the OpenAI protocol, such as http://localhost:11434/v1"
        )
    if not model:
        raise ModelUnknown(
            f"{setting} is the server {redact(where)}, but no model is set: "
            f"set {setting}_MODEL, for example to {example!r}"
        )


def open_reporter(settings: Settings, store: Callable[[], Store], version: str) -> ErrorReporter:
    """Open what reports errors: to the store, also to another Onward or to Sentry, or nowhere."""
    from onward.runtime.error_reporter import ErrorReporter, SentryClient, http_posts, store_counts

    kind = settings.error_reporter_type
    if kind == "http":
        token = settings.token.get_secret_value() if settings.token else ""
        return ErrorReporter(store_counts(store), http_posts(settings.error_reporter_url or "", token))
    if kind == "sentry":
        dsn = settings.sentry_dsn.get_secret_value() if settings.sentry_dsn else ""
        return ErrorReporter(store_counts(store), SentryClient(dsn, version))
    return ErrorReporter(store_counts(store) if kind == "store" else None)
