"""Events and documents published in a transaction of the caller: with its rows or not at all, and once."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from onward import App, Settings, Work
from onward.backend_urls import open_store
from onward.ledger.store import Store
from onward.model.events import EventTooLarge
from onward.model.ledger import MAX_COMMIT_DOCUMENTS, Delivery
from onward.ops.queries.status import read_status
from onward.recovery.retry_decision import RetryJobRules
from onward.recovery.retry_job import RetryJob
from onward.runtime.incoming_publications import move_incoming
from onward.runtime.publish_options import PublishRefused
from onward.testing import Simulation
from tests.support.caller_connections import connected, insert_row, place_of, waiting
from tests.support.page_app import Noticed, Page, PagesFound, pages


@pytest.fixture
def read(app: App) -> list[str]:
    """The pages that a service of the app has read."""
    found: list[str] = []

    @app.service("reading", on=PagesFound, finishes=Page)
    def reading(page: Page, work: Work) -> None:
        found.append(page.id)

    _ = app.store
    return found


@pytest.fixture
def connection(app: App, read: list[str], store_url: str) -> Iterator[Any]:
    with connected(store_url) as connection:
        yield connection


def bring(app: App, connection: Any, *ids: str, **more: Any) -> None:
    found = pages(*ids)
    app.publish(PagesFound.of(found), documents=found, connection=connection, **more)


def users(connection: Any) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM users")]


def claimed(app: App) -> list[Delivery]:
    while move_incoming(app.store, [PagesFound]):
        pass
    return app.store.claim("anna", "reading", limit=10, lease=60.0)


# -- with the caller's rows


def test_it_is_committed_with_the_rows_of_the_caller(app: App, connection: Any, read: list[str]) -> None:
    connection.execute("INSERT INTO users VALUES ('anna')")
    found = pages("a")
    (published,) = app.publish(PagesFound.of(found), documents=found, connection=connection)
    assert (published.awaits_commit, published.rows, published.kept) == (True, 0, ())
    assert app.get(Page, "a") is None, "nobody sees it before the commit"
    connection.commit()
    (delivery,) = claimed(app)
    assert delivery.event_id == published.event_id
    app.store.release("anna")
    app.work_until_idle()
    assert (users(connection), read) == (["anna"], ["a"])


def test_it_is_rolled_back_with_the_rows_of_the_caller(app: App, connection: Any, read: list[str]) -> None:
    connection.execute("INSERT INTO users VALUES ('anna')")
    bring(app, connection, "a")
    connection.rollback()
    app.work_until_idle()
    assert (users(connection), read, app.get(Page, "a")) == ([], [], None)


def test_several_calls_are_committed_together(app: App, connection: Any, read: list[str]) -> None:
    for id in "abc":
        bring(app, connection, id)
    connection.commit()
    app.work_until_idle()
    assert sorted(read) == ["a", "b", "c"]


def test_documents_without_an_event_are_added(app: App, connection: Any) -> None:
    assert app.publish(documents=[Page(id="a", text="so")], connection=connection) == []
    connection.commit()
    assert app.get(Page, "a") == Page(id="a", text="so")


def test_nothing_to_publish_writes_nothing(app: App, connection: Any, store_url: str) -> None:
    assert app.publish(connection=connection) == []
    connection.commit()
    assert waiting(store_url) == 0


def test_source_priority_and_keys_are_kept(app: App, connection: Any) -> None:
    bring(app, connection, "a", source="shelf", priority=7)
    connection.commit()
    state = app.state(Page, "a")
    assert state is not None
    assert (state.source, state.priority, state.round) == ("shelf", 7, 1)


def test_a_stored_document_stays_as_it_is(app: App, connection: Any, read: list[str]) -> None:
    app.add(Page(id="a", text="first"))
    found = Page(id="a", text="second")
    app.publish(PagesFound.of(found), documents=[found], connection=connection)
    connection.commit()
    app.work_until_idle()
    assert (app.get(Page, "a"), read) == (Page(id="a", text="first"), ["a"])


# -- found without a worker


def test_a_document_is_found_after_the_commit_without_any_worker(app: App, connection: Any) -> None:
    bring(app, connection, "a")
    assert app.get(Page, "a") is None
    connection.commit()
    assert app.get(Page, "a") == Page(id="a")


def test_its_state_is_found_after_the_commit_without_any_worker(app: App, connection: Any) -> None:
    bring(app, connection, "a")
    connection.commit()
    state = app.state(Page, "a")
    assert state is not None
    assert (state.status, state.attempt_count) == ("pending", 1)


def test_what_nobody_moves_is_counted_by_the_status(app: App, connection: Any) -> None:
    bring(app, connection, "a")
    bring(app, connection, "b")
    connection.commit()
    status = read_status(app)
    assert status.incoming.waiting == 2
    assert [(str(need.kind), need.count) for need in status.needs] == [("incoming", 2)]
    assert "no worker runs" in status.as_dict()["needs"][0]["text"]


def test_the_retry_job_moves_it(app: App, connection: Any, store_url: str) -> None:
    bring(app, connection, "a")
    connection.commit()
    rules = RetryJobRules.of(app.settings, app.registry.subscriptions())
    RetryJob(app.store, app.registry, rules, holder="test").run()
    assert waiting(store_url) == 0
    assert app.store.get(Page, "a") == Page(id="a")


def test_a_simulation_moves_it(read: list[str], tmp_path: Path) -> None:
    app, file = App(settings=Settings()), tmp_path / "simulated.db"

    @app.service("reading", on=PagesFound, finishes=Page)
    def reading(page: Page, work: Work) -> None:
        read.append(page.id)

    with Simulation(app, store=f"sqlite:///{file}") as world, connected(f"sqlite:///{file}") as connection:
        bring(app, connection, "a", delay=timedelta(minutes=10))
        connection.commit()
        world.drain()
        assert read == [], "it is not due yet"
        world.run_for(601)
        assert read == ["a"]


def test_an_idle_worker_notices_the_commit(app: App, connection: Any, read: list[str]) -> None:
    engine, noticed = app.engine(), threading.Event()
    app.observe(lambda signal: noticed.set())
    thread = threading.Thread(target=engine.run)
    thread.start()
    try:
        bring(app, connection, "a")
        connection.commit()
        assert noticed.wait(60)
    finally:
        engine.drain()
        thread.join()
    assert read == ["a"]


# -- once


def test_a_process_that_dies_while_it_moves_leaves_everything(app: App, connection: Any, read: list[str]) -> None:
    bring(app, connection, "a")
    connection.commit()

    class Killed(BaseException):
        pass

    def die_before_the_commit() -> None:
        move_incoming(app.store, [PagesFound])
        raise Killed

    with pytest.raises(Killed):
        app.atomically(die_before_the_commit)
    assert app.store.get(Page, "a") is None
    app.work_until_idle()
    assert read == ["a"]


def test_two_movers_at_once_move_each_row_once(app: App, connection: Any, read: list[str], store_url: str) -> None:
    for number in range(300):
        bring(app, connection, f"p{number}")
    connection.commit()
    stores = [open_store(store_url) for _ in range(2)]
    moved: list[int] = []
    barrier = threading.Barrier(len(stores))

    def move(store: Store) -> None:
        barrier.wait()
        while some := move_incoming(store, [PagesFound]):
            moved.append(some)

    threads = [threading.Thread(target=move, args=[store]) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while some := move_incoming(app.store, [PagesFound]):  # a mover leaves rows that another one has locked
        moved.append(some)
    for store in stores:
        store.close()
    assert sum(moved) == 300
    app.work_until_idle()
    assert Counter(read) == {f"p{number}": 1 for number in range(300)}


def test_a_mover_does_not_wait_for_what_another_one_moves(app: App, connection: Any, store_url: str) -> None:
    if place_of(store_url).file:
        pytest.skip("a file has one writer at a time")
    bring(app, connection, "a")
    connection.commit()
    other = open_store(store_url)
    with app.transaction():
        assert len(app.store.take_incoming()) == 1
        bring(app, connection, "b")
        connection.commit()
        assert move_incoming(other, [PagesFound]) == 1, "it would wait for this very transaction"
    assert other.get(Page, "b") == Page(id="b")
    other.close()


def test_the_order_of_commits_does_not_matter(app: App, read: list[str], store_url: str) -> None:
    if place_of(store_url).file:
        pytest.skip("a file has one writer at a time")
    with connected(store_url) as early, connected(store_url) as late:
        bring(app, early, "a")
        bring(app, late, "b")
        late.commit()
        app.work_until_idle()
        assert read == ["b"]
        early.commit()
    app.work_until_idle()
    assert read == ["b", "a"]


# -- events of triggers and other programs


def event(what: str = "rain", **envelope: Any) -> str:
    return json.dumps({"event_type": "Noticed", "data": {"what": what}, **envelope})


@pytest.fixture
def noticed(app: App) -> list[str]:
    found: list[str] = []

    @app.service("listening", on=Noticed)
    def listen(event: Noticed, work: Work) -> None:
        found.append(event.what)

    return found


def test_an_event_of_a_plain_insert_is_handled(
    app: App, connection: Any, noticed: list[str], store_url: str
) -> None:
    insert_row(connection, store_url, event())
    connection.commit()
    app.work_until_idle()
    assert noticed == ["rain"]


def test_the_same_event_id_twice_is_one_event(
    app: App, connection: Any, noticed: list[str], store_url: str
) -> None:
    insert_row(connection, store_url, event(event_id="e-1"))
    insert_row(connection, store_url, event(event_id="e-1"))
    connection.commit()
    app.work_until_idle()
    insert_row(connection, store_url, event(event_id="e-1"))
    connection.commit()
    app.work_until_idle()
    assert noticed == ["rain"]


def test_priority_and_delay_of_a_row_are_those_of_the_event(
    app: App, connection: Any, noticed: list[str], store_url: str
) -> None:
    insert_row(connection, store_url, event(), priority=9, delay=3600.0)
    connection.commit()
    app.work_until_idle()
    assert noticed == []
    due = app.store.next_due(["listening"])
    assert due is not None
    assert 3500 < due - app.store.now() <= 3601


def test_an_event_of_another_app_is_known_by_its_subscription(
    app: App, connection: Any, noticed: list[str], store_url: str
) -> None:
    insert_row(connection, store_url, event())
    connection.commit()
    with_other_services = App(store=store_url, settings=Settings())
    assert move_incoming(with_other_services.store, with_other_services.registry.events()) == 1
    with_other_services.close()
    app.work_until_idle()
    assert noticed == ["rain"]


# -- what cannot be read

UNREADABLE: list[tuple[str, dict[str, Any], str]] = [
    ("nonsense", {}, "not JSON"),
    ("[]", {}, "JSON object"),
    (event(), {"delay": "9e999"}, "delay"),
    (event(), {"priority": 2_000_000}, "priority"),
    (event(), {"at": "9e999"}, "time"),
    ('{"event_type": "Unheard"}', {}, "unknown"),
    ('{"event_type": "Noticed", "data": {"what": []}}', {}, "schema"),
    ("nonsense", {"format": 1}, "no publication"),
    ('{"at": 1, "events": [{"data": 5}]}', {"format": 1}, "events.0.data"),
    ('{"at": 1, "delay": 1e999}', {"format": 1}, "delay"),
]


@pytest.mark.parametrize(("body", "columns", "reason"), UNREADABLE)
def test_what_cannot_be_read_is_a_dead_letter_and_blocks_nothing(
    app: App,
    connection: Any,
    noticed: list[str],
    store_url: str,
    body: str,
    columns: dict[str, Any],
    reason: str,
) -> None:
    if not place_of(store_url).file:
        columns = {name: "'Infinity'" if value == "9e999" else value for name, value in columns.items()}
    insert_row(connection, store_url, body, **columns)
    insert_row(connection, store_url, event("snow"))
    connection.commit()
    app.work_until_idle()
    assert (noticed, waiting(store_url)) == (["snow"], 0)
    (letter,) = app.store.dead_letters(None)
    assert (letter.abandoned_reason, letter.raw) == ("malformed", body.encode())
    assert reason in letter.last_error


def test_text_that_is_not_utf_8_is_a_dead_letter(
    app: App, connection: Any, noticed: list[str], store_url: str
) -> None:
    if not place_of(store_url).file:
        pytest.skip("PostgreSQL refuses it")
    connection.execute("INSERT INTO incoming (body) VALUES (CAST(x'ff00fe' AS TEXT))")
    insert_row(connection, store_url, event())
    connection.commit()
    app.work_until_idle()
    (letter,) = app.store.dead_letters(None)
    assert (letter.raw, noticed) == (b"\xff\x00\xfe", ["rain"])


def test_what_cannot_be_stored_is_a_dead_letter_and_the_rows_beside_it_are_moved(
    app: App, connection: Any, noticed: list[str], store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = app.store.publish_with_documents

    def refusing(documents: Any, envelopes: Any) -> Any:
        if any("hail" in envelope.data for envelope in envelopes):
            raise ValueError("the database takes no hail")
        return publish(documents, envelopes)

    monkeypatch.setattr(app.store, "publish_with_documents", refusing)
    for what in ("rain", "hail", "snow"):
        insert_row(connection, store_url, event(what))
    connection.commit()
    app.work_until_idle()
    (letter,) = app.store.dead_letters(None)
    assert "takes no hail" in letter.last_error
    assert (sorted(noticed), waiting(store_url)) == (["rain", "snow"], 0)


# -- refused at once, as by any other publish


@pytest.mark.parametrize(
    ("more", "error"),
    (
        ({"priority": 2_000_000}, PublishRefused),
        ({"delay": float("nan")}, PublishRefused),
        ({"source": "a\x00b"}, PublishRefused),
    ),
)
def test_what_a_publish_refuses_is_refused_before_anything_is_written(
    app: App, connection: Any, store_url: str, more: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        bring(app, connection, "a", **more)
    connection.commit()
    assert waiting(store_url) == 0


def test_an_event_that_is_too_large_is_refused(app: App, connection: Any) -> None:
    with pytest.raises(EventTooLarge):
        app.publish(Noticed(what="x" * 100_000), connection=connection)


def test_too_many_documents_for_one_call_are_refused_with_the_remedy(app: App, connection: Any) -> None:
    many = [Page(id=str(number)) for number in range(MAX_COMMIT_DOCUMENTS + 1)]
    with pytest.raises(PublishRefused, match="several calls with the same connection"):
        app.publish(documents=many, connection=connection)
