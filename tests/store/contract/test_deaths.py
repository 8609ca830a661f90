"""A crash is counted apart: on what was running, never on what was merely claimed."""

from __future__ import annotations

import pytest

from onward.model.ledger import SUSPECT_DEATHS, Processed, RetryLater
from tests.support.store_pages import LEASE, Stage, ids


def lapse(stage: Stage) -> int:
    stage.clock.advance(LEASE)
    return stage.store.reclaim()


def test_a_lease_lapses_exactly_when_it_ends(stage: Stage) -> None:
    stage.bring("a")
    stage.take()
    stage.clock.advance(LEASE - 0.5)
    assert stage.store.reclaim() == 0
    assert stage.store.next_change() == stage.store.now() + 0.5
    stage.clock.advance(0.5)
    assert stage.store.reclaim() == 1
    assert stage.store.next_change() is None


def test_a_supervisor_that_saw_a_worker_die_gives_its_claims_back_at_once(stage: Stage) -> None:
    stage.bring("running")
    stage.bring("innocent")
    running, _ = stage.claim()
    assert stage.store.record_crash("anna", [running.row]) == 2
    again = {one.inputs[0].id: one for one in stage.claim()}
    assert (again["running"].deaths, again["innocent"].deaths) == (1, 0)
    assert (again["running"].tries, again["innocent"].tries) == (0, 0), "a crash is no failed try"


def test_what_was_finished_but_not_committed_is_suspected_first_and_blamed_when_it_happens_again(
    stage: Stage,
) -> None:
    stage.bring("a")
    for deaths in (0, 1, 2):
        delivery = stage.take(suspects=deaths >= SUSPECT_DEATHS)
        assert delivery.deaths == deaths
        assert stage.store.record_crash("anna", [], [delivery.row]) == 1
        if not deaths:
            again = stage.take()
            assert (again.deaths, again.careful) == (0, True), "it may have been in bad company"
            assert stage.store.record_crash("anna", [], [again.row]) == 1
    assert stage.take(suspects=True).deaths == 3


def test_a_burial_touches_only_what_the_dead_worker_held(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take(worker="bert")
    assert stage.store.record_crash("anna", [delivery.row]) == 0
    assert stage.settle(delivery, Processed(["a"])).status == "committed"


def test_where_nobody_saw_the_event_is_run_with_care_next_time(stage: Stage) -> None:
    stage.bring("a")
    assert not stage.take().careful
    lapse(stage)
    again = stage.take()
    assert (again.deaths, again.careful) == (0, True), "it may have been claimed and never started"


def test_with_care_a_lapse_after_the_start_counts_as_a_death(stage: Stage) -> None:
    stage.bring("a")
    stage.take()
    lapse(stage)
    stage.settle(stage.take(), starts=True, closes=False)
    lapse(stage)
    assert stage.take().deaths == 1


def test_with_care_a_lapse_before_the_start_does_not_count(stage: Stage) -> None:
    stage.bring("a")
    for _ in range(5):
        stage.take()
        lapse(stage)
    assert stage.take().deaths == 0


def test_the_start_is_forgotten_with_the_delivery(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), starts=True, closes=False)
    stage.store.release("anna")
    stage.take()
    lapse(stage)
    assert stage.take().deaths == 0


def test_a_suspect_runs_alone(stage: Stage) -> None:
    stage.bring("suspect")
    stage.bring("other suspect")
    for _ in range(SUSPECT_DEATHS):
        rows = [one.row for one in stage.claim()]
        stage.store.record_crash("anna", rows)
    stage.bring("innocent")
    assert ids(stage.claim()) == [["innocent"]]
    assert stage.store.overdue_suspects(["reading", "listening"]) == ["reading"]
    assert ids(stage.claim(suspects=True)) == [["suspect"]], "one at a time"
    assert ids(stage.claim(suspects=True)) == [["other suspect"]]
    assert stage.store.overdue_suspects(["reading"]) == []


def test_a_wait_may_forgive_deaths(stage: Stage) -> None:
    stage.bring("a")
    stage.store.record_crash("anna", [stage.take().row])
    stage.settle(stage.take(), RetryLater(["a"], deaths=0))
    assert stage.take().deaths == 0


def test_renewing_keeps_a_lease_from_lapsing(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    for _ in range(5):
        stage.clock.advance(LEASE / 2)
        stage.store.renew("anna", LEASE)
        assert stage.store.reclaim() == 0
    assert stage.settle(delivery, Processed(["a"])).status == "committed"


def test_a_later_claim_extends_the_lease_of_all_that_a_worker_holds(stage: Stage) -> None:
    stage.bring("a")
    stage.take()
    stage.clock.advance(LEASE - 1)
    stage.bring("b")
    stage.take()
    stage.clock.advance(LEASE - 1)
    assert stage.store.reclaim() == 0
    stage.clock.advance(2)
    assert stage.store.reclaim() == 2


def test_a_claim_that_is_committed_after_its_worker_was_given_up_is_returned(stage: Stage) -> None:
    # As if the commit of a killed process was under way while its supervisor recorded the crash.
    stage.bring("a")
    stage.store.renew("anna", LEASE)
    stage.store.record_crash("anna", [])
    stage.take(worker="anna", lease=-1.0)
    assert stage.store.reclaim() == 1, "its lease has ended"


def test_a_lease_that_has_ended_stays_known_while_something_is_claimed(stage: Stage) -> None:
    stage.bring("a")
    stage.take()
    stage.store.unregister_worker("anna")
    with stage.store.transaction():
        stage.store.db.send("forget_leases", stage.clock.now() + 1)
        assert stage.store.db.read("lapsed", stage.clock.now()), "a lease stays known while something is claimed"


@pytest.mark.parametrize("everything", (True, False))
def test_a_shutdown_burns_nothing(stage: Stage, everything: bool) -> None:
    stage.bring("a")
    delivery = stage.take()
    assert stage.store.release("anna", None if everything else [delivery.row]) == 1
    again = stage.take()
    assert (again.tries, again.deaths, again.careful) == (0, 0, False)


def test_nobody_releases_what_another_holds(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take(worker="bert")
    assert stage.store.release("anna", [delivery.row]) == 0
    assert stage.settle(delivery, Processed(["a"])).status == "committed"


def test_release_gives_back_only_the_rows_it_names(stage: Stage) -> None:
    stage.bring("a")
    stage.bring("b")
    first, second = stage.claim()
    assert stage.store.release("anna", [first.row]) == 1
    assert [one.row for one in stage.store.claimed("anna")] == [second.row]


def test_what_a_worker_held_that_is_gone_comes_back_at_once(stage: Stage) -> None:
    stage.bring("a")
    stage.bring("b")
    stage.take(limit=1)
    other = stage.take(worker="bert")
    assert stage.store.reclaim("anna") == 1
    again = stage.take(worker="carl")
    assert (again.inputs[0].id, again.deaths, again.careful) == ("a", 0, True), "nobody saw what it died of"
    assert stage.settle(other, Processed(["b"])).status == "committed"


def test_an_event_that_gets_on_between_deaths_is_no_crash_loop(stage: Stage) -> None:
    stage.bring("a")
    for cursor in ("1", "2", "3", "4"):
        delivery = stage.take()
        stage.settle(delivery, closes=False, cursor=cursor)
        stage.store.record_crash("anna", [delivery.row])
        assert stage.take(worker="bert").deaths == 1, "whatever killed it before lies behind it"
        stage.store.release("bert")


def test_an_event_that_only_repeats_its_checkpoint_does_not_get_on(stage: Stage) -> None:
    stage.bring("a")
    for deaths in range(SUSPECT_DEATHS):
        delivery = stage.take()
        assert delivery.deaths == deaths
        stage.settle(delivery, closes=False, cursor="1")
        stage.store.record_crash("anna", [delivery.row])
    assert stage.take(suspects=True).deaths == SUSPECT_DEATHS
