"""Asking in a browser: a passage leads to its sentence; the answer of a chat model comes when it is written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from onward.pipeline.sources import submit
from tests.console.browser.conftest import elsewhere
from tests.support.command_runs import SAMPLE
from tests.support.console_client import pipeline, serving
from tests.support.model_server import ModelServer

QUESTION = "/ask?q=why+did+the+tide+gauge+drift"


def test_passages_are_there_at_once_and_the_model_writes_later(
    open_page: Callable[..., Page], tmp_path: Path
) -> None:
    asked = threading.Event()

    def write(messages: list[dict[str, str]]) -> str:
        assert asked.wait(60)
        return "The vent tube was blocked. [1]"

    with ModelServer(reply="It is about a harbour. [1]") as server:
        app = pipeline(tmp_path, ONWARD_SUMMARIZER=server.url, ONWARD_SUMMARIZER_MODEL="writer")
        submit(app, str(SAMPLE))
        elsewhere(app.work_until_idle)
        server.reply = write
        with serving(app) as site:
            page = open_page(site.url)
            page.goto(QUESTION)
            expect(page.get_by_role("heading", name="passages answer this")).to_be_visible()
            expect(page.locator("#answer")).to_have_attribute("aria-busy", "true")
            asked.set()
            expect(page.get_by_role("heading", name="Answer", exact=True)).to_be_visible()
            page.locator(".prose a.cite").click()
            expect(page.locator("#cited")).to_be_in_viewport()
            expect(page.locator("#cited")).to_contain_text("vent tube")
        app.close()
