"""`onward workers` lists live workers and what each does; `onward worker` prints what it runs, and where."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from onward import App, Event
from onward.cli.processes import unknown_outgoing
from onward.settings import load_settings
from onward.testing import SimulatedClock
from tests.support.command_runs import environment, onward
from tests.support.failed_pages import stage

READER = {"host": "box", "pid": 17, "version": "shop 1.1", "services": {"reading": 1}, "alone": False}


@pytest.fixture
def shop(home: Path) -> Path:
    """A store with a service that reads pages; nobody runs it yet."""
    with stage(home) as on:
        assert on.store.workers() == []
    return home


def facts(home: Path, *args: str, code: int = 0, more: dict[str, str] | None = None) -> dict[str, Any]:
    result = onward(home, "workers", *args, "--json", more=more)
    assert result.exit_code == code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


# -- onward workers


def test_without_a_worker_the_command_that_starts_one_is_named(shop: Path) -> None:
    found = facts(shop)
    assert (found["workers"], found["start"]) == ([], "onward worker --app MODULE:APP")


def test_a_worker_with_nothing_to_do(shop: Path) -> None:
    with stage(shop) as on:
        on.store.register_worker("box:17:f00d", READER)
    (one,) = facts(shop)["workers"]
    assert (one["host"], one["pid"], one["version"], one["services"]) == ("box", 17, "shop 1.1", ["reading"])
    assert (one["alone"], one["working"], one["since"]) == (False, [], None)


def test_the_start_of_a_worker_is_reported_if_it_is_known(shop: Path) -> None:
    with stage(shop) as on:
        on.store.register_worker("box:17:f00d", READER | {"since": on.store.now() - 7200})
    (one,) = facts(shop)["workers"]
    assert 7200 <= one["up_seconds"] < 7300


def test_what_a_worker_does_is_reported_with_a_few_documents(shop: Path) -> None:
    with stage(shop) as on:
        on.store.register_worker("box:17:f00d", READER)
        for id in ("a1", "b2"):
            on.bring(id)
        on.bring("c3", "d4", "e5")
        on.claim(worker="box:17:f00d")
    (one,) = facts(shop)["workers"]
    (working,) = one["working"]
    assert (working["service"], working["events"], working["documents"]) == ("reading", 3, 5)
    assert set(working["examples"]) == {"pages/a1", "pages/b2", "pages/c3"}


def test_a_process_for_one_suspect_event_serves_no_other(shop: Path) -> None:
    with stage(shop) as on:
        on.store.register_worker("box:18:beef", READER | {"pid": 18, "alone": True})
        on.bring("a1")
    found = facts(shop)
    (waiting,) = found["not_served"]
    assert (waiting["service"], waiting["waiting"]) == ("reading", 1)
    assert found["workers"][0]["alone"] is True


def test_services_that_nobody_runs_though_events_wait(shop: Path) -> None:
    with stage(shop) as on:
        on.store.register_worker("box:17:f00d", READER)
        on.store.publish([on.noticed("one"), on.noticed("two")])
    assert [(one["service"], one["waiting"]) for one in facts(shop)["not_served"]] == [("listening", 2)]


def test_workers_are_counted_by_version(shop: Path) -> None:
    with stage(shop) as on:
        on.store.register_worker("box:17:f00d", READER)
        on.store.register_worker("den:17:cafe", READER | {"host": "den", "version": "shop 1.2"})
    found = facts(shop)
    assert found["versions"] == {"shop 1.1": 1, "shop 1.2": 1}
    assert [one["host"] for one in found["workers"]] == ["box", "den"]


def test_what_a_silent_worker_holds_goes_to_others(shop: Path) -> None:
    with stage(shop) as on:
        on.bring("a1")
        on.claim(worker="box:16:dead")
    (one,) = facts(shop)["silent"]
    assert (one["worker"], one["working"][0]["events"]) == ("box:16:dead", 1)
    assert one["working"][0]["examples"] == ["pages/a1"]
    assert 0 < one["given_back_in_seconds"] <= 60


def test_a_worker_that_has_not_reported_for_long_is_not_alive(shop: Path) -> None:
    clock = SimulatedClock(time.time() - 3600)
    app = App(settings=load_settings({"ONWARD_HOME": str(shop)}), clock=clock)
    app.store.register_worker("box:17:f00d", READER)
    app.close()
    assert facts(shop)["workers"] == []


def test_a_health_check_counts_only_workers_of_this_machine(shop: Path) -> None:
    with stage(shop) as on:
        on.store.register_worker("elsewhere:17:f00d", READER | {"host": "elsewhere"})
        assert facts(shop, "--here", code=1)["workers"] == []
        on.store.register_worker("here:17:f00d", READER | {"host": socket.gethostname()})
    (one,) = facts(shop, "--here")["workers"]
    assert one["worker"] == "here:17:f00d"


def test_without_a_store_none_is_made(home: Path) -> None:
    result = onward(home, "workers")
    assert (result.exit_code, home.exists()) == (2, False)
    assert "there is no store" in result.stderr


def test_workers_of_a_store_on_postgresql(home: Path, postgres_url: str) -> None:
    more = {"ONWARD_STORE": postgres_url}
    refused = onward(home, "workers", more=more)
    assert refused.exit_code == 2
    assert "there is no store at postgresql://app@" in refused.stderr
    app = App(settings=load_settings(more))
    app.store.register_worker("box:17:f00d", READER)
    app.close()
    (one,) = facts(home, more=more)["workers"]
    assert (one["host"], one["pid"]) == ("box", 17)


# -- onward worker


def test_an_unknown_service_is_refused_with_the_known_ones(home: Path) -> None:
    result = onward(home, "worker", "--services", "chunking, mailing")
    assert result.exit_code == 2
    error = " ".join(result.stderr.split())
    assert "'mailing'" in error
    assert "ingestion, parsing, chunking" in error
    assert not home.exists()


def test_a_list_that_names_no_service(home: Path) -> None:
    result = onward(home, "worker", "--services", " , ")
    assert result.exit_code == 2
    assert "ingestion, parsing, chunking" in " ".join(result.stderr.split())


def test_a_worker_prints_what_it_runs_and_where_and_its_end(home: Path) -> None:
    command = [sys.executable, "-m", "onward", "worker", "--services", "parsing,chunking", "--concurrency", "2"]
    process = subprocess.Popen(
        command, env={**os.environ, **environment(home)}, stderr=subprocess.PIPE, text=True, cwd=home.parent
    )
    assert process.stderr is not None
    try:
        begin = process.stderr.readline()
        while onward(home, "workers", "--here").exit_code != 0:
            assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "parsing, chunking" in begin
    assert f"sqlite:///{home}/onward.db" in begin
    assert [line for line in rest.splitlines() if not line.startswith("{") and " ended " in line], rest


def test_event_types_that_no_class_has_are_named_because_none_would_leave() -> None:
    class BellRung(Event):
        bell: int

    out = "BellRung, BellRang, HearingFailed"
    app = App(settings=load_settings({"ONWARD_GATEWAY": "amqp://mq", "ONWARD_GATEWAY_OUT": out}))
    app.service("hearing", on=BellRung)(lambda event, work: None)
    assert unknown_outgoing(app) == ["BellRang"]


def test_a_worker_does_not_show_the_passwords_of_its_servers(home: Path) -> None:
    more = {
        "ONWARD_STORE": "postgresql://app:sesame@127.0.0.1:9/app",
        "ONWARD_GATEWAY": "amqp://app:sesame@127.0.0.1:9/",
    }
    result = onward(home, "worker", more=more)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: postgresql://app:***@127.0.0.1:9/app cannot be reached")
    assert "sesame" not in result.output


@pytest.mark.prove
@pytest.mark.parametrize("replaced", (False, True), ids=("deleted", "replaced"))
def test_a_worker_whose_data_folder_is_gone_ends_with_an_error(home: Path, replaced: bool) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "onward", "worker"],
        env={**os.environ, **environment(home)},
        stderr=subprocess.PIPE,
        text=True,
        cwd=home.parent,
    )
    assert process.stderr is not None
    try:
        while onward(home, "workers", "--here").exit_code != 0:
            assert process.poll() is None, process.stderr.read()
        home.rename(home.with_name("elsewhere"))
        if replaced:
            with stage(home):
                pass
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1, errors
    assert f"{home}/onward.db was {'replaced' if replaced else 'deleted'}" in errors
    assert home.exists() == replaced, "it is not made anew"
