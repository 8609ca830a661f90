"""What the URL of a store on PostgreSQL says: server, schema, and whether a connection pooler is in between."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from onward.ledger.store_errors import StoreError

SCHEMA = "onward"
POOLERS = ("transaction", "session", "none")
OWN_OPTIONS = ("schema", "pooler", "direct")  # Options of the URL that are Onward's, not the driver's
_TCP = {
    "connect_timeout": "10",
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
_HOSTS = re.compile(r"[^\s@/?#]+")


class StoreURL(NamedTuple):
    schema: str
    conninfo: str  # The connection string for the driver
    pooler: str  # One of `POOLERS`; empty: it is found out
    direct: str  # The connection string around the pooler; empty: there is none


def read_url(url: str, *, standby: bool = False) -> StoreURL:
    """Read the URL of a store, or of a standby of it.

    Errors are found here, because the driver's message would contain the password.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    # If a password has an unquoted reserved character, its rest is in another part.
    if parts is None or parts.netloc.count("@") > 1 or parts.fragment or "@" in parts.path + parts.query:
        raise StoreError(
            "the store's URL cannot be read. It is written postgresql://user@host:5432/name, with a password "
            "after the user and a colon; in a user or a password, / is written %2F, ? %3F, # %23, @ %40, "
            "[ %5B and % %25"
        )
    if re.search(r"%(?![0-9a-fA-F]{2})|%00", url):
        raise StoreError(
            "the store's URL has a % without two hexadecimal digits; a % in a user or a password is written %25"
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = options.pop("schema", SCHEMA)
    reserved = schema.startswith("pg_") or schema == "information_schema"
    if not schema or "\x00" in schema or len(schema.encode()) > 63 or reserved:
        raise StoreError(
            f"the schema {schema!r:.80} in the store's URL cannot be; name a schema for Onward's tables, of up to "
            "63 bytes, as in postgresql://host/name?schema=onward"
        )
    pooler = options.pop("pooler", "")
    if pooler and pooler not in POOLERS:
        raise StoreError(
            f"pooler={pooler!r:.80} in the store's URL cannot be; it is one of {', '.join(POOLERS)}, as in "
            "postgresql://host:6432/name?pooler=transaction"
        )
    direct = options.pop("direct", "")
    if direct and not _HOSTS.fullmatch(direct):
        raise StoreError(
            f"direct={direct!r:.80} in the store's URL cannot be; it names the server behind the pooler, as in "
            "postgresql://host:6432/name?pooler=transaction&direct=host:5432"
        )
    options = {**_TCP, "application_name": "onward", **options}
    # Of several hosts, the primary, which is another host after a failover.
    role = "prefer-standby" if standby else "read-write"
    login = parts.netloc.rpartition("@")[0]
    return StoreURL(
        schema,
        _conninfo(parts.netloc, parts.path, options, role),
        pooler,
        _conninfo(f"{login}@{direct}" if login else direct, parts.path, options, role) if direct else "",
    )


def _conninfo(place: str, path: str, options: dict[str, str], role: str) -> str:
    if "," in place:
        options = {"target_session_attrs": role, **options}
    return f"postgresql://{place}{path}?{urlencode(options)}"


def driver_url(url: str) -> str:
    """Return a store's URL without what is not meant for the driver; around the pooler, if that is possible."""
    found = read_url(url)
    return found.direct or found.conninfo
