"""Backends, chosen here and nowhere else, from a URL."""

from __future__ import annotations

from onward.ports import Clock, Store, StoreError


def open_store(url: str, clock: Clock | None = None) -> Store:
    """Open the store that a URL names: `sqlite:///path/to/file.db`, or `sqlite://:memory:`."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "sqlite", f"/{url}" if url != ":memory:" else url
    if scheme == "sqlite":
        from onward.backends.sqlite import SQLiteStore

        return SQLiteStore(rest.removeprefix("/") or ":memory:", clock)
    raise StoreError(
        f"no backend for a store URL that starts with {scheme!r}; use sqlite:///path/to/file.db "
        "(sqlite:////absolute/path.db for an absolute path) or sqlite://:memory:"
    )
