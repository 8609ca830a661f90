"""What goes in, and what must come of it: drawn from a seed, so that whoever counts can draw it again."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random

from onward.model.documents import Status
from onward.torture.workload import DEADLY, DEADLY_PIECE, SHAKY, STUBBORN, TORN, Parcel, ParcelArrived, piece_ids

PIECES = (1, 3)
MANY_PIECES = (6, 14)
MANY = 0.08
"""The share of parcels that are so large that unpacking them takes checkpoints."""
FOREIGN_EVERY = 5
"""Every so many parcels one is announced by somebody who knows nothing of Onward."""
SHAKY_EVERY = 40
_RARE = (DEADLY, DEADLY_PIECE, TORN, STUBBORN)
_ENDINGS = {DEADLY: Status.FAILED, TORN: Status.FAILED, STUBBORN: Status.FAILED_MAX_RETRIES}


@dataclass(frozen=True, slots=True)
class Expected:
    """The right ending of one parcel."""

    parcel: Parcel
    status: Status
    pieces: dict[str, Status] = field(default_factory=dict)
    label: bool = False

    @property
    def weighed(self) -> list[str]:
        return [id for id, status in self.pieces.items() if status is Status.PROCESSED]

    @property
    def effects(self) -> set[str]:
        """What leaves a receipt, each exactly one."""
        done = {f"{what} {id}" for what in ("weighed", "tallied") for id in self.weighed}
        if self.status is Status.PROCESSED:
            done.add(f"unpacked {self.parcel.id}")
        if self.label:
            done.add(f"labelled {self.parcel.id}")
        return done


class Plan:
    """So many parcels, some of them trouble."""

    def __init__(self, documents: int, seed: int) -> None:
        self.documents = documents
        self.seed = seed
        random = Random(f"{seed} troubles")
        each = max(1, min(5, documents // 500))
        # Not among the last: what ends late would hold up the whole run.
        early = range(max(1, documents * 3 // 4))
        chosen = random.sample(early, min(len(early), each * len(_RARE)))
        self.troubles = {number: _RARE[place % len(_RARE)] for place, number in enumerate(chosen)}

    def parcel(self, number: int) -> Parcel:
        random = Random(f"{self.seed} {number}")
        least, most = MANY_PIECES if random.random() < MANY else PIECES
        trouble = self.troubles.get(number, SHAKY if number % SHAKY_EVERY == 7 else "")
        return Parcel(id=f"parcel-{number:06}", pieces=random.randint(least, most), trouble=trouble)

    def announcement(self, number: int) -> bytes | None:
        """What somebody else sends to announce a parcel; None: this one is ours to announce."""
        if number % FOREIGN_EVERY:
            return None
        data = ParcelArrived.of(self.parcel(number)).model_dump()
        event = {"event_type": ParcelArrived.event_type, "event_id": f"torture-{self.seed}-{number}", "data": data}
        return json.dumps(event).encode()

    def expected(self, number: int) -> Expected:
        """What must come of a parcel."""
        parcel = self.parcel(number)
        status = _ENDINGS.get(parcel.trouble, Status.PROCESSED)
        if status is not Status.PROCESSED:
            return Expected(parcel, status)
        pieces = dict.fromkeys(piece_ids(parcel), Status.PROCESSED)
        if parcel.trouble == DEADLY_PIECE:
            pieces[piece_ids(parcel)[0]] = Status.FAILED
        return Expected(parcel, status, pieces, label=parcel.trouble != DEADLY_PIECE)

    @property
    def poison(self) -> set[str]:
        """The documents that kill their process, by collection and id."""
        found = set()
        for number, trouble in self.troubles.items():
            parcel = self.parcel(number)
            if trouble == DEADLY:
                found.add(f"parcels/{parcel.id}")
            elif trouble == DEADLY_PIECE:
                found.add(f"pieces/{piece_ids(parcel)[0]}")
        return found
