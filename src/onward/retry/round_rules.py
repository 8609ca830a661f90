"""The rules for the rounds of one collection: how many, how long apart, and when silence counts as stuck."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from onward.retry.policy import Backoff, Schedule

MAX_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class RoundRules:
    """What a collection declares about the rounds of its documents; None: as for other collections.

    `backoff` is the wait after each round, `stuck_after` the seconds without any report after which a round
    counts as lost.
    """

    max_rounds: int | None = None
    backoff: Backoff | None = None
    stuck_after: float | None = None

    def __post_init__(self) -> None:
        most, seconds = self.max_rounds, self.stuck_after
        if most is not None and (type(most) is not int or not 1 <= most <= MAX_ROUNDS):
            raise ValueError(f"max_rounds={most!r:.100}: must be a whole number from 1 to {MAX_ROUNDS}")
        if seconds is not None and not _is_length(seconds, above=0.0):
            raise ValueError(f"stuck_after={seconds!r:.100}: must be a number of seconds above 0")
        if self.backoff is not None:
            object.__setattr__(self, "backoff", _fixed(self.backoff))

    def __bool__(self) -> bool:
        return self != RoundRules()

    def or_else(self, others: RoundRules) -> RoundRules:
        """Return these rules, with those of `others` for what they leave open."""
        return RoundRules(
            others.max_rounds if self.max_rounds is None else self.max_rounds,
            self.backoff or others.backoff,
            others.stuck_after if self.stuck_after is None else self.stuck_after,
        )

    def to_json(self) -> str:
        """Return the rules as they are stored; empty: there are none."""
        waits = self.backoff.delays if isinstance(self.backoff, Schedule) else None
        values = {"max_rounds": self.max_rounds, "waits": waits, "stuck_after": self.stuck_after}
        return json.dumps({name: value for name, value in values.items() if value is not None}) if self else ""

    @classmethod
    def from_json(cls, text: str) -> RoundRules:
        values: dict[str, Any] = json.loads(text) if text else {}
        waits = values.get("waits")
        backoff = Schedule(tuple(waits)) if waits else None
        return cls(values.get("max_rounds"), backoff, values.get("stuck_after"))


def _fixed(backoff: Backoff) -> Schedule:
    """Return a backoff as the list of its waits, which can be stored; the last one repeats."""
    try:
        bounds = [backoff.bounds(rounds) for rounds in range(1, MAX_ROUNDS + 1)]
    except (AttributeError, TypeError) as error:
        raise ValueError(
            f"round_backoff={backoff!r:.100}: must be a backoff, such as Exponential(300, cap=3600) or "
            "Schedule((60, 600))"
        ) from error
    # The retry job stores when a document is due, and counts by index what waits: both need one wait a round.
    if any(shortest != longest for shortest, longest in bounds):
        raise ValueError(f"round_backoff={backoff!r:.100}: must be without jitter; the waits of rounds are fixed")
    waits = [wait for wait, _ in bounds]
    if not all(_is_length(wait) for wait in waits):
        raise ValueError(f"round_backoff={backoff!r:.100}: must give finite waits of at least 0 seconds")
    *others, (last, _) = [(wait, len(list(same))) for wait, same in groupby(waits)]
    return Schedule((*(wait for wait, times in others for _ in range(times)), last))


def _is_length(seconds: object, *, above: float | None = None) -> bool:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return False
    return seconds >= 0 if above is None else seconds > above
