"""Errors of PostgreSQL as errors of the store: with the remedy, and without secrets."""

from __future__ import annotations

import re

import psycopg
from psycopg import errors

from onward.ledger.store_errors import StoreConflict, StoreError, StoreFull, StoreOutdated, StoreUnavailable
from onward.retry import redact

_CONFLICTS = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    # Another transaction has added a row that did not exist when it was looked for.
    errors.UniqueViolation,
    errors.LockNotAvailable,
    # Its preparation was rolled back; the connection is closed, and a new one prepares it again.
    errors.InvalidSqlStatementName,
)
_UNAVAILABLE = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.QueryCanceled,
    errors.IdleInTransactionSessionTimeout,
    errors.OutOfMemory,
)
_TOO_LARGE = "54"  # The class of errors for values that exceed a limit of the server
_PASSWORD = (
    "the server refused the user or the password. Check both in ONWARD_STORE, or give the password in PGPASSWORD "
    "or in ~/.pgpass"
)
_HOST = "there is no host of this name. Check it in ONWARD_STORE"
_ROLE = "the server has no such user. Make one: CREATE ROLE … LOGIN PASSWORD '…'"
_DATABASE = "the server has no such database. Make it: CREATE DATABASE …, owned by the user of ONWARD_STORE"
_ACCESS = (
    "the server refuses this connection. Let this user log in and connect (ALTER ROLE … LOGIN; GRANT CONNECT ON "
    "DATABASE … TO …), add a line for it and its address to pg_hba.conf, or use ?sslmode=require if it wants TLS"
)
_TLS = "the encrypted connection failed. Check sslmode, sslrootcert and the server's certificate"
# The example has no password, because it would be redacted.
_URL = "ONWARD_STORE cannot be read. It is written postgresql://user@host:5432/name"
_READ_ONLY = (
    "the server is read-only: a copy of another server, or a user with default_transaction_read_only. Name "
    "the server that is written to, or let the user write"
)
_STARTS = {
    r"session is read-only|server is in hot standby": _READ_ONLY,
    r"password authentication failed|no password supplied|SASL|authentication failed": _PASSWORD,
    r"could not translate host name|name or service not known|failed to resolve host": _HOST,
    r"role \"?[^\"]*\"? does not exist": _ROLE,
    r"database \"?[^\"]*\"? does not exist": _DATABASE,
    r"no pg_hba.conf entry|not permitted to log in|permission denied for database": _ACCESS,
    r"certificate|does not support SSL|SSL error|sslmode|root\.crt": _TLS,
    r"invalid (connection option|URI query parameter|port|integer)|missing \"=\"": _URL,
}
_UNREACHED = re.compile(r"connection refused|no route to host|network is unreachable|time(d )?out", re.IGNORECASE)
OUTDATED_MARK = "onward schema version "  # In the error of a transaction that finds tables of a newer Onward
_NO_SLOT = re.compile(r"too many (clients|connections)|remaining connection slots", re.IGNORECASE)


def explained(error: BaseException, address: str, *, opening: bool = False) -> Exception:
    """Return an error as one of the store's: temporary, permanent, or a conflict of two transactions.

    `opening`: no connection has worked yet, so a person must repair the cause of a refusal. Later a refusal may be
    a restart, a failover or a changed password, and is temporary.
    """
    lines = [line.strip() for line in redact(str(error)).splitlines() if line.strip()]
    message = re.sub(r"^.*?(FATAL|ERROR):\s*", "", lines[0]) if lines else type(error).__name__
    message = message[:300].rstrip(".")
    if isinstance(error, _CONFLICTS):
        return StoreConflict(f"{address}: two transactions conflicted ({message})")
    if isinstance(error, errors.InvalidTextRepresentation) and OUTDATED_MARK in message:
        version = message.partition(OUTDATED_MARK)[2].rstrip('"')
        return StoreOutdated(
            f"{address} was upgraded to schema version {version} by a newer Onward while this process had "
            "it open, and this one is too old to go on with it. Nothing was lost. Upgrade: "
            "pip install --upgrade onward"
        )
    if isinstance(error, errors.DuplicatePreparedStatement):
        return StoreError(
            f"{address}: a connection pooler in between gives each transaction another connection ({message}). "
            "Say so at the end of the URL: ?pooler=transaction"
        )
    if isinstance(error, errors.DiskFull):
        return StoreFull(
            f"{address} cannot be written ({message}). Nothing was lost. Free some disk space, and start again"
        )
    if isinstance(error, errors.TooManyConnections) or _NO_SLOT.search(message):
        return StoreUnavailable(
            f"{address} has no connection left ({message}). Raise max_connections, or start fewer worker processes"
        )
    if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName) or (
        isinstance(error, errors.InsufficientPrivilege) and re.search(r"for (table|sequence|schema)", message)
    ):
        return StoreError(
            f"{address}: the user cannot use the tables ({message}). Give it the rights: GRANT USAGE ON SCHEMA …; "
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA …; GRANT USAGE ON ALL SEQUENCES IN "
            "SCHEMA … TO …. `onward doctor` says which"
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreError(
            f"{address}: the user may not do this ({message}). Give it the right to create a schema: "
            "GRANT CREATE ON DATABASE … TO …; or make the schema for it: CREATE SCHEMA onward AUTHORIZATION …"
        )
    if isinstance(error, errors.ReadOnlySqlTransaction):
        # Temporary: after a failover, the former primary refuses writes for a while.
        return StoreUnavailable(f"{address} cannot be written ({message}): {_READ_ONLY}")
    if isinstance(error, errors.QueryCanceled) and "statement timeout" in message:
        return StoreUnavailable(
            f"{address}: a statement took too long and was cancelled ({message}). The server is overloaded, or "
            "lacks an index; `onward doctor` checks that"
        )
    if isinstance(error, _UNAVAILABLE):
        return StoreUnavailable(f"{address} cannot be used just now ({message})")
    if isinstance(error, psycopg.Error) and (error.sqlstate or "").startswith(_TOO_LARGE):
        # The document's fault, not the server's: it must not look like an outage.
        return StoreError(
            f"{address} cannot take this ({message}). A document's keys, source and parent may have at most 2,600 "
            "bytes each"
        )
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | UnicodeError) or (
        isinstance(error, psycopg.ProgrammingError) and not error.sqlstate
    ):
        return _unreachable(message, address, opening)
    if isinstance(error, psycopg.DataError):
        return StoreError(f"{address} cannot take this value ({message})")
    return error if isinstance(error, Exception) else StoreError(message)


def _unreachable(message: str, address: str, opening: bool) -> StoreError:
    for pattern, remedy in _STARTS.items():
        if re.search(pattern, message, re.IGNORECASE):
            kind = StoreError if opening else StoreUnavailable
            return kind(f"{address} cannot be opened: {remedy} ({message})")
    if _UNREACHED.search(message):
        return StoreUnavailable(
            f"{address} cannot be reached ({message}). Check host and port in ONWARD_STORE, and that the "
            "server runs"
        )
    return StoreUnavailable(f"the connection to {address} was lost ({message})")
