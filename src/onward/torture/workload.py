"""What worker processes do while they are killed: a made-up chain of services whose every effect is counted.

A parcel is unpacked into pieces (a large one with checkpoints), pieces are weighed in batches, each counts
once on the tally of its parcel, and a complete parcel gets a label. Whoever finishes something leaves a
receipt with a random number in the same work: of a work that was committed twice there would be two.

Some parcels are trouble, and each kind has one right ending.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from onward.app import App
from onward.model.documents import Document
from onward.model.events import Event, names
from onward.retry import Permanent
from onward.runtime.signals import AnySignal, Dropped
from onward.runtime.work import Work
from onward.settings import Settings

REFERENCE = "onward.torture.workload:app"
DIARY = "ONWARD_TORTURE_DIARY"
"""The environment variable that names the file in which workers note the works that were refused."""
A_CHECKPOINT = 4
LONGEST_MS = 5.0

DEADLY, DEADLY_PIECE, TORN, STUBBORN, SHAKY = "deadly", "deadly piece", "torn", "stubborn", "shaky"
"""It kills its process; its first piece does; it can never be read; it fails every try; it fails the first."""


class Parcel(Document):
    pieces: int
    trouble: str = ""


class Piece(Document):
    parcel: str
    trouble: str = ""


class Tally(Document, collection="tallies"):
    """How many pieces of a parcel were weighed."""

    pieces: int
    count: int = 0


class Label(Document):
    pass


class Receipt(Document):
    """One committed effect; its id is what was done, and a random number."""

    @classmethod
    def of(cls, what: str, document: str) -> Receipt:
        return cls(id=f"{what} {document} {secrets.token_hex(6)}")

    @staticmethod
    def effect(id: str) -> str:
        """What a receipt is about, without the random number."""
        return id.rpartition(" ")[0]


class ParcelArrived(Event):
    parcel_id: str = names(Parcel)


class PiecesFound(Event):
    piece_ids: list[str] = names(Piece)


class PiecesWeighed(Event):
    parcel: str
    pieces: list[str]


class LabelWanted(Event):
    label_id: str = names(Label)


def piece_ids(parcel: Parcel) -> list[str]:
    """The pieces that must come out of a parcel."""
    return [f"{parcel.id}.{number}" for number in range(parcel.pieces)]


def build(settings: Settings | None = None, prefix: str = "") -> App:
    """Make the app; the prefix keeps the names of its services apart from those of other apps."""
    app = App(settings=settings)

    @app.service(f"{prefix}unpacking", on=ParcelArrived, finishes=Parcel)
    def unpack(parcel: Parcel, work: Work) -> None:
        _compute()
        if parcel.trouble == DEADLY:
            os.kill(os.getpid(), signal.SIGKILL)
        if parcel.trouble == TORN:
            raise Permanent(f"the address of {parcel.id} cannot be read")
        if parcel.trouble == STUBBORN or (parcel.trouble == SHAKY and work.try_number == 1):
            raise OSError(f"the knife has slipped on {parcel.id}")
        ids = piece_ids(parcel)
        begin = work.cursor or 0
        if not begin:
            work.add(Tally(id=parcel.id, pieces=parcel.pieces))
        for start in range(begin, len(ids), A_CHECKPOINT):
            pieces = [
                Piece(id=id, parcel=parcel.id, trouble=parcel.trouble if id == ids[0] else "")
                for id in ids[start : start + A_CHECKPOINT]
            ]
            for piece in pieces:
                work.add(piece)
            work.emit(PiecesFound.of(pieces))
            if start + A_CHECKPOINT < len(ids):
                work.checkpoint(start + A_CHECKPOINT)
                _compute()
        work.add(Receipt.of("unpacked", parcel.id))

    @app.service(f"{prefix}weighing", on=PiecesFound, finishes=Piece, batch=8)
    def weigh(pieces: Sequence[Piece], work: Work) -> None:
        _compute()
        for piece in pieces:
            if piece.trouble == DEADLY_PIECE:
                os.kill(os.getpid(), signal.SIGKILL)
            work.add(Receipt.of("weighed", piece.id), parent=piece)
        # All of one event, and so of one parcel.
        work.emit(PiecesWeighed(parcel=pieces[0].parcel, pieces=[piece.id for piece in pieces]))

    @app.service(f"{prefix}tallying", on=PiecesWeighed)
    async def tally(weighed: PiecesWeighed, work: Work) -> None:
        found = work.store.get(Tally, weighed.parcel)
        assert found is not None, "a tally comes with the first pieces of its parcel"
        count = found.count + len(weighed.pieces)
        work.replace(found.model_copy(update={"count": count}))
        for piece in weighed.pieces:
            work.add(Receipt.of("tallied", piece))
        if count == found.pieces:
            work.emit(LabelWanted.of(work.add(Label(id=found.id))))

    @app.service(f"{prefix}labelling", on=LabelWanted, finishes=Label)
    async def label(label: Label, work: Work) -> None:
        await asyncio.sleep(_seconds())
        work.add(Receipt.of("labelled", label.id))

    return app


def _seconds() -> float:
    return Random().uniform(0.0, LONGEST_MS / 1000)


def _compute() -> None:
    """Keep a core busy for some milliseconds."""
    ends = time.perf_counter() + _seconds()
    while time.perf_counter() < ends:
        sum(range(200))


def note_refused(told: AnySignal) -> None:
    """Write down that a late work was refused; in one piece, for several processes write there."""
    if isinstance(told, Dropped) and told.verdict == "fenced":
        with Path(os.environ[DIARY]).open("ab", buffering=0) as diary:
            diary.write(f"{os.getpid()} {told.row} {told.service} {' '.join(told.ids)}\n".encode())


PREFIX = "ONWARD_TORTURE_PREFIX"
"""The environment variable that tells worker processes how the names of their services begin."""

app = build(prefix=os.environ.get(PREFIX, ""))
if DIARY in os.environ:
    app.observe(note_refused)
