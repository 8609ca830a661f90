"""Unique events and cancelling, with others at the same moment: exactly one wins, and nothing comes back."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from onward import App, Settings
from onward.ledger.postgres import PostgresStore
from onward.ledger.store import Store
from onward.ledger.unique_events import UniqueEvent
from onward.model.ledger import Charge, CommitStatus, Processed, RetryLater
from onward.runtime.incoming_publications import move_incoming
from tests.postgres.stage import WAITING, Asker, Meeting, Opener, at_once, eventually
from tests.support.caller_connections import connected
from tests.support.page_app import Noticed
from tests.support.store_pages import Stage, failure, word

HOUR = 3600.0


def remember(store: PostgresStore, *events: tuple[str, str]) -> dict[str, UniqueEvent]:
    now = store.now()
    given = [UniqueEvent(*event) for event in events]
    return store.atomically(lambda: store.remember_unique(given, at=now, until=now + HOUR))


def test_the_second_waits_for_the_first_and_is_told_of_it(store: PostgresStore, meeting: Meeting) -> None:
    one, two = meeting(lambda: remember(store, ("k", "1")), lambda: remember(store, ("k", "2")))
    assert (one, two) == ({}, {"k": UniqueEvent("k", "1")})
    assert meeting.waited


def test_of_many_publishers_at_once_exactly_one_publishes(opened: Opener, postgres_store_url: str) -> None:
    apps = [App(store=opened(postgres_store_url), settings=Settings()) for _ in range(4)]
    for app in apps:
        app.service("listening", on=Noticed)(lambda event, work: None)
        _ = app.store
    for number in range(10):
        event = Noticed(what=f"{number}")
        found = at_once([partial(app.publish, event, unique_for=HOUR) for app in apps])
        assert sorted(one.rows for (one,) in found) == [0, 0, 0, 1]
        assert len({one.event_id for (one,) in found}) == 1, "the others are told of the one"
    assert apps[0].store.counts()["listening"] == {"waiting": 10}


def test_many_keys_in_any_order_do_not_block_each_other_for_ever(opened: Opener, postgres_store_url: str) -> None:
    stores = [opened(postgres_store_url) for _ in range(3)]
    keys = [f"key {number}" for number in range(50)]
    orders = [keys, keys[::-1], keys[25:] + keys[:25]]
    found = at_once(
        [
            partial(remember, one, *((key, f"{n}") for key in order))
            for n, (one, order) in enumerate(zip(stores, orders, strict=True))
        ]
    )
    assert sorted(len(earlier) for earlier in found) == [0, 50, 50]


def test_whoever_waits_for_a_key_has_locked_none_behind_it(
    opened: Opener, postgres_store_url: str, ask: Asker
) -> None:
    first, second, third = (opened(postgres_store_url) for _ in range(3))
    with ThreadPoolExecutor(2) as pool:
        with first.transaction():
            assert remember(first, ("a", "1")) == {}
            waiting = pool.submit(partial(remember, second, ("b", "2"), ("a", "2")))
            eventually(lambda: ask(WAITING)[0][0] == 1, "the second waits for a")
            other = pool.submit(partial(remember, third, ("b", "3")))
            eventually(lambda: other.done() or ask(WAITING)[0][0] == 2, "the third is done, or waits")
            assert other.done(), "the second has locked b, and two such publishers could wait for each other"
        assert waiting.result(60) == {"a": UniqueEvent("a", "1"), "b": UniqueEvent("b", "3")}


@pytest.mark.prove
def test_publications_that_are_moved_at_once_are_published_once(opened: Opener, postgres_store_url: str) -> None:
    apps = [App(store=opened(postgres_store_url), settings=Settings()) for _ in range(3)]
    for app in apps:
        app.service("listening", on=Noticed)(lambda event, work: None)
        _ = app.store
    with connected(postgres_store_url) as connection:
        for number in range(420):  # three transactions of a mover
            apps[0].publish(
                Noticed(what=f"{number}"), unique=f"{number % 7}", unique_for=HOUR, connection=connection
            )
        connection.commit()

    def move(app: App) -> None:
        while move_incoming(app.store, [Noticed]):
            pass

    at_once([partial(move, app) for app in apps])
    assert apps[0].store.counts()["listening"] == {"waiting": 7}


def test_those_who_move_the_same_keys_in_other_orders_do_not_wait_for_each_other(
    opened: Opener, postgres_store_url: str, ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    apps = [App(store=opened(postgres_store_url), settings=Settings()) for _ in range(2)]
    apps[0].service("listening", on=Noticed)(lambda event, work: None)
    stores = [app.store for app in apps]

    def publish(names: str) -> None:
        with connected(postgres_store_url) as connection:
            for name in names:
                apps[0].publish(Noticed(what=name), unique_for=HOUR, unique=name, connection=connection)
            connection.commit()

    def move(store: Store) -> int:
        with store.transaction():  # in one try
            return move_incoming(store, [Noticed])

    remember, others = PostgresStore.remember_unique, list[Future[int]]()
    publish("abcdefgh")
    with ThreadPoolExecutor(1) as pool:

        def remember_before_the_other(self: PostgresStore, *given: Any, **more: Any) -> Any:
            found = remember(self, *given, **more)
            if not others:
                publish("hgfedcba")
                others.append(pool.submit(move, stores[1]))
                eventually(lambda: ask(WAITING)[0][0], "the other waits")
            return found

        monkeypatch.setattr(PostgresStore, "remember_unique", remember_before_the_other)
        move(stores[0])
        others[0].result(60)
    assert stores[0].counts()["listening"] == {"waiting": 8}


@pytest.mark.parametrize(
    "outcome", (Processed(["a"]), RetryLater(["a"], 5.0, charge=Charge.TRY, failure=failure()))
)
def test_a_cancel_that_commits_first_refuses_the_settlement(
    stage: Stage, meeting: Meeting, outcome: Processed | RetryLater
) -> None:
    stage.bring("a")
    delivery = stage.take()
    cancelled, settled = meeting(
        lambda: stage.store.cancel("pages", "a", by="anna"),
        lambda: stage.settle(delivery, outcome, adds=[word("receipt")]),
    )
    assert (cancelled, settled.status) == (True, CommitStatus.STALE)
    assert meeting.waited
    assert stage.store.document_counts() == {"pages": {"discarded": 1}}
    for again in stage.claim():
        stage.settle(again, Processed(["a"]), adds=[word("receipt")], inputs=[])
    assert stage.state("a").status == "discarded"


def test_a_settlement_that_commits_first_leaves_nothing_to_cancel(stage: Stage, meeting: Meeting) -> None:
    stage.bring("a")
    delivery = stage.take()
    settled, cancelled = meeting(
        lambda: stage.settle(delivery, Processed(["a"]), adds=[word("receipt")]),
        lambda: stage.store.cancel("pages", "a", by="anna"),
    )
    assert (settled.status, cancelled) == (CommitStatus.COMMITTED, False)
    assert meeting.waited
    assert stage.state("a").status == "processed"


def test_a_cancel_and_a_claim_at_once(stage: Stage, meeting: Meeting) -> None:
    stage.bring("a")
    claimed, cancelled = meeting(stage.claim, lambda: stage.store.cancel("pages", "a", by="anna"))
    assert cancelled
    for delivery in claimed:
        assert stage.settle(delivery, Processed(["a"]), adds=[word("receipt")]).status is CommitStatus.STALE
    assert stage.store.document_counts() == {"pages": {"discarded": 1}}
