"""No-op events through one worker process on SQLite, beside queues that live in one file, too.

Ours commits a document with every event, settles it by its fencing token and keeps its history; the
others take a job from the file and mark it done (huey: delete it when it is taken). Everyone finds the
same number of jobs waiting, and works them off in this process.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import litequeue
import persistqueue
from huey import SqliteHuey

from bench.table import Row, medians
from onward import App, Document, Event, Settings, Work
from onward.worker import tune_process

EVENTS = 10_000
PEER_JOBS = 2_000
"""The peers' rates do not depend on it, and they take long enough."""
REPEATS = 5
MEASURE = "no-op events, SQLite"


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
        "onward, async def": "a document with each, synchronous=FULL",
        "onward, def": "the same, handlers in threads",
        "huey": "its default, synchronous=OFF; a crash loses the job",
        "huey, fsync": "a crash loses the job",
        "litequeue": "crash-safe; no document",
        "persist-queue": "crash-safe; no document",
    }
    contestants: dict[str, Callable[[Path], float]] = {
        "onward, async def": lambda folder: _onward(folder, is_async=True),
        "onward, def": lambda folder: _onward(folder, is_async=False),
        "huey": lambda folder: _huey(folder, fsync=False),
        "huey, fsync": lambda folder: _huey(folder, fsync=True),
        "litequeue": _litequeue,
        "persist-queue": _persist_queue,
    }
    rates = medians({name: _in_folder(one) for name, one in contestants.items()}, REPEATS)
    return [
        Row(name, name.startswith("onward, async"), rate, notes[name], MEASURE) for name, rate in rates.items()
    ]


def _in_folder(contestant: Callable[[Path], float]) -> Callable[[], float]:
    def measure() -> float:
        folder = Path(tempfile.mkdtemp(prefix="onward-bench-"))
        try:
            return contestant(folder)
        finally:
            shutil.rmtree(folder)

    return measure


def _onward(folder: Path, *, is_async: bool) -> float:
    app = App(store=f"sqlite:///{folder}/onward.db", settings=Settings())

    def answer(event: Ping, work: Work) -> None:
        work.add(Pong(id=f"pong-{event.number}", number=event.number))

    async def answer_async(event: Ping, work: Work) -> None:
        answer(event, work)

    app.service("answering", on=Ping)(answer_async if is_async else answer)
    for start in range(0, EVENTS, 500):
        app.publish(*(Ping(number=number) for number in range(start, start + 500)))
    began = time.perf_counter()
    app.work_until_idle()
    took = time.perf_counter() - began
    written = sum(app.store.document_counts()["pongs"].values())
    app.close()
    if written != EVENTS:
        raise RuntimeError(f"{written} of {EVENTS} documents were written")
    return EVENTS / took


def _huey(folder: Path, *, fsync: bool) -> float:
    huey = SqliteHuey("bench", filename=str(folder / "huey.db"), fsync=fsync, results=False)

    @huey.task()
    def job(number: int) -> None:
        del number

    for number in range(PEER_JOBS):
        job(number)
    began = time.perf_counter()
    done = 0
    while (task := huey.dequeue()) is not None:
        huey.execute(task)
        done += 1
    return done / (time.perf_counter() - began)


def _litequeue(folder: Path) -> float:
    queue = litequeue.LiteQueue(str(folder / "litequeue.db"))
    for number in range(PEER_JOBS):
        queue.put(str(number))
    began = time.perf_counter()
    done = 0
    while (message := queue.pop()) is not None:
        queue.done(message.message_id)
        done += 1
    return done / (time.perf_counter() - began)


def _persist_queue(folder: Path) -> float:
    queue = persistqueue.SQLiteAckQueue(str(folder), auto_commit=True)
    for number in range(PEER_JOBS):
        queue.put(number)
    began = time.perf_counter()
    done = 0
    while queue.size:
        queue.ack(queue.get(block=False))
        done += 1
    return done / (time.perf_counter() - began)
