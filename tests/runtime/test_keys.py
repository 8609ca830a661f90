"""Services and tasks with a key: one at a time for each key, with `ordered=True` in the order of publication."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from onward import App, CallFailed, Document, Event, Status, Work, names
from onward.ops.queries.document_details import history_facts
from onward.ops.text.format import sentence_text
from onward.ops.text.history import next_step_sentence
from onward.recovery.history import read_history
from onward.recovery.next_step import NextSteps
from onward.recovery.retry_decision import RetryJobRules
from onward.runtime.service import MAX_KEY_BYTES, RegistrationError, stored_key
from onward.testing import Simulation
from tests.support.page_app import new_app


class Order(Document):
    customer: Any = "ada"
    number: int = 0


class Entry(Document, collection="entries"):
    text: str = ""


class OrderPlaced(Event):
    order_id: str = names(Order)


class OrdersPlaced(Event):
    order_ids: list[str] = names(Order)


class Paid(Event):
    customer: str
    number: int = 0


def place(app: App, id: str, **more: Any) -> None:
    order = Order(id=id, **more)
    app.publish(OrderPlaced.of(order), documents=[order])


def customer_of(order: Order) -> Any:
    return order.customer


# -- order


@pytest.mark.parametrize("ordered", (False, True))
def test_what_fails_holds_up_others_only_if_order_counts(ordered: bool) -> None:
    app, handled, failures = new_app(), list[str](), Counter({"1": 2})

    @app.service("billing", on=OrderPlaced, finishes=Order, key=customer_of, ordered=ordered)
    def bill(order: Order, work: Work) -> None:
        if failures[order.id] > 0:
            failures[order.id] -= 1
            raise ValueError("a bad moment")
        handled.append(order.id)

    with Simulation(app) as world:
        for id in ("1", "2", "3"):
            place(app, id)
            world.clock.advance(0.001)
        place(app, "other", customer="bob")
        world.run_for(3600)
        assert all(world.status(Order(id=id)) == Status.PROCESSED for id in ("1", "2", "3"))
    assert handled.index("other") < handled.index("1"), "other keys go on"
    of_ada = [id for id in handled if id != "other"]
    assert of_ada == (["1", "2", "3"] if ordered else ["2", "3", "1"])


def test_what_is_given_up_lets_the_next_one_go_on() -> None:
    app, handled = new_app(), list[str]()

    @app.service("billing", on=OrderPlaced, finishes=Order, key=customer_of, ordered=True)
    def bill(order: Order, work: Work) -> None:
        if order.id == "1":
            raise TypeError("never")
        handled.append(order.id)

    with Simulation(app, retry_job=False) as world:
        for id in ("1", "2", "3"):
            place(app, id)
        world.run_for(60)
        assert [letter.documents for letter in world.dead_letters()] == [(("orders", "1"),)]
    assert handled == ["2", "3"]


def test_without_finishes_the_key_is_of_the_event() -> None:
    app, handled, failed = new_app(), list[int](), set[int]()

    @app.service("booking", on=Paid, key=lambda event: event.customer, ordered=True)
    def book(event: Paid, work: Work) -> None:
        if event.number not in failed:
            failed.add(event.number)
            raise ValueError("once each")
        handled.append(event.number)

    with Simulation(app) as world:
        for number in range(4):
            app.publish(Paid(customer="ada", number=number))
        world.run_for(3600)
    assert handled == [0, 1, 2, 3]


def test_a_later_round_comes_back_at_the_end() -> None:
    app, handled = new_app(), list[str]()
    broken = {"1"}

    @app.service("billing", on=OrderPlaced, finishes=Order, key=customer_of, ordered=True)
    def bill(order: Order, work: Work) -> None:
        if order.id in broken:
            raise ValueError("for three tries")
        handled.append(order.id)

    with Simulation(app) as world:
        place(app, "1")
        place(app, "2")
        world.drain(within=120)
        assert handled == ["2"]
        broken.clear()
        world.run_for(3600)
    assert handled == ["2", "1"]


# -- tasks


def test_the_key_of_a_task_is_called_with_its_arguments() -> None:
    app, seen = new_app(), list[tuple[str, int, str]]()

    def key(customer: str, amount: int, note: str) -> str:
        seen.append((customer, amount, note))
        return customer

    @app.task(key=key, ordered=True)
    def charge(customer: str, amount: int, note: str = "none") -> int:
        return amount

    with Simulation(app) as world:
        call = charge.delay("ada", amount=5)
        world.drain()
        assert call.result() == 5
    assert seen == [("ada", 5, "none")]


def test_calls_of_a_task_run_in_order() -> None:
    app, handled, failures = new_app(), list[int](), Counter({1: 1})

    @app.task(key=lambda customer, amount: customer, ordered=True)
    def charge(customer: str, amount: int) -> None:
        if failures[amount] > 0:
            failures[amount] -= 1
            raise ValueError("a bad moment")
        handled.append(amount)

    with Simulation(app) as world:
        for amount in (1, 2, 3):
            charge.delay("ada", amount)
        world.run_for(600)
    assert handled == [1, 2, 3]


@pytest.mark.parametrize("key", (lambda customer: customer, lambda: "", lambda *, customer: customer))
def test_a_key_that_does_not_take_the_arguments_of_the_task_is_refused(key: Any) -> None:
    with pytest.raises(
        RegistrationError, match="task 'charge' has a key that cannot be called with its arguments"
    ):

        @new_app().task(key=key)
        def charge(customer: str, amount: int) -> None: ...


def test_the_order_holds_when_a_process_of_an_older_release_subscribes_without_the_key() -> None:
    """Publishers learn from the subscription that priorities do not count."""
    app, handled = new_app(), list[str]()

    @app.service("billing", on=OrderPlaced, finishes=Order, key=customer_of, ordered=True)
    def bill(order: Order, work: Work) -> None:
        handled.append(order.id)

    with Simulation(app) as world:
        world.run_for(60)
        (subscription,) = world.store.subscriptions()
        world.store.subscribe([replace(subscription, per_key="")])
        world.run_for(60)
        for id, priority in (("1", 0), ("2", 0), ("3", 5)):
            order = Order(id=id)
            app.publish(OrderPlaced.of(order), documents=[order], priority=priority)
            world.clock.advance(0.001)
        world.run_for(60)
        assert handled == ["1", "2", "3"]
        assert world.store.subscriptions() == [subscription]


# -- declarations


def bill_nothing(order: Any, work: Work) -> None: ...


async def in_a_loop(order: Order) -> str:
    return ""


@pytest.mark.parametrize(
    ("options", "complaint"),
    (
        ({"ordered": True}, "has ordered=True without a key; give key="),
        ({"key": "customer"}, "has key='customer'; give a function that returns a str, an int or None"),
        ({"key": customer_of, "batch": 5}, "has a key and batch=5; .* leave one out"),
        ({"key": lambda: ""}, "has key=.*, which cannot be called with one document: too many positional"),
        (
            {"key": lambda customer, amount: ""},
            "has key=.*, .* one document: missing a required argument: 'amount'",
        ),
        ({"key": in_a_loop}, "has key=.*, which is `async def`; give a `def`"),
    ),
)
def test_a_key_that_cannot_work_is_refused(options: dict[str, Any], complaint: str) -> None:
    app = new_app()
    declare: Callable[[object], object] = app.service("billing", on=OrdersPlaced, finishes=Order, **options)
    with pytest.raises(RegistrationError, match=f"service 'billing' {complaint}"):
        declare(bill_nothing)
    assert not app.registry.services


# -- keys


def wrong_key(customer: Any) -> Any:
    if isinstance(customer, str) and customer.startswith("raises"):
        raise OSError(customer)
    return customer


def test_a_key_that_cannot_be_computed_fails_its_own_document() -> None:
    app, handled = new_app(), list[str]()

    @app.service("billing", on=OrderPlaced, finishes=Order, key=lambda order: wrong_key(order.customer))
    def bill(order: Order, work: Work) -> None:
        handled.append(order.id)

    with Simulation(app, retry_job=False) as world:
        place(app, "list", customer=[1])
        place(app, "bool", customer=True)
        place(app, "raises", customer="raises a transient error")
        place(app, "none", customer=None)
        place(app, "number", customer=7)
        world.run_for(600)
        assert sorted(handled) == ["none", "number"]
        letters = {letter.documents[0][1]: letter for letter in world.dead_letters()}
    assert letters["list"].last_error == (
        "the key function of service 'billing' returned [1] (list); return a str, an int or None"
    )
    assert (letters["list"].abandoned_reason, letters["list"].attempt_count) == ("non_retryable", 1)
    assert "True (bool)" in letters["bool"].last_error
    raised = letters["raises"]
    assert (raised.abandoned_reason, raised.attempt_count, raised.error_type) == (
        "max_attempts_exceeded",
        3,
        "OSError",
    )


def test_keys_that_a_database_cannot_store_are_stored_by_their_digest() -> None:
    assert stored_key("ada@example.org") == "ada@example.org"
    assert stored_key("") == ""
    long, other = "é" * MAX_KEY_BYTES, "é" * MAX_KEY_BYTES + "e"
    odd = ["nul\0", "nul\0\0", "\ud800", long, other]
    stored = [stored_key(one) for one in odd]
    assert len(set(stored)) == len(odd)
    assert all(one.startswith("blake2b:") and one.isascii() and len(one) < 64 for one in stored)


@pytest.mark.parametrize("ordered", (False, True))
def test_odd_keys_work_on_every_store(app: App, ordered: bool) -> None:
    odd = ["nul\0", "\ud800", "é" * 5000, "", "quote ' \" \\ {}", "-- name: x", 2**80]

    @app.service("booking", on=Paid, key=lambda event: odd[event.number], ordered=ordered)
    def book(event: Paid, work: Work) -> None:
        work.add(Entry(id=f"{event.number}-{event.customer}"))

    for number in range(len(odd)):
        for customer in ("ada", "bob"):
            app.publish(Paid(customer=customer, number=number))
    app.work_until_idle()
    assert app.store.document_counts()["entries"] == {"processed": 2 * len(odd)}


# -- with threads, on every store


@pytest.mark.parametrize("ordered", (False, True))
def test_calls_with_the_same_key_never_overlap(app: App, ordered: bool) -> None:
    running, overlaps = Counter[str](), list[str]()
    handled: dict[str, list[int]] = defaultdict(list)
    lock = threading.Lock()

    @app.service("billing", on=OrdersPlaced, finishes=Order, key=customer_of, ordered=ordered, concurrency=4)
    def bill(order: Order, work: Work) -> None:
        with lock:
            running[order.customer] += 1
            overlaps.extend([order.id] if running[order.customer] > 1 else [])
        work.add(Entry(id=order.id))
        with lock:
            handled[order.customer].append(order.number)
            running[order.customer] -= 1

    orders = [Order(id=f"{number}", customer=f"c{number % 3}", number=number) for number in range(60)]
    for some in (orders[:1], orders[1:20], orders[20:]):
        app.publish(OrdersPlaced.of(some), documents=some)
    app.work_until_idle()
    assert not overlaps
    assert app.store.document_counts()["orders"] == {"processed": 60}
    assert {key: len(numbers) for key, numbers in handled.items()} == {"c0": 20, "c1": 20, "c2": 20}
    if ordered:
        assert all(numbers == sorted(numbers) for numbers in handled.values())
    assert app.store.db.fetch("lock_keys", "billing", ["c0", "c1", "c2"]) == []


# -- what is shown


def test_a_row_that_waits_for_its_key_is_shown_as_such() -> None:
    app = new_app()

    @app.service("billing", on=OrderPlaced, finishes=Order, key=customer_of)
    def bill(order: Order, work: Work) -> None: ...

    with Simulation(app) as world:
        place(app, "1")
        place(app, "2")
        service = app.registry.services["billing"]
        world.store.claim("anna", "billing", limit=10, lease=60.0, key_of=service.key_of)
        state = world.state(Order(id="2"))
        rules = RetryJobRules.of(app.settings, app.registry.subscriptions())
        step = NextSteps(world.store, rules).of(state)
        said = sentence_text(next_step_sentence(step), world.clock.now())
        assert said == "waiting for its key 'ada': billing handles another event with it first"
        assert step.at is None
        history = read_history(world.store, "orders", "2")
        assert history is not None
        facts = history_facts(history)["row"]
        assert (facts["due"], facts["waits_for_key"], facts["serial_key"]) == (None, True, "ada")
        assert facts["first_due"].startswith("2027-")


def test_a_failed_call_of_a_task_says_what_was_wrong_with_its_key() -> None:
    app = new_app()

    @app.task(key=lambda customer: [customer])  # type: ignore[arg-type,return-value]
    def charge(customer: str) -> None: ...

    with Simulation(app) as world:
        call = charge.delay("ada")
        world.run_for(60)
        with pytest.raises(CallFailed, match=r"returned \['ada'\] \(list\); return a str, an int or None"):
            call.result()


# -- together with deadlines


@pytest.mark.parametrize("ordered", (False, True))
def test_what_expired_while_it_waited_for_its_key_is_passed_over(ordered: bool) -> None:
    app, handled, failures = new_app(), list[str](), Counter({"1": 1})

    @app.service("billing", on=OrderPlaced, finishes=Order, key=customer_of, ordered=ordered)
    def bill(order: Order, work: Work) -> None:
        if failures[order.id]:
            failures[order.id] -= 1
            raise RuntimeError("not now")
        handled.append(order.id)

    with Simulation(app) as world:
        for id in "123":
            order = Order(id=id)
            app.publish(OrderPlaced.of(order), documents=[order], expires=2.0 if id == "2" and ordered else None)
        world.run_for(60)
        # If order counts, the second waits behind the first, which is tried again after 5 seconds.
        assert handled == (["1", "3"] if ordered else ["2", "3", "1"])
        state = app.state(Order, "2")
        assert state is not None
        assert state.status == (Status.DISCARDED if ordered else Status.PROCESSED)
