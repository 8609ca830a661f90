"""`onward capacity`: what a load needs, from what is given and what the store knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onward.model.rollups import MINUTE, ServiceCounts, bucket_of
from onward.ops.capacity.figures import measured
from onward.pipeline.app import build
from onward.settings import load_settings
from tests.support.command_runs import environment, onward


def test_a_described_load_needs_no_store(home: Path) -> None:
    facts = json.loads(onward(home, "capacity", "--messages", "86400/day", "--peak", "2", "--json").stdout)
    assert facts["workload"]["per_second"] == pytest.approx(1.0)
    assert facts["peak_per_second"] == pytest.approx(2.0)
    assert facts["processes"] == 1
    assert {one["name"] for one in facts["databases"]} == {"SQLite", "PostgreSQL"}
    assert not home.exists(), "nothing is made"


def test_without_history_it_says_what_to_give(home: Path) -> None:
    done = onward(home, "capacity")
    assert done.exit_code == 2
    assert "--messages 50k/day" in done.stderr


def test_the_load_is_that_of_the_last_day(home: Path) -> None:
    app = build(load_settings(environment(home)))
    now = app.store.now()
    app.store.add_counts({(bucket_of(now - 3600, MINUTE), "chunking"): ServiceCounts(events=90, documents=8640)})
    facts = json.loads(onward(home, "capacity", "--json").stdout)
    assert facts["workload"]["per_second"] == pytest.approx(0.1)
    assert facts["workload"]["found_in"] == "the messages of the last day"
    app.close()


def test_a_fleet_is_simulated(home: Path) -> None:
    args = ("--simulate", "--workers", "20", "--events", "20k", "--handler", "1s", "--json")
    facts = json.loads(onward(home, "capacity", *args).stdout)
    assert [run["workers"] for run in facts["runs"]] == [1, 2, 5, 10, 20]
    assert facts["runs"][-1]["events"] == 20_000
    assert (facts["knee"], facts["limit"]) == (None, None)
    shown = onward(home, "capacity", *args[:-1]).stdout
    assert "No knee up to 20 workers" in shown


@pytest.mark.parametrize(
    ("args", "words"),
    (
        (("--messages", "many"), ("--messages", "'many'", "300/min")),
        (("--messages", "1/s", "--limit", "parsing=1/s"), ("--limit", "'parsing=1/s'", "embedding")),
        (("--simulate", "--workers", "none"), ("--workers", "'none'", "whole number")),
    ),
)
def test_a_wrong_value_is_wrong_usage(home: Path, args: tuple[str, ...], words: tuple[str, ...]) -> None:
    done = onward(home, "capacity", *args)
    assert done.exit_code == 2
    assert all(word in done.stderr for word in words), done.stderr


def test_own_figures_are_used(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    known = json.loads(measured().to_json())
    known["message"]["processor_seconds"]["parsing"] = 10.0
    file.write_text(json.dumps(known))
    args = ("capacity", "--messages", "1/s", "--peak", "1", "--figures", str(file), "--json")
    assert json.loads(onward(home, *args).stdout)["cores"]["parsing"] == pytest.approx(10.0)
    file.write_text('{"message": 1}')
    done = onward(home, *args)
    assert done.exit_code == 2
    assert str(file) in done.stderr
    assert "make bench" in done.stderr
