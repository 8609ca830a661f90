"""The backend for more than one machine: PostgreSQL."""

from __future__ import annotations

from onward.ledger.postgres.dialect import PostgresDatabase
from onward.ledger.store import Store
from onward.model.clock import Clock


class PostgresStore(Store):
    """A store in a schema of a PostgreSQL database, shared by any number of machines."""

    db: PostgresDatabase

    def __init__(
        self, url: str, clock: Clock | None = None, *, patience: float = 60.0, replica: str | None = None
    ) -> None:
        database = PostgresDatabase(url, patience=patience, replica=replica)
        try:
            super().__init__(database, clock)
        except BaseException:
            database.close()
            raise
