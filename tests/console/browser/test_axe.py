"""Everybody can read and use every page: what axe knows of WCAG, light and dark."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # it ships no types
from playwright.sync_api import Page

from tests.console.browser.conftest import LOCKED
from tests.console.browser.pages import PAGES
from tests.support.console_client import Site

COLOURS = {"runOnly": ["color-contrast"], "resultTypes": ["violations"]}


def violations(page: Page, options: dict[str, list[str]] | None = None) -> list[str]:
    """What axe finds on a page, with where it is."""
    found = Axe().run(page, options=options or {"resultTypes": ["violations"]}).response["violations"]
    return [f"{one['id']} ({one['help']}): {node['html'][:200]}" for one in found for node in one["nodes"]]


@pytest.fixture(scope="module")
def page(troubled: Site, open_page: Callable[..., Page]) -> Page:
    return open_page(troubled.url, reduced_motion="reduce")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_can_be_used_by_everybody(page: Page, path_of: Callable[[str], str], name: str) -> None:
    page.emulate_media(color_scheme="light")
    page.goto(path_of(name))
    assert violations(page) == []
    # Dark differs in nothing but colours.
    page.emulate_media(color_scheme="dark")
    assert violations(page, COLOURS) == []


def test_so_can_the_dialog_with_the_keys(page: Page) -> None:
    page.emulate_media(color_scheme="light")
    page.goto("/")
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    assert violations(page) == []


def test_and_the_page_that_asks_for_the_token(locked: Site, open_page: Callable[..., Page]) -> None:
    page = open_page(locked.url, color_scheme="light")
    page.goto("/documents")
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, COLOURS) == []
    page.get_by_label("Token").fill("not " + LOCKED)
    page.get_by_label("Token").press("Enter")
    page.get_by_role("alert").wait_for()
    assert violations(page) == []
