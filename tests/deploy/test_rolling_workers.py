"""Many workers share a PostgreSQL under load; random ones get SIGTERM while others start, as on a cluster.

There are twelve; `ROLLING_WORKERS=50` makes it fifty. Each is a real `onward worker`, started in waves: on two
cores the start of fifty takes longer than all they do. They need more connections than a PostgreSQL has by
default, so this one has more; the test reports their number.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psycopg
import pytest
import yaml  # type: ignore[import-untyped]

from onward.backend_urls import open_store
from onward.ledger.store import Store
from onward.model.documents import DocumentState
from onward.settings import load_settings
from tests.deploy.rolling_app import REFERENCE, RUNS, Letter, Parcel, ParcelArrived, Receipt, app
from tests.support.servers import PostgresServer
from tests.support.supervised_workers import ROOT, until

# With fifty, eighty workers take 6 minutes of processor time, most of it to start; a busy machine gets more time.
pytestmark = [pytest.mark.prove, pytest.mark.timeout(3600)]

WORKERS = int(os.environ.get("ROLLING_WORKERS", "12"))
WAVE = min(10, WORKERS // 2)
REPLACED = WORKERS * 3 // 5
"""How many workers get SIGTERM while others start; at the end all that are left get it at once."""
AT_ONCE = WORKERS // 5
BACKLOG = 3 * WORKERS
"""As many events wait at any time: what is claimed is all that the workers can run."""
PATIENCE = 600.0
CONNECTIONS = 800
PAGE = 1000
MANIFEST = ROOT / "deploy" / "kubernetes" / "base" / "worker-pod.yaml"
GRACE: int = yaml.safe_load(MANIFEST.read_text())["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
"""How long a cluster waits for a worker before it kills it."""
# A worker's name has the number of the process that was started, its supervisor.
_HELD = "SELECT count(*) FROM onward.ledger WHERE state = 'claimed' AND split_part(worker, ':', 2) = ANY(%s)"
# A settled row leaves the ledger, so a trigger writes down when a lease has lapsed, or something was charged.
_WITNESS = """
CREATE TABLE witness (what text);
CREATE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO public.witness VALUES (format('%s %s: lapses %s, deaths %s, tries %s, not ready %s, given back %s',
    NEW.service, NEW.ids, NEW.lapses, NEW.deaths, NEW.tries, NEW.not_ready, NEW.given_back));
  RETURN NULL;
END $$;
CREATE TRIGGER witness AFTER UPDATE ON onward.ledger FOR EACH ROW
WHEN (NEW.lapses + NEW.deaths + NEW.tries + NEW.not_ready + NEW.given_back > 0) EXECUTE FUNCTION witness()"""
_USED = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'onward'"


@dataclass
class Worker:
    """One `onward worker`, with the file of its log."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def has_handlers(self) -> bool:
        """Whether it handles signals; before that it has no worker process, and SIGTERM just ends it."""
        return b"metrics and health at" in self.log.read_bytes()


@dataclass
class Fleet:
    folder: Path
    environ: dict[str, str]
    workers: list[Worker] = field(default_factory=list)
    started: int = 0

    def start(self, count: int) -> list[Worker]:
        new = []
        for _ in range(count):
            self.started += 1
            log = self.folder / f"worker-{self.started}.log"
            with log.open("wb") as output:
                process = subprocess.Popen(
                    [sys.executable, "-m", "onward", "worker", "--app", REFERENCE, "--concurrency", "2"],
                    cwd=self.folder,
                    env=self.environ,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            new.append(Worker(process, log))
        self.workers += new
        return new

    def terminate(self, chosen: list[Worker]) -> list[int]:
        """Send SIGTERM; return the exit codes once all have ended by themselves, in a cluster's time."""
        handled = [one.has_handlers for one in chosen]
        for one in chosen:
            one.process.send_signal(signal.SIGTERM)
        codes = [one.process.wait(GRACE) for one in chosen]
        for one in chosen:
            self.workers.remove(one)
        for code, had_handlers, one in zip(codes, handled, chosen, strict=True):
            is_right = code == 0 or (code == -signal.SIGTERM and not had_handlers)
            assert is_right, f"exit code {code}: {one.log.read_text()[-2000:]}"
        return codes

    def logs(self) -> Iterator[tuple[str, str]]:
        for log in sorted(self.folder.glob("worker-*.log")):
            for line in log.read_text(errors="replace").splitlines():
                yield log.name, line


@contextmanager
def fleet(folder: Path, url: str) -> Iterator[Fleet]:
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "ONWARD_STORE": url,
        "ONWARD_HOME": str(folder),
        "ONWARD_LOG_FORMAT": "text",
        "ONWARD_METRICS_ADDRESS": "127.0.0.1:0",
        RUNS: str(folder / "runs"),
    }
    all_of_them = Fleet(folder, environ)
    try:
        yield all_of_them
    finally:
        for one in all_of_them.workers:
            # With its worker process, which would wait for a store that is about to be gone.
            os.killpg(one.process.pid, signal.SIGKILL)
            one.process.wait()


@dataclass
class Load:
    """Publishes parcels as long as fewer than `BACKLOG` wait, in a thread; `published` says how many there are."""

    url: str
    published: int = 0

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.problem: BaseException | None = None

    def _run(self) -> None:
        try:
            app._settings = load_settings({"ONWARD_STORE": self.url})
            with closing(app):
                while not self._over.wait(0.5):
                    waiting = sum(one.waiting for one in app.store.queues(["unpacking", "reading"]))
                    if waiting < BACKLOG:
                        parcels = [Parcel(id=f"parcel-{self.published + n}") for n in range(20)]
                        app.publish(*map(ParcelArrived.of, parcels), documents=parcels)
                        self.published += len(parcels)
        except BaseException as error:
            self.problem = error

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        if self.problem is not None:
            raise self.problem


def states(store: Store, collection: str) -> Iterator[DocumentState]:
    after = (collection, "")
    while page := store.find_states(collection=collection, after=after, limit=PAGE):
        yield from page
        after = (collection, page[-1].id)


def test_nothing_is_lost_doubled_or_charged_while_workers_are_replaced(
    needs_postgres: None, tmp_path: Path, report: Callable[[str], None]
) -> None:
    random = Random(7)
    options = {"max_connections": str(CONNECTIONS)}
    with PostgresServer(fsync=False, options=options) as server, closing(open_store(server.url())) as store:
        with (
            fleet(tmp_path, server.url()) as workers,
            psycopg.connect(server.url(), autocommit=True) as admin,
            Load(server.url()) as load,
        ):
            admin.execute(_WITNESS.encode())
            used: list[int] = []

            def ask(query: str, *values: object) -> int:
                (number,) = admin.execute(query.encode(), values).fetchone() or (0,)
                return int(number)

            def alive() -> int:
                used.append(ask(_USED))
                return len(store.workers())

            for _ in range(0, WORKERS, WAVE):
                workers.start(WAVE)
                until(lambda: alive() >= len(workers.workers), "the workers of a wave have begun", PATIENCE)
            codes: Counter[int] = Counter()
            held = 0
            while codes.total() < REPLACED:
                chosen = random.sample(workers.workers, AT_ONCE)
                pids = [str(one.process.pid) for one in chosen]
                workers.start(AT_ONCE)
                held += ask(_HELD, pids)
                codes.update(workers.terminate(chosen))
                assert ask(_HELD, pids) == 0, "no lease is left to lapse"
                alive()
            assert held > 0, "they had something to finish"
            until(lambda: alive() >= WORKERS, "those that were started last have begun", PATIENCE)
            load.stop()
            until(lambda: not any(sum(one.values()) for one in waiting(store)), "all is done", PATIENCE)
            at_the_end = workers.terminate(list(workers.workers))
            assert at_the_end == [0] * WORKERS
            charges = admin.execute(b"SELECT what FROM witness").fetchall()

        published = load.published
        assert published > BACKLOG
        parcels = [f"parcel-{number}" for number in range(published)]
        for collection in (Parcel.collection, Letter.collection):
            found = list(states(store, collection))
            assert sorted(one.id for one in found) == sorted(parcels), "nothing is lost"
            assert {(one.status, one.attempt_count) for one in found} == {("processed", 1)}
            assert all(one.last_error is None for one in found)
        expected = {f"{service} {id}": 1 for service in ("unpacking", "reading") for id in parcels}
        receipts = Counter(one.id.rpartition(" ")[0] for one in states(store, Receipt.collection))
        assert receipts == expected, "nothing is doubled"
        # Not even in vain: a worker that ends finishes what it runs, and gives back only what it has not begun.
        runs = Counter((tmp_path / "runs").read_text().splitlines())
        assert runs == {f"{one} 1": 1 for one in expected}
        assert charges == [], "no lease lapsed, and no try was charged"
        assert store.counts().get("dead", {}) == {}
        for name, line in workers.logs():
            assert "died" not in line, f"{name}: {line}"
            assert " is gone; " not in line or " is gone; 0 events" in line, f"{name}: {line}"
    report(
        f"{published} documents by {WORKERS} workers, {codes.total()} of them replaced: exit codes {dict(codes)}"
    )
    report(f"connections: at most {max(used)} for {WORKERS} workers, {max(used) / WORKERS:.1f} each")


def waiting(store: Store) -> Iterator[dict[str, int]]:
    for one in store.queues(["unpacking", "reading"]):
        yield {"waiting": one.waiting, "claimed": one.claimed}
