"""The processes of a cell: worker processes that are killed and started again, and one producer.

python -m bench.cells_processes worker PEER
python -m bench.cells_processes producer PEER FOLDER
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.cells_peers import EFFECTS, PEERS, URL, WORKERS, Publish, worker_environment
from bench.cells_records import Control, OfferLog, count_effects, open_effects
from tests.support.servers.private import KillGuard

ROOT = Path(__file__).parents[1]

# As the public definition paces its producers: what is due is offered in batches, 40 times a second.
BATCH_SECONDS = 0.025
MAX_BATCH = 128
MAX_FLOOD_BATCH = 500
MAX_DEBT_SECONDS = 1.0
"""A producer that was kept waiting catches up with at most this much; the rest was never offered."""
STORE_AWAY_SECONDS = 0.25  # between two attempts to offer events to a queue that refuses them


class Replica:
    """A worker in a process group of its own: SIGKILL ends all of it at once, as the loss of its machine does."""

    def __init__(self, peer: str, url: str, folder: Path, workers: int, number: int) -> None:
        self._command = [sys.executable, "-m", "bench.cells_processes", "worker", peer]
        self._environment = worker_environment(url, str(folder / "effects"), workers)
        self.log = folder / f"worker-{number}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: KillGuard | None = None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=self._environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._guard = KillGuard([-self._process.pid])  # nothing of it outlives the bench, however that ends

    def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        if self._guard is not None:
            self._guard.dismiss()
            self._guard = None

    @property
    def ended(self) -> int | None:
        """The exit code of a worker that ended by itself."""
        return None if self._process is None else self._process.poll()


@contextmanager
def producing(peer: str, url: str, folder: Path) -> Iterator[Control]:
    """Run a producer that does what the control says."""
    control = Control.create(folder / "control")
    with (folder / "producer.log").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.cells_processes", "producer", peer, str(folder)],
            cwd=ROOT,
            env=worker_environment(url, str(folder / "effects"), 0),
            stdout=output,
            stderr=output,
        )
    guard = KillGuard([process.pid])
    try:
        yield control
    finally:
        process.kill()
        process.wait()
        guard.dismiss()


def work(peer: str) -> None:
    """Be a worker."""
    queue = PEERS[peer](os.environ[URL])
    queue.work(open_effects(Path(os.environ[EFFECTS])), int(os.environ[WORKERS]))


def produce(peer: str, folder: Path) -> None:
    """Be the producer: offer events at a rate, or keep a backlog up, until killed."""
    control, offers = Control.open(folder / "control"), OfferLog(folder / "offers")
    publish: Publish | None = None
    effects, number, debt, last = folder / "effects", 0, 0.0, time.monotonic()
    while True:
        now, changes = time.monotonic(), control.changes
        if depth := control.depth:
            count = min(MAX_FLOOD_BATCH, depth - (number - count_effects(effects)))
            debt = 0.0
        else:
            debt = min(debt + control.rate * (now - last), max(1.0, control.rate * MAX_DEBT_SECONDS))
            count = min(MAX_BATCH, int(debt))
            debt -= count
        last = now
        if count <= 0 and not depth and not control.rate:
            control.note_rest(changes)
        if count > 0:
            numbers = range(number, number + count)
            number += count
            try:
                publish = publish or PEERS[peer](os.environ[URL]).publisher()
                at = time.monotonic()
                publish(numbers)
            except Exception as error:  # every queue has errors of its own for a database that is away
                print(f"{type(error).__name__}: {error}", flush=True)
                offers.add(numbers, now, acknowledged=False)
                time.sleep(STORE_AWAY_SECONDS)
                last, debt = time.monotonic(), 0.0  # what was due meanwhile was not offered
            else:
                offers.add(numbers, at, acknowledged=True)
        if not (depth and count > 0):
            time.sleep(max(0.0, now + BATCH_SECONDS - time.monotonic()) if not depth else 0.002)


if __name__ == "__main__":
    role, name, *where = sys.argv[1:]
    work(name) if role == "worker" else produce(name, Path(where[0]))
