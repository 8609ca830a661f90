"""An app for worker processes whose metrics are looked at: pages are read, some badly."""

from __future__ import annotations

import os

from onward import App, Document, Event, Permanent, Work, names


class Page(Document):
    pass


class PagesFound(Event):
    page_ids: list[str] = names(Page)


app = App()


@app.service("reading", on=PagesFound, finishes=Page)
def read(page: Page, work: Work) -> None:
    app.metrics.increment("pages_read_total", kind="bad" if page.id.startswith("bad") else "good")
    if page.id.startswith("bad"):
        raise Permanent("it will never do")
    if page.id.startswith("deadly"):
        os._exit(9)
