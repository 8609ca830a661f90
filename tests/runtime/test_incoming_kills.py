"""Processes that move publications of callers to the ledger are killed all the time: none is lost or doubled."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from signal import SIGKILL
from typing import Any

import pytest

from onward import App, Work
from onward.model.events import read_event
from onward.runtime.incoming_publications import move_incoming
from tests.support.caller_connections import connected, waiting
from tests.support.page_app import Noticed, Page

pytestmark = [pytest.mark.prove, pytest.mark.timeout(600)]

KILLS = int(os.environ.get("INCOMING_KILLS", "25"))
SEED = int(os.environ.get("INCOMING_SEED", "0")) or Random().randrange(1, 10**6)
MOVERS = 2
MOVER = """
import sys
from onward.backend_urls import open_store
from onward.runtime.incoming_publications import move_incoming
from tests.support.page_app import Noticed

store = open_store(sys.argv[1])
print("ready", flush=True)
while True:
    move_incoming(store, [Noticed])
"""


def start_mover(store_url: str) -> subprocess.Popen[bytes]:
    root = str(Path(__file__).parents[2])
    mover = subprocess.Popen([sys.executable, "-c", MOVER, store_url], cwd=root, stdout=subprocess.PIPE)
    assert mover.stdout is not None
    assert mover.stdout.readline() == b"ready\n"
    return mover


def kill(mover: subprocess.Popen[bytes]) -> None:
    assert mover.poll() is None, "it has ended by itself"
    mover.send_signal(SIGKILL)
    mover.wait()
    assert mover.stdout is not None
    mover.stdout.close()


def publish_some(app: App, connection: Any, random: Random, first: int) -> list[str]:
    """Publish in a few transactions, some of which are rolled back; return what was committed."""
    committed: list[str] = []
    for number in range(first, first + 20):
        name = f"n{number}"
        mark = "?" if app.store.db.file else "%s"
        connection.execute(f"INSERT INTO users VALUES ({mark})", (name,))
        app.publish(Noticed(what=name), documents=[Page(id=name)], connection=connection)
        if random.random() < 0.2:
            connection.rollback()
        else:
            connection.commit()
            committed.append(name)
    return committed


def test_nothing_is_lost_and_nothing_doubled(app: App, store_url: str) -> None:
    @app.service("listening", on=Noticed)
    def listen(event: Noticed, work: Work) -> None:
        raise AssertionError("the rows are only counted")

    _ = app.store
    random = Random(SEED)
    committed: list[str] = []
    movers = [start_mover(store_url) for _ in range(MOVERS)]
    try:
        with connected(store_url) as connection:
            for round in range(KILLS):
                committed += publish_some(app, connection, random, 20 * round)
                time.sleep(random.uniform(0, 0.01))  # the moment of the kill
                kill(movers.pop(0))
                movers.append(start_mover(store_url))
            users = [name for (name,) in connection.execute("SELECT name FROM users")]
    finally:
        for mover in movers:
            kill(mover)
    while move_incoming(app.store, [Noticed]):
        pass
    found = Counter[str]()
    while deliveries := app.store.claim("anna", "listening", limit=500, lease=600.0):
        for delivery in deliveries:
            event = read_event(Noticed, delivery.data)
            assert isinstance(event, Noticed)
            found[event.what] += 1
    assert found == Counter(committed) == Counter(users), f"INCOMING_SEED={SEED}"
    assert sum(app.store.document_counts()["pages"].values()) == len(committed)
    assert (waiting(store_url), app.store.dead_letters(None)) == (0, [])
