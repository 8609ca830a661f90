"""What viewers cost: a worker does no-op events while two hundred streams of live parts are open, and without.

The worker has a process of its own, as has the console; the viewers share this one, and read all that they are
sent. Some more viewers read nothing: what is not fetched must not fill the console's memory.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol
from urllib.parse import urlsplit

from bench.table import Row

VIEWERS = 200
OTHERS = ("/live/failures/1/now/", "/live/workers", "/live/tasks", "/live/operations")
"""One viewer in ten opens one of these pages, the others the overview."""
IDLE = 20
JOBS = 20_000
REPEATS = 9
_WORKER = """
import sys, time
from pathlib import Path
from bench.peers_onward import PUBLISHED_AT_ONCE, Ping, Pong
from onward import App, Settings, Work
from onward.worker import tune_process

tune_process()
app = App(settings=Settings(home=Path(sys.argv[1]), metrics_backend="noop"))
first, jobs = int(sys.argv[2]), int(sys.argv[3])

@app.service("answering", on=Ping)
async def answer(event: Ping, work: Work) -> None:
    work.add(Pong(id=f"pong-{event.number}", number=event.number))

for start in range(first, first + jobs, PUBLISHED_AT_ONCE):
    app.publish(*(Ping(number=number) for number in range(start, start + PUBLISHED_AT_ONCE)))
began, used = time.perf_counter(), time.process_time()
app.work_until_idle()
print(jobs / (time.perf_counter() - began), jobs / (time.process_time() - used))
app.close()
"""


class Console(Protocol):
    """A console in a process of its own."""

    @property
    def url(self) -> str: ...

    def cpu(self) -> float: ...

    def memory(self) -> int: ...


def viewers(
    settings: Mapping[str, str], serving: Callable[[Mapping[str, str]], AbstractContextManager[Console]]
) -> list[Row]:
    """Take turns: with viewers, and without."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    alone: dict[bool, list[float]] = {False: [], True: []}
    shares, grown, seen = [], [], []
    first = 0
    with serving(settings) as console:
        for turn in range(2 * REPEATS):
            watched = turn % 2 == 1
            with _watching(console.url) if watched else _nobody() as count:
                before, held, began = console.cpu(), console.memory(), time.perf_counter()
                rate, by_cpu = _work(settings["ONWARD_HOME"], first)
                took = time.perf_counter() - began
                if watched:
                    shares.append((console.cpu() - before) / took)
                    grown.append((console.memory() - held) / 1e6)
                    seen.append(count())
            first += JOBS
            rates[watched].append(rate)
            alone[watched].append(by_cpu)
    title = f"{JOBS:,} no-op events on the console's store"
    with_them, without = (statistics.median(rates[viewed]) for viewed in (True, False))
    processor = statistics.median(alone[True]) / statistics.median(alone[False])
    note = (
        f"console: {statistics.median(shares):.0%} of a core, {max(grown):+.0f} MB; "
        f"{statistics.median(seen):,.0f} parts sent; per second of the worker's processor time {processor:.2f} ×"
    )
    return [
        Row(f"with {VIEWERS} viewers", True, with_them, note, title),
        Row("without viewers", False, without, "the console runs without viewers", title),
    ]


def _work(home: str, first: int) -> tuple[float, float]:
    command = [sys.executable, "-c", _WORKER, home, str(first), str(JOBS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rate, by_cpu = map(float, done.stdout.split())
    return rate, by_cpu


@contextmanager
def _nobody() -> Iterator[Callable[[], int]]:
    yield lambda: 0


@contextmanager
def _watching(url: str) -> Iterator[Callable[[], int]]:
    """Open all streams and read them until the end; returns a function that counts the received parts."""
    loop = asyncio.new_event_loop()
    crowd = _Crowd(url)
    thread = threading.Thread(target=loop.run_until_complete, args=(crowd.watch(),), daemon=True)
    thread.start()
    crowd.ready.wait()
    try:
        yield lambda: crowd.parts
    finally:
        loop.call_soon_threadsafe(crowd.over.set)
        thread.join()
        loop.close()


class _Crowd:
    """All viewers."""

    def __init__(self, url: str) -> None:
        self.address = urlsplit(url)
        self.parts = 0
        self.greeted = 0
        self.ready = threading.Event()
        self.over = asyncio.Event()

    async def watch(self) -> None:
        paths = [
            OTHERS[number // 10 % len(OTHERS)] if number % 10 == 0 else "/live/overview"
            for number in range(VIEWERS)
        ]
        tasks = [asyncio.create_task(self._view(path)) for path in paths]
        tasks += [asyncio.create_task(self._ignore("/live/overview")) for _ in range(IDLE)]
        await self.over.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _open(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self.address.hostname, self.address.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {self.address.netloc}\r\n\r\n".encode())
        await writer.drain()
        return reader, writer

    async def _view(self, path: str) -> None:
        reader, writer = await self._open(path)
        try:
            status = await reader.readline()
            if b" 200 " not in status:
                raise RuntimeError(f"{path} answers {status!r}")
            self.greeted += 1
            if self.greeted == VIEWERS:
                self.ready.set()
            while block := await reader.read(1 << 16):
                self.parts += block.count(b"event: part")
        finally:
            writer.close()

    async def _ignore(self, path: str) -> None:
        """Ask, and read nothing: what comes stays where it is."""
        reader, writer = await self._open(path)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        try:
            await asyncio.Event().wait()
        finally:
            del reader
            writer.transport.abort()
