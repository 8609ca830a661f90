"""`onward upgrade` creates or upgrades the tables, says so, and changes nothing the second time."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from onward.ledger.named_statements import load_scripts
from onward.ledger.postgres import connections
from onward.ledger.sqlite.dialect import SCHEMA_VERSION as FILE_VERSION
from onward.ops.actions.schema import SchemaUpgrade, upgrade_schema
from tests.support.command_runs import onward


def upgrade(home: Path, **more: str) -> dict[str, Any]:
    result = onward(home, "upgrade", "--json", more=more)
    assert result.exit_code == 0, result.output
    facts: dict[str, Any] = json.loads(result.stdout)
    return facts


def test_a_file_gets_its_tables_once(home: Path) -> None:
    first, second = upgrade(home), upgrade(home)
    assert (first["before"], first["after"], first["changed"]) == (0, FILE_VERSION, True)
    assert (second["before"], second["after"], second["changed"]) == (FILE_VERSION, FILE_VERSION, False)


def test_a_file_of_an_older_release_is_upgraded(home: Path) -> None:
    home.mkdir()
    with closing(sqlite3.connect(home / "onward.db")) as old:
        old.executescript(load_scripts("onward.ledger.sqlite", "migrations")[0])
        old.execute("PRAGMA user_version = 1")
    assert [upgrade(home)[name] for name in ("before", "after")] == [1, FILE_VERSION]


def test_a_server_gets_its_tables_once_whoever_asks(postgres_url: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(upgrade_schema, [postgres_url] * 4))
    assert {one.after for one in found} == {connections.SCHEMA_VERSION}
    assert any(one.changed for one in found)
    assert upgrade_schema(postgres_url) == SchemaUpgrade(connections.SCHEMA_VERSION, connections.SCHEMA_VERSION)


def test_tables_of_a_newer_release_are_refused(home: Path, postgres_url: str) -> None:
    upgrade(home, ONWARD_STORE=postgres_url)
    schema = postgres_url.rpartition("=")[2]
    with psycopg.connect(postgres_url.partition("?")[0], autocommit=True) as connection:
        newer = connections.SCHEMA_VERSION + 1
        connection.execute(f"UPDATE {schema}.schema_version SET version = {newer}, serves = {newer}".encode())
    result = onward(home, "upgrade", more={"ONWARD_STORE": postgres_url})
    assert result.exit_code == 1
    assert f"has schema version {newer}, written by a newer Onward" in result.output


def test_a_server_that_is_away_is_named_without_its_password(home: Path) -> None:
    url = "postgresql://onward:sesame-open@127.0.0.1:9/onward"
    result = onward(home, "upgrade", more={"ONWARD_STORE": url})
    assert result.exit_code == 1
    assert "127.0.0.1" in result.output
    assert "sesame-open" not in result.output
