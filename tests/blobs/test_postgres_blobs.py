"""What is special about blobs in PostgreSQL."""

from __future__ import annotations

import io
from contextlib import closing
from pathlib import Path

import pytest

from onward.blobs import BlobMissing
from onward.blobs.postgres import PostgresBlobs
from onward.ledger.store_errors import StoreFull
from tests.blobs.places import PART, PostgresPlace, delete_blob, noise, put_bytes, read_bytes
from tests.support.servers import PostgresServer


def test_an_upload_that_was_held_for_given_up_begins_anew(in_postgres: PostgresPlace) -> None:
    # A collector comes by in the middle of the first upload, as if that had stood still for a day.
    in_postgres.ask("CREATE SEQUENCE comes")
    in_postgres.ask(
        """
        CREATE FUNCTION collect() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF new.part = 3 AND nextval('comes') = 1 THEN
            UPDATE blobs SET put_at = '-infinity' WHERE id = new.blob;
          END IF;
          RETURN NULL;
        END $$"""
    )
    in_postgres.ask("CREATE TRIGGER collect AFTER INSERT ON blob_parts FOR EACH ROW EXECUTE FUNCTION collect()")
    try:
        digest = put_bytes(in_postgres.blobs, noise(8 * PART))
        assert in_postgres.ask("SELECT last_value FROM comes") == [(2,)], "it came that far twice"
    finally:
        in_postgres.ask("DROP FUNCTION collect() CASCADE")
        in_postgres.ask("DROP SEQUENCE comes")
    assert read_bytes(in_postgres.blobs, digest) == noise(8 * PART)
    assert in_postgres.kept() == 1


def test_who_reads_a_large_blob_that_is_deleted_is_told(in_postgres: PostgresPlace) -> None:
    blobs = in_postgres.blobs
    digest = put_bytes(blobs, noise(200 * PART))
    with closing(blobs.open(digest)) as stream:
        assert stream.read(10) == noise(200 * PART)[:10]
        delete_blob(blobs, digest)
        with pytest.raises(BlobMissing, match=digest[:12]):
            stream.read()


def test_a_server_that_was_restarted_is_asked_again(
    in_postgres: PostgresPlace, postgres_server: PostgresServer
) -> None:
    blobs, data = in_postgres.blobs, noise(200 * PART)
    with closing(blobs.open(put_bytes(blobs, data))) as stream:
        start = stream.read(10)
        postgres_server.kill()
        postgres_server.start()
        assert start + stream.read() == data


def test_only_what_is_read_is_fetched(in_postgres: PostgresPlace) -> None:
    digest = put_bytes(in_postgres.blobs, noise(200 * PART))
    in_postgres.ask("DELETE FROM blob_parts WHERE part BETWEEN 100 AND 120")
    with closing(in_postgres.blobs.open(digest)) as stream:
        stream.seek(-10, io.SEEK_END)
        assert stream.read() == noise(200 * PART)[-10:]


def test_parts_of_another_length_are_read_too(in_postgres: PostgresPlace, tmp_path: Path) -> None:
    digest = put_bytes(in_postgres.blobs, noise(5 * PART))
    with closing(PostgresBlobs(in_postgres.url, tmp_path, part=PART // 3)) as other:
        assert read_bytes(other, digest) == noise(5 * PART)
        assert put_bytes(other, noise(5 * PART)) == digest
    assert in_postgres.kept() == 1


def test_a_scratch_folder_that_cannot_be_written_is_told_with_a_remedy(
    in_postgres: PostgresPlace, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    with (
        closing(PostgresBlobs(in_postgres.url, tmp_path / "file" / "scratch")) as blobs,
        pytest.raises(StoreFull, match="ONWARD_HOME"),
    ):
        put_bytes(blobs, b"")


def test_nothing_is_left_in_the_scratch_folder(in_postgres: PostgresPlace, tmp_path: Path) -> None:
    put_bytes(in_postgres.blobs, noise(40 * PART))
    assert list((tmp_path / "scratch").iterdir()) == []
