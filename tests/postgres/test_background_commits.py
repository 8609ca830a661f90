"""Commits that fly beside claims and handlers: bounded, heard of, told one at a time."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from typing import Any

import pytest

from onward import App, Settings, Work
from onward.ledger.postgres import PostgresStore
from onward.ledger.store_errors import StoreConflict, StoreUnavailable
from onward.runtime.engine import Engine
from onward.runtime.outcomes import AnySignal, BreakerMoved, Hooks
from onward.runtime.work_loop import MAX_BACKGROUND_COMMITS
from tests.postgres.stage import Opener, at_once
from tests.support.store_pages import Noticed, Page, PagesFound, Word


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few works are many."""
    monkeypatch.setattr("onward.runtime.work_loop.BACKGROUND_COMMIT_SIZE", 5)
    monkeypatch.setattr("onward.runtime.work_loop.MAX_GROUP", 20)


@pytest.fixture
def app(opened: Opener, postgres_store_url: str) -> App:
    return App(store=opened(postgres_store_url), settings=Settings())


@pytest.mark.usefixtures("hurried")
def test_what_is_claimed_faster_than_it_is_committed_does_not_pile_up(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.service("listening", on=Noticed)
    async def listen(event: Noticed, work: Work) -> None:
        work.add(Word(id=event.what))

    many = 1000
    app.publish(*(Noticed(what=f"{number}") for number in range(many)))
    engine = app.engine(until_idle=True)
    held: list[int] = []
    let_go = threading.Event()
    commit, wait = engine._commit_group, asyncio.wait

    def held_up(group: Any, wants: Any = ()) -> Any:
        if group and not wants:
            let_go.wait(60)
        return commit(group, wants)

    async def waited(futures: Any, **more: Any) -> Any:
        if futures is engine.background and len(futures) == MAX_BACKGROUND_COMMITS and not held:
            held.append(engine.claim_count)
        let_go.set()  # they end only when the engine waits for them
        return await wait(futures, **more)

    monkeypatch.setattr(engine, "_commit_group", held_up)
    monkeypatch.setattr("onward.runtime.work_loop.asyncio.wait", waited)
    engine.run()
    assert held, "there was enough to do"
    assert held[0] < many / 2, "it waits for one of its commits before it claims more"
    assert app.store.counts()["listening"] == {"done": many}


@pytest.mark.usefixtures("hurried")
def test_what_goes_wrong_with_the_last_commit_is_not_kept_quiet(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.service("listening", on=Noticed)
    async def listen(event: Noticed, work: Work) -> None:
        engine.drain()

    app.publish(*(Noticed(what=f"{number}") for number in range(40)))
    engine = app.engine(until_idle=True)
    commit = engine._commit_group

    def broken(group: Any, wants: Any = ()) -> Any:
        beside = bool(group and engine.background)
        result = commit(group, wants)
        if beside:
            raise ZeroDivisionError
        return result

    monkeypatch.setattr(engine, "_commit_group", broken)
    with pytest.raises(ZeroDivisionError):
        engine.run()
    assert app.store.counts()["listening"].keys() <= {"done", "waiting"}


def test_observers_are_told_of_one_thing_after_the_other() -> None:
    hooks, told = Hooks(), 0

    def count(signal: AnySignal) -> None:
        nonlocal told
        before = told
        time.sleep(0)  # lets another thread go first
        told = before + 1

    def tell() -> None:
        for _ in range(300):
            hooks(BreakerMoved("model", True))

    hooks.observers.append(count)
    at_once([tell] * 4)
    assert told == 1200


# -- everything at once


class Chaos:
    """Commits whose answers are lost, or that meet others; a neighbour who takes rows away."""

    def __init__(self, store: PostgresStore, random: random.Random) -> None:
        self._execute = store.db._execute
        self._store = store
        self._random = random
        self.left = 0
        self.engine: Engine | None = None
        self._lock = threading.Lock()
        self.done: Counter[str] = Counter()

    def __call__(self, connection: Any, text: str, values: Any = None, *, binary: bool = False) -> Any:
        kind = self._draw() if text == "COMMIT" else None
        if kind == "conflict":
            raise StoreConflict("two transactions met")
        if kind == "before":
            connection.close()
            raise StoreUnavailable("the connection was lost")
        answer = self._execute(connection, text, values, binary=binary)
        if kind == "after":
            connection.close()
            raise StoreUnavailable("the connection was lost")
        return answer

    def _draw(self) -> str | None:
        with self._lock:
            at_work = self.engine is not None and self.engine.slots
            if not at_work or not self.left or self._random.random() > 0.1:
                return None
            self.left -= 1
            kind = self._random.choice(("conflict", "before", "after"))
            self.done[kind] += 1
            return kind


@pytest.mark.prove
@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("seed", range(2))
def test_whatever_happens_while_commits_fly_each_work_counts_once(
    app: App, opened: Opener, postgres_store_url: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("onward.runtime.work_loop.TICK_SECONDS", 0.02)
    store, neighbour, fate = app.store, opened(postgres_store_url), random.Random(seed)
    assert isinstance(store, PostgresStore)
    lock = threading.Lock()
    calls: Counter[str] = Counter()
    engines: list[Engine] = []

    def receipt(of: str) -> Word:
        with lock:
            calls[of] += 1
            number = calls[of]
            dice = fate.random()
        if dice < 0.02:
            neighbour.release(engines[-1].context.worker)  # as if its leases had lapsed
        if dice > 0.995:
            engines[-1].release() if engines[-1]._draining else engines[-1].drain()
        return Word(id=f"{of}:{number}")

    @app.service("listening", on=Noticed)
    async def listen(event: Noticed, work: Work) -> None:
        work.add(receipt(event.what))

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.add(receipt(page.id), parent=None)

    @app.service("counting", on=PagesFound)
    async def count(event: PagesFound, work: Work) -> None:
        if work.cursor is None:
            work.add(receipt(f"seen {event.page_ids[0]}"))
            await work.checkpoint("seen")

    chaos = Chaos(store, fate)
    monkeypatch.setattr(store.db, "_execute", chaos)

    def work() -> None:
        services = list(app.registry.services)
        chaos.left = 8
        while not store.is_idle(services, services, until=store.now() + 60):
            engines.append(app.engine(until_idle=True))
            chaos.engine = engines[-1]
            engines[-1].run()
            chaos.engine = None
            assert not engines[-1].finished
            store.record_crash(engines[-1].context.worker, [])  # as whoever has started it does

    events, pages = 400, 150
    app.publish(*(Noticed(what=f"{number}") for number in range(events)))
    work()
    for start in range(0, pages, 3):
        found = [Page(id=f"page {number}") for number in range(start, start + 3)]
        app.publish(PagesFound.of(found), documents=found)
    work()
    assert sum(chaos.done.values()) > 3, "enough has happened"
    for name, states in store.counts().items():
        assert states.keys() == {"done"}, name
    assert store.document_counts()["pages"] == {"processed": pages}
    words = [state.id for state in store.states(Word, limit=10_000)]
    per = Counter(word.rpartition(":")[0] for word in words)
    assert len(per) == events + pages + pages // 3
    assert [one for one, n in per.items() if n > 1] == []


def test_the_engine_goes_on_while_the_store_is_tidied(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    handled = threading.Event()

    @app.service("listening", on=Noticed)
    async def listen(event: Noticed, work: Work) -> None:
        handled.set()

    engine = app.engine(until_idle=True)
    look, seen = app.store.pulse, list[bool]()

    def slow(services: Any) -> Any:
        seen.append(handled.wait(60))
        return look(services)

    monkeypatch.setattr(app.store, "pulse", slow)
    engine.settled = 1  # there is something to prune as well
    pruned = list[bool]()
    monkeypatch.setattr(app.store, "prune", lambda **_: pruned.append(True))
    app.publish(Noticed(what="something"))
    engine.run()
    assert seen[0], "what is due is handled, however long that takes"
    assert pruned, "what was begun is finished before the engine ends"
    assert app.store.counts()["listening"] == {"done": 1}


def test_what_goes_wrong_while_the_store_is_tidied_is_not_kept_quiet(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(services: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(app.store, "pulse", broken)
    with pytest.raises(ZeroDivisionError):
        app.engine(until_idle=True).run()


def test_what_the_dead_have_left_is_put_back_before_an_engine_finds_nothing_to_do(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: list[str] = []

    @app.service("listening", on=Noticed)
    async def listen(event: Noticed, work: Work) -> None:
        handled.append(event.what)

    app.publish(Noticed(what="something"))
    app.store.claim("somebody", "listening", limit=1, lease=-1.0, needs=(), with_health_call=())
    engine = app.engine(until_idle=True)
    reap, next_due = app.store.reclaim, app.store.next_due
    about_to_end = threading.Event()

    def slow() -> Any:
        about_to_end.wait(60)
        return reap()

    def asked(services: Any) -> Any:
        due = next_due(services)
        about_to_end.set()
        return due

    under_way = engine.under_way

    def asked_whether_to_end() -> bool:
        if engine._tidying is not None:
            about_to_end.set()
        return under_way()

    monkeypatch.setattr(app.store, "reclaim", slow)
    monkeypatch.setattr(app.store, "next_due", asked)
    monkeypatch.setattr(engine, "under_way", asked_whether_to_end)
    engine.run()
    assert handled == ["something"]
