"""Live updates in the browser: paused by hand, held back while they would disturb, off while nobody looks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.console_client import Site, pipeline, serving
from tests.support.failed_pages import failure
from tests.support.servers.private import wait_until

LIVE = re.compile("^live$")
HIDE = """(state) => {
  Object.defineProperty(document, 'visibilityState', { value: state, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
}"""
FORM = """(part) => part.insertAdjacentHTML('beforeend', '<label>Note <input name="note"></label>')"""
MENU = """(part) => part.insertAdjacentHTML('beforeend', '<details class="menu" open>More</details>')"""
SELECT = """(one) => getSelection().selectAllChildren(one)"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    app = pipeline(tmp_path_factory.mktemp("live"), ONWARD_SERVE_REQUESTS_PER_SECOND="100000")
    app.store.report_failure("embedding", failure("no paper", "00000000"))
    with serving(app) as site:
        yield site
    app.close()


@pytest.fixture
def page(site: Site, open_page: Callable[..., Page]) -> Iterator[Page]:
    page = open_page(site.url)
    page.goto("/failures?all=yes")
    expect(page.locator(".live-dot")).to_have_text(LIVE)
    yield page
    page.close()


def _fail(site: Site, number: int) -> str:
    """Make another row on the page of failures; return its text."""
    text = f"out of ink in printer {'abcdefghij'[number]}"
    site.app.store.report_failure("embedding", failure(text, f"{number:08x}"))
    return text


def test_a_paused_page_stays_as_it_is_says_its_age_and_catches_up(page: Page, site: Site) -> None:
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".live-dot")).to_have_text(re.compile(r"^paused, \d+\ss\sold$"))
    wait_until(lambda: site.live.watchers == 0, 30, "a paused page still holds its stream")
    text = _fail(site, 1)
    expect(page.locator(".live-dot")).to_have_text(re.compile(r"^paused, [1-9]\d*\ss\sold$"))
    expect(page.get_by_text(text)).to_have_count(0)
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text(text)).to_be_visible()
    expect(page.locator(".live-dot")).to_have_text(LIVE)


def test_a_pause_is_remembered_on_the_next_pages_of_the_session(page: Page, site: Site) -> None:
    page.keyboard.press("p")
    expect(page.locator(".live-dot")).to_have_text(re.compile("^paused"))
    page.goto("/workers")
    expect(page.locator(".live-dot")).to_have_text(re.compile("^paused"))
    wait_until(lambda: site.live.watchers == 0, 30, "a page that begins paused opens a stream")
    page.keyboard.press("p")
    expect(page.locator(".live-dot")).to_have_text(LIVE)
    page.reload()
    expect(page.locator(".live-dot")).to_have_text(LIVE)


def test_a_page_without_live_parts_has_nothing_to_pause(page: Page) -> None:
    page.goto("/settings")
    expect(page.get_by_role("button", name="Pause")).to_be_hidden()


def test_a_hidden_page_holds_no_stream_and_is_up_to_date_when_it_is_shown(page: Page, site: Site) -> None:
    page.evaluate(HIDE, "hidden")
    wait_until(lambda: site.live.watchers == 0, 30, "a hidden page still holds its stream")
    text = _fail(site, 2)
    page.evaluate(HIDE, "visible")
    expect(page.get_by_text(text)).to_be_visible()
    expect(page.locator(".live-dot")).to_have_text(LIVE)


def test_many_tabs_leave_connections_for_the_one_that_is_seen(page: Page, site: Site) -> None:
    tabs = []
    for _ in range(10):  # a browser opens 6 connections to a server
        tab = page.context.new_page()
        tab.goto("/failures?all=yes")
        expect(tab.locator(".live-dot")).to_have_text(LIVE)
        tab.evaluate(HIDE, "hidden")
        tabs.append(tab)
    wait_until(lambda: site.live.watchers == 1, 30, "hidden tabs hold streams")
    text = _fail(site, 3)
    expect(page.get_by_text(text)).to_be_visible()
    page.goto("/documents")
    expect(page.locator("h1")).to_have_text("Documents")
    for tab in tabs:
        tab.close()


@pytest.mark.parametrize(
    ("number", "begin", "end", "why"),
    (
        (4, SELECT, "() => getSelection().removeAllRanges()", "text is selected"),
        (5, MENU, "(part) => part.querySelector('.menu').removeAttribute('open')", "a menu is open"),
    ),
)
def test_an_update_waits_while_it_would_destroy_something(
    page: Page, site: Site, number: int, begin: str, end: str, why: str
) -> None:
    part = page.locator("[data-live]")
    part.evaluate(begin)
    text = _fail(site, number)
    expect(page.locator(".live-dot")).to_have_text(f"an update waits: {why}")
    expect(page.get_by_text(text)).to_have_count(0)
    part.evaluate(end)
    expect(page.get_by_text(text)).to_be_visible()
    expect(page.locator(".live-dot")).to_have_text(LIVE)


def test_a_form_that_is_filled_in_keeps_what_was_written_also_without_the_focus(page: Page, site: Site) -> None:
    page.locator("[data-live]").evaluate(FORM)
    page.get_by_label("Note").fill("half a thought")
    text = _fail(site, 6)
    expect(page.locator(".live-dot")).to_have_text("an update waits: a form is being filled in")
    page.get_by_label("Note").blur()
    expect(page.locator(".live-dot")).to_have_text("an update waits: a form is being filled in")
    expect(page.get_by_label("Note")).to_have_value("half a thought")
    page.get_by_label("Note").fill("")
    page.get_by_label("Note").blur()
    expect(page.get_by_text(text)).to_be_visible()


def test_a_page_that_was_left_and_comes_back_is_live_again(page: Page, site: Site) -> None:
    page.goto("/settings")
    page.go_back()
    text = _fail(site, 7)
    expect(page.get_by_text(text)).to_be_visible()


def test_a_server_that_is_full_is_asked_again(
    site: Site, open_page: Callable[..., Page], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from onward.console import live

    monkeypatch.setattr(live, "MAX_WATCHERS", 0)
    page = open_page(site.url)
    page.clock.install()
    page.goto("/failures?all=yes")
    expect(page.locator(".live-dot")).to_have_text(re.compile("^not live"))
    monkeypatch.undo()
    page.clock.run_for(11_000)
    expect(page.locator(".live-dot")).to_have_text(LIVE)
