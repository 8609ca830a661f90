"""Orders: what a worker process is told when it starts, and how its run ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from onward.retry import Ladder

LEASE = 60.0


class Ending(StrEnum):
    """How a run of the engine ended."""

    DRAINED = "drained"
    RELEASED = "released"
    STUCK = "stuck"
    """A handler did not come back within its time limit: the process has to go."""
    IDLE = "idle"
    """It was to run a suspect event, and found none that it may run."""


@dataclass(slots=True)
class EngineSettings:
    """What a worker process is told."""

    ladder: Ladder = field(default_factory=Ladder)
    concurrency: int = 3
    time_limit: float = 600.0
    lease: float = LEASE
    keep_completed_seconds: float = 3600.0
    keep_completed_count: int = 1000
    renews: bool = True
    """Renew the leases itself; under a supervisor that is the supervisor's task."""
    suspects: bool = False
    """Run one suspect event, alone, and end."""
    until_idle: bool = False
    """End when nothing is due and nothing is under way."""
