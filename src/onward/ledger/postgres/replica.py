"""A hot standby that serves reads: how far it is behind, and whether it has what this process has written."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import psycopg

from onward.ledger.postgres.connections import Connection, Connections
from onward.ledger.postgres.error_messages import explained
from onward.ledger.replica_reads import ReplicaReads, current_reads
from onward.ledger.store_errors import StoreError

PATIENCE_SECONDS = 15.0  # A replica that replies later than this is given up, and the primary is read
RETRY_SECONDS = 5.0  # A replica that failed is tried again after this time
CATCH_UP_SECONDS = (0.0, 0.02, 0.05)  # When a replica is asked again that is behind: mostly, it is under way
PRIMARY_POSITION = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
_REPLICA_POSITION = """
SELECT pg_is_in_recovery(),
       CASE WHEN pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint END,
       extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8"""


class ReplicaPosition(NamedTuple):
    replayed: int  # Up to which position of the primary's log
    behind_seconds: float  # inf: unknown


class Replica:
    """Connections to a hot standby on which nothing can be written. Threads and scopes share it."""

    def __init__(self, url: str, schema: str, primary_position: Callable[[], int]) -> None:
        self.connections = Connections(url, patience=PATIENCE_SECONDS, replica_of=schema)
        self._primary_position = primary_position
        self._lock = threading.Lock()
        self._is_followed = False  # Whether the positions of this process's commits are found out at once
        self._written = 0  # The position of its last commit
        self._is_unsure = False  # Whether that position could not be found out
        self._problem, self._tried_again_at = "", -math.inf
        self._caught_up_at = -math.inf  # When it last had all that the primary had

    def close(self) -> None:
        self.connections.close()

    def after_commit(self) -> None:
        """Record that this process has committed something that it must be able to read."""
        if (reads := current_reads()) is not None:
            reads.decided_at = -math.inf  # the next read of the caller decides anew
        if self._is_followed:
            self._record_write()
        else:
            self._is_unsure = True  # workers write all the time, and never read from the replica

    def _record_write(self) -> None:
        self._is_unsure = True
        try:
            position = self._primary_position()
        except (StoreError, psycopg.Error) as error:
            self._fail(str(error))
            return
        with self._lock:
            self._written, self._is_unsure = max(self._written, position), False

    def fetch(
        self, reads: ReplicaReads, text: bytes, values: Sequence[Any] | None, *, binary: bool
    ) -> list[tuple[Any, ...]] | None:
        """Return the rows of a query; None: it has to be asked on the primary."""
        if not reads.is_decided:
            self._decide(reads)
        if reads.from_primary:
            return None
        try:
            return self._rows(text, values, binary=binary)
        except psycopg.errors.SerializationFailure:
            return None  # a row that it needs was just removed by the primary's vacuum
        except (StoreError, psycopg.Error) as error:
            self._fail(str(explained(error, self.connections.address)))
            reads.from_primary, reads.problem = True, self._problem
            return None

    def _rows(
        self, text: bytes, values: Sequence[Any] | None = None, *, binary: bool = False
    ) -> list[tuple[Any, ...]]:
        connections = self.connections
        with connections.use() as connection, connections.time_limited(connection):
            return self._fetch(connection, text, values, binary)

    def _fetch(
        self, connection: Connection, text: bytes, values: Sequence[Any] | None, binary: bool
    ) -> list[tuple[Any, ...]]:
        return self.connections.execute(connection, text, values, binary=binary).fetchall()

    def _decide(self, reads: ReplicaReads) -> None:
        reads.decided_at, reads.behind_seconds, reads.problem = time.monotonic(), None, ""
        reads.from_primary = True
        if time.monotonic() < self._tried_again_at:
            reads.problem = self._problem
            return
        self._is_followed = True
        if self._is_unsure:
            self._record_write()
        if self._is_unsure:
            reads.problem = self._problem
            return
        written = self._written
        try:
            found = self.position()
        except (StoreError, psycopg.Error) as error:
            self._fail(
                str(error) if isinstance(error, StoreError) else str(explained(error, self.connections.address))
            )
            reads.problem = self._problem
            return
        if found.replayed >= written:
            reads.from_primary, reads.behind_seconds = False, found.behind_seconds

    def position(self) -> ReplicaPosition:
        """Return how far the replica is, compared with the primary. Raises if it cannot be used."""
        asked_at, wanted, replayed, age = time.monotonic(), self._primary_position(), 0, None
        for pause in CATCH_UP_SECONDS:
            time.sleep(pause)
            ((is_standby, found, age),) = self._rows(_REPLICA_POSITION.encode())
            if not is_standby:
                raise StoreError(
                    f"{self.connections.address} is no standby; ONWARD_STORE_REPLICA names a hot standby"
                )
            replayed = found or 0
            if replayed >= wanted:
                self._caught_up_at = asked_at
                return ReplicaPosition(replayed, 0.0)
        # The last transaction may be older than what is missing: an idle primary's log grows without one.
        since = time.monotonic() - self._caught_up_at
        return ReplicaPosition(replayed, min(since, math.inf if age is None else max(0.0, age)))

    def _fail(self, problem: str) -> None:
        self._problem, self._tried_again_at = problem, time.monotonic() + RETRY_SECONDS
