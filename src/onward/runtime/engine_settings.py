"""The settings of an engine, and how its run ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from onward.retry import Ladder

LEASE_SECONDS = 60.0


class Ending(StrEnum):
    """How a run of the engine ended."""

    DRAINED = "drained"
    RELEASED = "released"
    STUCK = "stuck"  # a handler exceeded its time limit and cannot be stopped: the process has to end
    IDLE = "idle"  # it was to run a suspect event, and found none that it may run


@dataclass(slots=True)
class EngineSettings:
    """The settings of an engine."""

    ladder: Ladder = field(default_factory=Ladder)
    concurrency: int = 3
    time_limit: float = 600.0
    lease: float = LEASE_SECONDS
    keep_completed_seconds: float = 3600.0
    keep_completed_count: int = 1000
    renews: bool = True  # renew the leases itself; under a supervisor, that does it
    suspects: bool = False  # run one suspect event, alone, and end
    until_idle: bool = False  # end when nothing is due and nothing is under way
    inline: bool = False
    """Run handlers, health calls and calls of the store in the caller's thread: for simulations."""
    groups_inline: bool = False  # commit the calls of a step together, as a worker does that is busy
