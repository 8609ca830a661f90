"""Hands on the keyboard: every page can be reached and used with it; and all of it without JavaScript, too."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.support.console_client import Site
from tests.support.failed_pages import failure

SEEN = """() => {
  const style = getComputedStyle(document.activeElement);
  return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
}"""
"""Whether it can be seen where the focus is."""


@pytest.fixture(scope="module")
def page(troubled: Site, open_page: Callable[..., Page]) -> Page:
    return open_page(troubled.url)


def test_a_slash_leads_to_the_search(page: Page) -> None:
    page.goto("/documents")
    page.keyboard.press("/")
    expect(page.get_by_label("Find by title, path or id")).to_be_focused()
    expect(page.get_by_label("Find by title, path or id")).to_have_value("")
    page.goto("/workers")
    page.keyboard.press("/")
    page.wait_for_url("**/search")


def test_j_and_k_go_through_a_list_and_enter_opens(page: Page) -> None:
    page.goto("/failures")
    links = page.locator("main tbody tr td.tick + td a")
    page.keyboard.press("j")
    expect(links.nth(0)).to_be_focused()
    assert page.evaluate(SEEN)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(links.nth(1)).to_be_focused()
    where = links.nth(1).get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{where}")


def test_the_focus_stays_where_it_is_when_the_page_is_made_anew(page: Page, troubled: Site) -> None:
    page.goto("/failures")
    expect(page.locator(".live-dot")).to_have_text("live")
    page.keyboard.press("j")
    page.keyboard.press("j")
    link = page.locator("main tbody tr td.tick + td a").nth(1)
    expect(link).to_be_focused()
    link.evaluate("one => one.dataset.old = 'yes'")
    troubled.app.store.report_failure("embedding", failure("out of ink", "1a7e1a7e"))
    expect(page.locator("[data-old]")).to_have_count(0)
    expect(link).to_be_focused()


@pytest.mark.parametrize(
    ("key", "path"), (("d", "/documents"), ("f", "/failures"), ("o", "/"), ("e", "/settings"))
)
def test_g_and_a_letter_go_to_a_page(page: Page, troubled: Site, key: str, path: str) -> None:
    page.goto("/threads")
    page.keyboard.press("g")
    page.keyboard.press(key)
    page.wait_for_url(f"{troubled.url}{path}")


def test_keys_are_letters_where_somebody_writes(page: Page, troubled: Site) -> None:
    page.goto("/search")
    page.get_by_role("searchbox").fill("")
    page.keyboard.type("gd/?j")
    expect(page.get_by_role("searchbox")).to_have_value("gd/?j")
    assert page.url == f"{troubled.url}/search"


def test_a_question_mark_shows_the_keys(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_contain_text("next and previous entry")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


@pytest.mark.parametrize(
    ("name", "action"),
    (
        ("overview", "Ingest"),
        ("documents", "Show"),
        ("failed-chunk", "Retry now"),
        ("failure-group", "Put it back"),
        ("queue", "Put back"),
        ("letter", "Put back"),
        ("batch", "Retry now"),
        ("tasks", "Ingest"),
        ("task", "Ingest again"),
        ("search", "Search"),
        ("threads", "Show"),
        ("thread", "Its document"),
        ("workers", "Bring it back"),
        ("confirm-retry", "Put it back"),
        ("confirm-discard", "Give it up for good"),
    ),
)
def test_what_a_page_is_for_is_reached_with_tab(
    page: Page, path_of: Callable[[str], str], name: str, action: str
) -> None:
    page.goto(path_of(name))
    page.locator("body").press("Tab")
    for _ in range(80):
        assert page.evaluate(SEEN), page.evaluate("document.activeElement.outerHTML")
        focused = page.evaluate("[document.activeElement.matches('main *'), document.activeElement.textContent]")
        if focused[0] and re.match(rf"\s*{action}\b", focused[1]):
            return
        if page.evaluate("document.activeElement.matches('[data-select-page] input')"):
            page.keyboard.press("Space")  # the buttons are for what is ticked
        page.keyboard.press("Tab")
    raise AssertionError(f"{action} is not reached")


def test_the_menu_can_be_skipped(page: Page) -> None:
    page.goto("/documents")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="The breaker")).to_be_focused()  # of the outage, above the page
    page.keyboard.press("Tab")
    expect(page.get_by_label("Find by title, path or id")).to_be_focused()


def test_without_javascript_everything_works(troubled: Site, open_page: Callable[..., Page]) -> None:
    page = open_page(troubled.url, java_script_enabled=False)
    page.goto("/")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Documents", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Documents")
    page.get_by_label("Status").select_option("pending")
    page.get_by_label("Collection").select_option("chunks")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("main tbody tr")).to_have_count(4)
    page.goto("/workers")
    breaker = page.locator(".breaker", has=page.get_by_role("heading", name="embedder", exact=True))
    breaker.get_by_role("link", name="Take it out of service").click()
    page.get_by_label("Why").fill("a new one is put in")
    page.get_by_role("button", name="Take it out of service").click()
    expect(page.get_by_role("status")).to_contain_text("embedder")
    expect(breaker).to_contain_text("a new one is put in")
    breaker.get_by_role("link", name="Bring it back").click()
    page.get_by_role("button", name="Bring it back").click()
    expect(breaker).to_contain_text("recovering")
