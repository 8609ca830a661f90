"""An app of two services with slow handlers that record each run: for workers that are replaced under load."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from random import Random

from onward import App, Document, Event, Work, names

RUNS = "ROLLING_RUNS"
"""The variable that names the file to which every run of a handler adds a line."""
SECONDS = (1.0, 6.0)
"""How long a handler takes: far longer than to commit it, so that a signal always finds some that run."""
REFERENCE = "tests.deploy.rolling_app:app"

app = App()


class Parcel(Document):
    pass


class Letter(Document):
    pass


class Receipt(Document):
    """One committed effect; its id is the effect and a random number, so that one that is repeated leaves two."""


class ParcelArrived(Event):
    parcel_id: str = names(Parcel)


class LetterFound(Event):
    letter_id: str = names(Letter)


def seconds(id: str) -> float:
    return Random(id).uniform(*SECONDS)


def record_run(service: str, id: str, work: Work) -> None:
    """Add a line in one call, so that lines of different processes do not mix."""
    line = f"{service} {id} {work.try_number}\n".encode()
    handle = os.open(os.environ[RUNS], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


@app.service("unpacking", on=ParcelArrived, finishes=Parcel)
def unpack(parcel: Parcel, work: Work) -> None:
    record_run("unpacking", parcel.id, work)
    time.sleep(seconds(parcel.id))
    letter = work.add(Letter(id=parcel.id))
    work.add(Receipt(id=f"unpacking {parcel.id} {secrets.token_hex(6)}"))
    work.emit(LetterFound.of(letter))


@app.service("reading", on=LetterFound, finishes=Letter)
async def read(letter: Letter, work: Work) -> None:
    record_run("reading", letter.id, work)
    await asyncio.sleep(seconds(f"letter {letter.id}"))
    work.add(Receipt(id=f"reading {letter.id} {secrets.token_hex(6)}"))
