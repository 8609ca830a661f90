"""`publish` in SQL: triggers and programs in other languages publish in their own transactions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from onward import App, Settings, Work
from onward.runtime.incoming_publications import move_incoming
from tests.postgres.stage import Asker, Opener, eventually
from tests.support.caller_connections import connected, place_of, waiting
from tests.support.page_app import Noticed

LISTENING = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN onward_incoming_%' AND state = 'idle'"


@pytest.fixture
def schema(postgres_store_url: str) -> str:
    return f'"{place_of(postgres_store_url).schema}"'


@pytest.fixture
def app(opened: Opener, postgres_store_url: str) -> App:
    return App(store=opened(postgres_store_url), settings=Settings())


@pytest.fixture
def noticed(app: App) -> list[str]:
    found: list[str] = []

    @app.service("listening", on=Noticed)
    def listen(event: Noticed, work: Work) -> None:
        found.append(event.what)

    _ = app.store
    return found


@pytest.fixture
def connection(app: App, noticed: list[str], postgres_store_url: str) -> Iterator[psycopg.Connection[Any]]:
    with connected(postgres_store_url) as connection:
        yield connection


def test_an_event_may_have_a_deadline(app: App, connection: Any, noticed: list[str], schema: str) -> None:
    connection.execute(f"SELECT {schema}.publish('Noticed', '{{\"what\": \"late\"}}', expires => 60)")
    connection.commit()
    assert app.store.subscriptions()
    while move_incoming(app.store, [Noticed]):
        pass
    (delivery,) = app.store.claim("anna", "listening", limit=10, lease=60.0)
    assert delivery.expires is not None
    assert 0 < delivery.expires - app.store.now() <= 60
    for wrong in ("0", "'NaN'", "-5", "30, delay => 30"):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="expires is a number of seconds from now"):
            connection.execute(f"SELECT {schema}.publish('Noticed', expires => {wrong})")
        connection.rollback()


def test_a_trigger_publishes_with_the_row(app: App, connection: Any, noticed: list[str], schema: str) -> None:
    connection.execute(
        f"""
        CREATE FUNCTION pg_temp.announce() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          PERFORM {schema}.publish('Noticed', jsonb_build_object('what', NEW.name));
          RETURN NEW;
        END $$;
        CREATE TRIGGER announces AFTER INSERT ON users FOR EACH ROW EXECUTE FUNCTION pg_temp.announce()"""
    )
    connection.commit()
    connection.execute("INSERT INTO users VALUES ('undone')")
    connection.rollback()
    connection.execute("INSERT INTO users VALUES ('anna'), ('bert')")
    connection.commit()
    app.work_until_idle()
    assert sorted(noticed) == ["anna", "bert"]


def test_the_same_event_id_twice_is_one_event(app: App, connection: Any, noticed: list[str], schema: str) -> None:
    publish = f"""SELECT {schema}.publish('Noticed', '{{"what": "rain"}}', event_id => 'e-1')"""
    assert connection.execute(publish).fetchone() == ("e-1",)
    connection.execute(publish)
    connection.commit()
    app.work_until_idle()
    connection.execute(publish)
    connection.commit()
    app.work_until_idle()
    assert noticed == ["rain"]


def test_without_an_id_each_call_is_an_event(app: App, connection: Any, schema: str) -> None:
    publish = f"""SELECT {schema}.publish('Noticed', '{{"what": "rain"}}')"""
    (one,), (two,) = connection.execute(publish).fetchone(), connection.execute(publish).fetchone()
    assert one != two


def test_delay_and_priority(app: App, connection: Any, noticed: list[str], schema: str) -> None:
    connection.execute(f"SELECT {schema}.publish('Noticed', '{{}}', delay => 3600, priority => 7)")
    connection.commit()
    app.work_until_idle()
    assert noticed == []
    due = app.store.next_due(["listening"])
    assert due is not None
    assert 3500 < due - app.store.now() <= 3601


@pytest.mark.parametrize("call", ("'Unheard'", "'Noticed', '{\"what\": []}'"))
def test_an_unknown_type_or_a_wrong_schema_is_a_dead_letter(
    app: App, connection: Any, noticed: list[str], schema: str, call: str
) -> None:
    connection.execute(f"SELECT {schema}.publish({call}, event_id => 'e-1')")
    connection.commit()
    app.work_until_idle()
    (letter,) = app.store.dead_letters(None)
    assert (letter.abandoned_reason, noticed) == ("malformed", [])


@pytest.mark.parametrize(
    ("call", "problem"),
    (
        ("''", "the event type is empty"),
        ("NULL", "the event type is empty"),
        ("'Noticed', '[]'", "no JSON object"),
        ("'Noticed', NULL", "no JSON object"),
        ("'Noticed', delay => 'Infinity'", "a delay is a number of seconds"),
        ("'Noticed', priority => 2000000", "a priority is between"),
    ),
)
def test_a_wrong_call_fails_at_once(connection: Any, schema: str, call: str, problem: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=problem):
        connection.execute(f"SELECT {schema}.publish({call})")
    connection.rollback()


def test_a_user_needs_no_more_than_to_insert(app: App, connection: Any, noticed: list[str], schema: str) -> None:
    connection.execute(
        f"""
        CREATE ROLE onward_guest;
        GRANT USAGE ON SCHEMA {schema} TO onward_guest;
        GRANT INSERT ON {schema}.incoming TO onward_guest;
        SET LOCAL ROLE onward_guest;
        SELECT {schema}.publish('Noticed', '{{"what": "rain"}}')"""
    )
    app.publish(Noticed(what="snow"), connection=connection)
    connection.execute(
        f"RESET ROLE; DROP OWNED BY onward_guest; DROP ROLE onward_guest; SET search_path = {schema}"
    )
    connection.commit()
    app.work_until_idle()
    assert sorted(noticed) == ["rain", "snow"]


# -- waking workers


def test_an_idle_worker_is_woken_by_the_commit(
    app: App, connection: Any, noticed: list[str], ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.runtime.work_loop.TICK_SECONDS", 3600.0)  # it does not look by itself
    engine = app.engine()
    thread = threading.Thread(target=engine.run)
    thread.start()
    try:
        eventually(lambda: ask(LISTENING)[0][0], "it listens")
        app.publish(Noticed(what="rain"), connection=connection)
        connection.commit()
        eventually(lambda: noticed, "it was woken")
    finally:
        engine.drain()
        thread.join()


def test_of_transactions_that_are_open_at_once_one_notifies(
    app: App, connection: Any, noticed: list[str], postgres_store_url: str, ask: Asker
) -> None:
    with (
        connected(postgres_store_url) as other,
        psycopg.connect(place_of(postgres_store_url).conninfo, autocommit=True) as listener,
    ):
        database: Any = app.store.db
        listener.execute(f"LISTEN {database.incoming_channel}".encode())
        app.publish(Noticed(what="rain"), connection=connection)
        app.publish(Noticed(what="snow"), connection=other)
        other.commit()
        assert list(listener.notifies(timeout=0.1)) == []
        connection.commit()
        assert len(list(listener.notifies(timeout=5.0, stop_after=1))) == 1
        app.publish(Noticed(what="hail"), connection=other)
        other.commit()
        assert len(list(listener.notifies(timeout=5.0, stop_after=1))) == 1
    assert waiting(postgres_store_url) == 3


def test_a_worker_that_was_not_notified_finds_it_when_it_looks(
    app: App, connection: Any, noticed: list[str], schema: str
) -> None:
    connection.execute(f"ALTER TABLE {schema}.incoming DISABLE TRIGGER incoming_notifies")
    connection.commit()
    engine = app.engine()
    thread = threading.Thread(target=engine.run)
    thread.start()
    try:
        app.publish(Noticed(what="rain"), connection=connection)
        connection.commit()
        eventually(lambda: noticed, "it has looked")
    finally:
        engine.drain()
        thread.join()
        connection.execute(f"ALTER TABLE {schema}.incoming ENABLE TRIGGER incoming_notifies")
        connection.commit()
