"""Worker processes are killed at random moments, and nothing is lost, doubled, or blamed on the innocent."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Self

import pytest

from onward.app import App
from onward.ledger.store import Store
from tests.runtime.processes import chain
from tests.support.supervised_workers import Supervised, until

pytestmark = pytest.mark.prove

KILLS = int(os.environ.get("KILL_TEST_KILLS", "200"))
SEED = int(os.environ.get("KILL_TEST_SEED", "0")) or Random().randrange(1, 10**9)
SUPERVISORS, LEASE, BACKLOG = 3, 3.0, 60
SLOTS = 2 * 4 * chain.app.settings.concurrency
"""What the two processes of a supervisor can run at once."""


@dataclass
class Fleet:
    """Supervisors on one file. What is killed is replaced."""

    folder: Path
    stack: ExitStack
    random: Random

    def __post_init__(self) -> None:
        self.supervisors = [self.start() for _ in range(SUPERVISORS)]
        self.supervisors_killed = 0

    @property
    def environ(self) -> dict[str, str]:
        return {
            chain.STORE: f"sqlite:///{self.folder / 'chain.db'}",
            chain.OUTSIDE: str(self.folder / "outside"),
        }

    def start(self) -> Supervised:
        supervised = Supervised(
            f"{chain.__name__}:app",
            self.folder,
            self.environ,
            processes=self.random.choice((1, 2)),
            lease=LEASE,
        )
        return self.stack.enter_context(supervised)

    def kill_one(self, store: Store) -> bool:
        """Kill a worker process, now and then with its supervisor or its whole group.

        Not one that runs a suspect alone: whoever kills the same event three times in a row is its
        crash loop.
        """
        known = {one["pid"]: one["alone"] for one in store.workers()}
        victim, chance = self.random.choice(self.supervisors), self.random.random()
        workers = victim.workers()
        at_work = [pid for pid in workers if known.get(pid) is False]
        runs_suspect = any(known.get(pid) for pid in workers)
        if not at_work or (chance < 0.05 and runs_suspect):
            return False
        if chance < 0.05:
            if chance < 0.03:
                victim.signal_group(signal.SIGKILL)
            else:
                victim.signal(signal.SIGKILL)
            victim.wait()
            self.supervisors_killed += 1
            self.supervisors.remove(victim)
            self.supervisors.append(self.start())
        else:
            with suppress(ProcessLookupError):
                os.kill(self.random.choice(at_work), signal.SIGKILL)
        return True


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(tmp_path, stack, Random(SEED))


@pytest.fixture
def app(fleet: Fleet) -> Iterator[App]:
    """The chain in this process, to publish with and to count by."""
    app = App(store=fleet.environ[chain.STORE], settings=chain.app.settings)
    app.registry = chain.app.registry
    yield app
    app.close()


def backlog(store: Store) -> int:
    return sum(
        rows
        for states in store.counts().values()
        for state, rows in states.items()
        if state in ("waiting", "claimed")
    )


@dataclass
class Count:
    """What there is in the end, beside what there should be."""

    lost: int
    doubled: int
    blamed: int
    rows: int
    redelivered: int
    deaths: int
    repeated_outside: int
    rounds: dict[int, int]

    @classmethod
    def of(cls, app: App, folder: Path, archives: list[str]) -> Self:
        chunks = {id for archive in archives for id in chain.chunks_of(archive)}
        tallies = [id for archive in archives for id in chain.messages_of(archive)]
        counted = Counter({one.id: one.count for one in app.store.get_many(chain.Tally, tallies)})
        due = Counter(dict.fromkeys(tallies, chain.CHUNKS))
        with closing(sqlite3.connect(folder / "chain.db")) as ledger:
            (rows, redelivered, deaths, indexed) = ledger.execute(
                "SELECT count(*), sum(token - 1), sum(deaths), sum(service = 'counting') FROM ledger"
            ).fetchone()
            vectors = {id for (id,) in ledger.execute("SELECT id FROM documents WHERE collection = 'vectors'")}
            rounds = ledger.execute(
                "SELECT attempt_count, count(*) FROM documents "
                "WHERE collection IN ('archives', 'messages', 'chunks') GROUP BY 1"
            ).fetchall()
        outside = Counter((folder / "outside").read_text().split())
        return cls(
            lost=len(chunks - vectors) + (due - counted).total(),
            doubled=len(vectors - chunks) + (counted - due).total() + indexed - len(chunks),
            blamed=len(app.store.dead_letters()),
            rows=rows,
            redelivered=redelivered,
            deaths=deaths,
            repeated_outside=outside.total() - len(outside),
            rounds=dict(rounds),
        )


@pytest.mark.timeout(900)
def test_nothing_is_lost_doubled_or_blamed(fleet: Fleet, app: App, report: Callable[[str], None]) -> None:
    report(f"seed {SEED} (set KILL_TEST_SEED to repeat it)")
    archives: list[str] = []
    kills, pause = 0, threading.Event()
    while kills < KILLS:
        if backlog(app.store) < BACKLOG:
            archives += [f"a{len(archives) + n}" for n in range(3)]
            for archive in archives[-3:]:
                chain.publish(app, archive)
        pause.wait(fleet.random.uniform(0.0, 0.3))
        kills += fleet.kill_one(app.store)
    until(lambda: not backlog(app.store), "the chain comes to rest", 120)
    # One that was started just now knows no signals yet.
    until(lambda: all(one.workers() for one in fleet.supervisors), "every supervisor is at work", 60)
    for supervised in fleet.supervisors:
        supervised.signal(signal.SIGTERM)
    assert [supervised.wait() for supervised in fleet.supervisors] == [0] * SUPERVISORS

    count = Count.of(app, fleet.folder, archives)
    report(
        f"kills {kills} ({fleet.supervisors_killed} of a supervisor), events {count.rows}, "
        f"redelivered {count.redelivered}, calls to the outside repeated {count.repeated_outside}"
    )
    report(
        f"lost {count.lost}, doubled {count.doubled}, innocent neighbours blamed {count.blamed}; "
        f"deaths counted on events that were running: {count.deaths}"
    )
    assert (count.lost, count.doubled, count.blamed) == (0, 0, 0)
    messages, chunks = len(archives) * chain.MESSAGES, len(archives) * chain.MESSAGES * chain.CHUNKS
    assert app.store.document_counts() | {"vectors": {}, "tallys": {}} == {
        "archives": {"processed": len(archives)},
        "messages": {"processed": messages},
        "chunks": {"processed": chunks},
        "vectors": {},  # nobody finishes these two, and they are counted above
        "tallys": {},
    }
    assert count.deaths <= kills * SLOTS, "only what was running is counted, not what was claimed ahead"
    assert count.rounds == {1: len(archives) + messages + chunks}, "every round is counted once"
