"""The service of the gateway's race, run by `onward worker`: an event in, a document committed, an event out."""

from __future__ import annotations

import os
from pathlib import Path

from bench.peers_race import MARKS, open_marks
from onward import App, Document, Event, Work


class Ping(Event):
    """Something happened in another program."""

    number: int


class Answered(Event, notice=True):
    """What came of it, for other programs."""

    number: int


class Pong(Document):
    """What is stored of it."""

    number: int


app = App()
_mark = open_marks(Path(os.environ[MARKS])) if MARKS in os.environ else None


@app.service("answering", on=Ping)
async def answer(event: Ping, work: Work) -> None:
    """Store a document, and tell other programs."""
    work.add(Pong(id=f"pong-{event.number}", number=event.number))
    work.emit(Answered(number=event.number))
    if _mark is not None:
        _mark(event.number)
