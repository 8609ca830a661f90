"""Workers and the retry job can be asked: for metrics, whether they are alive, and whether they can work."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from onward import App, Settings
from onward.model.metric_catalogue import CATALOGUE
from onward.observe import prometheus
from tests.observe import busy
from tests.support.servers import PostgresServer
from tests.support.servers.private import free_port
from tests.support.supervised_workers import ROOT, until

pytestmark = pytest.mark.prove


class Process:
    """A command of onward's, as its users start it."""

    def __init__(self, folder: Path, *command: str, **environ: str) -> None:
        self.folder = folder
        self.log = folder / f"{'-'.join(command[:1])}-{free_port()}.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "onward", *command],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), "ONWARD_HOME": str(folder / "data"), **environ},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def url(self) -> str:
        def said() -> re.Match[str] | None:
            return re.search(r"metrics and health at (http://[^\s\"]+)", self.log.read_text())

        until(said, f"the address; it says: {self.log.read_text()}")
        found = said()
        assert found is not None
        return found[1]

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def value(self, name: str, **labels: str) -> float | None:
        for family in text_string_to_metric_families(self.get("/metrics")[1]):
            for sample in family.samples:
                if (sample.name, sample.labels) == (name, labels):
                    return sample.value
        return None


@contextmanager
def started(folder: Path, *command: str, **environ: str) -> Iterator[Process]:
    one = Process(folder, *command, **environ)
    try:
        yield one
    finally:
        os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait()


def _checks(process: Process) -> dict[str, str]:
    found: dict[str, str] = json.loads(process.get("/readyz")[1])["checks"]
    return found


WORKER = ("worker", "--app", "tests.observe.busy:app")


def bring(folder: Path, *ids: str) -> None:
    app = App(settings=Settings(home=folder / "data"))
    app.store.subscribe([one.subscription() for one in busy.app.registry.services.values()])
    for id in ids:
        app.publish(busy.PagesFound(page_ids=[id]), documents=[busy.Page(id=id)])
    app.close()


@pytest.fixture
def address() -> str:
    return f"127.0.0.1:{free_port()}"


def test_what_all_processes_of_a_worker_have_counted_is_told_as_one(tmp_path: Path, address: str) -> None:
    bring(tmp_path, *(f"page {number}" for number in range(40)), "bad 1", "bad 2")
    with started(tmp_path, *WORKER, "--processes", "2", ONWARD_METRICS_ADDRESS=address) as worker:
        until(lambda: worker.value("events_processed_total", service="reading") == 40, "all pages read")
        assert worker.value("event_retry_dlq_total", service="reading", reason="non_retryable") == 2
        assert worker.value("pages_read_total", kind="good") == 40, "a metric of the app's own"
        until(lambda: worker.value("failed_queue_messages", queue="reading.failed") == 2, "the dead letters")
        assert worker.value("queue_depth", queue="reading") == 0
        assert worker.value("workers_alive") == 2


def test_counts_outlive_the_process_that_counted(tmp_path: Path, address: str) -> None:
    bring(tmp_path, "page 1", "page 2")
    with started(tmp_path, *WORKER, ONWARD_METRICS_ADDRESS=address) as worker:
        until(lambda: worker.value("events_processed_total", service="reading") == 2, "two pages read")
        bring(tmp_path, "deadly")
        until(lambda: "died" in worker.log.read_text(), "a death")
        bring(tmp_path, "page 3")
        until(lambda: worker.value("events_processed_total", service="reading") == 3, "a page of its successor's")


def test_two_workers_on_one_machine_have_an_address_each(tmp_path: Path, address: str) -> None:
    with (
        started(tmp_path, *WORKER, ONWARD_METRICS_ADDRESS=address) as first,
        started(tmp_path, *WORKER, ONWARD_METRICS_ADDRESS=address) as second,
    ):
        assert first.url != second.url
        for one in (first, second):
            assert one.get("/healthz")[0] == 200


def test_every_metric_that_is_not_about_what_has_not_happened_yet_is_there_from_the_start(
    tmp_path: Path, address: str
) -> None:
    bring(tmp_path, "page 1")
    with started(tmp_path, "retry-job", "--app", "tests.observe.busy:app", ONWARD_METRICS_ADDRESS=address) as job:
        until(lambda: job.value("retry_job_runs_total", status="success") == 1, "a run")
        found = {one.name for one in text_string_to_metric_families(job.get("/metrics")[1])}
    # A counter is named without its ending there. Those of handlers begin with their first call.
    expected = {
        name.removesuffix("_total")
        for name in CATALOGUE
        if name.startswith(("retry_job_", "queue_", "failed_", "breaker_", "outbox_", "disk_", "workers_"))
        and CATALOGUE[name].labels not in (("collection",), ("error_type",), ("dependency",))
    }
    assert expected <= found


def test_a_worker_is_ready_while_its_store_answers(
    tmp_path: Path, address: str, postgres_server: PostgresServer
) -> None:
    with PostgresServer() as server:
        store = server.create_database("ready")
        with started(tmp_path, *WORKER, ONWARD_METRICS_ADDRESS=address, ONWARD_STORE=store) as worker:
            until(lambda: worker.get("/readyz")[0] == 200, "readiness")
            server.kill()
            until(lambda: _checks(worker)["store"] != "ok", "that it is noticed")
            assert worker.get("/readyz")[0] == 503
            assert worker.get("/healthz")[0] == 200, "it is alive: a restart would not help"
            assert worker.value("queue_depth", queue="reading") is None, "no number is better than a wrong one"
            server.start()
            until(lambda: worker.get("/readyz")[0] == 200, "that it is back")
            until(lambda: worker.value("queue_depth", queue="reading") == 0, "the numbers again")


def test_whoever_asks_the_store_is_read_by_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each question has a thread of its own, and the store keeps a connection for each thread that reads it."""
    monkeypatch.setattr(prometheus, "FRESH_SECONDS", 0.05)
    app = App(settings=Settings(home=tmp_path))
    readers: list[str] = []
    totals = app.store.totals

    def recorded() -> dict[str, dict[str, float]]:
        readers.append(threading.current_thread().name)
        return totals()

    monkeypatch.setattr(app.store, "totals", recorded)
    found = prometheus.StoreCollector(app.store, app.settings.ladder)
    found.start()
    for number in range(1, 6):
        asker = threading.Thread(target=lambda: list(found.collect()))
        until(lambda: not found._is_newer_than(prometheus.FRESH_SECONDS), "an answer that is old")
        asker.start()
        asker.join()
        assert len(readers) == number
    found.stop()
    assert set(readers) == {"onward-store-metrics"}


def test_an_address_that_cannot_be_had_is_said_and_stops_nothing(tmp_path: Path) -> None:
    bring(tmp_path, "page 1")
    command = (*WORKER, "--until-idle", "0")
    with started(tmp_path, *command, ONWARD_METRICS_ADDRESS="192.0.2.1:9464") as worker:
        assert worker.process.wait(60) == 0
        assert "192.0.2.1:9464" in worker.log.read_text()
        assert "ONWARD_METRICS_ADDRESS" in worker.log.read_text()


def test_switched_off_there_is_health_but_no_metrics(tmp_path: Path, address: str) -> None:
    with started(tmp_path, *WORKER, ONWARD_METRICS_ADDRESS=address, METRICS_BACKEND="noop") as worker:
        assert worker.get("/metrics")[0] == 404
        assert worker.get("/healthz")[0] == 200
        assert worker.get("/etc/passwd")[0] == 404
