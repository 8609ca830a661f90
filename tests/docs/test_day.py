"""The day in the life tells an outage, poison documents and a bad deploy apart, and brings everything home."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from examples.day import ALL, BROKEN, FINE, MORNING, POISON, Day
from tests.support.command_runs import onward

pytestmark = pytest.mark.prove


@pytest.fixture
def screen() -> Console:
    return Console(file=io.StringIO(), width=115)


@pytest.fixture
def day(tmp_path: Path, screen: Console) -> Iterator[Day]:
    """A day; none of its processes outlives the test."""
    with Day(screen, tmp_path) as day:
        yield day


def test_three_stories_are_told_apart_and_all_documents_come_home(
    day: Day, tmp_path: Path, screen: Console
) -> None:
    def facts(*args: str) -> Any:
        # In this process, as it takes less time than the outage has.
        return json.loads(onward(tmp_path, *args, "--json").stdout)

    day.begin()
    day.break_things()

    status = facts("status")
    assert status["documents"]["invoices"] == {
        "pending": POISON,
        "processed": MORNING + FINE,
        "failed": BROKEN,
    }
    assert {one["verdict"] for one in status["failures"]} == {"dependency", "poison document", "bug or bad deploy"}
    groups = {one["verdict"]["kind"]: one for one in facts("failures", "list")}
    assert len(groups) == 3
    outage, poison, bug = (groups[one] for one in ("dependency", "poison document", "bug or bad deploy"))
    assert (outage["service"], outage["error_type"]) == ("converting", "HTTPError")
    assert outage["waiting"] == FINE
    assert f"{FINE} events wait, and lose no tries." in outage["verdict"]["sentences"]
    assert (poison["error_type"], poison["affected"], poison["failures"]) == ("ValueError", POISON, 3 * POISON)
    assert f"Only {POISON} documents fail this way, and in every one of 6 tries." in poison["verdict"]["sentences"]
    assert (bug["error_type"], bug["affected"], bug["versions"]) == ("KeyError", BROKEN, {"1.1": BROKEN})
    assert "never happened under version 1.0" in " ".join(bug["verdict"]["sentences"])

    day.look()
    day.mend()

    status = facts("status")
    assert status["needs"] == []
    assert status["documents"] == {
        "invoices": {"processed": ALL - POISON, "discarded": POISON},
        "amounts": {"processed": ALL - POISON},
        "bookings": {"processed": ALL - POISON},
    }
    assert facts("failures", "list") == []
    # The first five have an entry of their own if the command had to wait for them.
    touched = Counter[tuple[str, int | None]]()
    for entry in facts("actions"):
        touched[entry["action"], entry["about"].get("canary")] += entry["touched"]
    assert touched == {("failures discard", None): POISON, ("failures retry", 5): BROKEN}
    rounds = {one.attempt_count for one in day.app.store.find_states(collection="amounts", limit=ALL)}
    assert rounds == {1}, "the outage has cost none of them a round"
    assert day.app.store.counts()["converting"].get("dead", 0) == 0

    assert isinstance(screen.file, io.StringIO)
    shown = screen.file.getvalue()
    for verdict in groups:
        assert f"Probably: {verdict}" in shown
    assert "The first 5 went well.\n200 dead letters put back." in shown
    assert "0 are lost" in shown
