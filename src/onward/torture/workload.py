"""The workload of a run: a chain of services whose every effect is counted, and the expected results.

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
import json
import os
import secrets
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from onward.app import App
from onward.model.documents import Document, Status
from onward.model.events import Event, names
from onward.retry import Permanent
from onward.runtime.outcomes import AnySignal, Dropped
from onward.runtime.work import Work
from onward.settings import Settings

REFERENCE = "onward.torture.workload:app"
# The environment variable that names the file in which workers record the works that were refused.
REFUSAL_LOG = "ONWARD_TORTURE_REFUSAL_LOG"
PIECES_PER_CHECKPOINT = 4
MAX_HANDLER_SECONDS = 0.005
PIECES = (1, 3)
PIECES_OF_LARGE = (6, 14)
LARGE_SHARE = 0.08  # of parcels that are so large that unpacking them takes checkpoints
FOREIGN_EVERY = 5  # one parcel in this many is published by another program
FAILS_ONCE_EVERY = 40

KILLS_WORKER, PIECE_KILLS_WORKER = "kills worker", "piece kills worker"
PERMANENT_ERROR, FAILS_ALWAYS, FAILS_ONCE = "permanent error", "fails always", "fails once"
_RARE_FAULTS = (KILLS_WORKER, PIECE_KILLS_WORKER, PERMANENT_ERROR, FAILS_ALWAYS)
_FAILED = {KILLS_WORKER: Status.FAILED, PERMANENT_ERROR: Status.FAILED, FAILS_ALWAYS: Status.FAILED_MAX_RETRIES}


class Parcel(Document):
    pieces: int
    fault: str = ""

    @property
    def piece_ids(self) -> list[str]:
        return [f"{self.id}.{number}" for number in range(self.pieces)]

    @property
    def poison(self) -> str:
        """The document that kills its process, by collection and id; empty: there is none."""
        poison = {KILLS_WORKER: f"parcels/{self.id}", PIECE_KILLS_WORKER: f"pieces/{self.id}.0"}
        return poison.get(self.fault, "")


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


class ParcelArrived(Event):
    parcel_id: str = names(Parcel)


class PiecesFound(Event):
    piece_ids: list[str] = names(Piece)


class PiecesWeighed(Event):
    parcel: str
    pieces: list[str]


class LabelWanted(Event):
    label_id: str = names(Label)


def build(settings: Settings | None = None) -> App:
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
        ids, begin = parcel.piece_ids, work.cursor or 0
        if not begin:
            work.add(Tally(id=parcel.id, pieces=parcel.pieces))
        for start in range(begin, len(ids), PIECES_PER_CHECKPOINT):
            pieces = [
                work.add(Piece(id=id, parcel=parcel.id, fault=parcel.fault if id == ids[0] else ""))
                for id in ids[start : start + PIECES_PER_CHECKPOINT]
            ]
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


@dataclass(frozen=True, slots=True)
class ExpectedResult:
    parcel: Parcel
    status: Status
    pieces: dict[str, Status] = field(default_factory=dict)
    label: bool = False

    @property
    def weighed(self) -> list[str]:
        return [id for id, status in self.pieces.items() if status is Status.PROCESSED]

    @property
    def effects(self) -> set[str]:
        """The effects that leave a receipt, each exactly one."""
        done = {f"{what} {id}" for what in ("weighed", "tallied") for id in self.weighed}
        if self.status is Status.PROCESSED:
            done.add(f"unpacked {self.parcel.id}")
        if self.label:
            done.add(f"labelled {self.parcel.id}")
        return done


class WorkloadPlan:
    """`documents` parcels, generated from a seed, some of them with a fault."""

    def __init__(self, documents: int, seed: int) -> None:
        self.documents = documents
        self.seed = seed
        random = Random(f"{seed} troubles")
        each = max(1, min(5, documents // 500))
        # Not among the last ones: parcels with a fault end late, and the run would wait for them.
        early = range(max(1, documents * 3 // 4))
        chosen = random.sample(early, min(len(early), each * len(_RARE_FAULTS)))
        self.faults = {number: _RARE_FAULTS[place % len(_RARE_FAULTS)] for place, number in enumerate(chosen)}

    def parcel(self, number: int) -> Parcel:
        random = Random(f"{self.seed} {number}")
        least, most = PIECES_OF_LARGE if random.random() < LARGE_SHARE else PIECES
        fault = self.faults.get(number, FAILS_ONCE if number % FAILS_ONCE_EVERY == 7 else "")
        return Parcel(id=f"parcel-{number:06}", pieces=random.randint(least, most), fault=fault)

    def foreign_event(self, number: int) -> bytes | None:
        """Return the event with which another program publishes a parcel; None: this program publishes it."""
        if number % FOREIGN_EVERY:
            return None
        data = ParcelArrived.of(self.parcel(number)).model_dump()
        event = {"event_type": ParcelArrived.event_type, "event_id": f"torture-{self.seed}-{number}", "data": data}
        return json.dumps(event).encode()

    def expected(self, number: int) -> ExpectedResult:
        parcel = self.parcel(number)
        status = _FAILED.get(parcel.fault, Status.PROCESSED)
        if status is not Status.PROCESSED:
            return ExpectedResult(parcel, status)
        pieces = dict.fromkeys(parcel.piece_ids, Status.PROCESSED)
        if parcel.fault == PIECE_KILLS_WORKER:
            pieces[parcel.piece_ids[0]] = Status.FAILED
        return ExpectedResult(parcel, status, pieces, label=parcel.fault != PIECE_KILLS_WORKER)


app = build()
if REFUSAL_LOG in os.environ:
    app.observe(record_refusal)
