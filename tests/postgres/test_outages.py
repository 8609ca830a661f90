"""Outages: the server is killed, the network cut, an answer lost. Nothing is lost, nothing done twice."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest

from onward import App, Settings, Work
from onward.ledger.postgres import PostgresStore
from onward.ledger.store_errors import StoreError, StoreUnavailable
from onward.runtime.engine import Engine
from tests.postgres.stage import Asker, Opener, at_once, eventually
from tests.support.servers import PostgresServer, Proxy
from tests.support.store_pages import LISTENING, Noticed, Page, PagesFound, Word, page

pytestmark = pytest.mark.prove

LISTENERS = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN onward_%'"
OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'onward'"


class Reader:
    """An app whose service reads pages and leaves a receipt for each; told to, it waits in the middle."""

    def __init__(self, store: PostgresStore) -> None:
        self.app = App(store=store, settings=Settings())
        self.store = store
        self.calls = self.ended = 0
        self.go_on = threading.Event()
        self.go_on.set()
        self._lock = threading.Lock()
        self.app.service("reading", on=PagesFound, finishes=Page)(self.read)

    def read(self, page: Page, work: Work) -> None:
        with self._lock:
            self.calls += 1
            receipt = f"{page.id}:{self.calls}"
        self.go_on.wait(60)
        work.add(Word(id=receipt))
        with self._lock:
            self.ended += 1

    def bring(self, ids: Sequence[str]) -> None:
        for id in ids:
            found = Page(id=id)
            self.app.publish(PagesFound.of([found]), documents=[found])

    @contextmanager
    def working(self) -> Iterator[Engine]:
        """An engine is at work, in a thread."""
        engine = self.app.engine()
        thread = threading.Thread(target=engine.run)
        thread.start()
        try:
            eventually(self.store.workers, "it has begun")
            yield engine
        finally:
            self.go_on.set()
            engine.release()
            eventually(lambda: self._has_ended(engine, thread), "it has ended")

    def _has_ended(self, engine: Engine, thread: threading.Thread) -> bool:
        engine.release()  # again, for one that was just about to rest
        return not thread.is_alive()

    def counts(self) -> dict[str, dict[str, int]]:
        try:
            return self.store.document_counts()
        except StoreUnavailable:
            return {}

    def wait_until_all_are_read(self, number: int) -> None:
        eventually(lambda: self.counts().get("pages") == {"processed": number}, f"{number} pages are read")


# -- the server dies


@pytest.mark.usefixtures("needs_postgres")
def test_a_server_that_is_killed_under_load_loses_and_doubles_nothing(opened: Opener) -> None:
    pages = [f"page {n}" for n in range(60)]
    with PostgresServer() as server:
        reader = Reader(opened(server.url()))
        reader.bring(pages)
        with reader.working():
            for share in (15, 30):
                eventually(lambda: reader.calls >= share, f"{share} calls")  # noqa: B023
                reader.go_on.clear()
                server.kill()
                reader.go_on.set()  # what ends now finds no store
                eventually(lambda: reader.ended == reader.calls, "what was under way ends")
                server.start()
            reader.wait_until_all_are_read(len(pages))
        store = opened(server.url())
        assert store.document_counts() == {"pages": {"processed": 60}, "words": {"processed": 60}}
        assert [state for state in store.counts()["reading"] if state != "done"] == []
        assert all(store.state(Page, id).attempt_count == 1 for id in pages)  # type: ignore[union-attr]


def test_a_server_that_restarts_costs_an_idle_store_nothing(
    opened: Opener, postgres_store_url: str, ask: Asker
) -> None:
    store = opened(postgres_store_url)
    both = threading.Barrier(3)

    def use_a_connection() -> None:
        with store.transaction():
            both.wait(60)

    at_once([use_a_connection] * 3)
    assert len(ask(OTHERS)) >= 3, "they are kept for the next that need one"
    gone = f"SELECT 1 FROM ({OTHERS.replace('pg_terminate_backend(pid)', 'pid')}) AS left_over"
    eventually(lambda: not ask(gone), "the server has hung up")
    assert store.counts() == {}, "none of those is handed out"


# -- an answer is lost


class LostAnswer:
    """The next COMMIT is made, and the connection breaks before anybody is told."""

    def __init__(self, store: PostgresStore) -> None:
        self._execute = store.db._execute
        self.lost = 0
        self._lock = threading.Lock()  # several threads commit
        self.when: Callable[[], bool] = lambda: False

    def __call__(
        self, connection: psycopg.Connection[Any], text: str, values: Any = None, *, binary: bool = False
    ) -> psycopg.Cursor[Any]:
        answer = self._execute(connection, text, values, binary=binary)
        if text == "COMMIT":
            with self._lock:
                if not self.when():
                    return answer
                self.lost += 1
            connection.close()
            raise StoreUnavailable("the connection was lost")
        return answer


def losing_answers(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> LostAnswer:
    lost = LostAnswer(store)
    monkeypatch.setattr(store.db, "_execute", lost)
    return lost


def test_rows_that_were_claimed_without_the_answer_arriving_are_given_back(
    opened: Opener,
    postgres_store_url: str,
    ask: Asker,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = opened(postgres_store_url)
    claims = f"SELECT 1 FROM {store.db.schema}.ledger WHERE state = 'claimed'"
    lost = losing_answers(store, monkeypatch)
    reader = Reader(store)
    reader.bring(["a"])
    lost.when = lambda: not lost.lost and bool(ask(claims))
    with caplog.at_level(logging.INFO, "onward"), reader.working():
        reader.wait_until_all_are_read(1)
    assert (lost.lost, reader.calls) == (1, 1), "the first delivery reached nobody"
    assert "1 rows that were claimed when the store went away are given back" in caplog.text
    assert store.document_counts()["words"] == {"processed": 1}


def test_works_that_were_committed_without_the_answer_arriving_are_not_committed_again(
    opened: Opener, postgres_store_url: str, ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(postgres_store_url)
    done = f"SELECT 1 FROM {store.db.schema}.completed"
    lost = losing_answers(store, monkeypatch)
    reader = Reader(store)
    reader.bring(["a"])
    lost.when = lambda: not lost.lost and bool(ask(done))
    with reader.working():
        eventually(lambda: lost.lost, "an answer is lost")
        reader.bring(["b"])
        reader.wait_until_all_are_read(2)
    assert reader.calls == 2, "each was read once"
    assert store.document_counts() == {"pages": {"processed": 2}, "words": {"processed": 2}}


def test_a_checkpoint_that_was_committed_without_the_answer_arriving_counts_once(
    opened: Opener, postgres_store_url: str, ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(postgres_store_url)
    half = f"SELECT 1 FROM {store.db.schema}.ledger WHERE cursor IS NOT NULL"
    lost = losing_answers(store, monkeypatch)
    lost.when = lambda: not lost.lost and bool(ask(half))
    app = App(store=store, settings=Settings())
    heard: list[str] = []
    cursors: list[object] = []

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        cursors.append(work.cursor)
        if work.cursor is None:
            work.emit(Noticed(what="the first half"))
            work.checkpoint("half")

    @app.service("listening", on=Noticed)
    def listen(event: Noticed, work: Work) -> None:
        heard.append(event.what)

    app.publish(PagesFound.of([Page(id="a")]), documents=[Page(id="a")])
    app.work_until_idle()
    assert lost.lost == 1
    assert cursors == [None, "half"], "it goes on from what was committed"
    assert heard == ["the first half"]
    assert store.document_counts()["pages"] == {"processed": 1}


def test_a_clock_that_cannot_be_asked_goes_on_from_its_last_word(
    opened: Opener, postgres_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(postgres_store_url)
    before = store.now()

    def refuse() -> tuple[float, float, float]:
        raise StoreError("the user may not log in")

    monkeypatch.setattr("onward.ledger.postgres.dialect.REFRESH_SECONDS", 0.0)
    monkeypatch.setattr(store.db, "server_time", refuse)
    assert before <= store.now() < before + 60


# -- the network


def test_a_network_that_swallows_everything_ends_in_an_error_and_then_works_again(
    opened: Opener, postgres_server: PostgresServer, postgres_store_url: str, network: Callable[[int], Proxy]
) -> None:
    proxy = network(postgres_server.port)
    url = postgres_store_url.replace(f":{postgres_server.port}/", f":{proxy.port}/")
    store = opened(f"{url}&connect_timeout=2", patience=0.5)
    store.add_documents([page("before")])
    proxy.cut()
    with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{proxy.port}/app"):
        store.add_documents([page("during")])  # on a connection that was open
    with pytest.raises(StoreUnavailable, match=r"cannot be reached .*time.* Check host and port"):
        store.add_documents([page("during")])  # on a new one
    proxy.heal()
    eventually(partial(succeeds, lambda: store.add_documents([page("after")])), "it works again")
    assert store.statuses("pages", ["before", "during", "after"]) == {
        "before": "processed",
        "after": "processed",
    }


def test_a_network_that_is_down_and_comes_back(
    opened: Opener, postgres_server: PostgresServer, postgres_store_url: str, network: Callable[[int], Proxy]
) -> None:
    proxy = network(postgres_server.port)
    store = opened(postgres_store_url.replace(f":{postgres_server.port}/", f":{proxy.port}/"))
    reader = Reader(store)
    with reader.working():
        proxy.refuse()
        with pytest.raises(StoreUnavailable):
            reader.bring(["a"])
        proxy.heal()
        eventually(partial(succeeds, lambda: reader.bring(["a"])), "publishing works again")
        reader.wait_until_all_are_read(1)
    assert store.document_counts()["words"] == {"processed": 1}


def succeeds(call: Callable[[], object]) -> bool:
    try:
        call()
    except StoreUnavailable:
        return False
    return True


# -- clocks


def test_a_machine_whose_clock_is_wrong_computes_the_same_due_times(
    opened: Opener, postgres_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = opened(postgres_store_url)
    right.subscribe([LISTENING])
    with monkeypatch.context() as wrong_clock:
        wrong_clock.setattr("time.time", lambda: 0.0)
        wrong = opened(postgres_store_url)
        reader = App(store=wrong, settings=Settings())
        reader.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
        reader.publish(PagesFound(page_ids=["a"]), documents=[Page(id="a")])
        (theirs,) = wrong.claim("wrong", "reading", limit=1, lease=60)
        assert abs(wrong.now() - right.now()) < 60
    lapses = right.next_change()
    assert lapses is not None
    assert abs(lapses - (right.now() + 60)) < 60, "the lease ends by the server's clock"
    assert right.reclaim() == 0, "it has not lapsed for anybody"
    assert abs(theirs.timestamp - right.now()) < 60


# -- being told


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines do not look by themselves: only being told wakes them."""
    monkeypatch.setattr("onward.runtime.work_loop.TICK_SECONDS", 3600.0)


def test_whoever_waits_hears_of_what_another_machine_puts_on_the_ledger(
    opened: Opener, postgres_store_url: str
) -> None:
    here, there = opened(postgres_store_url), opened(postgres_store_url)
    reader = Reader(there)
    bus = here.bus()
    bus.wait(0.01)  # from now on it listens
    heard = threading.Event()

    def wait() -> None:
        bus.wait(3600)
        heard.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    try:
        reader.bring(["a"])
        assert heard.wait(60)
        assert here.counts()["reading"] == {"waiting": 1}, "woken after the commit"
    finally:
        bus.close()
        waiting.join(60)


@pytest.mark.usefixtures("deaf")
def test_an_engine_is_woken_by_what_another_machine_publishes(
    opened: Opener, postgres_store_url: str, ask: Asker
) -> None:
    reader, publisher = Reader(opened(postgres_store_url)), Reader(opened(postgres_store_url))
    with reader.working() as engine:
        eventually(lambda: ask(LISTENERS) and not engine._woken, "it listens and rests")
        publisher.bring(["a"])
        reader.wait_until_all_are_read(1)
    assert reader.calls == 1


def test_an_engine_whose_listening_ended_looks_by_itself_and_listens_again(
    opened: Opener, postgres_store_url: str, ask: Asker
) -> None:
    reader, publisher = Reader(opened(postgres_store_url)), Reader(opened(postgres_store_url))
    with reader.working():
        eventually(lambda: ask(LISTENERS), "it listens")
        cut_off = ask(LISTENERS.replace("pid", "pid, pg_terminate_backend(pid)"))
        publisher.bring(["a"])
        reader.wait_until_all_are_read(1)
        eventually(lambda: set(ask(LISTENERS)) - {(pid,) for pid, _ in cut_off}, "it listens again")
    assert reader.calls == 1


def test_where_there_is_much_to_do_lost_answers_neither_lose_nor_double_anything(
    opened: Opener, postgres_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then works are settled in one transaction while the next are claimed in another."""
    store = opened(postgres_store_url)
    app = App(store=store, settings=Settings())

    @app.service("listening", on=Noticed)
    async def listen(event: Noticed, work: Work) -> None:
        work.add(Word(id=event.what))

    many = 1200
    app.publish(*(Noticed(what=f"{number}") for number in range(many)))
    engine = app.engine(until_idle=True)
    beside: list[bool] = []
    claim_beside = engine._claim_beside_commits

    async def counted(whole: int, wants: Any) -> None:
        beside.append(True)
        await claim_beside(whole, wants)

    monkeypatch.setattr(engine, "_claim_beside_commits", counted)
    lost = losing_answers(store, monkeypatch)
    commits = itertools.count(1)
    # Not every third one: what is done again after a loss is the third again, and would be lost for ever.
    lost.when = lambda: next(commits) in (3, 5, 8, 13, 21, 34)
    engine.run()
    assert beside, "there was enough to do"
    assert lost.lost > 1
    assert store.document_counts() == {"words": {"processed": many}}
    assert store.counts()["listening"].keys() == {"done"}
