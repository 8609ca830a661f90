"""A console that is killed in the middle of an operation: the next one says so, and goes on with one click."""

from __future__ import annotations

import re
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from onward.settings import load_settings
from tests.cli.test_serve import Served, served
from tests.support.failed_pages import fail, stage

pytestmark = pytest.mark.prove

COUNT = 60
HTML = {"accept": "text/html"}
PATIENCE = 600
"""So often an operation is looked at, before a test is given up."""


def wait_for(console: Served, operation: str, *, status: str = "", done: int = 0) -> dict[str, Any]:
    """Look at an operation until it has this status, or until so many are done."""
    found: dict[str, Any] = {}
    for _ in range(PATIENCE):
        found = httpx2.get(f"{console.url}v3/operations/{operation}", timeout=60.0).json()
        if status == found["status"] if status else found["done"] >= done:
            return found
        time.sleep(0.1)
    raise AssertionError(f"it is still {found}")


def rounds(home: Path) -> dict[str, tuple[str, int]]:
    with stage(home, subscribe=False) as on:
        return {state.id: (state.status, state.round) for state in on.store.states("pages", limit=1000)}


def test_a_requeue_that_is_killed_goes_on_with_one_click_and_puts_nothing_back_twice(home: Path) -> None:
    with stage(home) as on:
        fail(on, *(f"page-{number:02}" for number in range(COUNT)))
    with served(home) as console:
        asked = httpx2.post(
            f"{console.url}v3/failed-queues/reading.failed/requeue", json={"rate": 10}, timeout=60.0
        )
        operation = asked.json()["operation"].rpartition("/")[2]
        wait_for(console, operation, done=10)
        assert console.stop(signal.SIGKILL) == -signal.SIGKILL
    before = rounds(home)
    assert 0 < sum(status == "pending" for status, _ in before.values()) < COUNT, "it was in the middle"
    file = Path(load_settings({"ONWARD_HOME": str(home)}).store.partition("///")[2])
    with sqlite3.connect(file) as database:
        database.execute("UPDATE operations SET lease = lease - 60")  # as if its lease had lapsed meanwhile
    database.close()
    with served(home) as console, httpx2.Client(base_url=console.url, timeout=60.0) as client:
        wait_for(console, operation, status="interrupted")
        page = client.get(f"/operations/{operation}", headers=HTML).text
        assert "The process that ran it has ended." in page
        (token,) = set(re.findall(r'name="form_token" value="([^"]+)"', page))
        clicked = client.post(f"/operations/{operation}/continue", data={"form_token": token}, headers=HTML)
        assert clicked.status_code == 303
        ended = wait_for(console, operation, status="done")
        assert ended["runs"] == 2
    assert rounds(home) == {f"page-{number:02}": ("pending", 2) for number in range(COUNT)}
