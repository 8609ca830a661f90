"""Stores of released versions: upgraded with all that they have, and then everything is worked off."""

from __future__ import annotations

import secrets
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from onward.backend_urls import open_store
from onward.blobs.postgres import PostgresBlobs
from onward.testing import SimulatedClock
from tests.store.released.__main__ import checksums
from tests.store.released.harbour import facts, work_off
from tests.store.released.kept_stores import (
    BLOB,
    CHECKSUMS,
    FOLDER,
    NOW,
    VERSIONS,
    copy_dump,
    copy_file,
    kept_facts,
)
from tests.support.servers import PostgresServer


def recorded() -> dict[str, str]:
    lines = [line.split(maxsplit=1) for line in CHECKSUMS.read_text().splitlines()]
    return {name: checksum for checksum, name in lines}


def test_released_migrations_do_not_change() -> None:
    found = checksums()
    changed = [name for name, checksum in recorded().items() if found.get(name) != checksum]
    assert changed == [], "stores have run them already: write a new migration instead"


@pytest.mark.parametrize("dialect", ("postgres", "sqlite"))
def test_new_migrations_come_after_the_released_ones(dialect: str) -> None:
    names = [name.partition("/")[2] for name in checksums() if name.startswith(f"{dialect}/")]
    released = [name.partition("/")[2] for name in recorded() if name.startswith(f"{dialect}/")]
    assert names[: len(released)] == released
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1)), "numbered without a gap"


def test_the_stores_have_something_of_everything() -> None:
    """A new kind of row belongs into `harbour.py` before the next release."""
    for dialect in ("sqlite", "postgres"):
        found = kept_facts(VERSIONS[-1])[dialect]["found"]
        assert all(found.values())
        states = {state for service in found["ledger"].values() for state in service}
        assert states == {"waiting", "claimed", "done", "dead", "unrouted"}
        statuses = set(found["documents"]["crates"])
        assert statuses == {"pending", "processed", "failed", "failed_max_retries", "discarded"}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_stores_name_no_folder_of_the_machine_that_made_them(version: str, tmp_path: Path) -> None:
    copy_file(version, tmp_path)
    for file in (*tmp_path.iterdir(), FOLDER / version / "postgres.sql"):
        assert b'File "' in file.read_bytes().replace(b"\\", b"")
        assert b'File "/' not in file.read_bytes().replace(b"\\", b"")


def check(url: str, kept: dict[str, Any]) -> None:
    with closing(open_store(url, SimulatedClock(NOW))) as store:
        found = facts(store)
        assert {name: found[name] for name in kept["found"]} == kept["found"], "the upgrade loses nothing"
    done = work_off(url)
    assert (done["lost"], done["doubled"]) == ([], [])
    assert {name: done[name] for name in kept["worked_off"]} == kept["worked_off"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_of_a_released_version_is_upgraded_and_worked_off(version: str, tmp_path: Path) -> None:
    check(copy_file(version, tmp_path), kept_facts(version)["sqlite"])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_schema_of_a_released_version_is_upgraded_and_worked_off(
    version: str, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    name = f"released_{secrets.token_hex(4)}"
    url = copy_dump(version, postgres_server, name)
    try:
        check(url, kept_facts(version)["postgres"])
        with closing(PostgresBlobs(url, tmp_path)) as blobs:
            (blob,) = blobs.older_than(0.0)
            with blobs.open(blob.digest) as file:
                assert file.read() == BLOB
    finally:
        postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")
