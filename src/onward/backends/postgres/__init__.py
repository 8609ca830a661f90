"""The backend for more than one machine: PostgreSQL."""

from onward.backends.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
