"""Every page of the console, and how it is found from where it is linked."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

PAGES: dict[str, tuple[str, ...]] = {
    "overview": ("/",),
    "documents": ("/documents",),
    "failed-documents": ("/documents?status=failed",),
    "no-documents": ("/documents?q=no-such-id",),
    "message": ("/documents?collection=messages&status=processed", r"/documents/messages/.+"),
    "chunk": ("/documents?collection=chunks", r"/documents/chunks/.+"),
    "failed-chunk": ("/documents?collection=chunks&status=failed", r"/documents/chunks/.+"),
    "archive": ("/documents?collection=archives", r"/documents/archives/.+"),
    "failures": ("/failures",),
    "failure-group": ("/failures", r"/failures/[^?]+"),
    "queues": ("/queues",),
    "queue": ("/queues", r"/queues/.+"),
    "letter": ("/queues", r"/queues/.+", r"/letters/\d+"),
    "batches": ("/batches",),
    "batch": ("/batches", r"/batches/[^?]+"),
    "tasks": ("/tasks",),
    "task": ("/tasks", r"/tasks/.+"),
    "ingest": ("/ingest",),
    "sources": ("/sources",),
    "search": ("/search",),
    "search-results": ("/search?q=tide",),
    "search-narrowed": ("/search?q=tide+gauge&year=2026&author=priya&sort=date&since=2026-01",),
    "search-mistake": ("/search?q=before:soon",),
    "similar": ("/search?q=vent+tube", r"/similar/.+"),
    "nothing-found": ("/search?q=xyzzy&author=nobody",),
    "ask": ("/ask",),
    "answer": ("/ask?q=why+did+the+tide+gauge+drift",),
    "cited": ("/ask?q=why+did+the+tide+gauge+drift", r"/threads/.+#cited"),
    "no-answer": ("/ask?q=who+wrote+hamlet",),
    "threads": ("/threads",),
    "thread": ("/threads?q=tide", r"/threads/[^?]+"),
    "services": ("/services",),
    "service": ("/services", r"/services/.+"),
    "simulate": ("/simulate",),
    "workers": ("/workers",),
    "settings": ("/settings",),
    "actions": ("/actions",),
    "operations": ("/operations",),
    "operation": ("/operations", r"/operations/.+"),
    "confirm-retry": ("/failures", r"/failures/[^?]+", r"/confirm/retry-group\?.+"),
    "confirm-discard": ("/failures", r"/failures/[^?]+", r"/confirm/discard-group\?.+"),
    "confirm-forget": ("/tasks", r"/tasks/.+", r"/confirm/forget\?.+"),
    "api": ("/docs",),
    "not-found": ("/nothing-here",),
}
"""Where to begin, and which links to follow: of each kind the first."""

_LINK = re.compile(r'href="([^"]+)"')


class NoSuchLink(Exception):
    """A page does not lead where it should."""


def find_page(name: str, read: Callable[[str], str]) -> str:
    """The path of a page; `read` answers the HTML of a path."""
    path, *links = PAGES[name]
    for link in links:
        found = [html.unescape(one) for one in _LINK.findall(read(path))]
        matching = [one for one in found if re.fullmatch(link, one)]
        if not matching:
            raise NoSuchLink(f"{path} has no link like {link}, which leads to {name}")
        path = matching[0]
    return path
