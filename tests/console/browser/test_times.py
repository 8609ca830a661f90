"""Points in time, which the page shows in the zone of whoever reads it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, expect

from tests.support.console_client import Site


@pytest.mark.parametrize("zone", ("America/New_York", "Asia/Kolkata"))
def test_a_time_within_a_sentence_is_that_of_the_reader(
    troubled: Site, open_page: Callable[..., Page], path_of: Callable[[str], str], zone: str
) -> None:
    page = open_page(troubled.url, timezone_id=zone, locale="en-GB")
    page.goto(path_of("failed-chunk"))  # it is scheduled for tomorrow
    sentence = page.locator("p", has_text="Scheduled by an operator for")
    clock = sentence.locator("time[data-clock]")
    there = datetime.fromisoformat(clock.get_attribute("datetime") or "").astimezone(ZoneInfo(zone))
    expect(clock).to_have_text(f"{there.day} {there:%b} {there.year}, {there:%H:%M}")
    expect(sentence.locator("time[data-ago]")).to_have_text(re.compile("tomorrow|in 23 hours"))
