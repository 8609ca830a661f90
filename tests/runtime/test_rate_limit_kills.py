"""Worker processes that share a rate and a concurrency are killed all the time: both hold all the same."""

from __future__ import annotations

import bisect
import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from signal import SIGKILL

import pytest

from onward import App
from tests.support.page_app import Page, PagesFound

pytestmark = [pytest.mark.prove, pytest.mark.timeout(600)]

KILLS = int(os.environ.get("RATE_LIMIT_KILLS", "15"))
SEED = int(os.environ.get("RATE_LIMIT_SEED", "0")) or Random().randrange(1, 10**6)
WORKERS, DOCUMENTS = 3, 240
COUNT, SECONDS, CONCURRENCY = 40, 2.0, 3
WORKER = """
import os, sys
from onward import App, Dependency, Settings
from tests.support.page_app import Page, PagesFound

app = App(store=sys.argv[1], settings=Settings())
times = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

@app.service("reading", on=PagesFound, finishes=Page, needs=Dependency("api", rate="40/2s", concurrency=3))
def read(page, work):
    began = work.now
    os.write(times, f"b {began!r} {page.id}\\n".encode())  # one write, so that it is whole
    app.store.get(Page, page.id)
    os.write(times, f"e {work.now!r} {page.id}\\n".encode())

engine = app.engine(lease=2.0)
print("ready", flush=True)
engine.run()
"""


def start_worker(store_url: str, times: Path) -> subprocess.Popen[bytes]:
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", WORKER, store_url, str(times)]
    worker = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE)
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"ready\n"
    return worker


def kill(worker: subprocess.Popen[bytes]) -> None:
    assert worker.poll() is None, "it has ended by itself"
    worker.send_signal(SIGKILL)
    worker.wait()
    assert worker.stdout is not None
    worker.stdout.close()


def test_no_window_has_too_many_calls(app: App, store_url: str, tmp_path: Path) -> None:
    app.service("reading", on=PagesFound, finishes=Page, needs="api")(lambda page, work: None)
    random, times = Random(SEED), tmp_path / "times"
    pages = [Page(id=f"p{number}") for number in range(DOCUMENTS)]
    while pages:  # events about one to five documents
        some = [pages.pop() for _ in range(min(random.randint(1, 5), len(pages)))]
        app.publish(PagesFound.of(some), documents=some)
    workers = [start_worker(store_url, times) for _ in range(WORKERS)]
    try:
        for _ in range(KILLS):
            time.sleep(random.uniform(0.05, 0.6))  # the moment of the kill
            kill(workers.pop(0))
            workers.append(start_worker(store_url, times))
        while app.store.document_counts()["pages"].get("processed", 0) < DOCUMENTS:
            assert all(worker.poll() is None for worker in workers), f"one has ended; RATE_LIMIT_SEED={SEED}"
            time.sleep(0.1)
    finally:
        for worker in workers:
            kill(worker)
    lines = [line.split() for line in times.read_text().splitlines()]
    began = sorted(float(at) for kind, at, _ in lines if kind == "b")
    assert len(began) >= DOCUMENTS
    most = max(bisect.bisect_left(began, one + SECONDS) - position for position, one in enumerate(began))
    assert most <= COUNT, f"RATE_LIMIT_SEED={SEED}"
    # Of calls that have ended: an end comes before a beginning at the same time.
    ended = {page for kind, _, page in lines if kind == "e"}
    called_once = [page for page in ended if sum(kind == "b" and page == id for kind, _, id in lines) == 1]
    steps = sorted((float(at), kind == "b") for kind, at, page in lines if page in called_once)
    running = most_running = 0
    for _, begins in steps:
        running += 1 if begins else -1
        most_running = max(most_running, running)
    assert most_running <= CONCURRENCY, f"RATE_LIMIT_SEED={SEED}"
