"""`onward workers` shows who is alive and what each does; `onward worker` says what it runs, and where."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from onward import App
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


def text(home: Path) -> str:
    result = onward(home, "workers")
    assert result.exit_code == 0, result.output
    return result.stdout


# -- onward workers


def test_where_nobody_works_it_says_how_to_begin(shop: Path) -> None:
    assert text(shop) == "No worker is alive. Start one:  onward worker --app MODULE:APP\n"
    assert facts(shop)["workers"] == []


def test_a_worker_with_nothing_to_do(shop: Path) -> None:
    with stage(shop) as on:
        on.store.register_worker("box:17:f00d", READER)
    (one,) = facts(shop)["workers"]
    assert (one["host"], one["pid"], one["version"], one["services"]) == ("box", 17, "shop 1.1", ["reading"])
    assert (one["alone"], one["working"], one["since"]) == (False, [], None)
    shown = text(shop)
    assert shown.startswith("1 worker on 1 machine\n\nbox:17  shop 1.1, seen ")
    assert "  reading\n  waiting for something to do\n" in shown


def test_since_when_a_worker_runs_is_told_if_it_is_known(shop: Path) -> None:
    with stage(shop) as on:
        on.store.register_worker("box:17:f00d", READER | {"since": on.store.now() - 7200})
    (one,) = facts(shop)["workers"]
    assert 7200 <= one["up_seconds"] < 7300
    assert "up 2 h, seen " in text(shop)


def test_what_a_worker_does_is_told_with_a_few_documents(shop: Path) -> None:
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
    assert "▸ reading: 3 events of 5 documents (pages/a1, pages/b2, pages/c3, …)\n" in text(shop)


def test_a_process_that_only_runs_a_suspect_event_is_told_so_and_serves_nobody_else(shop: Path) -> None:
    with stage(shop) as on:
        on.store.register_worker("box:18:beef", READER | {"pid": 18, "alone": True})
        on.bring("a1")
    (waiting,) = facts(shop)["not_served"]
    assert (waiting["service"], waiting["waiting"]) == ("reading", 1)
    assert "  one suspect event of: reading\n" in text(shop)


def test_services_that_nobody_runs_though_events_wait(shop: Path) -> None:
    with stage(shop) as on:
        on.store.register_worker("box:17:f00d", READER)
        on.store.publish([on.noticed("one"), on.noticed("two")])
    assert [one["service"] for one in facts(shop)["not_served"]] == ["listening"]
    line = (
        "● nobody runs listening, and 2 events wait for it:  onward worker --app MODULE:APP --services listening\n"
    )
    assert line in text(shop)


def test_workers_of_two_versions_are_pointed_out(shop: Path) -> None:
    with stage(shop) as on:
        on.store.register_worker("box:17:f00d", READER)
        on.store.register_worker("den:17:cafe", READER | {"host": "den", "version": "shop 1.2"})
    assert facts(shop)["versions"] == {"shop 1.1": 1, "shop 1.2": 1}
    shown = text(shop)
    assert shown.startswith("2 workers on 2 machines\n")
    assert "● workers of 2 versions run: shop 1.1 (1), shop 1.2 (1). Replace the old ones\n" in shown


def test_what_a_silent_worker_holds_goes_to_others(shop: Path) -> None:
    with stage(shop) as on:
        on.bring("a1")
        on.claim(worker="box:16:dead")
    (one,) = facts(shop)["silent"]
    assert (one["worker"], one["working"][0]["events"]) == ("box:16:dead", 1)
    assert 0 < one["given_back_in_seconds"] <= 60
    assert re.search(
        r"● box:16 is silent and has reading: 1 event \(pages/a1\): others get it within \d+ s", text(shop)
    )


def test_one_that_was_not_heard_of_for_long_is_not_alive(shop: Path) -> None:
    clock = SimulatedClock(time.time() - 3600)
    app = App(settings=load_settings({"ONWARD_HOME": str(shop)}), clock=clock)
    app.store.register_worker("box:17:f00d", READER)
    app.close()
    assert facts(shop)["workers"] == []


def test_only_those_of_this_machine_as_a_health_check_asks(shop: Path) -> None:
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


def test_services_that_there_are_not_are_named_with_those_that_there_are(home: Path) -> None:
    result = onward(home, "worker", "--services", "chunking, mailing")
    assert result.exit_code == 2
    assert "there is no service 'mailing'; there are: ingestion, parsing, chunking" in " ".join(
        result.stderr.split()
    )
    assert not home.exists()


def test_a_list_that_names_no_service(home: Path) -> None:
    result = onward(home, "worker", "--services", " , ")
    assert result.exit_code == 2
    assert "it names none; there are: ingestion" in " ".join(result.stderr.split())


def test_a_worker_says_what_it_runs_and_where_and_when_it_has_ended(home: Path) -> None:
    command = [sys.executable, "-m", "onward", "worker", "--services", "parsing,chunking", "--concurrency", "2"]
    process = subprocess.Popen(
        command, env={**os.environ, **environment(home)}, stderr=subprocess.PIPE, text=True, cwd=home.parent
    )
    assert process.stderr is not None
    try:
        assert process.stderr.readline() == (
            "Running parsing, chunking in 1 process with 2 calls at once each; "
            f"store sqlite:///{home}/onward.db. Stop it with Ctrl-C or SIGTERM.\n"
        )
        while onward(home, "workers", "--here").exit_code != 0:
            assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert re.search(r"^The worker has ended after \d+ s\.$", said, re.MULTILINE), said


def test_a_worker_does_not_show_the_passwords_of_its_servers(home: Path) -> None:
    more = {
        "ONWARD_STORE": "postgresql://app:sesame@127.0.0.1:9/app",
        "ONWARD_BUS": "amqp://app:sesame@127.0.0.1:9/",
    }
    result = onward(home, "worker", more=more)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: postgresql://app:***@127.0.0.1:9/app cannot be reached")
    assert "sesame" not in result.output


@pytest.mark.parametrize("replaced", (False, True), ids=("deleted", "replaced"))
def test_a_worker_whose_data_folder_is_gone_says_so_and_ends(home: Path, replaced: bool) -> None:
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
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1, said
    assert f"{home}/onward.db was {'replaced' if replaced else 'deleted'}" in said
    assert home.exists() == replaced, "it is not made anew"
