"""No-op events through one worker process on SQLite, beside queues that live in one file, too.

Ours commits a document with every event, settles it by its fencing token and keeps its history; the
others take a job from the file and mark it done (huey: delete it when it is taken). Each is run as it is
meant to be, the plain queues in a plain loop, huey by its own consumer with one thread. Everyone finds the
same number of jobs waiting, and works them off in this process. That number matters: some get slower
the more there is to do.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import litequeue
import persistqueue
from huey import SqliteHuey

from bench.table import Row, medians
from onward import App, Document, Event, Settings, Work
from onward.worker import tune_process

BACKLOGS = {2_000: 5, 10_000: 3}
"""How many jobs wait, and how often that is measured."""


OURS = "onward, async def"
Contestant = Callable[[Path, int], float]


class Ping(Event):
    """Something happened."""

    number: int


class Pong(Document):
    """What came of it."""

    number: int


def run() -> list[Row]:
    """Measure everyone in turn, a few times."""
    tune_process()
    notes = {
        OURS: "a document with each, synchronous=FULL",
        "onward, def": "the same, handlers in threads",
        "huey": "its default, synchronous=OFF; a crash loses the job",
        "huey, fsync": "a crash loses the job",
        "litequeue": "its default, synchronous=NORMAL: survives a crash, not a power cut; no document",
        "litequeue, fsync": "crash-safe; no document",
        "persist-queue": "crash-safe; no document",
    }
    contestants: dict[str, Contestant] = {
        OURS: lambda folder, jobs: _onward(folder, jobs, is_async=True),
        "onward, def": lambda folder, jobs: _onward(folder, jobs, is_async=False),
        "huey": lambda folder, jobs: _huey(folder, jobs, fsync=False),
        "huey, fsync": lambda folder, jobs: _huey(folder, jobs, fsync=True),
        "litequeue": lambda folder, jobs: _litequeue(folder, jobs, synchronous="NORMAL"),
        "litequeue, fsync": lambda folder, jobs: _litequeue(folder, jobs, synchronous="FULL"),
        "persist-queue": _persist_queue,
    }
    rows: list[Row] = []
    for jobs, repeats in BACKLOGS.items():
        rates = medians({name: _in_folder(one, jobs) for name, one in contestants.items()}, repeats)
        measure = f"{jobs:,} no-op events, SQLite"
        rows += [
            Row(name, name == "onward, async def", rate, notes[name], measure) for name, rate in rates.items()
        ]
    return rows


def _in_folder(contestant: Contestant, jobs: int) -> Callable[[], float]:
    def measure() -> float:
        folder = Path(tempfile.mkdtemp(prefix="onward-bench-"))
        try:
            return contestant(folder, jobs)
        finally:
            shutil.rmtree(folder)

    return measure


def _onward(folder: Path, jobs: int, *, is_async: bool) -> float:
    app = App(store=f"sqlite:///{folder}/onward.db", settings=Settings())

    def answer(event: Ping, work: Work) -> None:
        work.add(Pong(id=f"pong-{event.number}", number=event.number))

    async def answer_async(event: Ping, work: Work) -> None:
        answer(event, work)

    app.service("answering", on=Ping)(answer_async if is_async else answer)
    for start in range(0, jobs, 500):
        app.publish(*(Ping(number=number) for number in range(start, start + 500)))
    began = time.perf_counter()
    app.work_until_idle()
    took = time.perf_counter() - began
    written = sum(app.store.document_counts()["pongs"].values())
    app.close()
    if written != jobs:
        raise RuntimeError(f"{written} of {jobs} documents were written")
    return jobs / took


def _huey(folder: Path, jobs: int, *, fsync: bool) -> float:
    huey = SqliteHuey("bench", filename=str(folder / "huey.db"), fsync=fsync, results=False)
    done = threading.Event()
    job, last = huey.task()(_no_op), huey.task()(done.set)
    for number in range(jobs - 1):
        job(number)
    last()
    consumer = huey.create_consumer(workers=1, periodic=False, initial_delay=0.001)
    began = time.perf_counter()
    consumer.start()
    done.wait()
    took = time.perf_counter() - began
    consumer.stop(graceful=True)
    return jobs / took


def _no_op(number: int) -> None:
    del number


def _litequeue(folder: Path, jobs: int, *, synchronous: str) -> float:
    queue = litequeue.LiteQueue(str(folder / "litequeue.db"))
    queue.conn.execute(f"PRAGMA synchronous = {synchronous}")
    for number in range(jobs):
        queue.put(str(number))
    began = time.perf_counter()
    done = 0
    while (message := queue.pop()) is not None:
        queue.done(message.message_id)
        done += 1
    return done / (time.perf_counter() - began)


def _persist_queue(folder: Path, jobs: int) -> float:
    queue = persistqueue.SQLiteAckQueue(str(folder), auto_commit=True)
    for number in range(jobs):
        queue.put(number)
    began = time.perf_counter()
    for _ in range(jobs):
        queue.ack(queue.get(block=False))
    return jobs / (time.perf_counter() - began)
