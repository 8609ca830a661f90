"""A worker process, and the command, start without packages that only others of them need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "fastapi",
    "httpx2",
    "lxml",
    "numpy",
    "opentelemetry",
    "prometheus_client",
    "psycopg",
    "tokenizers",
    "trafilatura",
}
SHOP = """
import json, multiprocessing, pathlib, sys
from onward import App, Event

class Rang(Event):
    pass

app = App(store="sqlite:///onward.db")

@app.service("answering", on=Rang)
def answer(event, work):
    pathlib.Path("imported").write_text(json.dumps(list(sys.modules)))

if multiprocessing.parent_process() is None:
    app.engine(["answering"])
    app.publish(Rang())
"""
COMMAND = """
import json, pathlib, sys
from onward.cli import main
try:
    main(sys.argv[1:])
finally:
    pathlib.Path("imported").write_text(json.dumps(list(sys.modules)))
"""


def imported(folder: Path, *command: str) -> set[str]:
    """The packages that some process had imported when it wrote down which."""
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=os.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    names: list[str] = json.loads((folder / "imported").read_text())
    return {name.partition(".")[0] for name in names}


def test_a_worker_process_imports_what_its_app_needs(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    found = imported(tmp_path, "-m", "onward", "worker", "--app", "shop:app", "--until-idle", "1")
    assert {"shop", "onward", "sqlite3"} <= found
    assert found & HEAVY == set()


@pytest.mark.parametrize("arguments", (["--version"], ["worker", "--help"]))
def test_a_command_imports_what_it_needs(arguments: list[str], tmp_path: Path) -> None:
    found = imported(tmp_path, "-c", COMMAND, *arguments)
    assert "onward" in found
    assert found & HEAVY == set()
