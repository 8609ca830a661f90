"""`onward status` says first what needs a person."""

from __future__ import annotations

import json
from pathlib import Path

from onward.pipeline.app import build
from onward.pipeline.sources import submit
from onward.settings import load_settings
from tests.cli.stage import SAMPLE, onward


def test_what_failed_comes_before_everything_else(library: Path) -> None:
    lines = onward(library, "status").stdout.splitlines()
    assert lines[:2] == ["Needs a person", "  1 document failed:  onward documents --status failed"]
    assert f"{SAMPLE}  partially_completed" in lines
    assert "  150 messages, 147 chunks, 35 threads, 1 failed" in lines


def test_programs_get_the_same_facts(library: Path) -> None:
    facts = json.loads(onward(library, "status", "--json").stdout)
    (source,) = facts["sources"]
    assert (source["status"], source["messages"], source["failed"]) == ("partially_completed", 150, 1)
    stages = {one["service"]: one["done"] for one in facts["stages"]}
    assert (stages["ingestion"], stages["parsing"], stages["chunking"]) == (1, 1, 149)
    assert (stages["embedding"], stages["summarization"]) == (147, 35)
    assert facts["store"].endswith("/onward.db")
    assert facts["size"] > 0
    assert facts["workers"] == []


def test_an_outage_that_needs_a_remedy_is_shown_with_it(home: Path) -> None:
    app = build(load_settings({"ONWARD_HOME": str(home)}))
    submit(app, str(SAMPLE))
    app.store.open_breaker("embedder", "401 Unauthorized", remedy="Check ONWARD_EMBEDDER_KEY")
    app.close()
    shown = onward(home, "status").stdout
    assert "  embedder is down: 401 Unauthorized. Check ONWARD_EMBEDDER_KEY" in shown
    (outage,) = json.loads(onward(home, "status", "--json").stdout)["outages"]
    assert (outage["dependency"], outage["reason"]) == ("embedder", "401 Unauthorized")


def test_before_anything_is_ingested_it_says_how_to_begin(home: Path) -> None:
    result = onward(home, "status")
    assert result.exit_code == 0
    assert "onward ingest SOURCE" in result.stdout
    assert not home.exists()


def test_dead_letters_of_what_failed_for_good_are_found_where_it_is(home: Path, tmp_path: Path) -> None:
    """Nothing is pending: to send somebody there would show them nothing."""
    app = build(load_settings({"ONWARD_HOME": str(home)}))
    (tmp_path / "empty.mbox").touch()
    submit(app, str(tmp_path / "empty.mbox"))
    app.work_until_idle()
    app.close()
    shown = onward(home, "status").stdout
    assert "  dead letters: ingestion 1:  onward documents --status failed\n" in shown
    assert "empty.mbox" in onward(home, "documents", "--status", "failed").stdout
