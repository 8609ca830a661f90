"""`onward watch` finds a change of a folder by the events of the file system."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.supervised_workers import until

pytestmark = pytest.mark.prove


def texts(home: Path) -> list[str]:
    if not (home / "onward.db").exists():
        return []
    with closing(sqlite3.connect(home / "onward.db")) as store:
        try:
            return sorted(text.strip() for (text,) in store.execute("SELECT text FROM texts WHERE text <> ''"))
        except sqlite3.OperationalError:
            return []  # it is being created


def test_a_change_is_found_long_before_the_interval_has_passed(tmp_path: Path) -> None:
    folder, home = tmp_path / "notes", tmp_path / "notes" / "onward-data"
    folder.mkdir()
    (folder / "a.txt").write_text("The first text.")
    process = subprocess.Popen(
        [sys.executable, "-m", "onward", "watch", str(folder), "--every", "4w"],
        env={**os.environ, "ONWARD_HOME": str(home)},
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        until(lambda: "The first text." in texts(home), "it is ingested at once")
        (folder / "b.txt").write_text("The second text.")
        until(lambda: "The second text." in texts(home), "an event reports the new file")
        (folder / "a.txt").unlink()
        until(lambda: texts(home) == ["The second text."], "an event reports the removed file")
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert b"Traceback" not in errors
