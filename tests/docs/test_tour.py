"""The tour runs the commands it shows, ends well although one letter fails, and replaces no folder but its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples.tour import empty

pytestmark = pytest.mark.prove

ROOT = Path(__file__).parents[2]


def test_it_goes_from_an_archive_to_a_summary(tmp_path: Path) -> None:
    home = tmp_path / "onward-demo"
    ran = subprocess.run(
        [sys.executable, "-m", "examples.tour", str(home)],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "100", "ONWARD_EMBEDDER": "http://nobody.example"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert "\x1b" not in ran.stdout, "not on a terminal: plain text"
    assert "Traceback" not in ran.stdout
    assert re.findall(r"^\$ onward (\w+)", ran.stdout, re.MULTILINE) == ["ingest", "search", "show", "summaries"]
    assert "150 messages: 149 parsed, 1 failed; 1 duplicate left out" in ran.stdout
    assert "the exit code was 3" in ran.stdout, "what failed is explained"
    (shown,) = re.findall(r"^\$ onward show ([0-9a-f]{8})$", ran.stdout, re.MULTILINE)
    assert f"To read one:   onward show {shown}" in ran.stdout, "the first result is opened"
    assert "sealed lead acid" in ran.stdout, "which has the answer"
    assert "### Sources" in ran.stdout
    assert f"export ONWARD_HOME={home}" in ran.stdout
    assert (home / "onward.db").exists(), "it is there to look around in"


def test_it_replaces_what_an_earlier_tour_has_left(tmp_path: Path) -> None:
    home = tmp_path / "onward-demo"
    empty(home)
    (home / "onward.db").write_text("old")
    empty(home)
    assert [file.name for file in home.iterdir()] == [".gitignore"]


def test_it_leaves_other_folders_alone(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="no folder of this demo"):
        empty(tmp_path)
    assert (tmp_path / "letters.txt").read_text() == "mine"
