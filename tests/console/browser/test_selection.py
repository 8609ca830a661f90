"""Somebody ticks entries of a list: one, all on the page, then all that match; and runs an action on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.console.shop import Shop, open_shop
from tests.support.failed_pages import fail

ALL = 60


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path) as found:
        fail(found.on, *(f"page-{number:02}" for number in range(ALL)))
        yield found


def test_all_that_match_are_selected_after_all_on_the_page(shop: Shop, open_page: Callable[..., Page]) -> None:
    page = open_page(shop.site.url)
    page.goto("/documents?status=failed")
    retry, said = page.get_by_role("button", name="Retry…"), page.locator("[data-selected]")
    whole = page.get_by_label("Select all on this page")
    every = page.get_by_label(f"Select all {ALL} that match")
    expect(retry).to_be_disabled()
    expect(every).to_be_hidden()
    page.locator("input[name=selected]").first.check()
    expect(said).to_have_text("1 selected")
    expect(retry).to_be_enabled()
    whole.check()
    expect(said).to_have_text("50 selected")
    every.check()
    expect(said).to_have_text(f"{ALL} selected")
    page.locator("input[name=selected]").first.uncheck()
    expect(said).to_have_text("49 selected")
    expect(every).to_be_hidden()
    whole.check()
    every.check()
    retry.click()
    expect(page.get_by_text(f"{ALL} documents would be tried again now")).to_be_visible()
    page.get_by_role("button", name="Retry now").click()
    expect(page.get_by_text(f"{ALL} documents will be tried again now").first).to_be_visible()
    assert all(state.retry_at is not None for state in shop.on.store.states("pages", limit=100))


def test_those_that_are_ticked_stay_ticked_while_the_list_is_live(
    shop: Shop, open_page: Callable[..., Page]
) -> None:
    page = open_page(shop.site.url)
    page.goto("/failures")
    page.locator("input[name=selected]").first.check()
    fail(shop.on, "another", fingerprint="0bad0bad", message="something else")
    expect(page.locator("[data-selected]")).to_have_text("1 selected")
    page.get_by_role("button", name="Put back…").click()
    expect(page.get_by_role("heading", name="Put failure groups back (1 group)")).to_be_visible()
