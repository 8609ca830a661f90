"""The nine cells: what disturbs the queue, for how long, and at which rate events are offered.

They are those of a public comparison, hardbyte/postgresql-job-queue-benchmarking: `docs/method.md` says what each
phase does, `scripts/run_full_sweep.sh` has the rates, workers and durations of the run of 2026-05-09. Rates and
disturbances are the same here; durations are shorter, and `docs/reference/benchmarks.md` lists what differs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

HIGH_LOAD = 1.5  # the public multiplier of the producer's rate
READERS = 4
TERMINATIONS_PER_SECOND = 2.0
HELD_CONNECTIONS = 300
FLOOD_DEPTH = 2_000
"""The backlog that is kept up while the capacity is measured, as for the fastest queue of the public run."""

LONGEST_WARMUP_SECONDS = 5.0
LONGEST_CLEAN_SECONDS = 12.0
LONGEST_FLOOD_SECONDS = 7.0


class Disturbance(StrEnum):
    """What is done to the queue, its workers or its server."""

    KILL = "kill"
    REPEATED_KILLS = "repeated-kills"
    SERVER_RESTART = "server-restart"
    BACKENDS_TERMINATED = "backends-terminated"
    CONNECTIONS_HELD = "connections-held"
    OPEN_TRANSACTION = "open-transaction"
    ACTIVE_READERS = "active-readers"
    HIGH_LOAD = "high-load"
    BURST = "burst"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: the disturbance, the offered rate, and how long its parts take here and in the public run."""

    disturbance: Disturbance
    title: str
    rate: float
    seconds: float
    recovery_seconds: float
    public_seconds: float
    chaos: bool = False
    replicas: int = 1
    workers: int = 32
    period_seconds: float = 20.0

    @property
    def name(self) -> str:
        return str(self.disturbance)

    @property
    def warmup_seconds(self) -> float:
        return min(LONGEST_WARMUP_SECONDS, self.seconds / 2)

    @property
    def clean_seconds(self) -> float:
        return min(LONGEST_CLEAN_SECONDS, self.seconds)

    @property
    def flood_seconds(self) -> float:
        return min(LONGEST_FLOOD_SECONDS, self.seconds / 3)

    def lasting(self, seconds: float) -> Cell:
        """Return the cell with a disturbance of another length, and its other parts in proportion."""
        shorter = min(1.0, seconds / self.seconds)
        return replace(
            self,
            seconds=seconds,
            recovery_seconds=max(2.0, self.recovery_seconds * shorter),
            period_seconds=self.period_seconds * shorter,
        )


CELLS = (
    # Two replicas get 300 events a second each, one gets 600.
    Cell(Disturbance.KILL, "a worker is killed, started again", 600, 20, 10, 120, chaos=True, replicas=2),
    Cell(
        Disturbance.REPEATED_KILLS,
        "a worker is killed again and again",
        600,
        32,
        10,
        120,
        chaos=True,
        replicas=2,
        period_seconds=8,
    ),
    Cell(Disturbance.SERVER_RESTART, "the server is stopped, started again", 600, 20, 10, 60, chaos=True),
    Cell(Disturbance.BACKENDS_TERMINATED, "busy connections are terminated", 600, 15, 10, 60, chaos=True),
    Cell(Disturbance.CONNECTIONS_HELD, "300 of 400 connections are held", 600, 10, 8, 60, chaos=True),
    Cell(Disturbance.OPEN_TRANSACTION, "a transaction stays open", 800, 120, 15, 240),
    Cell(Disturbance.ACTIVE_READERS, "4 readers with an old snapshot", 800, 20, 10, 240),
    Cell(Disturbance.HIGH_LOAD, "1.5 × the rate", 800, 20, 10, 240),
    Cell(Disturbance.BURST, "1.5 × a high rate", 1200, 20, 10, 300, workers=64),
)
