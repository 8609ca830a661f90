"""One story from beginning to end: ingest, watch, break the embedder, understand, put back, mend, recover."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.console.browser.conftest import with_models, working
from tests.support.command_runs import mail, write_mailbox
from tests.support.console_client import Site, serving
from tests.support.model_server import ModelServer


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def harbour(tmp_path: Path, server: ModelServer) -> Iterator[Site]:
    """An empty console, and a worker that waits for something to do."""
    app = with_models(tmp_path / "home", server)
    with serving(app) as site, working(app):
        yield site
    app.close()


def mailbox(path: Path, first: int, words: str) -> Path:
    return write_mailbox(
        path, [mail(one, f"Log of day {one}", f"{words} {one}.") for one in range(first, first + 6)]
    )


def ingest(page: Page, path: Path) -> None:
    page.goto("/")
    page.get_by_role("link", name="Ingest", exact=True).click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Choose files").click()
    chooser.value.set_files(path)
    page.get_by_role("button", name="Send 1 file").click()
    page.get_by_role("link", name="See how it goes").click()
    page.wait_for_url("**/tasks/*")
    expect(page.locator("h1")).to_have_text(f"{path.name} (uploaded)")


def put_back(page: Page) -> None:
    page.get_by_role("link", name="Put it back…").click()
    expect(page.get_by_text("6 would be put back: 1, then 5.")).to_be_visible()
    page.get_by_role("button", name="Put it back").click()
    page.wait_for_url("**/operations/*")


def test_somebody_ingests_mail_while_the_embedder_breaks_and_mends_it(
    harbour: Site, server: ModelServer, tmp_path: Path, open_page: Callable[..., Page]
) -> None:
    page = open_page(harbour.url)
    page.goto("/")
    expect(page.get_by_role("heading", name="Nothing has been ingested yet")).to_be_visible()

    # A mailbox goes through, and the page of its task says so by itself.
    ingest(page, mailbox(tmp_path / "calm.mbox", 0, "Calm sea on day"))
    expect(page.locator("main").get_by_text("completed", exact=True)).to_be_visible()
    expect(page.get_by_role("progressbar", name="How far it is")).to_have_js_property("position", 1)

    # The embedder begins to refuse a word.
    server.poison = "storm"
    ingest(page, mailbox(tmp_path / "storm.mbox", 100, "A storm on day"))
    expect(page.locator("main").get_by_text("partly completed")).to_be_visible()
    expect(page.locator("main")).to_contain_text("cannot be tokenized: storm")

    # What fails is one group, with a verdict and what to do.
    page.keyboard.press("g")
    page.keyboard.press("f")
    page.get_by_role("link", name="cannot be tokenized: storm").click()
    expect(page.get_by_role("heading", name="What to do next")).to_be_visible()
    expect(page.locator("main")).to_contain_text("6 of 6 documents")
    group = page.url

    # Put back too early, the first one fails again, and the others stay where they are.
    put_back(page)
    expect(page.locator("main")).to_contain_text("Stopped by the canary in step 1 of 4: 1 of 1 failed again")
    expect(page.locator("main")).to_contain_text("5 left where they are.")

    # Mended, it recovers; somebody who has had the group open all the time sees it happen.
    onlooker = open_page(harbour.url)
    onlooker.goto(group)
    onlooker.evaluate("window.same = true")
    expect(onlooker.locator("main")).to_contain_text("6 of 6 documents")
    server.poison = None
    page.goto(group)
    put_back(page)
    expect(page.locator("main")).to_contain_text("6 put back in all.")
    expect(onlooker.locator("main")).to_contain_text("0 of 6 documents")
    expect(onlooker.locator("main")).to_contain_text("Nothing: it affects nothing any more.")
    assert onlooker.evaluate("window.same"), "it was never loaded again"

    # Nothing is left to do, and what was done by hand is written down.
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Overview").click()
    expect(page.get_by_text("Nothing needs a person.")).to_be_visible()
    page.get_by_role("link", name="What people changed").click()
    expect(page.locator("main tbody tr")).to_contain_text(
        ["failures retry", "failures retry", "failures retry", "ingest", "ingest"]
    )
