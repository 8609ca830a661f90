"""Points in time, which every page shows in the zone of the browser that looks at it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, expect

from tests.support.console_client import Site


@pytest.mark.parametrize("zone", ("America/New_York", "Asia/Tokyo"))
def test_the_first_page_already_shows_the_times_of_the_reader(
    troubled: Site, open_page: Callable[..., Page], path_of: Callable[[str], str], zone: str
) -> None:
    page = open_page(troubled.url, timezone_id=zone, locale="en-GB")
    page.goto(path_of("failed-chunk"))  # it is scheduled for tomorrow
    expect(page.locator(".zone")).to_contain_text(zone)
    sentence = page.locator("p", has_text="Scheduled by an operator for")
    clock = sentence.locator("time:not([data-ago])")
    there = datetime.fromisoformat(clock.get_attribute("datetime") or "").astimezone(ZoneInfo(zone))
    expect(clock).to_have_text(f"{there:%Y-%m-%d %H:%M}")
    expect(sentence.locator("time[data-ago]")).to_have_text(re.compile("tomorrow|in 23 hours"))
    # The live part, which has come since, is in the same zone.
    expect(page.locator(".live [data-state=on]")).to_be_visible()
    expect(clock).to_have_text(f"{there:%Y-%m-%d %H:%M}")


def test_a_browser_without_scripts_is_told_which_zone_it_sees(
    troubled: Site, open_page: Callable[..., Page]
) -> None:
    page = open_page(troubled.url, timezone_id="Asia/Kolkata", java_script_enabled=False)
    page.goto("/")
    expect(page.locator(".zone")).to_have_text("Times in UTC")


def test_a_browser_that_keeps_no_cookies_is_not_sent_in_circles(
    troubled: Site, open_page: Callable[..., Page]
) -> None:
    page = open_page(troubled.url, timezone_id="Asia/Kolkata")
    page.add_init_script("Object.defineProperty(document, 'cookie', { get: () => '', set: () => {} });")
    loads: list[str] = []
    page.on("load", lambda _: loads.append(page.url))
    page.goto("/workers")
    expect(page.locator("h1")).to_have_text("Workers and breakers")
    assert len(loads) == 1
