"""Unique for a time: the same event is published once, whoever publishes it; a later one stores nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from onward import App, Status
from onward.ledger.unique_events import KEEP_UNIQUE_SECONDS
from onward.runtime.incoming_publications import move_incoming
from onward.runtime.publish_items import unique_key
from onward.runtime.publish_options import PublishRefused
from onward.runtime.task_call import CallNotFound
from onward.testing import Simulation
from tests.support.caller_connections import connected
from tests.support.page_app import DAY, HOUR, Noticed, Page, PagesFound, new_app, pages


def listening() -> tuple[App, list[str]]:
    app, noticed = new_app(), list[str]()
    app.service("listening", on=Noticed)(lambda event, work: noticed.append(event.what))
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    return app, noticed


@pytest.mark.parametrize("unique_for", (HOUR, timedelta(hours=1)))
def test_the_same_event_is_published_once_within_the_time(store_url: str, unique_for: Any) -> None:
    app, noticed = listening()
    with Simulation(app, store=store_url) as world:
        (first,) = app.publish(Noticed(what="a"), unique_for=unique_for)
        world.drain()
        (again,) = app.publish(Noticed(what="a"), unique_for=unique_for)
        (other,) = app.publish(Noticed(what="b"), unique_for=unique_for)
        (usual,) = app.publish(Noticed(what="a"))
        assert (first.rows, first.duplicates) == (1, 0)
        assert (again.event_id, again.rows, again.duplicates) == (first.event_id, 0, 1)
        assert (other.rows, usual.rows) == (1, 1)
        world.drain()
        world.clock.advance(HOUR)
        (later,) = app.publish(Noticed(what="a"), unique_for=unique_for)
        assert (later.rows, later.event_id != first.event_id) == (1, True)
        world.drain()
        assert noticed == ["a", "b", "a", "a"]


def test_a_name_says_what_is_the_same(store_url: str) -> None:
    app, noticed = listening()
    with Simulation(app, store=store_url) as world:
        for what in ("a", "b"):
            app.publish(Noticed(what=what), unique="report", unique_for=HOUR)
        app.publish(PagesFound(page_ids=[]), unique="report", unique_for=HOUR)  # of another type
        world.drain()
        assert noticed == ["a"]
        assert world.store.counts()["reading"] == {"done": 1}


def test_a_later_one_stores_no_documents(store_url: str) -> None:
    app, _ = listening()
    with Simulation(app, store=store_url) as world:
        app.publish(Noticed(what="a"), documents=pages("first"), unique_for=HOUR)
        app.publish(Noticed(what="a"), documents=pages("second"), unique_for=HOUR)
        assert world.store.state(Page, "second") is None
        assert world.store.state(Page, "first") is not None


def test_a_document_that_is_stored_with_other_content_is_named(store_url: str) -> None:
    app, _ = listening()
    with Simulation(app, store=store_url):
        app.add(Page(id="a", text="stored"))
        given = [Page(id="a", text="other"), Page(id="b")]
        (published,) = app.publish(Noticed(what="a"), documents=given, unique_for=HOUR)
        assert [(one.collection, one.id, one.revision) for one in published.kept] == [("pages", "a", 1)]
        (again,) = app.publish(Noticed(what="a"), documents=given, unique_for=HOUR)
        assert (again.duplicates, again.kept) == (1, ()), "nothing of it was to be stored"


def test_nothing_is_remembered_of_a_transaction_that_is_rolled_back(store_url: str) -> None:
    app, noticed = listening()
    with Simulation(app, store=store_url) as world:

        def publish_and_fail() -> None:
            with app.transaction():
                app.publish(Noticed(what="a"), unique_for=HOUR)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            publish_and_fail()
        (again,) = app.publish(Noticed(what="a"), unique_for=HOUR)
        assert again.rows == 1
        world.drain()
        assert noticed == ["a"]


def test_it_works_without_blocking_the_loop(store_url: str) -> None:
    app, noticed = listening()

    async def publish_often() -> list[int]:
        published = [await app.apublish(Noticed(what="a"), unique_for=HOUR) for _ in range(3)]
        return [one.duplicates for (one,) in published]

    with Simulation(app, store=store_url) as world:
        assert asyncio.run(publish_often()) == [0, 1, 1]
        world.drain()
        assert noticed == ["a"]


def test_entries_whose_time_is_long_over_are_removed(store_url: str) -> None:
    app, _ = listening()
    with Simulation(app, store=store_url) as world:
        for name, seconds in (("a", HOUR), ("b", 2 * DAY)):
            app.publish(Noticed(), unique=name, unique_for=seconds)
        keys = [unique_key(Noticed(), [], name) for name in "ab"]
        for pause, left in ((HOUR + KEEP_UNIQUE_SECONDS - 1, keys), (61, keys[1:])):
            world.clock.advance(pause)
            world.store.prune(keep_seconds=0, keep_count=0)
            assert sorted(key for key, *_ in world.store.db.read("unique_events", keys)) == sorted(left)


# -- in a caller's transaction


def test_in_a_callers_transaction_it_is_decided_when_it_is_moved(store_url: str) -> None:
    app, noticed = listening()
    with Simulation(app, store=store_url) as world, connected(store_url) as connection:
        for id in ("one", "two"):
            (published,) = app.publish(
                Noticed(what="a"), documents=pages(id), unique_for=HOUR, connection=connection
            )
            assert published.awaits_commit
            connection.commit()
        app.publish(Noticed(what="b"), unique_for=HOUR, connection=connection)
        connection.rollback()
        while move_incoming(world.store, [Noticed]):
            pass
        (direct,) = app.publish(Noticed(what="a"), unique_for=HOUR)
        (b,) = app.publish(Noticed(what="b"), unique_for=HOUR)
        assert (direct.duplicates, b.duplicates) == (1, 0)
        assert world.store.state(Page, "two") is None
        world.drain()
        assert noticed == ["a", "b"]


def test_a_publication_that_is_moved_late_is_compared_with_its_own_time(store_url: str) -> None:
    app, noticed = listening()
    with Simulation(app, store=store_url) as world, connected(store_url) as connection:
        for pause in (0, 1799, 1801):
            world.clock.advance(pause)
            app.publish(Noticed(what=f"{pause}"), unique="a", unique_for=HOUR, connection=connection)
            connection.commit()
        world.clock.advance(12 * HOUR)  # no worker ran
        world.drain()
        assert noticed == ["0", "1801"], "the second was within the hour of the first, the third was not"


# -- tasks


def declared() -> tuple[App, Any, list[int]]:
    app, ran = new_app(), list[int]()

    @app.task
    def add(a: int, b: int = 1) -> int:
        ran.append(a + b)
        return a + b

    return app, add, ran


def test_the_same_call_is_stored_once_and_returned_again(store_url: str) -> None:
    app, add, ran = declared()
    with Simulation(app, store=store_url) as world:
        unique = add.options(unique_for=HOUR)
        first, same, other = unique.delay(1, 2), unique.delay(a=1, b=2), unique.delay(2, 2)
        assert (first.id == same.id, first.id == other.id) == (True, False)
        assert asyncio.run(unique.adelay(1, 2)).id == first.id
        world.drain()
        assert (ran, first.result(0), same.result(0)) == ([3, 4], 3, 3)
        assert unique.delay(1, 2).id == first.id, "also when it has ended"
        assert add.options(unique_for=HOUR, unique="sum").delay(1, 2).id != first.id
        assert add.delay(1, 2).id != first.id, "a call without the option is a call of its own"


def test_many_calls_are_each_stored_once(store_url: str) -> None:
    app, add, ran = declared()
    with Simulation(app, store=store_url) as world:
        (zero,) = add.options(unique_for=HOUR).map([0])
        calls = add.options(unique_for=HOUR).map([0, 1, 1, 2])
        assert calls[0].id == zero.id
        assert calls[1].id == calls[2].id
        world.drain()
        assert sorted(ran) == [1, 2, 3]


def test_a_call_in_a_callers_transaction_may_turn_out_to_be_another(store_url: str) -> None:
    app, add, ran = declared()
    with Simulation(app, store=store_url) as world, connected(store_url) as connection:
        unique = add.options(unique_for=HOUR, connection=connection)
        first, same = unique.delay(1), unique.delay(1)
        connection.commit()
        world.drain()
        assert (ran, first.result(0)) == ([2], 2)
        assert first.state().status == Status.PROCESSED
        with pytest.raises(CallNotFound):
            same.state()


def test_an_id_that_is_stored_is_that_call_also_in_a_callers_transaction(store_url: str) -> None:
    app, ran = new_app(), list[int]()

    @app.task
    def bill(order: int) -> int:
        ran.append(order)
        if len(ran) == 1:
            publish_again()  # while it runs: a new round would run it once more
        return order

    def publish_again() -> None:
        with connected(store_url) as connection:
            again = bill.options(id="order-7", connection=connection)
            again.delay(8)
            asyncio.run(again.adelay(9))
            connection.commit()
        move_incoming(app.store, app.registry.events())

    with Simulation(app, store=store_url) as world:
        publish_again()  # twice the same id in one transaction is one call, too
        world.drain()
        assert (ran, bill.call("order-7").state().round) == ([8], 1)
        publish_again()
        world.drain()
        assert (ran, bill.call("order-7").result(0)) == ([8], 8)
        assert world.store.counts()["bill"].get("waiting", 0) == 0


# -- bad input


@pytest.mark.parametrize(
    ("options", "problem"),
    (
        ({"unique_for": 0}, "more than 0, not 0"),
        ({"unique_for": "an hour"}, "not 'an hour'"),
        ({"unique": "x"}, "unique='x' needs a time: give unique_for="),
        ({"unique": "", "unique_for": 60}, "a name of 1 to 10,000 characters, not ''"),
        ({"unique": 5, "unique_for": 60}, "a name of 1 to 10,000 characters, not 5"),
    ),
)
def test_options_that_make_no_sense_are_refused(options: Any, problem: str) -> None:
    app, add, _ = declared()
    with Simulation(app):
        with pytest.raises(PublishRefused, match=problem):
            app.publish(Noticed(), **options)
        with pytest.raises(PublishRefused, match=problem):
            add.options(**options)


def test_one_event_is_unique_at_a_call() -> None:
    app, add, _ = declared()
    with Simulation(app):
        with pytest.raises(PublishRefused, match="one event at a call, not 2; call publish"):
            app.publish(Noticed(what="a"), Noticed(what="b"), unique_for=60)
        with pytest.raises(PublishRefused, match="give id= or unique_for=, not both"):
            add.options(id="x", unique_for=60)
