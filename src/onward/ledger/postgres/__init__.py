"""The backend for more than one machine: PostgreSQL."""

from onward.ledger.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
