"""What the limits of a dependency cost where they never bind, and how close a fleet gets to a rate that does.

One worker process handles 10,000 events about 10,000 documents, with a handler that does nothing: without limits,
and with a rate and a concurrency that are never reached. Then two worker processes share a rate; the rows say how
many calls began in a second, and the note the most that began in any second.
"""

from __future__ import annotations

import bisect
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.table import Row, medians
from onward import App, Dependency, Document, Event, Settings, Work, names
from tests.support.servers import PostgresServer

EVENTS = 10_000
REPEATS = 3
CHUNK = 500
FLEET = 2
FLEET_RATE, FLEET_SECONDS = 200, 15
UNREACHED = Dependency("api", rate="1000000/s", concurrency=1000)


class Request(Document):
    pass


class RequestMade(Event):
    request_id: str = names(Request)


def run() -> list[Row]:
    """Take turns with each way, on each database."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as server:
        number = iter(range(1_000_000))
        urls: dict[str, Callable[[], str]] = {
            "SQLite": lambda: f"sqlite:///{folder}/{next(number)}.db",
            "PostgreSQL": lambda: f"{server.url()}{'&' if '?' in server.url() else '?'}schema=s{next(number)}",
        }
        for database, url in urls.items():
            ways = {
                "needs nothing": partial(_measure, url, None),
                "needs it, without limits": partial(_measure, url, Dependency("api")),
                "with rate and concurrency": partial(_measure, url, UNREACHED),
            }
            title = f"{EVENTS:,} events of as many documents on {database}, one worker, limits that never bind"
            rates = medians(ways, REPEATS)
            rows += [
                Row(name, name == "with rate and concurrency", rate, "", title) for name, rate in rates.items()
            ]
            title = f"{FLEET} worker processes on {database} that share rate={FLEET_RATE}/s"
            reached, most = _measure_fleet(url(), Path(folder) / f"{next(number)}.times")
            rows.append(Row("the limit", False, float(FLEET_RATE), "", title))
            rows.append(Row("begun", True, reached, f"at most {most} in any second", title))
    return rows


def _app(url: str, needs: Dependency | None, handle: Callable[[], None] = lambda: None) -> App:
    app = App(store=url, settings=Settings())

    @app.service("calling", on=RequestMade, finishes=Request, needs=needs or ())
    def call(request: Request, work: Work) -> None:
        handle()

    return app


def _publish(app: App, count: int) -> None:
    for first in range(0, count, CHUNK):
        requests = [Request(id=f"r{number}") for number in range(first, first + CHUNK)]
        app.publish(*(RequestMade.of(one) for one in requests), documents=requests)


def _measure(url: Callable[[], str], needs: Dependency | None) -> float:
    app = _app(url(), needs)
    _publish(app, EVENTS)
    began = time.perf_counter()
    app.work_until_idle()
    seconds = time.perf_counter() - began
    assert app.store.document_counts()["requests"] == {"processed": EVENTS}
    app.close()
    return EVENTS / seconds


def _work(url: str, times: str) -> None:
    with Path(times).open("a", buffering=1) as file:
        app = _app(url, Dependency("api", rate=f"{FLEET_RATE}/s"), lambda: _write(file, app))
        app.work_until_idle()
        app.close()


def _write(file: object, app: App) -> None:
    file.write(f"{app.store.now()!r}\n")  # type: ignore[attr-defined]


def _measure_fleet(url: str, times: Path) -> tuple[float, int]:
    app = _app(url, Dependency("api", rate=f"{FLEET_RATE}/s"))
    _publish(app, FLEET_RATE * FLEET_SECONDS)
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_work, args=(url, str(times))) for _ in range(FLEET)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    app.close()
    began = sorted(float(line) for line in times.read_text().split())
    most = max(bisect.bisect_left(began, first + 1) - position for position, first in enumerate(began))
    return (len(began) - 1) / (began[-1] - began[0]), most
