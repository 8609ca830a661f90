"""A worker can ask when there will be something to do, and need not look before."""

from __future__ import annotations

from onward.model.ledger import SUSPECT_DEATHS, Processed, RetryLater
from tests.support.store_pages import LEASE, NOON, Stage


def test_nothing_waits(stage: Stage) -> None:
    assert stage.store.next_due(["reading", "listening"]) is None
    assert stage.store.next_change() is None


def test_the_next_due_time_is_the_earliest_of_all_services_and_priorities(stage: Stage) -> None:
    stage.store.publish(
        [
            stage.found("a", priority=0, due_in=20.0),
            stage.found("b", priority=9, due_in=30.0),
            stage.noticed(due_in=10.0),
        ]
    )
    assert stage.store.next_due(["reading"]) == NOON + 20
    assert stage.store.next_due(["reading", "listening"]) == NOON + 10
    assert stage.store.next_due(["unheard of"]) is None
    assert stage.store.next_due([]) is None


def test_what_is_claimed_is_not_due(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    assert stage.store.next_due(["reading"]) is None
    stage.settle(delivery, RetryLater(["a"], after=7.0))
    assert stage.store.next_due(["reading"]) == NOON + 7


def test_suspects_are_due_for_those_who_run_them(stage: Stage) -> None:
    stage.bring("a")
    for _ in range(SUSPECT_DEATHS):
        stage.store.record_crash("anna", [stage.take().row])
    assert stage.store.next_due(["reading"]) is None
    assert stage.store.next_due(["reading"], suspects=True) == NOON


def test_a_change_comes_with_the_first_lease_that_lapses_or_the_first_probe(stage: Stage) -> None:
    stage.bring("a")
    stage.take()
    assert stage.store.next_change() == NOON + LEASE
    stage.store.open_breaker("model", "down")
    assert stage.store.next_change() == NOON + 10
    stage.clock.advance(10)
    assert stage.store.next_change() == NOON + LEASE, "a probe that is due now needs no waking"


def test_the_bus_wakes_up_when_it_is_told_to(stage: Stage) -> None:
    bus = stage.store.bus()
    bus.wake()
    bus.wait(3600)
    bus.close()


def test_the_bus_wakes_up_when_this_process_publishes(stage: Stage) -> None:
    bus = stage.store.bus()
    stage.store.publish([stage.noticed()])
    bus.wait(3600)
    bus.close()
    assert stage.take(service="listening").event_type == "Noticed"


def test_a_settlement_tells_which_services_have_something_new(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    assert stage.settle(delivery, closes=False, emits=[stage.noticed("x")]).woken == {"listening"}
    assert stage.settle(delivery, RetryLater(["a"])).woken == {"reading"}
    assert stage.settle(stage.take(), Processed(["a"])).woken == set()


def test_what_is_split_off_is_new_to_its_service(stage: Stage) -> None:
    stage.bring("a", "b")
    assert stage.settle(stage.take(), Processed(["a"]), RetryLater(["b"])).woken == {"reading"}


def test_it_is_quiet_only_when_nothing_is_under_way_and_nothing_falls_due(stage: Stage) -> None:
    stage.bring("a")
    later = stage.clock.now() + 60
    assert not stage.store.is_idle(["reading"], ["reading"], until=later)
    assert stage.store.is_idle(["reading"], [], until=later), "what waits for a breaker is not counted"
    delivery = stage.take()
    assert not stage.store.is_idle(["reading"], ["reading"], until=later)
    stage.settle(delivery, Processed(["a"]))
    assert stage.store.is_idle(["reading"], ["reading"], until=later)
