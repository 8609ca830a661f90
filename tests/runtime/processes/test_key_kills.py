"""Worker processes with keys are killed at random moments: no order is broken, nothing is lost or doubled."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from random import Random

import psycopg
import pytest

from onward.app import App
from tests.runtime.processes import keyed
from tests.runtime.processes.test_kill import backlog
from tests.support.supervised_workers import Supervised, until

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]

KILLS = int(os.environ.get("KEY_KILLS", "40"))
SEED = int(os.environ.get("KEY_KILLS_SEED", "0")) or Random().randrange(1, 10**9)
SUPERVISORS, LEASE, BACKLOG = 2, 3.0, 100
CLAIMED_TWICE = """
SELECT service, serial_key, count(*) FROM ledger WHERE state = 'claimed' AND serial_key IS NOT NULL
GROUP BY service, serial_key HAVING count(*) > 1"""


@pytest.fixture(params=("sqlite", "postgres"))
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'keyed.db'}"
    return str(request.getfixturevalue("postgres_store_url"))


@pytest.fixture
def app(store_url: str) -> Iterator[App]:
    app = App(store=store_url, settings=keyed.app.settings)
    app.registry = keyed.app.registry
    app.add(*(kind(id=account) for account in keyed.ACCOUNTS for kind in (keyed.Booked, keyed.Counted)))
    yield app
    app.close()


def claimed_twice(app: App, store_url: str) -> list[tuple[object, ...]]:
    if app.store.db.file is not None:
        with closing(sqlite3.connect(app.store.db.file)) as connection:
            return connection.execute(CLAIMED_TWICE).fetchall()
    address, _, schema = store_url.partition("?schema=")
    with psycopg.connect(address, options=f"-csearch_path={schema or 'public'}") as postgres:
        return postgres.execute(CLAIMED_TWICE.encode()).fetchall()


def kill_one(app: App, supervisors: list[Supervised], random: Random) -> bool:
    """Kill a worker process, but none that runs a suspect alone: that would be its crash loop."""
    alone = {one["pid"]: one["alone"] for one in app.store.workers()}
    at_work = [pid for pid in random.choice(supervisors).workers() if alone.get(pid) is False]
    if not at_work:
        return False
    with suppress(ProcessLookupError):
        os.kill(random.choice(at_work), signal.SIGKILL)
    return True


def test_no_order_is_broken_and_nothing_lost(
    app: App, store_url: str, tmp_path: Path, report: Callable[[str], None]
) -> None:
    report(f"seed {SEED} (set KEY_KILLS_SEED to repeat it)")
    random, pause = Random(SEED), threading.Event()
    placed = dict.fromkeys(keyed.ACCOUNTS, 0)
    kills = looks = 0
    with ExitStack() as stack:
        supervisors = [
            stack.enter_context(
                Supervised(f"{keyed.__name__}:app", tmp_path, {keyed.STORE: store_url}, processes=2, lease=LEASE)
            )
            for _ in range(SUPERVISORS)
        ]
        while kills < KILLS:
            if backlog(app.store) < BACKLOG:
                for _ in range(BACKLOG):
                    account = random.choice(keyed.ACCOUNTS[:5] if random.random() < 0.3 else keyed.ACCOUNTS)
                    order = keyed.Order(id=f"{account}/{placed[account]}", account=account, number=placed[account])
                    app.publish(keyed.OrderPlaced.of(order), documents=[order])
                    placed[account] += 1
            pause.wait(random.uniform(0.0, 0.3))  # the moment of the kill
            assert claimed_twice(app, store_url) == []
            looks += 1
            kills += kill_one(app, supervisors, random)
        until(lambda: not backlog(app.store), "everything is handled", 180)
    assert app.store.dead_letters() == []
    booked = {one.id: list(one.numbers) for one in app.store.get_many(keyed.Booked, keyed.ACCOUNTS)}
    counted = {one.id: sorted(one.numbers) for one in app.store.get_many(keyed.Counted, keyed.ACCOUNTS)}
    report(f"kills {kills}, orders {sum(placed.values())}, looked {looks} times for keys that are claimed twice")
    expected = {account: list(range(count)) for account, count in placed.items()}
    assert booked == expected, "in order, each once"
    assert counted == expected, "each once"
