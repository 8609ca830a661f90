"""Working off a backlog in worker processes: the same race for us and for every peer.

The jobs are all there before a worker starts. The clock runs from the first handler that ran until the last
job is settled, so neither the start of a process nor its end is counted, for anybody.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Protocol

from bench.table import Row, medians

OURS = "onward"
MARKS = "BENCH_MARKS"  # names the file that `open_marks` writes into
START_SECONDS = 60.0
DRAIN_SECONDS = 120.0
POLL_SECONDS = 0.005

Mark = Callable[[int], None]
"""What a handler does with the number of its job: say that it ran. That is all it does."""


class Contestant(Protocol):
    """A queue with jobs numbered from 0 on; it is pickled, to be run in worker processes."""

    @property
    def jobs(self) -> int: ...

    def fill(self) -> None:
        """Put that many jobs on an empty queue, durably."""
        ...

    def work(self, mark: Mark) -> None:
        """Be a worker process."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the table: how a peer is run with a number of worker processes, and a note."""

    run: Callable[[int], float]
    note: str
    repeats: int = 3


def drain(contestant: Contestant, processes: int, left: Callable[[], int]) -> float:
    """Return the jobs per second of this many worker processes, when all jobs are settled.

    `left` counts those that are not settled yet; it is asked only when all handlers have run.
    """
    contestant.fill()
    spawning = multiprocessing.get_context("spawn")
    times: MutableSequence[float] = spawning.RawArray("d", contestant.jobs)
    ready = spawning.Barrier(processes + 1)
    workers = [spawning.Process(target=_work, args=(contestant, times, ready)) for _ in range(processes)]
    try:
        for worker in workers:
            worker.start()
        ready.wait(START_SECONDS)
        _wait_for_all(times, workers, left)
        settled = time.perf_counter()
    finally:
        _end(workers)
    return contestant.jobs / (settled - min(times))


def _work(contestant: Contestant, times: MutableSequence[float], ready: Barrier) -> None:
    clock = time.perf_counter  # the same in all processes of a machine

    def mark(number: int) -> None:
        times[number] = clock()

    ready.wait(START_SECONDS)
    contestant.work(mark)


def _wait_for_all(times: MutableSequence[float], workers: Sequence[BaseProcess], left: Callable[[], int]) -> None:
    deadline = time.monotonic() + DRAIN_SECONDS
    seen = 0
    while True:
        at_work = time.monotonic() < deadline and any(worker.is_alive() for worker in workers)
        while seen < len(times) and times[seen]:
            seen += 1
        if seen == len(times) and not left():
            return
        if not at_work:
            ran = sum(1 for at in times if at)
            raise RuntimeError(f"{ran} of {len(times)} jobs ran, {left()} are not settled")
        time.sleep(POLL_SECONDS)


def _end(workers: Sequence[BaseProcess]) -> None:
    """Nothing is left to do for them, and some take ten seconds to end in good order."""
    for worker in workers:
        if worker.pid is not None:
            worker.kill()
            worker.join()


def open_marks(file: Path) -> Mark:
    """Return a mark that writes into a file, for workers that are started by a command."""
    with file.open("r+b") as opened:
        times = memoryview(mmap.mmap(opened.fileno(), 0)).cast("d")

    def mark(number: int) -> None:
        times[number] = time.perf_counter()

    return mark


def drain_by_command(
    command: Sequence[str], environment: Mapping[str, str], jobs: int, left: Callable[[], int]
) -> float:
    """Return the jobs per second of a command that works off what waits, when `left` counts no more."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "marks"
        file.write_bytes(bytes(8 * jobs))
        with file.open("r+b") as opened:
            times = memoryview(mmap.mmap(opened.fileno(), 0)).cast("d")
        process = subprocess.Popen(
            command, env={**environment, MARKS: str(file)}, start_new_session=True, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + START_SECONDS + DRAIN_SECONDS
        try:
            while not all(times) or left():
                if time.monotonic() > deadline or process.poll() is not None:
                    ran = sum(1 for at in times if at)
                    raise RuntimeError(f"{ran} of {jobs} jobs ran, {left()} are not settled")
                time.sleep(POLL_SECONDS)
            settled = time.perf_counter()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return jobs / (settled - min(times))


def race(contestants: Mapping[str, Entry], measure: str, counts: Sequence[int] = (1, 2)) -> list[Row]:
    """Run all peers in turns with one worker process, then with more."""
    rows: list[Row] = []
    for processes in counts:
        words = "1 worker process" if processes == 1 else f"{processes} worker processes"
        rates: dict[str, float] = {}
        for repeats in sorted({entry.repeats for entry in contestants.values()}, reverse=True):
            alike = {name: entry for name, entry in contestants.items() if entry.repeats == repeats}
            rates |= medians({name: partial(peer.run, processes) for name, peer in alike.items()}, repeats)
        rows += [
            Row(name, name.startswith(OURS), rates[name], entry.note, f"{measure}, {words}")
            for name, entry in contestants.items()
        ]
    return rows
