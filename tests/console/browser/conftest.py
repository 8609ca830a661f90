"""A real browser, and a console in trouble that it looks at; it stays in trouble, whatever tests change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from onward import App
from tests.conftest import need_server
from tests.console.browser.pages import find_page
from tests.console.browser.trouble import make_trouble
from tests.support.console_client import Site, pipeline, serving
from tests.support.model_server import ModelServer
from tests.support.servers.__main__ import find_browser, missing_browser

T = TypeVar("T")

LOCKED = "correct horse battery staple"
"""The token of the locked console."""

# Playwright keeps an event loop in the thread of the tests, in which no other can run. So it ends with each file,
# before tests of others have their turn, and what needs a loop of its own runs in another thread.


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, started once a file."""
    need_server("; ".join(missing_browser()))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_browser(), args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page of a new visitor: `open_page(site.url, color_scheme="dark")`."""
    expect.set_options(timeout=30_000)
    contexts = []

    def open_one(url: str, **context: Any) -> Page:
        contexts.append(browser.new_context(base_url=url, **context))
        return contexts[-1].new_page()

    yield open_one
    for one in contexts:
        one.close()


@pytest.fixture(scope="session")
def models() -> Iterator[ModelServer]:
    """The embedder of the console in trouble."""
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="session")
def troubled(models: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A console with the sample, a failure, a dead letter, a failed batch and an open breaker."""
    folder = tmp_path_factory.mktemp("troubled")
    app = with_models(folder / "home", models)
    elsewhere(lambda: make_trouble(app, models, folder))
    with serving(app) as site:
        chunk = find_page("failed-chunk", site.page)
        site.do("schedule", {"collection": "chunks", "id": chunk.rpartition("/")[2], "at": "24h"})
        yield site
    app.close()


@pytest.fixture(scope="session")
def path_of(troubled: Site) -> Callable[[str], str]:
    """Where a page of the console in trouble is, by its name in `PAGES`; each is looked for once."""
    read = cache(troubled.page)
    return cache(lambda name: find_page(name, read))


@pytest.fixture(scope="session")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A console that wants a token."""
    app = pipeline(tmp_path_factory.mktemp("locked"), ONWARD_SERVE_REQUESTS_PER_SECOND="100000")
    with serving(app, token=LOCKED) as site:
        yield site
    app.close()


def with_models(home: Path, server: ModelServer) -> App:
    """The pipeline with an embedder that can be broken."""
    return pipeline(
        home,
        ONWARD_EMBEDDER=server.url,
        ONWARD_EMBEDDER_MODEL="small",
        ONWARD_SERVE_REQUESTS_PER_SECOND="100000",
    )


def elsewhere(work: Callable[[], T]) -> T:
    """Do something in another thread, and wait for it."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


@contextmanager
def working(app: App) -> Iterator[None]:
    """A worker that runs beside the test."""
    engine = app.engine()
    thread = threading.Thread(target=engine.run)
    thread.start()
    try:
        yield
    finally:
        engine.drain()
        thread.join(60)
