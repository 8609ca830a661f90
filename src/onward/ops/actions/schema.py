"""Creates the tables of a store, or upgrades them."""

from __future__ import annotations

from dataclasses import dataclass

from onward.backend_urls import open_store
from onward.ops.lookup import is_server, store_file


@dataclass(frozen=True, slots=True)
class SchemaUpgrade:
    """The schema versions of a store before and after an upgrade; 0: it had no tables."""

    before: int
    after: int

    @property
    def changed(self) -> bool:
        return self.before != self.after


def upgrade_schema(url: str) -> SchemaUpgrade:
    """Create or upgrade the tables of the store that a URL names, as opening it does; raises `StoreError`.

    It is safe to repeat, and beside other processes: a lock in the database lets one of them do it.
    """
    before = _schema_version(url)
    open_store(url).close()
    return SchemaUpgrade(before, _schema_version(url))


def _schema_version(url: str) -> int:
    if (file := store_file(url)) is not None:
        from onward.ledger.sqlite.inspection import read_schema_version as read_version_of_file

        return read_version_of_file(file)
    if not is_server(url):
        return 0
    try:
        from onward.ledger.postgres.inspection import read_schema_version
    except ModuleNotFoundError:
        return 0  # opening it raises an error that names the package to install
    return read_schema_version(url)
