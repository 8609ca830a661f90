"""Workers are killed at random moments while they fan out and in: no event is lost, doubled, or miscounted."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from random import Random

import pytest

from onward.ledger.store import Store
from tests.support import crawl_app
from tests.support.crawl_app import Site
from tests.support.supervised_workers import Supervised, until

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]

KILLS = int(os.environ.get("JOIN_TEST_KILLS", "30"))
SEED = int(os.environ.get("JOIN_TEST_SEED", "0")) or Random().randrange(1, 10**9)
SUPERVISORS, LEASE, BACKLOG, PAGES = 2, 3.0, 60, 14


def backlog(store: Store) -> int:
    counts = store.counts().values()
    return sum(states.get("waiting", 0) + states.get("claimed", 0) for states in counts)


def kill_one(supervised: Supervised, store: Store, random: Random) -> bool:
    """Kill a worker process, but not one that runs a suspect alone: that would make a crash loop of it."""
    known = {one["pid"]: one["alone"] for one in store.workers()}
    at_work = [pid for pid in supervised.workers() if known.get(pid) is False]
    if at_work:
        with suppress(ProcessLookupError):
            os.kill(random.choice(at_work), signal.SIGKILL)
    return bool(at_work)


@pytest.mark.parametrize("kind", ("sqlite", "postgres"))
def test_killed_workers_lose_and_double_no_event(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, report: Callable[[str], None]
) -> None:
    url = (
        f"sqlite:///{tmp_path / 'onward.db'}"
        if kind == "sqlite"
        else str(request.getfixturevalue("postgres_store_url"))
    )
    report(f"seed {SEED} (set JOIN_TEST_SEED to repeat it)")
    random, pause = Random(SEED), threading.Event()
    sites: list[Site] = []
    app = crawl_app.crawl_app(url)
    with closing(app), ExitStack() as stack:
        fleet = [
            stack.enter_context(
                Supervised(f"{crawl_app.__name__}:app", tmp_path, {crawl_app.STORE: url}, processes=2, lease=LEASE)
            )
            for _ in range(SUPERVISORS)
        ]
        kills = 0
        while kills < KILLS:
            for _ in range(3 if backlog(app.store) < BACKLOG else 0):
                pages = "".join(random.choices(".!~-", weights=(6, 1, 1, 1), k=random.randrange(PAGES)))
                sites.append(Site(id=f"s{len(sites)}", pages=pages, large=random.random() < 0.5))
                crawl_app.publish(app, sites[-1])
            pause.wait(random.uniform(0.0, 0.3))  # until the random moment of the kill
            kills += kill_one(random.choice(fleet), app.store, random)
        until(lambda: not backlog(app.store) and not app.store.join_count(), "everything comes to rest", 120)
        for supervised in fleet:
            supervised.signal(signal.SIGTERM)
        assert [supervised.wait() for supervised in fleet] == [0] * SUPERVISORS
        report(f"{kills} kills, {len(sites)} sites with {sum(len(site.pages) for site in sites)} pages")
        assert crawl_app.problems(app, sites) == []
