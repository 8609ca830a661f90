"""Clippings: pages are fetched from a website, and their words counted."""

import os
import signal
from pathlib import Path

from onward import App, Document, Event, Work, names

SITE = Path("site")


class Page(Document):
    path: str


class WordCount(Document):
    words: int


class PageFound(Event):
    page_id: str = names(Page)


app = App()


@app.service("counting", on=PageFound, finishes=Page, needs="website")
def count(page: Page, work: Work) -> None:
    text = fetch(page.path)
    work.add(WordCount(id=page.id, words=len(text.split())))


def fetch(path: str) -> str:
    """Fetch a page. Our website is a folder, so that we can break it."""
    have_accident()
    if not SITE.is_dir():
        raise ConnectionError("nobody answers")
    return (SITE / path).read_text(encoding="utf-8")


app.dependency("website", health=SITE.is_dir)


def have_accident() -> None:
    """Kill this process, once, if ACCIDENT names a file that is not there yet."""
    accident = os.environ.get("ACCIDENT")
    if accident and not Path(accident).exists():
        Path(accident).touch()
        os.kill(os.getpid(), signal.SIGKILL)
