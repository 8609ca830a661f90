"""The report of a run: the faults, and what they did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from onward.torture.fault_injection import FaultCounts
from onward.torture.final_count import FinalCount

MAX_EXAMPLES = 5
"""Documents that are named of each kind of error."""


@dataclass
class TortureReport:
    """The counts at the end of a run."""

    where: str
    seed: int
    seconds: float
    count: FinalCount
    faults: FaultCounts
    refused: int = 0
    """Late works of paused workers that were refused."""
    stalled: bool = False
    """Nothing changed for `STALL_SECONDS`, although some work was left."""
    ended_well: bool = True
    """Whether all supervisors ended on a signal."""
    kept: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return self.count.is_clean and not self.stalled and self.ended_well

    @property
    def kills_a_minute(self) -> float:
        return self.faults.kills / self.seconds * 60 if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the facts, for `--json`."""
        count, faults = self.count, self.faults
        return {
            "store": self.where,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "documents": count.documents,
            "finished": count.finished,
            "set_aside": count.set_aside,
            **{kind: len(ids) for kind, ids in count.errors().items()},
            "rows_left": count.rows,
            "poison": count.poison,
            "poison_caught": count.caught,
            "kills": faults.kills,
            "workers_killed": faults.workers_killed,
            "supervisors_killed": faults.supervisors_killed,
            "groups_killed": faults.groups_killed,
            "extra_faults": faults.extra_faults,
            "kills_a_minute": round(self.kills_a_minute, 1),
            "zombies": faults.paused,
            "zombies_unrefused": faults.not_refused,
            "late_works_refused": self.refused,
            "sent_again": faults.sent_again,
            "duplicates_reported": faults.duplicates,
            "stalled": self.stalled,
            "ended_well": self.ended_well,
            "examples": {kind: ids[:MAX_EXAMPLES] for kind, ids in count.errors().items() if ids},
            "kept": self.kept,
            "clean": self.is_clean,
        }
