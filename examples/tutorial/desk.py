"""The desk: publish pages, announce them, write them down, look at them, put them back.

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
    """Show where pages stand, and what there is to know besides."""
    for name in ids:
        state, count = app.state(Page, name), app.get(WordCount, name)
        status = state.status if state else "not written yet"
        print(f"{name}: {status}" + (f", {count.words} words" if count else ""))
    for breaker in app.store.breakers():
        if breaker.open:
            print(f"{breaker.dependency} is down: {breaker.reason}")
    for letter in app.store.dead_letters():
        print(f"dead letter {letter.row}: {letter.abandoned_reason}: {letter.error_type}: {letter.last_error}")


def put_back() -> None:
    """Put every dead letter's event back on the ledger."""
    for letter in app.store.dead_letters():
        app.store.requeue(letter.row)
        print(f"put back {letter.row}")


COMMANDS: dict[str, Callable[..., None]] = {
    "publish": publish,
    "announce": announce,
    "write": write,
    "look": look,
    "put-back": put_back,
}

if __name__ == "__main__":
    command, *given = sys.argv[1:]
    COMMANDS[command](*given)
