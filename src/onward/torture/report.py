"""The report of a run: what was done to it, and what that did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from onward.torture.counting import Count
from onward.torture.mischief import Done

SHOWN = 5
"""How many documents are named of each kind of trouble."""


@dataclass
class Report:
    """What was counted in the end."""

    where: str
    seed: int
    asked: int
    """How many parcels were to go in."""
    seconds: float
    count: Count
    done: Done
    refused: int = 0
    """Works of stopped workers that came late, and were refused."""
    stalled: bool = False
    """Nothing has moved for long, though something was left to do."""
    ended_well: bool = True
    """Whether all supervisors ended when they were told to."""
    kept: list[str] = field(default_factory=list)
    kills_servers: bool = False

    @property
    def is_clean(self) -> bool:
        return self.count.is_clean and not self.stalled and self.ended_well

    @property
    def kills_a_minute(self) -> float:
        return self.done.kills / self.seconds * 60 if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The facts, for programs."""
        count, done = self.count, self.done
        return {
            "store": self.where,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "documents": count.documents,
            "finished": count.finished,
            "set_aside": count.set_aside,
            "lost": len(count.lost),
            "doubled": len(count.doubled),
            "blamed": len(count.blamed),
            "unfinished": len(count.unfinished),
            "rows_left": count.rows,
            "poison": count.poison,
            "poison_caught": count.caught,
            "kills": done.kills,
            "workers_killed": done.workers_killed,
            "supervisors_killed": done.supervisors_killed,
            "crews_killed": done.crews_killed,
            "server_kills": done.servers_killed,
            "kills_a_minute": round(self.kills_a_minute, 1),
            "zombies": done.stopped,
            "zombies_unrefused": done.unrefused,
            "late_works_refused": self.refused,
            "sent_again": done.sent_again,
            "duplicates_reported": done.reported,
            "stalled": self.stalled,
            "ended_well": self.ended_well,
            "examples": {name: ids[:SHOWN] for name, ids in self.troubles() if ids},
            "kept": self.kept,
            "clean": self.is_clean,
        }

    def troubles(self) -> Iterator[tuple[str, list[str]]]:
        """Each kind of trouble with the documents that have it."""
        count = self.count
        yield from (
            ("lost", count.lost),
            ("doubled", count.doubled),
            ("blamed", count.blamed),
            ("unfinished", count.unfinished),
        )
