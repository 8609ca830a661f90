"""Blobs in a PostgreSQL database, cut into parts: for workers on more than one machine."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import psycopg

from onward.blobs import Blob, missing
from onward.blobs.parts import PartReader, Spool, spooled
from onward.ledger.postgres.schema_upgrade import open_schema
from onward.ledger.store_errors import StoreConflict, StoreError, StoreUnavailable

PART_BYTES = 1 << 20  # Parts of a blob have the length of its first part, so this may change
_SWEPT_AT_ONCE = 32
_LISTED_AT_ONCE = 1000
_LEFTOVER_SECONDS = 86_400.0

_RENEW = b"UPDATE blobs SET put_at = clock_timestamp() WHERE digest = $1"
_PUT_ONE_PART = b"""
    WITH named AS (
      INSERT INTO blobs (digest, size) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING RETURNING id
    )
    INSERT INTO blob_parts (blob, part, bytes) SELECT id, 0, $3::bytea FROM named"""
_BEGIN = b"INSERT INTO blobs (size) VALUES ($1) RETURNING id"
# One statement locks the row and checks it: a blob that is being removed never gets another part.
_ADD_PART = b"""
    WITH upload AS (
      UPDATE blobs SET put_at = clock_timestamp()
      WHERE id = $1 AND digest IS NULL AND put_at > '-infinity' RETURNING id
    )
    INSERT INTO blob_parts (blob, part, bytes) SELECT id, $2::integer, $3::bytea FROM upload
    ON CONFLICT (blob, part) DO UPDATE SET bytes = excluded.bytes"""
_NAME = b"""
    UPDATE blobs SET digest = $2, put_at = clock_timestamp()
    WHERE id = $1 AND digest IS NULL AND put_at > '-infinity'"""
_OPEN = b"SELECT size, bytes FROM blobs JOIN blob_parts ON blob = id AND part = 0 WHERE digest = $1"
_READ = b"SELECT bytes FROM blobs JOIN blob_parts ON blob = id WHERE digest = $1 AND part = $2"
_FIND = b"SELECT digest, size, (extract(epoch FROM put_at) * 1000000)::bigint FROM blobs WHERE digest = $1"
_LIST = b"""
    SELECT digest, size, (extract(epoch FROM put_at) * 1000000)::bigint FROM blobs
    WHERE digest > $1 AND put_at < clock_timestamp() - make_interval(secs => $2::float8)
    ORDER BY digest LIMIT $3"""
_UNNAME = b"""
    UPDATE blobs SET digest = NULL, put_at = '-infinity'
    WHERE digest = $1 AND (extract(epoch FROM put_at) * 1000000)::bigint = $2::bigint
    RETURNING id"""
_GIVE_UP = b"UPDATE blobs SET put_at = '-infinity' WHERE id = $1 AND digest IS NULL RETURNING id"
_GIVE_UP_OLD = b"""
    UPDATE blobs SET put_at = '-infinity'
    WHERE digest IS NULL AND put_at < clock_timestamp() - make_interval(secs => $1::float8) RETURNING id"""
_SWEEP_PARTS = b"""
    DELETE FROM blob_parts
    WHERE blob = $1 AND part IN (SELECT part FROM blob_parts WHERE blob = $1 ORDER BY part LIMIT $2)"""
# Another process may be sweeping the same parts, and crash: then the row must stay, so that they are found again.
_SWEEP = b"""
    DELETE FROM blobs
    WHERE id = $1 AND digest IS NULL AND NOT EXISTS (SELECT FROM blob_parts WHERE blob = $1)"""


class PostgresBlobs:
    """Keeps each blob as rows of a PostgreSQL database, named by its SHA-256; see `onward.blobs`.

    A blob of several parts is uploaded without a name, one part in a transaction, and named when it is complete.
    A deleted blob loses its name first. So a blob with a name is complete, whatever crashes or conflicts. `put`
    spools to a temporary file in `scratch`.
    """

    def __init__(self, url: str, scratch: Path, *, part: int = PART_BYTES, patience: float = 60.0) -> None:
        self.scratch = scratch
        self._part = part
        self._connections = open_schema(url, patience)
        self._address = self._connections.address

    def close(self) -> None:
        self._connections.close()

    def put(self, write: Callable[[BinaryIO], None]) -> Blob:
        with spooled(write, self.scratch, self._part) as spool:
            blob = spool.blob()
            # Another process may put or delete the same blob in between: then try again.
            while not self.renew(blob.digest) and not self._keep(blob, spool):
                pass
            return blob

    def open(self, digest: str) -> BinaryIO:
        size, first = self._row(_OPEN, digest)

        def read(part: int) -> bytes:
            found: bytes = self._row(_READ, digest, part)[0] if part else first
            return found

        return io.BufferedReader(PartReader(size, len(first), read), 1 << 16)

    def find(self, digest: str) -> Blob | None:
        found = self._rows(_FIND, digest)
        return Blob(*found[0]) if found else None

    def renew(self, digest: str) -> bool:
        return self._changed(_RENEW, digest)

    def delete(self, digest: str, put_mark: int) -> bool:
        return self._sweep(_UNNAME, digest, put_mark)

    def older_than(self, seconds: float) -> Iterator[Blob]:
        self._sweep(_GIVE_UP_OLD, _LEFTOVER_SECONDS)
        after = ""
        while found := self._rows(_LIST, after, seconds, _LISTED_AT_ONCE):
            after = found[-1][0]
            yield from (Blob(*row) for row in found)

    def _keep(self, blob: Blob, spool: Spool) -> bool:
        """Write a new blob; return False if another process was faster, or has deleted the upload as abandoned."""
        if blob.size <= self._part:
            return self._changed(_PUT_ONE_PART, blob.digest, blob.size, next(spool.parts(self._part)))
        upload: int = self._rows(_BEGIN, blob.size)[0][0]
        try:
            for number, part in enumerate(spool.parts(self._part)):
                if not self._changed(_ADD_PART, upload, number, part):
                    break
            else:
                with suppress(StoreConflict):  # another process has named the same blob
                    if self._changed(_NAME, upload, blob.digest):
                        return True
        except StoreUnavailable:
            raise  # the server cannot be reached for the clean-up, either
        except Exception:
            with suppress(StoreError):
                self._sweep(_GIVE_UP, upload)
            raise
        self._sweep(_GIVE_UP, upload)
        return False

    def _sweep(self, query: bytes, *values: Any) -> bool:
        """Delete the blobs that a query gives up, a few parts at a time; what a crash leaves is found again."""
        found = self._rows(query, *values)
        for (id,) in found:
            while self._changed(_SWEEP_PARTS, id, _SWEPT_AT_ONCE):
                pass
            self._changed(_SWEEP, id)
        return bool(found)

    def _row(self, query: bytes, digest: str, *values: Any) -> tuple[Any, ...]:
        found = self._rows(query, digest, *values)
        if not found:
            raise missing(digest, self._address)
        return found[0]

    def _changed(self, query: bytes, *values: Any) -> bool:
        return self._execute(query, values)[0] > 0

    def _rows(self, query: bytes, *values: Any) -> list[tuple[Any, ...]]:
        return self._execute(query, values)[1]

    def _execute(self, query: bytes, values: Sequence[Any]) -> tuple[int, list[tuple[Any, ...]]]:
        """Execute one statement, which is a transaction of its own; each of them may be repeated."""
        try:
            return self._execute_once(query, values)
        except StoreConflict:
            raise
        except StoreUnavailable:
            # The server was restarted, and the connection that was kept is lost.
            return self._execute_once(query, values)

    def _execute_once(self, query: bytes, values: Sequence[Any]) -> tuple[int, list[tuple[Any, ...]]]:
        with self._connections.use() as connection:
            try:
                with self._connections.time_limited(connection):
                    cursor = self._connections.execute(connection, query, values, binary=True)
                    return cursor.rowcount, cursor.fetchall() if cursor.description else []
            except psycopg.Error as error:
                raise self._connections.explained(connection, error) from error
