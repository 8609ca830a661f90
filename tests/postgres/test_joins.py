"""Workers that end members of a join at the same time: none is missed, and none is counted twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from random import Random
from typing import TypeVar

import pytest

from onward import Joined
from onward.ledger import joins
from onward.ledger.join_actions import REPAIR_AFTER_SECONDS
from onward.ledger.postgres import PostgresStore
from onward.ledger.store import Store
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.joins import NewJoin
from onward.model.ledger import CommitResult, CommitStatus, Delivery, Processed
from tests.postgres.stage import WAITING, Asker, Meeting, Opener, at_once, eventually
from tests.support.joins import GATHERING, gathered, join, keys
from tests.support.store_pages import Clock, Stage, settlement

T = TypeVar("T")
TABLES = "SELECT count(*) FROM {0}.joins UNION ALL SELECT count(*) FROM {0}.join_members"


@pytest.fixture
def stage(stage: Stage) -> Stage:
    stage.store.subscribe([GATHERING])
    return stage


def bring(stage: Stage, ids: str) -> dict[str, Delivery]:
    for id in ids:
        stage.bring(id)
    return {delivery.inputs[0].id: delivery for delivery in stage.claim(1000)}


def ended(stage: Stage, delivery: Delivery) -> CommitResult:
    return stage.settle(delivery, Processed([delivery.inputs[0].id]))


def test_the_last_two_members_end_at_the_same_time(stage: Stage, meeting: Meeting) -> None:
    a, b = bring(stage, "ab").values()
    stage.store.open_join(join("ab"))
    meeting(lambda: ended(stage, a), lambda: ended(stage, b))
    assert gathered(stage) == [Joined(total=2, processed=2)]
    assert meeting.waited


def test_a_member_ends_while_the_join_is_opened(stage: Stage, meeting: Meeting) -> None:
    (a,) = bring(stage, "a").values()
    meeting(lambda: stage.store.open_join(join("a")), lambda: ended(stage, a))
    assert gathered(stage) == [Joined(total=1, processed=1)]


def test_a_join_is_opened_while_its_member_ends(stage: Stage, meeting: Meeting) -> None:
    (a,) = bring(stage, "a").values()
    meeting(lambda: ended(stage, a), lambda: stage.store.open_join(join("a")))
    assert gathered(stage) == [Joined(total=1, processed=1)]


def test_a_member_is_removed_while_the_join_is_opened(stage: Stage, meeting: Meeting) -> None:
    bring(stage, "a")
    meeting(lambda: stage.store.open_join(join("a")), lambda: stage.store.remove_documents(keys("a")))
    assert gathered(stage) == [Joined(total=1, removed=1)]


def test_two_open_the_same_join(stage: Stage, meeting: Meeting) -> None:
    a, b = bring(stage, "ab").values()
    meeting(lambda: stage.store.open_join(join("a")), lambda: stage.store.open_join(join("b")))
    assert stage.store.join_count() == 1
    ended(stage, a)
    assert gathered(stage) == []
    ended(stage, b)
    assert gathered(stage) == [Joined(total=2, processed=2)]


def test_a_join_is_extended_while_its_last_member_ends(stage: Stage, meeting: Meeting) -> None:
    a, b = bring(stage, "ab").values()
    stage.store.open_join(join("a"))
    meeting(lambda: stage.store.open_join(join("b")), lambda: ended(stage, a))
    assert gathered(stage) == [], "b was added first"
    ended(stage, b)
    assert gathered(stage) == [Joined(total=2, processed=2)]


def test_two_sweeps_count_a_member_once(
    stage: Stage, meeting: Meeting, ask: Asker, postgres_store_url: str
) -> None:
    (_, b) = bring(stage, "ab").values()
    stage.store.open_join(join("ab"))
    schema = postgres_store_url.rpartition("=")[2]
    ask(f"DELETE FROM {schema}.documents WHERE id = 'a' RETURNING id")  # as by a worker that knows no joins
    stage.clock.advance(REPAIR_AFTER_SECONDS + 1)
    meeting(stage.store.sweep_joins, stage.store.sweep_joins)
    assert gathered(stage) == []
    ended(stage, b)
    assert gathered(stage) == [Joined(total=2, processed=1, removed=1)]


def test_documents_are_locked_before_the_join_that_counts_them(
    stage: Stage, opened: Opener, clock: Clock, postgres_store_url: str, ask: Asker
) -> None:
    """One work ends a page and has the join wait for a page that another work is just ending."""
    a, b = bring(stage, "ab").values()
    stage.store.open_join(join("ab"))
    other = opened(postgres_store_url, clock)
    extending = replace(settlement(a, Processed(["a"])), joins=[join("b")])
    with ThreadPoolExecutor(1) as pool:
        with other.transaction():
            other.states_of(keys("b"))
            first = pool.submit(in_one_try, stage.store, lambda: stage.store.settle([extending]))
            eventually(lambda: ask(WAITING)[0][0], "the first waits for b")
            other.settle([settlement(b, Processed(["b"]))])
        first.result(60)
    assert gathered(stage) == [Joined(total=2, processed=2)]


def test_the_key_of_a_join_is_locked_before_the_join(
    stage: Stage,
    opened: Opener,
    clock: Clock,
    postgres_store_url: str,
    ask: Asker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A work ends a page and extends its join, while another caller extends that join, too."""
    a, b, c = bring(stage, "abc").values()
    stage.store.open_join(join("a"))
    other = opened(postgres_store_url, clock)
    extending = replace(settlement(a, Processed(["a"])), joins=[join("b")])
    lock, others = stage.store.db.lock, list[Future[None]]()

    with ThreadPoolExecutor(1) as pool:

        def lock_after_the_other(kind: str, names: Sequence[str] = ("",)) -> bool:
            if kind == "joins":
                others.append(pool.submit(in_one_try, other, lambda: other.open_join(join("c"))))
                eventually(lambda: others[0].done() or ask(WAITING)[0][0], "the other is done, or waits")
            return lock(kind, names)

        monkeypatch.setattr(stage.store.db, "lock", lock_after_the_other)
        in_one_try(stage.store, lambda: stage.store.settle([extending]))
        others[0].result(60)
    ended(stage, b)
    assert gathered(stage) == [], "c was added, too"
    ended(stage, c)
    assert gathered(stage) == [Joined(total=3, processed=3)]


def test_two_joins_are_locked_in_one_order(
    stage: Stage,
    opened: Opener,
    clock: Clock,
    postgres_store_url: str,
    ask: Asker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of two works ends a page of one join and extends the other one."""
    a, b, *others_of_joins = bring(stage, "abcdef").values()
    stage.store.open_join(join("ac", what="first"))
    stage.store.open_join(join("bd", what="second"))
    works = [
        replace(settlement(b, Processed(["b"])), joins=[join("e", what="first")]),
        replace(settlement(a, Processed(["a"])), joins=[join("f", what="second")]),
    ]
    other, others = opened(postgres_store_url, clock), list[Future[object]]()
    open_joins = joins._open_joins

    with ThreadPoolExecutor(1) as pool:

        def open_after_the_other(unit: UnitOfWork) -> set[int]:
            if not others:
                others.append(pool.submit(in_one_try, other, lambda: other.settle(works[1:])))
                eventually(lambda: others[0].done() or ask(WAITING)[0][0], "the other is done, or waits")
            return open_joins(unit)

        monkeypatch.setattr(joins, "_open_joins", open_after_the_other)
        in_one_try(stage.store, lambda: stage.store.settle(works[:1]))
        others[0].result(60)
    for one in others_of_joins:
        ended(stage, one)
    assert gathered(stage) == [Joined(total=3, processed=3)] * 2


def in_one_try(store: Store, step: Callable[[], T]) -> T:
    """Raise a conflict with another transaction, which is repeated otherwise."""
    with store.transaction():
        return step()


WORKERS, JOINS, PAGES = 6, 12, 120


@pytest.mark.parametrize(
    "seed", (1, pytest.param(2, marks=pytest.mark.prove), pytest.param(3, marks=pytest.mark.prove))
)
def test_many_workers_end_members_of_many_joins(
    seed: int, stage: Stage, opened: Opener, clock: Clock, ask: Asker, postgres_store_url: str
) -> None:
    random = Random(seed)
    names = [f"p{number}" for number in range(PAGES)]
    for name in names:
        stage.bring(name)
    deliveries = stage.claim(PAGES)
    random.shuffle(deliveries)
    chosen = [random.sample(names, random.randrange(1, PAGES)) for _ in range(JOINS)]
    new_joins = [
        replace(join("", what=f"{number}"), members=[("pages", name) for name in members])
        for number, members in enumerate(chosen)
    ]
    stores = [opened(postgres_store_url, clock) for _ in range(WORKERS)]

    def work(number: int) -> list[CommitStatus]:
        """Open some joins, and end some pages, several in a transaction, each in an order of its own."""
        own, order = stores[number], Random(seed * 100 + number)
        steps: list[Callable[[], list[CommitResult]]] = []
        mine = deliveries[number::WORKERS]
        while mine:
            some, mine = mine[:4], mine[4:]
            steps.append(partial(_settle, own, some))
        steps += [partial(_open, own, new) for new in new_joins[number::WORKERS]]
        order.shuffle(steps)
        return [result.status for step in steps for result in step()]

    results = at_once([partial(work, number) for number in range(WORKERS)])
    assert {status for some in results for status in some} == {CommitStatus.COMMITTED}
    found = sorted(one.total for one in gathered(stage))
    assert found == sorted(len(members) for members in chosen), "each once, with all of its pages"
    assert ask(TABLES.format(postgres_store_url.rpartition("=")[2])) == [(0,), (0,)]


def _settle(store: PostgresStore, deliveries: list[Delivery]) -> list[CommitResult]:
    return store.settle([settlement(one, Processed([one.inputs[0].id])) for one in deliveries])


def _open(store: PostgresStore, new: NewJoin) -> list[CommitResult]:
    store.open_join(new)
    return []
