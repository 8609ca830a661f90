"""Runs one cell with one queue: the phases one after the other, and what is known at the end."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click
import numpy as np
import psycopg

from bench.cells_definitions import CELLS, FLOOD_DEPTH, Cell
from bench.cells_disturbances import Stage, disturbed
from bench.cells_peers import Peer, Standing
from bench.cells_processes import Replica, producing
from bench.cells_records import EFFECT, OFFER, Control, Records, count_effects, read_records
from bench.cells_server import Watch, watched
from tests.support.servers import PostgresServer

START_SECONDS = 60.0
CAPACITY_WARMUP_SECONDS, CAPACITY_SECONDS = 2.0, 5.0
LONGEST_DRAIN_SECONDS = 180.0
START_SETTLE_SECONDS = 20.0
SETTLE_SECONDS = 6.0  # the longest time that a backlog of a flood is waited for before the next phase
POLL_SECONDS = 0.1
SHARE_OF_CAPACITY = 0.5
"""A queue that cannot take the rate is offered this share of what it can: a backlog then means a disturbance."""

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a cell."""

    name: str
    begun: float
    ended: float


@dataclass
class CellRun:
    """All that is known of a cell after its run with one queue."""

    cell: Cell
    peer: str
    rate: float
    phases: list[Phase]
    offers: Records
    effects: Records
    standing: Standing
    watch: Watch
    times: dict[str, float]
    notes: list[str] = field(default_factory=list)

    def phase(self, name: str) -> Phase:
        return next(phase for phase in self.phases if phase.name == name)


class _Course:
    """The phases as they happen."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.phases: list[Phase] = []
        self._say = say

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._say(name)
        begun = time.monotonic()
        yield
        self.phases.append(Phase(name, begun, time.monotonic()))


def run_cell(server: PostgresServer, peer: type[Peer], cell: Cell, capacity: float | None = None) -> CellRun:
    """Run a cell with a queue, in a database of its own; `capacity` is what it can do per second, if known."""
    server.start()  # a cell before this one may have failed while the server was away
    database = _fresh_database(server, peer)
    url = server.url(database)
    queue = peer(url)
    rate = cell.rate if capacity is None else min(cell.rate, SHARE_OF_CAPACITY * capacity)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        replicas = [Replica(peer.name, url, folder, cell.workers, number) for number in range(cell.replicas)]
        with producing(peer.name, url, folder) as control, watched(url) as watch:
            stage = Stage(cell, server, database, peer.hot_table, replicas, control, rate)
            try:
                for replica in replicas:
                    replica.start()
                course = _Course(lambda name: click.echo(f"  {cell.name}, {peer.name}: {name}", err=True))
                _run_phases(stage, course, folder, watch, queue, capacity)
                stage.notes += [
                    f"worker {number} ended by itself (exit code {replica.ended})"
                    for number, replica in enumerate(replicas)
                    if replica.ended is not None
                ]
            finally:
                for replica in replicas:
                    replica.kill()
            control.keep()
            standing = queue.standing()
        offers, effects = read_records(folder / "offers", OFFER), read_records(folder / "effects", EFFECT)
        stage.notes += _complaints(folder) if not len(effects) else []
    return CellRun(
        cell, peer.name, rate, course.phases, offers, effects, standing, watch, stage.times, stage.notes
    )


def measure_capacity(server: PostgresServer, peer: type[Peer], seconds: float = CAPACITY_SECONDS) -> float:
    """Return how many events a second a queue does with one worker and a backlog that is kept up."""
    url = server.url(_fresh_database(server, peer))
    click.echo(f"  capacity of {peer.name}", err=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        replica = Replica(peer.name, url, folder, CELLS[0].workers, 0)
        with producing(peer.name, url, folder) as control:
            try:
                replica.start()
                control.keep(depth=FLOOD_DEPTH)
                _wait_for_effects(folder)
                time.sleep(CAPACITY_WARMUP_SECONDS)
                before, begun = count_effects(folder / "effects"), time.monotonic()
                time.sleep(seconds)
                return (count_effects(folder / "effects") - before) / (time.monotonic() - begun)
            finally:
                replica.kill()


def _fresh_database(server: PostgresServer, peer: type[Peer]) -> str:
    """Make a database with a queue installed, and return its name; some take many seconds to install."""
    template, name = f"installed_{peer.name}", f"cell{next(_numbers)}"
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [template]).fetchone()
    if known is None:
        peer(server.create_database(template)).install()
    server.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    return name


def _wait_for_effects(folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not count_effects(folder / "effects"):
        if time.monotonic() > deadline:
            raise RuntimeError(f"no handler has run within {START_SECONDS:g} s: {' '.join(_complaints(folder))}")
        time.sleep(POLL_SECONDS)


def _run_phases(
    stage: Stage, course: _Course, folder: Path, watch: Watch, queue: Peer, capacity: float | None
) -> None:
    cell, control = stage.cell, stage.control
    # At most what the queue does in a second: the next phase must not begin with the backlog of a flood.
    depth = FLOOD_DEPTH if capacity is None else min(FLOOD_DEPTH, max(cell.workers, int(capacity)))

    def steady(name: str, seconds: float) -> None:
        control.keep(stage.rate)
        with course.phase(name):
            time.sleep(seconds)

    def flooded(name: str) -> None:
        control.keep(depth=depth)
        with course.phase(name):
            time.sleep(cell.flood_seconds)
        control.keep()
        _wait_until_settled(folder, SETTLE_SECONDS)

    control.keep(stage.rate)
    _wait_for_effects(folder)
    steady("warm-up", cell.warmup_seconds)
    control.keep()
    _wait_until_settled(folder, START_SETTLE_SECONDS)  # what was offered while the first worker started
    watch.count_statements("warm-up")
    steady("clean", cell.clean_seconds)
    watch.count_statements("clean")
    if not cell.chaos:
        flooded("clean flood")
        watch.count_statements("clean flood")
    begun = time.monotonic()
    with disturbed(stage):
        flood = 0.0 if cell.chaos else cell.flood_seconds
        steady("disturbed", max(0.0, cell.seconds - flood - (time.monotonic() - begun)))
        watch.count_statements("disturbed")
        if not cell.chaos:
            flooded("disturbed flood")
            watch.count_statements("disturbed flood")
    steady("recovery", cell.recovery_seconds)
    control.keep()
    with course.phase("drain"):
        _wait_until_finished(queue, folder, control)


def _wait_until_settled(folder: Path, seconds: float) -> None:
    """Wait until the handlers of all offered events have run, or for at most this long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        offered = (folder / "offers").stat().st_size // OFFER.itemsize
        if count_effects(folder / "effects") >= offered:
            return
        time.sleep(POLL_SECONDS)


def _wait_until_finished(queue: Peer, folder: Path, control: Control) -> None:
    """Wait until the producer rests, everything that was acknowledged has run, and the queue is empty.

    A queue that does nothing for as long as it may take to notice a death is not waited for any longer. Its own
    counts alone do not say that it has finished: not every queue counts what a dead worker held.
    """
    patience = max(queue.takes_over_seconds, SETTLE_SECONDS)
    done, since = count_effects(folder / "effects"), time.monotonic()
    deadline = since + LONGEST_DRAIN_SECONDS
    while time.monotonic() < min(since + patience, deadline):
        rests = control.rests  # before its records are read
        offers, effects = read_records(folder / "offers", OFFER), read_records(folder / "effects", EFFECT)
        acknowledged = offers["number"][offers["acknowledged"] > 0]
        if rests and np.isin(acknowledged, effects["number"]).all() and not queue.standing().unfinished:
            return
        time.sleep(5 * POLL_SECONDS)
        if len(effects) != done:
            done, since = len(effects), time.monotonic()


def _complaints(folder: Path) -> list[str]:
    """Return the last line of each process that has written one."""
    logs = (log.read_text(errors="replace").strip() for log in sorted(folder.glob("*.log")))
    return [text.splitlines()[-1] for text in logs if text]
