"""The console beside a large store: how long each page takes, and what two hundred viewers cost a worker.

The store has 100 000 documents and 5 000 failures. The console runs in a process of its own, as `onward serve`
does; pages are asked for one after the other, so that a time is what somebody waits who clicks. What the machine
does besides counts as well: processor time, which is told with it, with that of the database's server if there is
one, does not depend on that.

`BENCH_CONSOLE_POSTGRES=1` asks for the pages of a store on PostgreSQL, too. `BENCH_CONSOLE_STORE` names a folder
where the filled store is kept for the next run.
"""

from __future__ import annotations

import http.client
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import click

from bench.console_store import fill, word
from bench.console_viewers import viewers
from bench.table import Row
from onward import App
from onward.console.page_templates import document_path, page_path
from onward.pipeline.app import build
from onward.pipeline.documents import source_id
from onward.settings import load_settings
from tests.support.servers import PostgresServer
from tests.support.servers.private import descendants

TIMES = 30
SLOWEST = 3
"""The slowest pages in the table; all of them are printed during the run."""
SCALE = float(os.environ.get("BENCH_CONSOLE_SCALE", "1"))
"""The part of all documents and failures that is made."""
_TICK = os.sysconf("SC_CLK_TCK")


def run() -> list[Row]:
    """Fill a store, then ask for every page, then watch."""
    with tempfile.TemporaryDirectory(prefix="onward-bench-") as scratch:
        home = Path(scratch) / "home"
        _fill_or_copy(home)
        settings = {"ONWARD_HOME": str(home)}
        rows = _pages("SQLite", settings)
        if os.environ.get("BENCH_CONSOLE_POSTGRES"):
            rows += _postgres_pages(Path(scratch))
        return rows + viewers(settings, serving)


def _fill_or_copy(home: Path) -> None:
    kept = os.environ.get("BENCH_CONSOLE_STORE")
    if kept and (Path(kept) / "onward.db").exists():
        shutil.copytree(kept, home)
        return
    with opened({"ONWARD_HOME": str(home)}) as app:
        fill(app, scale=SCALE)
    if kept:
        shutil.copytree(home, kept)


def _postgres_pages(scratch: Path) -> list[Row]:
    with PostgresServer() as server:
        settings = {"ONWARD_HOME": str(scratch / "postgres-home"), "ONWARD_STORE": server.url()}
        with opened(settings) as app:
            fill(app, scale=SCALE)
        # As after a quiet minute: who has written so much just now is still being tidied up after.
        server.execute("VACUUM (ANALYZE)", "app")
        return _pages("PostgreSQL", settings, server.pid)


@contextmanager
def opened(settings: Mapping[str, str]) -> Iterator[App]:
    """Open the app that has these settings."""
    app = build(load_settings(dict(settings), path=os.devnull))
    try:
        yield app
    finally:
        app.close()


# -- the console


@dataclass(frozen=True, slots=True)
class Console:
    """A console that runs in a process of its own."""

    url: str
    pid: int

    def cpu(self) -> float:
        """Seconds of processor time that it has used."""
        return processor_seconds(self.pid)

    def memory(self) -> int:
        """Bytes that it holds in memory."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def processor_seconds(pid: int, *, family: bool = False) -> float:
    """Seconds of processor time that a process has used; with its family, also those that it has started."""
    fields = list(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[11:15]))
    if not family:
        return sum(fields[:2]) / _TICK
    used = sum(fields) / _TICK  # with those that have ended
    for child in descendants(pid):
        with suppress(OSError):
            used += processor_seconds(child)
    return used


@contextmanager
def serving(settings: Mapping[str, str]) -> Iterator[Console]:
    """Run `onward serve` on a free port."""
    home = Path(settings["ONWARD_HOME"])
    home.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "onward", "serve", "--address", "127.0.0.1:0"]
    given = {**os.environ, **settings, "ONWARD_SERVE_REQUESTS_PER_SECOND": "10000"}
    process = subprocess.Popen(
        command,
        env=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=home,
    )
    assert process.stdout is not None
    try:
        url = next((word for line in process.stdout for word in line.split() if word.startswith("http")), "")
        if not url:
            raise RuntimeError(f"onward serve ended with {process.wait()}")
        yield Console(url.rstrip("/."), process.pid)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


# -- pages


def _pages(where: str, settings: Mapping[str, str], server: int | None = None) -> list[Row]:
    with opened(settings) as app:
        paths = page_paths(app)
        count = sum(sum(counts.values()) for counts in app.store.document_counts().values())
    title = f"pages of a console with {count:,} documents, {where}"
    with serving(settings) as console:
        rows = [_page(console, name, path, title, server) for name, path in paths.items()]
    rows.sort(key=lambda row: row.per_second)
    for row in rows:
        click.echo(f"  {row.name:40} {row.note}", err=True)
    # What is said of all of them, and of those that take longest.
    return [*rows[:SLOWEST], replace(rows[len(rows) // 2], name=f"median of {len(rows)} pages")]


class PageCost(NamedTuple):
    """What a page costs, in milliseconds."""

    p50: float
    p95: float
    processor: float  # of the console, and of the database's server if there is one


def _page(console: Console, name: str, path: str, title: str, server: int | None) -> Row:
    cost = measure_page(console, path, server)
    note = f"p50 {cost.p50:.0f} ms, p95 {cost.p95:.0f} ms, {cost.processor:.0f} ms of processor time"
    return Row(name, True, 1_000 / cost.p50, note, title)


def measure_page(console: Console, path: str, server: int | None, times: int = TIMES) -> PageCost:
    """Ask for a page again and again."""

    def used() -> float:
        return console.cpu() + (processor_seconds(server, family=True) if server else 0.0)

    address = urlsplit(console.url)
    client = http.client.HTTPConnection(str(address.hostname), address.port)
    took: list[float] = []
    _ask(client, path)  # what is made ready once is made now
    before = used()
    for _ in range(times):
        began = time.perf_counter()
        _ask(client, path)
        took.append((time.perf_counter() - began) * 1_000)
    cpu = (used() - before) / times * 1_000
    client.close()
    return PageCost(statistics.median(took), statistics.quantiles(took, n=20)[-1], cpu)


def _ask(client: http.client.HTTPConnection, path: str) -> None:
    client.request("GET", path, headers={"accept": "text/html"})
    answer = client.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path} answers {answer.status}: {body[:500]!r}")


def page_paths(app: App) -> dict[str, str]:
    """Every page; of a page for one object, one object of each kind."""
    store = app.store
    failed = next(iter(store.find_states(collection="messages", status="failed", limit=1)))
    chunk = store.states("chunks", limit=60)[50]
    group = max(store.failure_groups(), key=lambda group: group.affected)
    letter = store.find_dead_letters(service="chunking", limit=60)[50]
    batch = max(store.failed_batches(), key=lambda batch: len(batch.items))
    source = source_id(min(store.sources()))
    thread = store.states("threads", status="processed", limit=1)[0].id
    archive = next(state for state in store.states("archives", limit=10) if state.id != state.source)
    (behind,) = store.find_states(fingerprint=group.fingerprint, limit=1)
    queue = page_path("queues", letter.failed_queue)
    return {
        "overview": "/",
        "documents": "/documents",
        "documents, page 2": f"/documents?after={quote(f'chunks/{chunk.id}')}",
        "documents that failed": "/documents?status=failed",
        "documents that wait, of a source": f"/documents?status=pending&source={source}",
        "documents that are done, of a source": f"/documents?collection=chunks&status=processed&source={source}",
        "documents by the beginning of an id": f"/documents?q={chunk.id[:4]}",
        "a message": document_path("messages", failed.id),
        "a chunk": document_path("chunks", chunk.id),
        "a thread's document": document_path("threads", thread),
        "an archive": document_path("archives", archive.id),
        "failures": "/failures",
        "all failures, of a service": "/failures?all=yes&service=chunking",
        "a failure group": f"/failures/{group.fingerprint}",
        "a failure group, page 2": f"/failures/{group.fingerprint}?after={quote(f'messages/{behind.id}')}",
        "failed queues": "/queues",
        "a failed queue": queue,
        "a failed queue, page 2": f"{queue}?after={letter.row}",
        "a failed queue, of one error": f"{queue}?error_type={quote(letter.error_type)}",
        "a letter": page_path("letters", letter.row),
        "failed batches": "/batches",
        "a failed batch": f"/batches/{batch.id}",
        "tasks": "/tasks",
        "a task": f"/tasks/{source}",
        "ingest": "/ingest",
        "search": "/search",
        "a search": f"/search?q={word(300)}+{word(2_000)}",
        "a search, page 3": f"/search?q={word(300)}+{word(2_000)}&page=3",
        "search for words of most mails": f"/search?q={word(1)}+{word(2)}",
        "search for an author in a source": f"/search?q={word(300)}&author={word(7)}&source={source}",
        "threads": "/threads",
        "threads of a source": f"/threads?source={source}",
        "threads, by words": f"/threads?q={word(300)}",
        "a thread": f"/threads/{thread}",
        "workers": "/workers",
        "settings": "/settings",
        "actions": "/actions",
        "operations": "/operations",
        "the API's page": "/docs",
        "confirm: retry a group": f"/confirm/retry-group?fingerprint={group.fingerprint}",
        "confirm: requeue a queue": f"/confirm/requeue?queue={quote(letter.failed_queue)}",
        "confirm: forget a source": f"/confirm/forget?source={source}",
        "API: status": "/v3/status",
        "API: documents": "/v3/documents",
        "API: tasks": "/v3/tasks",
        "API: failures": "/v3/failures",
        "metrics": "/metrics",
    }
