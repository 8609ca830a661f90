"""Two that take, release or wait for the same key at the same time: no key is lost, and no order broken."""

from __future__ import annotations

import math
from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from onward import App, Dependency, Joined, Settings, Work
from onward.ledger import claim, incoming, transactions
from onward.ledger.due_scan import DueScan
from onward.ledger.joins import complete_joins
from onward.ledger.postgres import PostgresStore
from onward.ledger.serial_keys import Admission, admit
from onward.ledger.store import Store
from onward.ledger.store_errors import StoreUnavailable
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.ledger import Charge, Delivery, Processed, RetryLater, Settlement
from onward.runtime.incoming_publications import move_incoming
from onward.testing import Simulation
from tests.postgres.stage import WAITING, Asker, Meeting, Opener, at_once, eventually
from tests.support.caller_connections import connected
from tests.support.joins import GATHERING, gathered, join
from tests.support.page_app import new_app
from tests.support.store_pages import (
    LISTENING,
    READING,
    Clock,
    Noticed,
    Page,
    Stage,
    failure,
    ids,
    page,
    settlement,
)


def key_of(delivery: Delivery) -> str | None:
    return Page.from_json(delivery.inputs[0].body or "").text or None


def done_with(delivery: Delivery) -> Settlement:
    return settlement(delivery, Processed(tuple(one.id for one in delivery.inputs)))


class KeyedStage(Stage):
    def __init__(self, store: PostgresStore, clock: Clock, per_key: str) -> None:
        super().__init__(store, clock, subscribe=False)
        self.ordered = per_key == "ordered"
        store.subscribe([replace(READING, per_key=per_key), LISTENING])

    def take_all(self, limit: int = 100, worker: str = "anna") -> list[Delivery]:
        return self.claim(limit, worker=worker, key_of=key_of, ordered=self.ordered)

    def bring_each(self, key: str, *ids: str) -> None:
        for id in ids:
            self.bring(id, text=key)
            self.clock.advance(1)


@pytest.fixture(params=["one", "ordered"])
def keyed(request: pytest.FixtureRequest, store: PostgresStore, clock: Clock) -> KeyedStage:
    return KeyedStage(store, clock, request.param)


@pytest.fixture
def ordered(store: PostgresStore, clock: Clock) -> KeyedStage:
    return KeyedStage(store, clock, "ordered")


def test_of_two_that_claim_rows_of_a_key_one_gets_it(keyed: KeyedStage, meeting: Meeting) -> None:
    keyed.bring_each("a", "1", "2")
    anna, bert = meeting(partial(keyed.take_all, 1), partial(keyed.take_all, 10, "bert"))
    assert (ids(anna), ids(bert)) == ([["1"]], [])
    keyed.settle(anna[0], Processed(("1",)))
    assert ids(keyed.take_all()) == [["2"]]


def test_a_row_that_waits_just_when_its_key_is_released_gets_it(keyed: KeyedStage, meeting: Meeting) -> None:
    """The settlement has looked for rows that wait, and found none; the claim waits for it to commit."""
    keyed.bring_each("a", "1")
    (first,) = keyed.take_all()
    keyed.bring_each("a", "2")
    _, claimed = meeting(lambda: keyed.settle(first, Processed(("1",))), lambda: keyed.take_all(worker="bert"))
    assert meeting.waited
    assert ids(claimed) == [["2"]]


def test_a_key_that_is_released_just_when_a_row_begins_to_wait_is_handed_over(
    keyed: KeyedStage, meeting: Meeting
) -> None:
    """The claim has parked the row, and not committed; the settlement waits for it, and finds the row."""
    keyed.bring_each("a", "1")
    (first,) = keyed.take_all()
    keyed.bring_each("a", "2")
    claimed, _ = meeting(lambda: keyed.take_all(worker="bert"), lambda: keyed.settle(first, Processed(("1",))))
    assert meeting.waited
    assert claimed == []
    assert ids(keyed.take_all()) == [["2"]]


def test_a_newer_row_is_not_claimed_while_another_claim_reads_the_older_one(
    ordered: KeyedStage, meeting: Meeting
) -> None:
    """With `SKIP LOCKED` the second would skip row 1, which the first has locked, and claim row 2."""
    ordered.bring_each("a", "1", "2")

    def claim_and_give_back() -> None:
        (first,) = ordered.take_all(1)
        ordered.settle(first, RetryLater(("1",), after=0.0))

    _, claimed = meeting(claim_and_give_back, lambda: ordered.take_all(1, "bert"))
    assert meeting.waited
    assert ids(claimed) == [["1"]]


def test_a_newer_row_is_not_claimed_while_anyone_else_has_locked_the_older_one(
    ordered: KeyedStage, meeting: Meeting
) -> None:
    """A publisher of the same event locks the waiting row, to report a duplicate."""
    ordered.bring_each("a", "1", "2")
    published, claimed = meeting(lambda: ordered.publish("1"), lambda: ordered.take_all(1, "bert"))
    assert published.duplicates == 1
    assert meeting.waited
    assert ids(claimed) == [["1"]]


def test_a_row_that_is_committed_late_is_not_overtaken(opened: Opener, postgres_store_url: str) -> None:
    """Floors would leave it out of a scan, and the newer one would be claimed first."""
    store = opened(postgres_store_url)
    store.subscribe([replace(READING, per_key="ordered")])
    store.add_documents([page("1", text="a"), page("2", text="a")])
    stage = Stage(store, Clock(), subscribe=False)
    store.publish([stage.found("1")])
    store._scans["reading"] = DueScan({0: store.now()}, full_from=math.inf)
    store.publish([stage.found("2")])
    assert ids(store.claim("anna", "reading", limit=10, lease=60.0, key_of=key_of, ordered=True)) == [["1"]]


def test_publications_of_callers_are_moved_in_their_order(
    store: PostgresStore, meeting: Meeting, postgres_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers that move them side by side could publish the newer one first."""
    app = App(store=store, settings=Settings())
    app.service("listening", on=Noticed, key=lambda event: "a", ordered=True)(lambda event, work: None)
    _ = app.store
    with connected(postgres_store_url) as connection:
        for what in ("1", "2"):
            app.publish(Noticed(what=what), connection=connection)
        connection.commit()
    monkeypatch.setattr(incoming, "MAX_ROWS", 1)
    assert meeting(lambda: move_incoming(store, [Noticed]), lambda: move_incoming(store, [Noticed])) == (1, 1)
    assert meeting.waited
    (first,) = store.claim("anna", "listening", limit=2, lease=60.0, key_of=lambda delivery: "a", ordered=True)
    assert Noticed.model_validate_json(first.data).what == "1"


def test_a_key_is_locked_before_a_join(
    opened: Opener, clock: Clock, postgres_store_url: str, ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two pages with a key and a join is cancelled, while it waits for a retry; the other is settled."""
    keyed = KeyedStage(opened(postgres_store_url, clock), clock, "one")
    keyed.store.subscribe([GATHERING])
    keyed.bring_each("a", "1")
    keyed.settle(keyed.take_all()[0], RetryLater(("1",), after=60, charge=Charge.TRY, failure=failure()))
    keyed.bring_each("a", "2")
    (second,) = keyed.take_all()
    keyed.store.open_join(join("12"))
    other, others = opened(postgres_store_url, clock), list[Future[object]]()

    def cancel() -> None:
        with other.transaction():  # in one try
            other.cancel("pages", "1", by="anna")

    with ThreadPoolExecutor(1) as pool:

        def complete_after_the_other(unit: UnitOfWork) -> bool:
            if not others:
                others.append(pool.submit(cancel))
                eventually(lambda: others[0].done() or ask(WAITING)[0][0], "the other is done, or waits")
            return complete_joins(unit)

        monkeypatch.setattr(transactions, "complete_joins", complete_after_the_other)
        with keyed.store.transaction():
            keyed.settle(second, Processed(("2",)))
        others[0].result(60)
    assert gathered(keyed) == [Joined(total=2, processed=1, failed=1, failed_ids=("pages/1",))]


def test_a_claim_that_goes_on_and_a_settlement_of_several_keys_do_not_wait_for_each_other(
    keyed: KeyedStage,
    opened: Opener,
    clock: Clock,
    postgres_store_url: str,
    ask: Asker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The claim has parked a row of the key b, and looks at one of the key a, while both keys are released."""
    keyed.bring_each("a", "1")
    keyed.bring_each("b", "2")
    held = keyed.take_all()
    keyed.bring_each("b", "3")
    keyed.bring_each("a", "4")
    other, settled = opened(postgres_store_url, clock), list[Future[object]]()

    def settle() -> None:
        with other.transaction():  # in one try
            other.settle([done_with(one) for one in held])

    with ThreadPoolExecutor(1) as pool:

        def admit_first(*given: Any, **more: Any) -> Admission:
            admission = admit(*given, **more)
            if not settled:
                settled.append(pool.submit(settle))
                eventually(lambda: ask(WAITING)[0][0], "the settlement waits for the key b")
            return admission

        monkeypatch.setattr(claim, "admit", admit_first)
        with keyed.store.transaction():
            keyed.take_all(1, "bert")
        settled[0].result(60)
    assert sorted(ids(keyed.take_all(1, "bert") + keyed.take_all(1, "bert"))) == [["3"], ["4"]]


def test_claims_of_other_services_do_not_wait(keyed: KeyedStage, meeting: Meeting) -> None:
    keyed.bring_each("a", "1")
    keyed.store.publish([keyed.noticed("x")])
    anna, bert = meeting(keyed.take_all, lambda: keyed.claim(service="listening", worker="bert"))
    assert (len(anna), len(bert)) == (1, 1)
    assert not meeting.waited


def test_a_row_that_was_just_removed_does_not_get_the_key(keyed: KeyedStage, meeting: Meeting) -> None:
    keyed.bring_each("a", "1", "2", "3")
    (first,) = keyed.take_all()
    meeting(lambda: keyed.store.remove_documents([("pages", "2")]), lambda: keyed.settle(first, Processed(("1",))))
    assert ids(keyed.take_all()) == [["3"]]


def test_housekeeping_does_not_release_a_key_that_was_just_taken_over(keyed: KeyedStage, meeting: Meeting) -> None:
    keyed.bring_each("a", "1")
    (first,) = keyed.take_all()
    keyed.bring_each("a", "2")
    keyed.take_all()
    with keyed.store.transaction():
        keyed.store.db.send("delete_rows", [first.row])
    keyed.bring_each("a", "3")
    claimed, _ = meeting(lambda: keyed.take_all(worker="bert"), keyed.store.release_lost_keys)
    assert len(claimed) == 1
    assert not keyed.take_all(), "another row of the key is claimed"


def test_processes_with_different_estimates_of_the_time_publish_in_order(
    opened: Opener, postgres_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order is that of the server's clock, not of what each process believes that it says."""
    fast, slow = opened(postgres_store_url), opened(postgres_store_url)
    fast.subscribe([replace(READING, per_key="ordered")])
    monkeypatch.setattr(fast.clock, "_offset", fast.clock._offset + 0.2)  # type: ignore[attr-defined]
    for number, store in enumerate((fast, slow, fast, slow)):
        store.add_documents([page(f"{number}", text="a")])
        store.publish([Stage(store, Clock(), subscribe=False).found(f"{number}")])
    seen = []
    for _ in range(4):
        (delivery,) = fast.claim("anna", "reading", limit=10, lease=60.0, key_of=key_of, ordered=True)
        seen += ids([delivery])
        fast.settle([done_with(delivery)])
    assert seen == [["0"], ["1"], ["2"], ["3"]]


def test_many_workers_at_once_keep_the_order_and_lose_nothing(opened: Opener, postgres_store_url: str) -> None:
    """Four workers with connections of their own, in a race; some of their tries are given back."""
    stores = [opened(postgres_store_url) for _ in range(4)]
    stores[0].subscribe([replace(READING, per_key="ordered")])
    count, keys = 120, 4
    for number in range(count):
        stores[0].add_documents([page(f"{number}", text=f"k{number % keys}")])
        stores[0].publish([Stage(stores[0], Clock(), subscribe=False).found(f"{number}")])
    done: dict[str, list[int]] = defaultdict(list)

    def work(name: str, store: PostgresStore) -> None:
        idle = 0
        while idle < 40 and sum(map(len, done.values())) < count:
            claimed = store.claim(name, "reading", limit=3, lease=60.0, key_of=key_of, ordered=True)
            idle = 0 if claimed else idle + 1
            for delivery in claimed:
                id = delivery.inputs[0].id
                if delivery.tries == 0 and int(id) % 5 == 0:
                    back = RetryLater((id,), after=0.0, charge=Charge.TRY, failure=failure())
                    store.settle([settlement(delivery, back)])
                else:
                    done[f"k{int(id) % keys}"].append(int(id))  # before the next one can be claimed
                    store.settle([done_with(delivery)])

    at_once([partial(work, f"w{number}", store) for number, store in enumerate(stores)])
    while sum(map(len, done.values())) < count:
        before = sum(map(len, done.values()))
        work("last", stores[0])
        assert sum(map(len, done.values())) > before, "a row waits for a key that nobody has"
    assert dict(done) == {f"k{key}": list(range(key, count, keys)) for key in range(keys)}


@pytest.mark.parametrize("option", ({"key": lambda event: event.what}, {"needs": Dependency("api", rate="600/s")}))
def test_each_service_is_claimed_in_a_transaction_of_its_own(
    option: dict[str, Any], postgres_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settlements lock the keys of services, and breakers, in another order than the claims of several do."""
    app, handled, together = new_app(), list[str](), list[bool]()
    for name in ("writing", "listening"):

        @app.service(name, on=Noticed, **option)
        def handle(event: Noticed, work: Work) -> None:
            handled.append(f"{work.service} {event.what}")

    claim = Store.claim

    def seen(self: Store, *given: Any, **more: Any) -> list[Delivery]:
        together.append(self.db.in_transaction())
        return claim(self, *given, **more)

    monkeypatch.setattr(Store, "claim", seen)
    with Simulation(app, store=postgres_store_url) as world:
        app.publish(Noticed(what="a"), Noticed(what="b"))
        world.drain()
    assert sorted(handled) == ["listening a", "listening b", "writing a", "writing b"]
    assert not any(together)


def test_what_was_claimed_before_a_claim_failed_is_handled(
    postgres_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, handled, failed = new_app(), list[str](), list[str]()
    for name in ("writing", "listening"):

        @app.service(name, on=Noticed, key=lambda event: event.what)
        def handle(event: Noticed, work: Work) -> None:
            handled.append(work.service)

    claim = Store.claim

    def fail_once(self: Store, worker: str, service: str, **more: Any) -> list[Delivery]:
        if service == "listening" and not failed:
            failed.append(service)
            raise StoreUnavailable("gone")
        return claim(self, worker, service, **more)

    monkeypatch.setattr(Store, "claim", fail_once)
    with Simulation(app, store=postgres_store_url) as world:
        app.publish(Noticed(what="a"))
        with pytest.raises(StoreUnavailable):
            world.drain()
        world.drain()
        assert (sorted(handled), failed) == (["listening", "writing"], ["listening"])
