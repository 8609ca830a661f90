"""Connecting to the primary of several hosts: the one of the latest timeline.

A standby that is promoted begins a new timeline. If the former primary comes back and was not made a standby, both
take writes, and the driver would choose the one that comes first in the URL. So the timelines of all hosts are
compared when a process connects for the first time, and again after a while: it may have slept through a
failover. In between it accepts none that is older than what it has seen.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import RawCursor
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from onward.ledger.store_errors import StoreUnavailable

COMPARE_SECONDS = 2  # How long a host is waited for when timelines are compared
COMPARED_FOR_SECONDS = 5.0  # For this long, the latest timeline of all hosts is taken as known
PATIENT_SECONDS = 15  # The same for one that has not refused: it may be the present primary, and busy
_TIMELINE = "SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint"

Connection = psycopg.Connection[Any]


class Hosts:
    """The hosts of a connection string, and the latest timeline that was seen on any of them."""

    def __init__(self, conninfo: str, address: str, *, compared: bool = True) -> None:
        self._conninfo, self._address = conninfo, address
        several = compared and "," in conninfo.partition("?")[0]
        self._each = list(_each_host(conninfo)) if several else []
        self._latest = 0
        self._compared_at = -math.inf
        self._lock, self._comparing = threading.Lock(), threading.Lock()

    def connect(self) -> Connection:
        """Connect to the present primary. Raises the driver's errors."""
        if not self._each:
            return _connect(self._conninfo)
        with self._comparing:
            is_known = time.monotonic() - self._compared_at < COMPARED_FOR_SECONDS
            found = None if is_known else self._connect_to_latest()
        if found is not None:
            return found
        connection = _connect(self._conninfo)  # to the first host that takes writes, or with the error of all
        if self._is_latest(connection):
            return connection
        connection.close()
        with self._comparing:
            found = self._connect_to_latest()
        if found is None:
            raise StoreUnavailable(
                f"{self._address}: the only server that can be reached is a former primary: its timeline is older "
                f"than {self._latest}, which this process has seen, so it is not written to. Make it a standby of "
                "the present primary; if the database was restored from a copy, start the workers again"
            )
        return found

    def _connect_to_latest(self) -> Connection | None:
        """Return a connection to the host with the latest timeline; None if no host has the one that was seen."""
        best: Connection | None = None
        connect = _connect if self._latest else _connect_patiently
        for conninfo in self._each:
            with suppress(psycopg.Error):
                connection = connect(conninfo)
                if not self._is_latest(connection):
                    connection.close()
                    continue
                if best is not None:
                    best.close()
                best = connection
        if best is not None:
            self._compared_at = time.monotonic()
        return best

    def _is_latest(self, connection: Connection) -> bool:
        """Return whether no later timeline than this server's was seen; others are compared with it then."""
        try:
            ((timeline,),) = connection.execute(_TIMELINE).fetchall()
        except psycopg.Error:
            connection.close()
            raise
        with self._lock:
            if timeline < self._latest:
                return False
            self._latest = timeline
        return True


def _connect(conninfo: str) -> Connection:
    return psycopg.connect(conninfo, autocommit=True, cursor_factory=RawCursor)


def _connect_patiently(conninfo: str) -> Connection:
    try:
        return _connect(conninfo)
    except psycopg.errors.ConnectionTimeout:
        return _connect(make_conninfo(conninfo, connect_timeout=PATIENT_SECONDS))


def _each_host(conninfo: str) -> Iterator[str]:
    given = {name: str(value) for name, value in conninfo_to_dict(conninfo).items() if value is not None}
    hosts = given.get("host", "").split(",")
    ports = given.get("port", "").split(",")
    for number, host in enumerate(hosts):
        port = ports[number] if number < len(ports) else ports[-1]
        limit = min(COMPARE_SECONDS, int(given.get("connect_timeout", COMPARE_SECONDS)))
        yield make_conninfo(**{**given, "host": host, "port": port, "connect_timeout": str(limit)})
