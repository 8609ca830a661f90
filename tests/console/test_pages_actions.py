"""What people changed is kept and shown, and so is what is under way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.shop import Shop, open_shop

READING = {"queue": "reading.failed"}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path) as found:
        yield found


def test_where_nobody_changed_anything_it_is_said(shop: Shop) -> None:
    assert "No one has changed anything yet" in shop.words("/actions")
    assert "Nothing is under way" in shop.words("/operations")


def test_actions_are_shown_with_who_what_and_how_much(shop: Shop) -> None:
    shop.on.store.log_action("anna", "cli", "failed requeue", READING | {"canary": 3, "note": "<b>\x1b[2J"}, 17)
    page = shop.page("/actions")
    assert "<b>" not in page
    assert "\x1b" not in page
    assert "failed requeue queue reading.failed canary 3 note <b>[2J 17 anna cli" in shop.words("/actions")


def test_a_time_that_a_change_was_about_is_told_in_the_zone_of_whoever_reads(shop: Shop) -> None:
    shop.on.store.log_action("anna", "cli", "retry", {"at": "2026-11-17T14:22:45.344806+00:00"}, 1)
    shop.on.store.log_action("anna", "cli", "retry", {"at": "soon"}, 1)
    page = shop.page("/actions")
    assert '<time datetime="2026-11-17T14:22:45+00:00">2026-11-17 14:22:45 UTC</time>' in page
    assert "at soon 1 anna" in shop.words("/actions")


def test_actions_come_fifty_at_a_time_the_latest_first(shop: Shop) -> None:
    for number in range(60):
        shop.on.store.log_action("anna", "cli", f"change {number:02}", {}, 1)
    first = shop.words("/actions")
    (following,) = (one for one in shop.links("/actions") if "before=" in one)
    second = shop.words(following)
    assert "50 changes" in first
    assert "10 changes" in second
    assert first.index("change 59") < first.index("change 10")
    assert "change 09" not in first
    assert second.index("change 09") < second.index("change 00")
    assert "change 10" not in second


@pytest.mark.parametrize("before", ("x", "-1", "9" * 30, "9" * 5000, "٣"))
def test_a_place_that_makes_no_sense_is_the_beginning(shop: Shop, before: str) -> None:
    shop.on.store.log_action("anna", "cli", "failed requeue", READING, 17)
    assert "failed requeue" in shop.words(f"/actions?before={before}")


def test_what_was_changed_here_is_listed_and_linked(shop: Shop) -> None:
    shop.site.do("open-breaker", {"name": "printer", "reason": "new paper"})
    assert "Take printer out of service done printer is out of service" in shop.words("/operations")
    (link,) = (one for one in shop.links("/operations") if one.startswith("/operations/"))
    assert "printer is out of service" in shop.words(link)
    shop.site.do("open-breaker", {"name": "printer", "reason": " "})
    assert "Take printer out of service stopped BadInput: the reason is empty" in shop.words("/operations")
