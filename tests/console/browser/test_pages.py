"""The list of pages that the browser looks at has all of them."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.routing import Route

from onward.console.pages import ROUTERS
from tests.console.browser.pages import PAGES

NO_PAGES = {
    "/live/{name:path}",
    "/raw/{collection}/{id:path}",
    "/ui",
    "/outages",
    "/history",
    "/attachments/{id}/{number}",
}
ELSEWHERE = {"/login"}
"""Shown only where a token is needed."""


def test_every_page_is_looked_at(path_of: Callable[[str], str]) -> None:
    routes = [one for router in ROUTERS for one in router.routes if isinstance(one, Route)]
    pages = {one.path: one.path_regex for one in routes if "GET" in (one.methods or ())}
    paths = [urlsplit(path_of(name)).path for name in PAGES]
    missing = {path for path, regex in pages.items() if not any(regex.match(one) for one in paths)}
    assert missing == NO_PAGES | ELSEWHERE
