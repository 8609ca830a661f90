"""What went wrong with PostgreSQL, and how to mend it, in words of our own and without secrets."""

from __future__ import annotations

import re

import psycopg
from psycopg import errors

from onward.ports import StoreConflict, StoreError, StoreFull, StoreUnavailable
from onward.retry import redact

_CONFLICTS = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    # What was not there when it was looked for was added by another transaction meanwhile.
    errors.UniqueViolation,
    errors.LockNotAvailable,
    # Its preparation was rolled back; the connection is closed, the next one prepares it anew.
    errors.InvalidSqlStatementName,
)
_FULL = (errors.DiskFull,)
_UNAVAILABLE = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.QueryCanceled,
    errors.IdleInTransactionSessionTimeout,
    errors.OutOfMemory,
)
_TOO_LARGE = "54"
"""The class of errors that say that a value exceeds what the server can hold."""
_PASSWORD = (
    "the server refused the user or the password. Check both in ONWARD_STORE, or give the password in PGPASSWORD "
    "or in ~/.pgpass"
)
_HOST = "there is no host of this name. Check it in ONWARD_STORE"
_ROLE = "the server has no such user. Make one: CREATE ROLE … LOGIN PASSWORD '…'"
_DATABASE = "the server has no such database. Make it: CREATE DATABASE …, owned by the user of ONWARD_STORE"
_ACCESS = (
    "the server lets nobody in like this. Let this user log in and connect (ALTER ROLE … LOGIN; GRANT CONNECT ON "
    "DATABASE … TO …), add a line for it and its address to pg_hba.conf, or use ?sslmode=require if it wants TLS"
)
_TLS = "the encrypted connection failed. Check sslmode, sslrootcert and the server's certificate"
# Without a password: it would be hidden where the message is shown.
_URL = "ONWARD_STORE cannot be read. It is written postgresql://user@host:5432/name"
_READ_ONLY = (
    "what answers can only be read: a copy of another server, or a user with default_transaction_read_only. Name "
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
_NO_SLOT = re.compile(r"too many (clients|connections)|remaining connection slots", re.IGNORECASE)


def explained(error: BaseException, address: str, *, opening: bool = False) -> Exception:
    """The error as one of the store's: one that may pass, one that will not, or a meeting of two.

    `opening`: nothing has worked yet, so a refusal is for a person to mend. Later on it may be a restart, a
    failover, a password that is being changed: then it may pass.
    """
    said = _said(error)
    if isinstance(error, _CONFLICTS):
        return StoreConflict(f"{address}: two transactions met ({said})")
    if isinstance(error, _FULL):
        return StoreFull(
            f"{address} cannot be written ({said}). Nothing was lost. Free some disk space, and start again"
        )
    if isinstance(error, errors.TooManyConnections) or _NO_SLOT.search(said):
        return StoreUnavailable(
            f"{address} has no connection left ({said}). Raise max_connections, or start fewer worker processes"
        )
    if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName) or (
        isinstance(error, errors.InsufficientPrivilege) and re.search(r"for (table|sequence|schema)", said)
    ):
        return StoreError(
            f"{address}: the user cannot use the tables ({said}). Give it the rights: GRANT USAGE ON SCHEMA …; "
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA …; GRANT USAGE ON ALL SEQUENCES IN "
            "SCHEMA … TO …. `onward doctor` says which"
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreError(
            f"{address}: the user may not do this ({said}). Give it the right to create a schema: "
            "GRANT CREATE ON DATABASE … TO …; or make the schema for it: CREATE SCHEMA onward AUTHORIZATION …"
        )
    if isinstance(error, errors.ReadOnlySqlTransaction):
        # Not for good: after a failover, whoever was written to answers like this for a while.
        return StoreUnavailable(f"{address} cannot be written ({said}): {_READ_ONLY}")
    if isinstance(error, _UNAVAILABLE):
        return StoreUnavailable(f"{address} cannot be used just now ({said})")
    if isinstance(error, psycopg.Error) and (error.sqlstate or "").startswith(_TOO_LARGE):
        # Not the server's trouble, but the document's: it must not look like an outage.
        return StoreError(
            f"{address} cannot take this ({said}). What documents are found by, their keys, source and parent, "
            "may have up to 2,600 bytes each"
        )
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | UnicodeError):
        return _unreachable(said, address, opening)
    if isinstance(error, psycopg.ProgrammingError) and not error.sqlstate:
        return _unreachable(said, address, opening)
    if isinstance(error, psycopg.DataError):
        return StoreError(f"{address} cannot take this value ({said})")
    return error if isinstance(error, Exception) else StoreError(said)


def _unreachable(said: str, address: str, opening: bool) -> StoreError:
    for pattern, remedy in _STARTS.items():
        if re.search(pattern, said, re.IGNORECASE):
            kind = StoreError if opening else StoreUnavailable
            return kind(f"{address} cannot be opened: {remedy} ({said})")
    if _UNREACHED.search(said):
        return StoreUnavailable(
            f"{address} cannot be reached ({said}). Check host and port in ONWARD_STORE, and that the server runs"
        )
    return StoreUnavailable(f"the connection to {address} was lost ({said})")


def _said(error: BaseException) -> str:
    text = redact(str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = re.sub(r"^.*?(FATAL|ERROR):\s*", "", lines[0]) if lines else type(error).__name__
    return said[:300].rstrip(".")
