"""The stores of released versions, and copies of them that a test may upgrade."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import psycopg

from tests.support.servers import PostgresServer

FOLDER = Path(__file__).parent
CHECKSUMS = FOLDER / "migrations.sha256"
LEDGER = Path(__file__).parents[3] / "src" / "onward" / "ledger"
MIGRATION_FOLDERS = [LEDGER / dialect / "migrations" for dialect in ("postgres", "sqlite")]
VERSIONS = sorted(file.parent.name for file in FOLDER.glob("*/facts.json"))
NOW = 1_800_000_000.0 + 14 * 3600.0  # after all that `harbour.fill` has done
BLOB = b"the manifest of ship-1\n"


def kept_facts(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / version / "facts.json").read_text())
    return found


def copy_file(version: str, folder: Path) -> str:
    """Return the URL of a copy of a version's SQLite store."""
    file = folder / f"{version}.db"
    file.write_bytes(gzip.decompress((FOLDER / version / "sqlite.db.gz").read_bytes()))
    return f"sqlite:///{file}"


def copy_dump(version: str, server: PostgresServer, database: str) -> str:
    """Return the URL of a new database with a version's PostgreSQL store."""
    return load_dump(FOLDER / version / "postgres.sql", server, database)


def load_dump(dump: Path, server: PostgresServer, database: str) -> str:
    url = server.create_database(database)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(dump.read_bytes())
    return url
