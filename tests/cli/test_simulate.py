"""`onward simulate`: it reads the load from the store, and leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onward.model.rollups import MINUTE, ServiceCounts, bucket_of
from onward.ops.simulation import scenario
from onward.pipeline.app import build
from onward.settings import load_settings
from tests.support.command_runs import environment, onward

LOAD = ("--service", "summarization", "--load", "1/min", "--duration", "1s", "--outage", "30min")


@pytest.fixture(autouse=True)
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario, "CALLS_IN_ALL", 500)


def test_a_described_load_needs_no_store(home: Path) -> None:
    done = onward(home, "simulate", *LOAD, "--set", "breaker.probe_max=30s", "--json")
    facts = json.loads(done.stdout)
    assert [one["title"] for one in facts["outcomes"]] == ["as it is", "changed"]
    assert facts["load"]["per_second"] == pytest.approx(1 / 60)
    assert facts["outcomes"][1]["settings"] == {"breaker_probe_max_seconds": 30.0}
    assert not home.exists(), "nothing is made"


def test_without_history_it_says_what_to_give(home: Path) -> None:
    done = onward(home, "simulate", "--service", "embedding")
    assert done.exit_code == 2
    assert "--load 20/s --duration 200ms" in done.stderr


@pytest.mark.prove
def test_the_load_is_that_of_the_last_day(home: Path) -> None:
    app = build(load_settings(environment(home)))
    counts = ServiceCounts(events=120)
    counts.add_tries([0.25] * 120)
    now = app.store.now()
    app.store.add_counts({(bucket_of(now - 3600, MINUTE), "summarization"): counts})
    before = dict(app.store.counts())
    facts = json.loads(
        onward(home, "simulate", "--service", "summarization", "--outage", "10min", "--json").stdout
    )
    assert facts["load"]["per_second"] == pytest.approx(2.0)
    assert facts["load"]["duration"] == pytest.approx(0.25)
    given = ("--service", "summarization", "--outage", "10min", "--duration", "100ms", "--json")
    facts = json.loads(onward(home, "simulate", *given).stdout)
    assert (facts["load"]["per_second"], facts["load"]["duration"]) == (pytest.approx(2.0), pytest.approx(0.1))
    assert app.store.counts() == before, "the store is only read"
    app.close()


@pytest.mark.parametrize(
    ("args", "words"),
    (
        (("--outage", "soon"), ("--outage", "'soon'")),
        (("--set", "max_retries=0"), ("--set max_retries", "'0'", "at least 1")),
        (("--what-if", "magic"), ("--what-if", "'magic'", "no-breaker")),
    ),
)
def test_a_bad_value_is_wrong_usage(home: Path, args: tuple[str, ...], words: tuple[str, ...]) -> None:
    done = onward(home, "simulate", *LOAD, *args)
    assert done.exit_code == 2
    assert all(word in done.stderr for word in words), done.stderr
