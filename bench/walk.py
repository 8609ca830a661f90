"""`python -m bench.walk`: count the modules and functions that one event passes, from its claim to its commit.

A worker handles `EVENTS` no-op events, each with a document, on SQLite; then twice as many. What was called more
often the second time is called for events, by the event or by the group; what was not belongs to start and end.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

import onward
from onward import App, Document, Event, Settings, Work

EVENTS = 1000
SOURCE = str(Path(onward.__file__).parent)
Function = tuple[str, str]
"""A module below `onward`, and a function of it."""


class Ping(Event):
    """Something happened."""

    number: int


class Pong(Document):
    """What came of it."""

    number: int


def count_calls(events: int) -> Counter[Function]:
    """Count the calls of Onward's functions while a worker handles events."""
    app = App(store="sqlite://:memory:", settings=Settings())

    @app.service("answering", on=Ping)
    async def answer(event: Ping, work: Work) -> None:
        work.add(Pong(id=f"pong-{event.number}", number=event.number))

    for start in range(0, events, 500):
        app.publish(*(Ping(number=number) for number in range(start, start + 500)))
    calls: Counter[Function] = Counter()

    def record(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE) and not code.co_name.startswith("<"):
            calls[code.co_filename.removeprefix(SOURCE + "/").removesuffix(".py"), code.co_name] += 1

    threading.setprofile(record)
    sys.setprofile(record)
    try:
        app.work_until_idle()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    app.close()
    return calls


def walk() -> Counter[Function]:
    """Return how often each function is called for `EVENTS` events more."""
    count_calls(EVENTS)
    runs = [count_calls(2 * EVENTS) - count_calls(EVENTS) for _ in range(3)]
    return runs[0] & runs[1] & runs[2]  # without what depends on the time it took


def main() -> None:
    calls = walk()
    modules = sorted({module for module, _ in calls})
    for module in modules:
        named = {name: count / EVENTS for (found, name), count in calls.items() if found == module}
        print(f"{module}: {', '.join(f'{name} {each:g}' for name, each in named.items())}")
    totals = {"modules": len(modules), "functions": len(calls), "calls_per_event": calls.total() / EVENTS}
    print(json.dumps(totals))


if __name__ == "__main__":
    main()
