"""The parcels of a run and their expected results, generated from a seed.

`final_count` generates them again to compare.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random

from onward.model.documents import Status
from onward.torture.workload import (
    FAILS_ALWAYS,
    FAILS_ONCE,
    KILLS_WORKER,
    PERMANENT_ERROR,
    PIECE_KILLS_WORKER,
    Parcel,
    ParcelArrived,
    piece_ids,
)

PIECES = (1, 3)
PIECES_OF_LARGE = (6, 14)
LARGE_SHARE = 0.08
"""The share of parcels that are so large that unpacking them takes checkpoints."""
FOREIGN_EVERY = 5
"""One parcel in this many is published by another program."""
FAILS_ONCE_EVERY = 40
_RARE_FAULTS = (KILLS_WORKER, PIECE_KILLS_WORKER, PERMANENT_ERROR, FAILS_ALWAYS)
_FAILED = {KILLS_WORKER: Status.FAILED, PERMANENT_ERROR: Status.FAILED, FAILS_ALWAYS: Status.FAILED_MAX_RETRIES}


@dataclass(frozen=True, slots=True)
class ExpectedResult:
    """The right result of one parcel."""

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
    """`documents` parcels, some of them with a fault."""

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
        """Return the expected result of a parcel."""
        parcel = self.parcel(number)
        status = _FAILED.get(parcel.fault, Status.PROCESSED)
        if status is not Status.PROCESSED:
            return ExpectedResult(parcel, status)
        pieces = dict.fromkeys(piece_ids(parcel), Status.PROCESSED)
        if parcel.fault == PIECE_KILLS_WORKER:
            pieces[piece_ids(parcel)[0]] = Status.FAILED
        return ExpectedResult(parcel, status, pieces, label=parcel.fault != PIECE_KILLS_WORKER)

    @property
    def poison(self) -> set[str]:
        """The documents that kill their process, by collection and id."""
        keys = set()
        for number, fault in self.faults.items():
            parcel = self.parcel(number)
            if fault == KILLS_WORKER:
                keys.add(f"parcels/{parcel.id}")
            elif fault == PIECE_KILLS_WORKER:
                keys.add(f"pieces/{piece_ids(parcel)[0]}")
        return keys
