"""Keep the stores and the migrations of a version that is released: `python -m tests.store.released 0.2.0`.

Run it on the commit of the release, once. It writes

- `VERSION/sqlite.db.gz` and `VERSION/postgres.sql`, stores that `harbour.py` has filled with made-up documents,
- `VERSION/facts.json`, what these stores have, and the commit,
- `migrations.sha256`, the checksums of all migrations, which must not change from now on.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import traceback
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

from onward.backend_urls import open_store
from onward.blobs.postgres import PostgresBlobs
from onward.model import failures
from onward.testing import SimulatedClock
from tests.store.released.harbour import facts, fill, work_off
from tests.store.released.kept_stores import BLOB, CHECKSUMS, FOLDER, MIGRATION_FOLDERS, NOW, load_dump
from tests.support.servers import PostgresServer
from tests.support.servers.postgres import find_binaries


def main(version: str) -> None:
    folder = FOLDER / version
    if folder.exists():
        raise SystemExit(f"{folder} exists: what a released version has left does not change")
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / version
        made.mkdir()
        _leave_out_paths()
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
        found = {"commit": commit.strip(), "sqlite": _sqlite(made), "postgres": _postgres(made)}
        (made / "facts.json").write_text(json.dumps(found, indent=1) + "\n")
        shutil.move(made, folder)
    CHECKSUMS.write_text("".join(f"{checksum}  {name}\n" for name, checksum in checksums().items()))


def _leave_out_paths() -> None:
    """Store tracebacks without the folders of this machine."""
    formatted, here = traceback.format_exception, f"{Path.cwd()}/"

    def without_folders(*given: Any, **more: Any) -> list[str]:
        return [line.replace(here, "") for line in formatted(*given, **more)]

    failures.traceback.format_exception = without_folders  # type: ignore[attr-defined]


def checksums() -> dict[str, str]:
    """Return the checksum of each migration, by dialect and name, in the order in which they run."""
    return {
        f"{folder.parent.name}/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest()
        for folder in MIGRATION_FOLDERS
        for file in sorted(folder.glob("*.sql"))
    }


def _facts_of(dialect: str, url: str, copy: str) -> dict[str, Any]:
    with closing(open_store(url, SimulatedClock(NOW))) as store:
        found = facts(store)
    version = len([name for name in checksums() if name.startswith(dialect)])
    return {"schema_version": version, "found": found, "worked_off": work_off(copy)}


def _sqlite(folder: Path) -> dict[str, Any]:
    made, file, copy = folder / "made.db", folder / "sqlite.db", folder / "copy.db"
    fill(f"sqlite:///{made}")
    with closing(sqlite3.connect(made)) as connection:
        connection.execute("VACUUM INTO ?", [str(file)])
    with (folder / "sqlite.db.gz").open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(file.read_bytes())
    shutil.copy(file, copy)
    found = _facts_of("sqlite", f"sqlite:///{file}", f"sqlite:///{copy}")
    for left in [*folder.glob("*.db"), *folder.glob("*.db-*")]:
        left.unlink()
    return found


def _postgres(folder: Path) -> dict[str, Any]:
    binaries = find_binaries()
    assert binaries is not None, "PostgreSQL is installed"
    with PostgresServer(fsync=False) as server:
        fill(server.url())
        with closing(PostgresBlobs(server.url(), folder / "scratch")) as blobs:
            blobs.put(_write_blob)
        command = [str(binaries / "pg_dump"), "--inserts", "--no-owner", "--no-privileges", "--schema=onward"]
        dump = subprocess.run([*command, server.url()], capture_output=True, text=True, check=True).stdout
        shutil.rmtree(folder / "scratch")
        # Commands of psql, and what depends on the version of the server, are left out.
        kept = [line for line in dump.splitlines() if not line.startswith(("\\", "-- Dumped "))]
        (folder / "postgres.sql").write_text("\n".join(kept) + "\n")
        return _facts_of("postgres", server.url(), load_dump(folder / "postgres.sql", server, "copy"))


def _write_blob(file: BinaryIO) -> None:
    file.write(BLOB)


if __name__ == "__main__":
    main(sys.argv[1])
