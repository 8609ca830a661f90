"""The workload of a run: a chain of services whose every effect is counted.

A parcel is unpacked into pieces (a large one with checkpoints), pieces are weighed in batches, each counts
once on the tally of its parcel, and a complete parcel gets a label. Every handler adds a receipt with a random
number to its work: a work that was committed twice would leave two.

Some parcels have a fault, and each kind of fault has one right result:
- KILLS_WORKER: unpacking it kills the process; it is set aside as failed.
- PIECE_KILLS_WORKER: weighing its first piece kills the process; that piece fails, the others are weighed.
- PERMANENT_ERROR: unpacking it raises `Permanent`; it fails without a second try.
- FAILS_ALWAYS: every try raises an error that is worth a retry; it fails when its tries are used up.
- FAILS_ONCE: only the first try raises such an error; it is processed.
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
from onward.runtime.observers import AnySignal, Dropped
from onward.runtime.work import Work
from onward.settings import Settings

REFERENCE = "onward.torture.workload:app"
REFUSAL_LOG = "ONWARD_TORTURE_REFUSAL_LOG"
"""The environment variable that names the file in which workers record the works that were refused."""
PIECES_PER_CHECKPOINT = 4
MAX_HANDLER_SECONDS = 0.005

KILLS_WORKER, PIECE_KILLS_WORKER = "kills worker", "piece kills worker"
PERMANENT_ERROR, FAILS_ALWAYS, FAILS_ONCE = "permanent error", "fails always", "fails once"


class Parcel(Document):
    pieces: int
    fault: str = ""


class Piece(Document):
    parcel: str
    fault: str = ""


class Tally(Document, collection="tallies"):
    """How many pieces of a parcel were weighed."""

    pieces: int
    count: int = 0


class Label(Document):
    pass


class Receipt(Document):
    """One committed effect; its id is the effect and a random number."""

    @classmethod
    def of(cls, what: str, document: str) -> Receipt:
        return cls(id=f"{what} {document} {secrets.token_hex(6)}")

    @staticmethod
    def effect(id: str) -> str:
        """Return the effect, without the random number."""
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
    """Return the ids of the pieces of a parcel."""
    return [f"{parcel.id}.{number}" for number in range(parcel.pieces)]


def build(settings: Settings | None = None) -> App:
    """Make the app."""
    app = App(settings=settings)

    @app.service("unpacking", on=ParcelArrived, finishes=Parcel)
    def unpack(parcel: Parcel, work: Work) -> None:
        _compute()
        if parcel.fault == KILLS_WORKER:
            os.kill(os.getpid(), signal.SIGKILL)
        if parcel.fault == PERMANENT_ERROR:
            raise Permanent(f"the address of {parcel.id} cannot be read")
        if parcel.fault == FAILS_ALWAYS or (parcel.fault == FAILS_ONCE and work.try_number == 1):
            raise OSError(f"{parcel.id} cannot be opened")
        ids = piece_ids(parcel)
        begin = work.cursor or 0
        if not begin:
            work.add(Tally(id=parcel.id, pieces=parcel.pieces))
        for start in range(begin, len(ids), PIECES_PER_CHECKPOINT):
            pieces = [
                Piece(id=id, parcel=parcel.id, fault=parcel.fault if id == ids[0] else "")
                for id in ids[start : start + PIECES_PER_CHECKPOINT]
            ]
            for piece in pieces:
                work.add(piece)
            work.emit(PiecesFound.of(pieces))
            if start + PIECES_PER_CHECKPOINT < len(ids):
                work.checkpoint(start + PIECES_PER_CHECKPOINT)
                _compute()
        work.add(Receipt.of("unpacked", parcel.id))

    @app.service("weighing", on=PiecesFound, finishes=Piece, batch=8)
    def weigh(pieces: Sequence[Piece], work: Work) -> None:
        _compute()
        for piece in pieces:
            if piece.fault == PIECE_KILLS_WORKER:
                os.kill(os.getpid(), signal.SIGKILL)
            work.add(Receipt.of("weighed", piece.id), parent=piece)
        # All of one event, and so of one parcel.
        work.emit(PiecesWeighed(parcel=pieces[0].parcel, pieces=[piece.id for piece in pieces]))

    @app.service("tallying", on=PiecesWeighed)
    async def tally(weighed: PiecesWeighed, work: Work) -> None:
        found = work.store.get(Tally, weighed.parcel)
        assert found is not None, "a tally is added with the first pieces of its parcel"
        count = found.count + len(weighed.pieces)
        work.replace(found.model_copy(update={"count": count}))
        for piece in weighed.pieces:
            work.add(Receipt.of("tallied", piece))
        if count == found.pieces:
            work.emit(LabelWanted.of(work.add(Label(id=found.id))))

    @app.service("labelling", on=LabelWanted, finishes=Label)
    async def label(label: Label, work: Work) -> None:
        await asyncio.sleep(_seconds())
        work.add(Receipt.of("labelled", label.id))

    return app


def _seconds() -> float:
    return Random().uniform(0.0, MAX_HANDLER_SECONDS)


def _compute() -> None:
    """Keep a core busy for some milliseconds."""
    ends = time.perf_counter() + _seconds()
    while time.perf_counter() < ends:
        sum(range(200))


def record_refusal(signal: AnySignal) -> None:
    """Record that a late work was refused; in one write, because several processes write to the file."""
    if isinstance(signal, Dropped) and signal.verdict == "fenced":
        with Path(os.environ[REFUSAL_LOG]).open("ab", buffering=0) as log:
            log.write(f"{os.getpid()} {signal.row} {signal.service} {' '.join(signal.ids)}\n".encode())


app = build()
if REFUSAL_LOG in os.environ:
    app.observe(record_refusal)
