"""Searching in a browser: results while one types, facets without a new page, and all of it without JavaScript."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # it ships no types
from playwright.sync_api import Page, Route, expect

from onward.pipeline.sources import submit
from tests.console.browser.conftest import elsewhere
from tests.support.command_runs import SAMPLE
from tests.support.console_client import Site, pipeline, serving

PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A console of the sample archive and a folder."""
    folder = tmp_path_factory.mktemp("searched")
    (folder / "notes").mkdir()
    (folder / "notes" / "tide.md").write_text(
        "# The tide gauge\n\nThe tide gauge stands at the end of the pier.\n"
    )
    app = pipeline(folder / "home", ONWARD_SERVE_REQUESTS_PER_SECOND="10000")

    def fill(path: Path) -> None:
        submit(app, str(path))
        app.work_until_idle()

    for path in (SAMPLE, folder / "notes"):
        elsewhere(lambda path=path: fill(path))  # type: ignore[misc]
    with serving(app) as site:
        yield site
    app.close()


@pytest.fixture
def page(searched: Site, open_page: Callable[..., Page]) -> Page:
    return open_page(searched.url, reduced_motion="reduce")


def asked(page: Page) -> dict[str, list[str]]:
    """What the address of the page asks for."""
    return parse_qs(urlsplit(page.url).query)


def test_results_follow_what_is_typed(page: Page) -> None:
    page.goto("/search")
    box = page.get_by_role("searchbox")
    expect(box).to_be_focused()
    box.press_sequentially("key boathou")
    expect(page.locator("mark", has_text="boathouse").first).to_be_visible()
    expect(box).to_be_focused()
    expect(page.get_by_role("status")).to_have_text(page.locator(".found-head strong").inner_text())
    expect(page).to_have_title("key boathou · Search · Onward")
    assert asked(page) == {"q": ["key boathou"]}
    box.fill("xyzzyq from:nobody")
    expect(page.get_by_role("status")).to_have_text("Nothing found")
    box.fill("")
    expect(page.get_by_role("heading", name="What can be typed")).to_be_visible()
    assert urlsplit(page.url).query == ""


def test_a_slow_answer_does_not_replace_a_newer_one(page: Page) -> None:
    """The older request is aborted, and what it would have brought is not shown."""
    page.goto("/search")
    held: list[Route] = []

    def hold(route: Route) -> None:
        if "boathouse" in route.request.url and "gauge" not in route.request.url:
            held.append(route)
        else:
            route.continue_()

    page.route("**/search?*", hold)
    box = page.get_by_role("searchbox")
    with page.expect_event("requestfailed") as failed:
        with page.expect_request(lambda request: "boathouse" in request.url):
            box.fill("boathouse")
        box.fill("tide gauge")
    assert "q=boathouse" in failed.value.url
    expect(page.get_by_role("link", name="Tide gauge reads high since the storm", exact=True)).to_be_visible()
    assert len(held) == 1
    expect(page.locator("#results")).not_to_have_attribute("aria-busy", "true")


def test_facets_narrow_the_search_and_back_widens_it(page: Page) -> None:
    page.goto("/search?q=tide+gauge")
    page.evaluate("window.stays = true")
    before = page.locator(".found-head strong").inner_text()
    facets = page.get_by_role("navigation", name="Narrow it down")
    facets.get_by_role("link", name="markdown").click()
    expect(page.get_by_role("status")).to_have_text("1 message matches well")
    assert asked(page) == {"q": ["tide gauge"], "kind": ["markdown"]}
    expect(page.get_by_text("tide.md")).to_be_visible()
    expect(facets.get_by_role("link", name=re.compile("markdown.*chosen, remove"))).to_be_focused()
    page.get_by_role("searchbox").fill("pier")
    expect(page).to_have_title("pier · Search · Onward")
    assert asked(page) == {"q": ["pier"], "kind": ["markdown"]}, "the filter stays while one types"
    page.get_by_role("list", name="Chosen filters").get_by_role("link").click()
    expect(page.get_by_role("list", name="Chosen filters")).to_have_count(0)
    assert asked(page) == {"q": ["pier"]}
    page.go_back()
    expect(page.get_by_role("list", name="Chosen filters")).to_be_visible()
    page.go_back()
    expect(page.locator(".found-head strong")).to_have_text(before)
    expect(page.get_by_role("searchbox")).to_have_value("tide gauge")
    assert page.evaluate("window.stays"), "it was one page all the time"


def test_a_server_that_is_away_is_said(page: Page) -> None:
    page.goto("/search?q=tide")
    page.route("**/search?*", lambda route: route.abort())
    page.get_by_role("searchbox").fill("tide gauge")
    expect(page.get_by_role("status")).to_contain_text("The search failed")
    page.unroute("**/search?*")
    page.get_by_role("searchbox").press("Enter")
    expect(page.get_by_role("status")).to_contain_text("match well")


def test_similar_messages_are_fetched_when_they_are_wanted(page: Page) -> None:
    page.goto("/search?q=pier&kind=markdown")
    page.locator("a.hit").first.click()
    first = page.locator("details.similar").first
    expect(first.locator(".hits")).to_have_count(0)
    first.locator("summary").click()
    expect(first.locator("a.hit").first).to_be_visible()


@pytest.mark.parametrize("width", (1280, 390))
def test_it_works_without_javascript(searched: Site, open_page: Callable[..., Page], width: int) -> None:
    page = open_page(searched.url, java_script_enabled=False, viewport={"width": width, "height": 844})
    page.goto("/search")
    page.get_by_role("searchbox").fill("tide gauge")
    page.get_by_role("searchbox").press("Enter")
    expect(page.locator(".found-head strong")).to_contain_text("match well")
    if width < 600:
        page.get_by_text("Narrow it down").click()
    page.get_by_role("link", name="markdown").click()
    expect(page.locator(".found-head strong")).to_have_text("1 message matches well")
    page.get_by_role("searchbox").fill("pier")
    page.get_by_role("searchbox").press("Enter")
    assert asked(page)["kind"] == ["markdown"]


def test_everybody_can_use_what_is_folded(page: Page) -> None:
    page.goto("/search?q=tide+gauge&author=finch")
    for summary in page.locator("main summary").all():
        if summary.is_visible():
            summary.click()
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    wide, screen = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= screen
