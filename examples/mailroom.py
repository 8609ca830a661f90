"""A mail room: letters are sorted by language, translated, and filed.

An ordinary Onward app; `examples.demo` runs it and makes its life hard. Some letters are trouble, which a
real handler would not have to invent:

    a soft one      the drawer jams on the first try
    a thick one     it never fits into the drawer
    a torn one      its bytes are no text
    a sealed one    opening it kills the worker process
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from signal import SIGKILL
from urllib.parse import urlencode

from examples.counter import ask
from examples.letters import language_of
from onward import App, Document, Event, Exponential, RetryPolicy, Work, names
from onward.runtime.outcomes import AnySignal, Retried

FOLDER = Path(os.environ.get("MAILROOM", "mailroom-data"))
"""Where the store and the diary are; the demo gives a temporary folder."""
INTERPRETER = os.environ.get("MAILROOM_INTERPRETER", "http://127.0.0.1:8026")


class Letter(Document):
    """A letter as it came."""

    body: str
    trouble: str = ""


class Note(Document):
    """A letter whose language is known."""

    language: str
    text: str
    trouble: str = ""


class Card(Document):
    """A letter in English."""

    language: str
    english: str
    trouble: str = ""


class Filed(Document, collection="drawer"):
    """A card in its drawer: the end of the way."""

    english: str


class LetterArrived(Event):
    letter_id: str = names(Letter)


class NoteSorted(Event):
    note_id: str = names(Note)


class CardWritten(Event):
    card_id: str = names(Card)


app = App(store=f"sqlite:///{FOLDER / 'mailroom.db'}")
app.dependency("interpreter", health=lambda: bool(ask(INTERPRETER)))


@app.service("sorting", on=LetterArrived, finishes=Letter)
def sort(letter: Letter, work: Work) -> None:
    if letter.trouble == "sealed":
        write_diary("sorting", "died", letter.id, "is opened and kills its worker process")
        os.kill(os.getpid(), SIGKILL)
    text = bytes.fromhex(letter.body).decode("utf-8")
    note = work.add(Note(id=letter.id, language=language_of(text), text=text, trouble=letter.trouble))
    work.emit(NoteSorted.of(note))


@app.service("translating", on=NoteSorted, finishes=Note, needs="interpreter")
def translate(note: Note, work: Work) -> None:
    question = urlencode({"language": note.language, "text": note.text})
    english = ask(f"{INTERPRETER}/?{question}")
    card = work.add(Card(id=note.id, language=note.language, english=english, trouble=note.trouble))
    work.emit(CardWritten.of(card))


SOON = RetryPolicy(Exponential(0.8, cap=5.0), max_tries=3, name="soon")


@app.service("filing", on=CardWritten, finishes=Card, policy=SOON)
async def file(card: Card, work: Work) -> None:
    if card.trouble == "thick" or (card.trouble == "soft" and work.try_number == 1):
        raise OSError(f"the drawer of {card.language} is jammed")
    work.add(Filed(id=card.id, english=card.english))


def write_diary(service: str, what: str, id: str, text: str) -> None:
    """Write a line for the display of the mail room."""
    line = json.dumps({"service": service, "what": what, "id": id, "text": text}) + "\n"
    # Appended in one piece: several processes write here.
    with (FOLDER / "diary.ndjson").open("ab", buffering=0) as diary:
        diary.write(line.encode())


def observe(signal: AnySignal) -> None:
    """What is repeated goes into the diary; what an outage gives back or comes too early does not count."""
    if isinstance(signal, Retried) and signal.after > 0 and not signal.not_ready:
        text = f"fails in {signal.service} ({signal.error_type}), again in {signal.after:.1f} s"
        write_diary(signal.service, "retried", signal.ids[0], text)


if "MAILROOM_QUIET" in os.environ:
    # Whoever watches has the terminal for itself, in every process that imports this.
    logging.getLogger("onward").addHandler(logging.FileHandler(FOLDER / "log.txt"))
    logging.getLogger("onward").propagate = False
    logging.getLogger("onward").setLevel(logging.INFO)
    app.observe(observe)
