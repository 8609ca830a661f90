"""`onward torture` in small: whatever is killed, nothing is lost, doubled, or blamed on the innocent."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from onward.app import App
from onward.torture.fault_injection import TortureHooks
from onward.torture.torture_run import TortureOptions, open_scratch, torture
from onward.torture.workload import ParcelArrived, build
from tests.support.gateway_broker import eventually, publish
from tests.support.servers import PostgresServer, RabbitServer
from tests.support.servers.private import PrivateServer
from tests.torture.stopping import environment

pytestmark = [pytest.mark.prove, pytest.mark.timeout(600)]

DOCUMENTS, KILLS, SERVER_KILLS = 160, 6, 2
LONGEST_OUTAGE_SECONDS = 1.0
OPTIONS = ("--documents", str(DOCUMENTS), "--kills", str(KILLS), "--json")


def onward_torture(folder: Path, *options: str, timeout: float = 550.0) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would, with a temporary folder that can be looked into."""
    command = [sys.executable, "-m", "onward", "torture", *options]
    return subprocess.run(
        command, env=environment(folder), capture_output=True, text=True, check=False, timeout=timeout, cwd=folder
    )


def check(facts: dict[str, Any], report: Callable[[str], None]) -> None:
    report(" ".join(f"{name} {value}" for name, value in facts.items() if isinstance(value, int | float)))
    assert (facts["documents"], facts["finished"]) == (DOCUMENTS, DOCUMENTS)
    assert (facts["lost"], facts["doubled"], facts["blamed"], facts["unfinished"]) == (0, 0, 0, 0)
    assert facts["kills"] == KILLS
    assert facts["workers_killed"] + facts["supervisors_killed"] + facts["groups_killed"] == KILLS
    assert facts["poison_caught"] == facts["poison"] == 2
    assert facts["set_aside"] == 4, "two that kill their process, one that cannot be read, one that always fails"
    assert facts["sent_again"] > 0
    assert facts["duplicates_reported"] <= facts["sent_again"]
    assert facts["zombies"] <= 1
    assert facts["zombies_unrefused"] == 0, "what wakes up late is refused"
    assert facts["late_works_refused"] >= facts["zombies"]
    assert facts["clean"]


def drawn_options() -> TortureOptions:
    return TortureOptions(documents=DOCUMENTS, kills=KILLS, seed=Random().randrange(10**9))


def outages(*servers: PrivateServer) -> list[Callable[[], None]]:
    """Faults that kill each of these servers and start it again."""

    def outage(server: PrivateServer) -> None:
        server.kill()
        threading.Event().wait(Random().uniform(0.0, LONGEST_OUTAGE_SECONDS))
        server.start()

    return [lambda server=server: outage(server) for server in servers for _ in range(SERVER_KILLS)]  # type: ignore[misc]


def test_nothing_is_lost_doubled_or_blamed_on_sqlite(tmp_path: Path, report: Callable[[str], None]) -> None:
    ended = onward_torture(tmp_path, *OPTIONS)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    check(json.loads(ended.stdout), report)
    assert list(tmp_path.glob("onward_torture_*")) == [], "the scratch place is gone"


def test_a_store_on_postgresql_is_left_as_it_was(
    tmp_path: Path, postgres_server: PostgresServer, report: Callable[[str], None]
) -> None:
    url = postgres_server.create_database("torture")
    ended = onward_torture(tmp_path, *OPTIONS, "--store", url)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    check(json.loads(ended.stdout), report)
    with psycopg.connect(url) as connection:
        left = connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'onward%'").fetchone()
    postgres_server.execute("DROP DATABASE torture")
    assert left == (0,), "the schema is gone"


def test_the_same_while_postgresql_is_killed(needs_postgres: None, report: Callable[[str], None]) -> None:
    with PostgresServer() as server, open_scratch(server.url()) as scratch:
        hooks = TortureHooks(outages(server))
        facts = torture(
            TortureOptions(documents=DOCUMENTS, kills=KILLS, seed=Random().randrange(10**9)),
            scratch,
            lambda _: None,
            hooks,
        ).as_dict()
    check(facts, report)
    assert facts["extra_faults"] == SERVER_KILLS


def test_the_same_with_events_that_arrive_through_rabbitmq_while_both_are_killed(
    needs_postgres: None, rabbit_server: RabbitServer, rabbit_url: str, report: Callable[[str], None]
) -> None:
    """The supervisors of the run read the inbox; one parcel in five is announced there by another program."""

    def sent(raw: bytes) -> bool:
        try:
            publish(rabbit_url, raw, key=ParcelArrived.routing_key)
        except Exception:  # the broker is not up yet
            return False
        return True

    def send(app: App, raw: bytes) -> None:
        eventually(lambda: sent(raw), "the broker takes it")

    with PostgresServer() as server, open_scratch(server.url()) as scratch:
        scratch.more_settings = {"gateway": rabbit_url}
        gateway = build(scratch.settings).gateway()
        assert gateway is not None
        gateway.check()  # the exchange and the queue are there before the first event
        rabbit_server.settle()
        hooks = TortureHooks(outages(server, rabbit_server), send)
        facts = torture(
            TortureOptions(documents=DOCUMENTS, kills=KILLS, seed=Random().randrange(10**9)),
            scratch,
            lambda _: None,
            hooks,
        ).as_dict()
    check(facts, report)
    assert facts["extra_faults"] == 2 * SERVER_KILLS
