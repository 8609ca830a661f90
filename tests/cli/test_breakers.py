"""`onward breakers` shows which dependencies are down and what waits for them, and takes one out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onward.model.dependency_limits import ClaimLimits, DependencyLimit, Rate
from tests.cli import scenes
from tests.support.command_runs import onward
from tests.support.failed_pages import stage


@pytest.fixture
def shop(home: Path) -> Path:
    scenes.events_that_need_a_printer(home)
    return home


def facts(home: Path, *args: str) -> dict[str, Any]:
    result = onward(home, "breakers", *args, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_every_dependency_that_a_service_needs_is_listed(shop: Path) -> None:
    (one,) = facts(shop)["breakers"]
    assert (one["dependency"], one["state"], one["services"]) == ("printer", "closed", ["drawing", "printing"])
    assert one["waiting"] == 0, "nothing waits because of it"
    assert onward(shop, "breakers").stdout == onward(shop, "breakers", "list").stdout


def test_an_outage_with_its_reason_remedy_and_next_probe(shop: Path) -> None:
    with stage(shop) as on:
        on.store.open_breaker("printer", "it burns: password=tinder", remedy="fetch water")
    (one,) = facts(shop)["breakers"]
    assert (one["state"], one["reason"], one["remedy"]) == ("open", "it burns: password=***", "fetch water")
    assert (one["waiting"], one["by_hand"]) == (2, False)
    assert one["since"] < one["next_probe"]
    assert "tinder" not in onward(shop, "breakers").stdout


def test_a_breaker_that_is_opened_by_hand_stays_open(shop: Path) -> None:
    facts(shop, "open", "printer", "--reason", "new toner")
    (one,) = facts(shop)["breakers"]
    assert (one["state"], one["reason"], one["by_hand"], one["next_probe"]) == ("open", "new toner", True, None)
    with stage(shop) as on:
        assert on.claim(service="printing", needs=("printer",)) == []


def test_a_closed_breaker_lets_one_event_through_at_first(shop: Path) -> None:
    onward(shop, "breakers", "open", "printer", "--reason", "new toner")
    facts(shop, "close", "printer")
    (one,) = facts(shop)["breakers"]
    assert (one["state"], one["limit"]) == ("recovering", 1)
    with stage(shop) as on:
        assert len(on.claim(service="printing", needs=("printer",))) == 1


def test_closing_what_is_not_open_changes_nothing(shop: Path) -> None:
    facts(shop, "close", "printer")
    assert facts(shop)["breakers"][0]["state"] == "closed"
    with stage(shop) as on:
        assert on.store.actions() == []


def test_the_history_keeps_every_opening(shop: Path) -> None:
    assert facts(shop, "--history")["history"] == []
    onward(shop, "breakers", "open", "printer", "--reason", "first")
    onward(shop, "breakers", "close", "printer")
    onward(shop, "breakers", "open", "printer", "--reason", "second")
    history = facts(shop, "--history")["history"]
    assert [(one["reason"], one["closed_at"] is None) for one in history] == [("first", False), ("second", True)]


def test_opening_and_closing_are_logged(shop: Path) -> None:
    assert facts(shop, "open", "printer", "--reason", "new toner")["state"] == "open"
    facts(shop, "close", "printer")
    with stage(shop) as on:
        closing, opening = on.store.actions()
    assert (opening.action, opening.about) == ("breakers open", {"dependency": "printer", "reason": "new toner"})
    assert (closing.action, closing.about) == ("breakers close", {"dependency": "printer"})


@pytest.mark.parametrize(
    ("args", "problem"),
    (
        (("open", "plotter", "--reason", "x"), "'plotter'; known are: printer"),
        (("close", "plotter"), "'plotter'; known are: printer"),
        (("open", "printer"), "Missing option '--reason'"),
        (("open", "printer", "--reason", " "), "the reason is empty; give one"),
        (("--json", "close", "printer"), "give options behind `close`"),
    ),
)
def test_wrong_usage_is_refused(shop: Path, args: tuple[str, ...], problem: str) -> None:
    result = onward(shop, "breakers", *args)
    assert result.exit_code == 2
    assert problem in " ".join(result.stderr.split())


def test_a_breaker_that_is_open_can_be_opened_by_hand_for_another_reason(shop: Path) -> None:
    with stage(shop) as on:
        on.store.open_breaker("printer", "no paper")
    for reason in ("new toner", "new drum"):
        facts(shop, "open", "printer", "--reason", reason)
        (one,) = facts(shop)["breakers"]
        assert (one["state"], one["reason"], one["by_hand"], one["next_probe"]) == ("open", reason, True, None)


def claim_limited(home: Path, limit: DependencyLimit) -> None:
    with stage(home) as on:
        assert len(on.claim(service="printing", needs=("printer",), limits=ClaimLimits((limit,)))) == 1


def test_a_rate_and_what_waits_for_it(shop: Path) -> None:
    claim_limited(shop, DependencyLimit("printer", "1/hour", Rate(1, 3600.0)))
    (one,) = facts(shop)["breakers"]
    assert (one["state"], one["rate"], one["concurrency"], one["waiting_for_limit"]) == (
        "closed",
        "1/hour",
        None,
        1,
    )
    assert one["next_start"] is not None
    assert "limited to 1/hour; 1 event waits for that limit" in onward(shop, "breakers").stdout


def test_a_concurrency_and_what_waits_for_it(shop: Path) -> None:
    claim_limited(shop, DependencyLimit("printer", concurrency=1))
    (one,) = facts(shop)["breakers"]
    assert (one["rate"], one["concurrency"], one["claimed"], one["waiting_for_limit"]) == (None, 1, 1, 1)
    assert "limited to 1 at once (1 now); 1 event waits for that limit" in onward(shop, "breakers").stdout


def test_what_waits_for_a_limit_is_neither_stuck_nor_in_need_of_anybody(shop: Path) -> None:
    before = json.loads(onward(shop, "status", "--json").stdout)
    claim_limited(shop, DependencyLimit("printer", "1/day", Rate(1, 86_400.0)))
    after = json.loads(onward(shop, "status", "--json").stdout)
    assert after["stuck"] == {}
    assert after["outages"] == []
    assert [one["kind"] for one in after["needs"]] == [one["kind"] for one in before["needs"]]
