"""Publish pages, announce them, write them, print their status, requeue dead letters.

python desk.py publish home about
"""

import json
import sys
from collections.abc import Callable

from clippings import Page, PageFound, WordCount, app


def page(name: str) -> Page:
    return Page(id=name, path=f"{name}.txt")


def publish(*ids: str) -> None:
    """Put pages and the events that name them on the ledger, in one transaction."""
    pages = [page(name) for name in ids]
    app.publish(*map(PageFound.of, pages), documents=pages)
    print(f"published {len(pages)}")


def announce(name: str) -> None:
    """Send an event as another program would, without the page that it names."""
    event = {"event_type": "PageFound", "data": {"page_id": name}}
    app.publish_raw(json.dumps(event).encode())
    print(f"announced {name}")


def write(name: str) -> None:
    """Write a page, without an event."""
    app.add(page(name))
    print(f"wrote {name}")


def look(*ids: str) -> None:
    """Print the status of pages, open breakers and dead letters."""
    for name in ids:
        state, count = app.state(Page, name), app.get(WordCount, name)
        status = state.status if state else "not written yet"
        print(f"{name}: {status}" + (f", {count.words} words" if count else ""))
    for breaker in app.store.breakers():
        if breaker.open:
            print(f"{breaker.dependency} is down: {breaker.reason}")
    for dead in app.store.dead_letters():
        print(f"dead letter {dead.row}: {dead.abandoned_reason}: {dead.error_type}: {dead.last_error}")


def requeue() -> None:
    """Put the event of every dead letter back on the ledger."""
    for dead_letter in app.store.dead_letters():
        app.store.requeue(dead_letter.row)
        print(f"requeued {dead_letter.row}")


COMMANDS: dict[str, Callable[..., None]] = {
    "publish": publish,
    "announce": announce,
    "write": write,
    "look": look,
    "requeue": requeue,
}

if __name__ == "__main__":
    command, *given = sys.argv[1:]
    COMMANDS[command](*given)
