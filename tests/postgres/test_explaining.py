"""What the driver says, and whether that may pass: rows and workers depend on it."""

from __future__ import annotations

import psycopg
import pytest

from onward.ledger.postgres.error_messages import explained
from onward.ledger.store_errors import StoreConflict, StoreError, StoreFull, StoreUnavailable

ADDRESS = "postgresql://db.example.org/onward"
REFUSALS = (
    "consuming input failed: SSL error: unexpected eof while reading",
    'connection failed: FATAL:  password authentication failed for user "onward"',
    'connection failed: FATAL:  database "onward" does not exist',
)


@pytest.mark.parametrize("said", REFUSALS)
def test_a_refusal_stops_the_start_and_may_pass_later(said: str) -> None:
    error = psycopg.OperationalError(said)
    assert type(explained(error, ADDRESS, opening=True)) is StoreError
    later = explained(error, ADDRESS)
    assert isinstance(later, StoreUnavailable), "a restart, a failover, a password that is being changed"
    assert ADDRESS in str(later)


@pytest.mark.parametrize(
    ("error", "kind"),
    (
        (psycopg.errors.DeadlockDetected(), StoreConflict),
        (psycopg.errors.UniqueViolation(), StoreConflict),
        (psycopg.errors.LockNotAvailable(), StoreConflict),
        (psycopg.errors.DiskFull(), StoreFull),
        (psycopg.errors.ReadOnlySqlTransaction(), StoreUnavailable),
        (psycopg.errors.AdminShutdown(), StoreUnavailable),
        (psycopg.OperationalError("the connection is closed"), StoreUnavailable),
        (psycopg.DataError("PostgreSQL text fields cannot contain NUL"), StoreError),
    ),
)
def test_every_trouble_has_its_kind(error: psycopg.Error, kind: type[StoreError]) -> None:
    assert type(explained(error, ADDRESS)) is kind
