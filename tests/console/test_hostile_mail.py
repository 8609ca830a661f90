"""A mail that wants to do harm is shown, and does none."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator

import pytest

from onward.pipeline.documents import Message
from tests.console.hostile import PAYLOADS, SCRIPT, crawl, ingest
from tests.console.inspecting import harm_in
from tests.support.console_client import Site, pipeline, serving

pytestmark = pytest.mark.prove


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A console of a store with such mails in it."""
    folder = tmp_path_factory.mktemp("attacked")
    app = pipeline(folder / "home", ONWARD_SERVE_REQUESTS_PER_SECOND="100000")
    ingest(app, folder / "mail")
    with serving(app) as site:
        yield site
    app.close()


@pytest.fixture(scope="module")
def pages(attacked: Site) -> dict[str, str]:
    """Every page that can be reached by clicking, as it was sent."""
    return crawl(attacked)


def test_the_mails_are_really_there(attacked: Site, pages: dict[str, str]) -> None:
    counts = attacked.app.store.document_counts()["messages"]
    assert sum(counts.values()) == len(PAYLOADS) + 1
    shown = [path for path, page in pages.items() if html.escape(SCRIPT, quote=False)[:12] in page]
    for kind in ("/search", "/threads", "/threads/", "/documents", "/documents/messages/", "/documents/chunks/"):
        assert any(path.startswith(kind) for path in shown), f"{kind} shows none of it"
    for kind in ("/similar/", "/ask"):
        assert any(path.startswith(kind) for path in shown), f"{kind} shows none of it"
    for kind in ("/documents/summaries/", "/documents/threads/", "/queues", "/letters/", "/actions", "/failures"):
        assert any(path.startswith(kind) for path in shown), f"{kind} shows none of it"


def test_no_page_has_anything_that_could_run_or_load(pages: dict[str, str]) -> None:
    harmful = {path: harm for path, page in pages.items() if (harm := harm_in(page))}
    assert harmful == {}
    assert any("{{ 7 * 7 }}" in page for page in pages.values()), "what looks like a template is text"
    assert not [path for path, page in pages.items() if re.search("[\x00-\x08\x0e-\x1f\u202e]", page)]


def test_live_parts_are_as_harmless(attacked: Site, pages: dict[str, str]) -> None:
    parts = {html.unescape(one) for page in pages.values() for one in re.findall(r'data-live="([^"]+)"', page)}
    kinds = {one.split("/")[2]: one for one in sorted(parts)}
    assert len(kinds) > 2
    for path in kinds.values():
        with attacked.client.stream("GET", path) as stream:
            sent = next(line for line in stream.iter_lines() if line.startswith("data: "))
        assert harm_in(json.loads(sent.removeprefix("data: "))) == [], path


def test_bytes_are_saved_never_shown(attacked: Site) -> None:
    """A browser must not take what was fetched for a page of this server."""
    states = attacked.app.store.states(Message, limit=1)
    page = attacked.page(f"/documents/messages/{states[0].id}")
    paths = re.findall(r'href="([^"]+)" download', page)
    assert paths, "the mail, and its attachments if it has any"
    for path in paths:
        answer = attacked.client.get(html.unescape(path))
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not re.search(r'[<>\r\n]|(?<!=)"[^"]*"[^"]*"', answer.headers["content-disposition"])
