"""Every page on a phone: as wide as the screen, quiet, and of one server only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
from playwright.sync_api import Page, Request, ViewportSize

from tests.console.browser.pages import PAGES
from tests.support.console_client import Site

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PHONE: ViewportSize = {"width": 390, "height": 844}
WIDTHS = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
TOPS = "[...document.querySelectorAll('.menu, main, .foot')].map((one) => one.getBoundingClientRect().top)"
SMALL = """() => [...document.querySelectorAll('main :is(button, input, select, .button), .foot a, .menu a')]
  .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 36).map((one) => one.outerHTML)"""
"""What a thumb would miss."""
NOT_THERE = "Failed to load resource: the server responded with a status of 404 (Not Found)"


class Witness:
    """Writes down what a page complains about, and whom it asks."""

    def __init__(self, page: Page, url: str) -> None:
        self.complaints: list[str] = []
        self.strangers: list[str] = []
        self._url = url
        page.on("console", lambda message: self._hear(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._see)

    def _hear(self, kind: str, text: str) -> None:
        # The browser also says here what a content security policy has kept away.
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def _see(self, request: Request) -> None:
        if not request.url.startswith(self._url + "/"):
            self.strangers.append(request.url)


@pytest.fixture(scope="module")
def phone(troubled: Site, open_page: Callable[..., Page]) -> Page:
    return open_page(troubled.url, viewport=PHONE, has_touch=True, is_mobile=True)


@pytest.fixture
def witness(troubled: Site, phone: Page) -> Witness:
    phone.goto("about:blank")  # what the page before says at its end is not this one's
    return Witness(phone, troubled.url)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone(phone: Page, witness: Witness, path_of: Callable[[str], str], name: str) -> None:
    page = phone
    page.goto(path_of(name))
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        wide, screen = page.evaluate(WIDTHS)
        assert wide <= screen == PHONE["width"], scheme
    assert witness.complaints == ([NOT_THERE] if name == "not-found" else [])
    assert witness.strangers == []


def test_what_a_page_must_not_do_would_be_seen(phone: Page, witness: Witness) -> None:
    page = phone
    page.goto("/")
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<p style=\"width:500px\"><img src=//example.org/a>')"
    )
    page.wait_for_function("document.images.length")
    assert any("Content Security Policy" in one for one in witness.complaints)
    page.evaluate("document.querySelector('main').replaceChildren('x'.repeat(500))")
    wide, screen = page.evaluate(WIDTHS)
    assert wide > screen


def test_on_a_phone_the_menu_shows_where_one_is(phone: Page) -> None:
    phone.goto("/settings")
    box = phone.get_by_role("navigation", name="Pages").get_by_role("link", name="Settings").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]


def test_on_a_phone_nothing_is_missing(phone: Page) -> None:
    phone.goto("/")
    for name in ("What people changed", "API"):
        assert phone.get_by_role("link", name=name, exact=True).is_visible(), name
    phone.get_by_role("button", name="Theme: system").click()
    assert phone.locator("html").get_attribute("data-theme") == "light"


def test_on_a_phone_a_source_has_its_actions_and_labels(phone: Page) -> None:
    phone.goto("/sources")
    assert phone.get_by_role("link", name="Run now").first.is_visible()
    cell = phone.locator("td[data-label='Last run']").first
    assert "Last run" in cell.evaluate("one => getComputedStyle(one, '::before').content")


def test_on_a_phone_tab_goes_down_the_page(phone: Page) -> None:
    phone.goto("/documents")
    places = phone.evaluate(TOPS)
    assert len(places) == 3
    assert places == sorted(places)


def test_what_is_pressed_on_a_phone_is_large_enough(phone: Page) -> None:
    phone.goto("/documents")
    assert phone.locator("main select").count() > 1
    assert phone.evaluate(SMALL) == []
