"""An outage burns nothing: while a dependency's breaker is open, what needs it is not claimed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onward.model.breaker import MAX_ROW_OPENINGS, Breaker
from onward.model.ledger import (
    Charge,
    CommitResult,
    DeadLettered,
    Delivery,
    DependencyReport,
    Processed,
    RetryLater,
    Subscription,
)
from tests.support.store_pages import NOON, READING, Stage, failure, ids, page

DOWN = DependencyReport(struck="model", reason="ConnectionError: refused")
FINE = DependencyReport(succeeded=["model"])


@pytest.fixture
def stage(stage: Stage) -> Stage:
    stage.store.subscribe([replace(READING, needs=("model",))])
    for id in "abcdefgh":
        stage.bring(id)
    return stage


def claim(stage: Stage, limit: int = 1, **more: Any) -> list[Delivery]:
    return stage.claim(limit, needs=["model"], **more)


def strike(stage: Stage, delivery: Delivery) -> CommitResult:
    id = delivery.inputs[0].id
    return stage.settle(
        delivery, RetryLater([id], after=5.0, charge=Charge.TRY, failure=failure()), dependencies=DOWN
    )


def breaker(stage: Stage) -> Breaker:
    found = [one for one in stage.store.breakers() if one.dependency == "model"]
    return found[0] if found else Breaker("model")


def strike_out(stage: Stage) -> list[str]:
    """Five failures of five documents; answer which."""
    deliveries = claim(stage, 5)
    for delivery in deliveries:
        strike(stage, delivery)
    assert breaker(stage).open
    return [one.inputs[0].id for one in deliveries]


def test_five_failures_in_a_row_on_three_documents_open_it(stage: Stage) -> None:
    deliveries = claim(stage, 5)
    opened = [strike(stage, delivery).opened for delivery in deliveries]
    assert opened == [(), (), (), (), ("model",)]
    assert claim(stage) == []
    assert len(stage.claim()) == 8, "whoever does not need it goes on"


def test_a_success_between_forgets_the_failures(stage: Stage) -> None:
    deliveries = claim(stage, 5)
    for delivery in deliveries[:4]:
        strike(stage, delivery)
    stage.settle(claim(stage)[0], Processed(["f"]), dependencies=FINE)
    strike(stage, deliveries[4])
    assert not breaker(stage).open


def test_one_poison_document_cannot_open_it(stage: Stage) -> None:
    poison, *_ = claim(stage, 8)
    for _ in range(20):
        strike(stage, poison)
        stage.clock.advance(5)
        (poison,) = claim(stage)
    assert not breaker(stage).open


def test_failures_whose_documents_overlap_count_as_one_document(stage: Stage) -> None:
    stage.bring("x", "y", "z")
    batch = claim(stage, 9)[-1]
    for _ in range(5):
        stage.settle(
            batch,
            RetryLater(["x", "y"], charge=Charge.TRY),
            RetryLater(["z"], charge=Charge.TRY),
            dependencies=DOWN,
        )
        stage.clock.advance(1)
        batch = next(one for one in claim(stage, 9) if "x" in standing_ids(one))
    assert not breaker(stage).open, "there are only two groups of documents here"


def standing_ids(delivery: Delivery) -> list[str]:
    return [one.id for one in delivery.inputs]


def test_opening_gives_back_the_tries_that_it_cost(stage: Stage) -> None:
    hit = strike_out(stage)
    stage.store.close_breaker("model")
    for _ in hit:
        (delivery,) = claim(stage)
        assert delivery.tries == 0
        stage.settle(delivery, Processed(standing_ids(delivery)), dependencies=FINE)


def test_opening_gives_back_the_try_of_what_is_being_tried_again(stage: Stage) -> None:
    *deliveries, last = claim(stage, 5)
    for delivery in deliveries:
        strike(stage, delivery)
    stage.clock.advance(5)
    again = next(one for one in stage.claim() if standing_ids(one) == ["a"])
    assert again.tries == 1
    strike(stage, last)
    stage.settle(again, RetryLater(["a"], charge=Charge.NOTHING))
    stage.store.close_breaker("model")
    assert next(one for one in stage.claim() if standing_ids(one) == ["a"]).tries == 0


def test_opening_revives_the_dead_letters_that_it_made(stage: Stage) -> None:
    first, *others = claim(stage, 5)
    stage.settle(first, DeadLettered(["a"], charge=Charge.TRY, failure=failure()), dependencies=DOWN)
    (letter,) = stage.store.dead_letters()
    for delivery in others:
        strike(stage, delivery)
    assert stage.store.dead_letters() == []
    state = stage.state("a")
    assert (state.row, state.dead_letter, state.round) == (letter.row, None, 1)


def test_opening_leaves_a_document_alone_that_has_begun_another_round_since(stage: Stage) -> None:
    first, *others = claim(stage, 5)
    stage.settle(first, DeadLettered(["a"], charge=Charge.TRY, failure=failure()), dependencies=DOWN)
    stage.publish("a")
    newer = stage.state("a").row
    for delivery in others:
        strike(stage, delivery)
    assert breaker(stage).open
    assert (stage.state("a").row, stage.state("a").round) == (newer, 2)


def test_what_was_under_way_when_it_opened_is_not_charged_either(stage: Stage) -> None:
    deliveries = claim(stage, 6)
    for delivery in deliveries[:5]:
        strike(stage, delivery)
    strike(stage, deliveries[5])
    stage.store.close_breaker("model")
    assert {one.tries for one in stage.claim()} == {0}


def test_it_lets_one_probe_through_after_ten_seconds_then_ever_more_slowly(stage: Stage) -> None:
    strike_out(stage)
    waits = []
    for _ in range(7):
        at = stage.store.next_change()
        assert at is not None
        waits.append(at - stage.store.now())
        stage.clock.advance(waits[-1] - 0.25)
        assert claim(stage) == []
        stage.clock.advance(0.25)
        (probe,) = claim(stage, 5)
        assert claim(stage) == [], "one at a time"
        strike(stage, probe)
    assert waits == [10, 20, 40, 80, 160, 300, 300]


def test_each_probe_is_another_document(stage: Stage) -> None:
    strike_out(stage)
    probes = []
    for _ in range(4):
        at = stage.store.next_change()
        assert at is not None
        stage.clock.advance(at - stage.store.now())
        (probe,) = claim(stage)
        probes += standing_ids(probe)
        strike(stage, probe)
    assert len(set(probes)) == 4


def test_what_has_expired_is_no_probe(stage: Stage) -> None:
    strike_out(stage)
    for id in "xyz":
        stage.store.add_documents([page(id)])
        stage.publish(id, expires_in=5.0, priority=1)
    stage.clock.advance(10)
    expired = [claim(stage)[0] for _ in range(3)]
    assert [one.expired for one in expired] == [True, True, True], "they do not wait for each other"
    (probe,) = claim(stage)
    assert not probe.expired
    assert claim(stage) == [], "one at a time"


def test_a_probe_that_fails_is_not_charged(stage: Stage) -> None:
    strike_out(stage)
    stage.clock.advance(10)
    (probe,) = claim(stage)
    strike(stage, probe)
    stage.store.close_breaker("model")
    stage.clock.advance(60)
    assert {one.tries for one in stage.claim()} == {0}


def test_the_success_of_its_probe_closes_it_and_nothing_else_does(stage: Stage) -> None:
    *_, straggler = claim(stage, 6)
    for delivery in _:
        strike(stage, delivery)
    stage.settle(straggler, Processed(["f"]), dependencies=FINE)
    assert breaker(stage).open, "it was under way when the breaker opened, and proves nothing"
    stage.clock.advance(10)
    (probe,) = claim(stage)
    closed = stage.settle(probe, Processed(standing_ids(probe)), dependencies=FINE)
    assert closed.closed == ("model",)
    assert not breaker(stage).open


def test_after_closing_a_fleet_wide_limit_grows_with_each_success(stage: Stage) -> None:
    stage.store.open_breaker("model", "down")
    stage.store.close_breaker("model")
    (first,) = claim(stage, 8)
    assert claim(stage, 8, worker="bert") == []
    stage.settle(first, Processed(["a"]), dependencies=FINE)
    second, third = claim(stage, 8, worker="bert")
    stage.settle(second, Processed(["b"]), dependencies=FINE)
    assert len(claim(stage, 8)) == 2, "three at a time, and the third is still under way"
    stage.settle(third, Processed(["c"]), dependencies=FINE)


def test_the_limit_counts_all_services_that_need_the_dependency(stage: Stage) -> None:
    stage.store.subscribe([Subscription("listening", "Noticed", needs=("model",))])
    stage.store.publish([stage.noticed()])
    stage.store.open_breaker("model", "down")
    stage.store.close_breaker("model")
    assert len(claim(stage, service="listening")) == 1
    assert claim(stage) == []


def test_a_report_may_open_it_at_once_with_a_remedy(stage: Stage) -> None:
    (delivery,) = claim(stage)
    report = DependencyReport(opens="model", reason="401", remedy="check the key")
    settled = stage.settle(delivery, RetryLater(["a"], charge=Charge.TRY), dependencies=report)
    assert settled.opened == ("model",)
    assert (breaker(stage).reason, breaker(stage).remedy) == ("401", "check the key")
    stage.store.close_breaker("model")
    assert claim(stage)[0].tries == 0, "the failure that opened it is given back"


def test_being_told_again_that_it_is_down_does_not_begin_the_outage_anew(stage: Stage) -> None:
    stage.store.open_breaker("model", "down")
    stage.clock.advance(10)
    assert stage.store.claim_probe("model")
    before = breaker(stage)
    stage.store.open_breaker("model", "still down")
    assert breaker(stage) == before
    assert len(stage.store.openings("model")) == 1


def test_a_pause_waits_without_opening(stage: Stage) -> None:
    (delivery,) = claim(stage)
    stage.settle(delivery, RetryLater(["a"]), dependencies=DependencyReport(paused="model", pause=30.0))
    assert not breaker(stage).open
    assert claim(stage) == []
    assert stage.store.next_change() == NOON + 30
    stage.clock.advance(30)
    assert stage.store.next_change() is None
    (again,) = claim(stage)
    stage.settle(again, Processed(standing_ids(again)), dependencies=FINE)
    assert stage.store.breakers() == [], "nothing to remember"


def test_a_shorter_pause_does_not_shorten_a_longer_one(stage: Stage) -> None:
    for delivery, pause in zip(claim(stage, 2), (60.0, 5.0), strict=True):
        stage.settle(delivery, RetryLater(), dependencies=DependencyReport(paused="model", pause=pause))
    assert breaker(stage).paused_until == NOON + 60


def test_a_health_call_probes_before_a_document_does(stage: Stage) -> None:
    stage.store.open_breaker("model", "down")
    assert not stage.store.claim_probe("model"), "not due yet"
    stage.clock.advance(10)
    assert claim(stage, with_health_call=["model"]) == []
    assert stage.store.claim_probe("model")
    assert not stage.store.claim_probe("model"), "one asks, in the whole fleet"
    assert claim(stage, with_health_call=["model"]) == [], "its answer comes first"
    assert stage.store.next_change() == NOON + 11
    stage.clock.advance(1)
    assert len(claim(stage, 8, with_health_call=["model"])) == 1, "it may be wrong"
    assert claim(stage, with_health_call=["model"]) == []
    assert stage.store.next_change() == NOON + 31
    assert not stage.store.claim_probe("unheard of")


def test_a_health_call_is_asked_again_if_no_document_comes(stage: Stage) -> None:
    stage.store.open_breaker("model", "down")
    for at in (10, 21, 42, 83):
        stage.clock.advance(NOON + at - 1 - stage.clock.now())
        assert not stage.store.claim_probe("model")
        stage.clock.advance(1)
        assert stage.store.claim_probe("model")


def test_a_health_call_that_says_no_while_documents_succeed_opens_nothing_more(stage: Stage) -> None:
    ill = DependencyReport(opens="model", reason="ill", by_health=True)
    stage.settle(claim(stage)[0], RetryLater(["a"], charge=Charge.TRY), dependencies=ill)
    stage.store.close_breaker("model", probed=True)
    stage.store.record_health_doubt("model")
    (delivery,) = claim(stage)
    stage.settle(delivery, RetryLater(charge=Charge.TRY), dependencies=ill)
    assert not breaker(stage).open
    stage.clock.advance(601)
    stage.settle(claim(stage)[0], Processed(), dependencies=FINE)
    stage.clock.advance(601)
    stage.settle(claim(stage)[0], RetryLater(charge=Charge.TRY), dependencies=ill)
    assert breaker(stage).open, "in another episode it is believed again"


def test_opened_by_hand_it_stays_open_until_closed_by_hand(stage: Stage) -> None:
    stage.store.open_breaker("model", "maintenance", remedy="wait for Ada", by_hand=True)
    stage.clock.advance(86_400)
    assert (claim(stage), stage.store.claim_probe("model"), stage.store.next_change()) == ([], False, None)
    stage.store.open_breaker("model", "down")
    assert breaker(stage).by_hand, "a failing health call does not take it out of that hand"
    stage.store.close_breaker("model")
    assert ids(claim(stage, 8)) == [["a"]]


def test_a_person_may_take_an_open_one_in_hand(stage: Stage) -> None:
    stage.store.open_breaker("model", "down")
    stage.store.open_breaker("model", "maintenance", by_hand=True)
    stage.clock.advance(10)
    assert (breaker(stage).by_hand, claim(stage)) == (True, [])
    assert breaker(stage).opened_at == NOON


def test_a_probe_does_not_close_what_a_person_has_taken_in_hand(stage: Stage) -> None:
    stage.store.open_breaker("model", "down")
    stage.clock.advance(10)
    assert stage.store.claim_probe("model")
    stage.store.open_breaker("model", "maintenance", by_hand=True)  # while the probe is under way
    assert not stage.store.close_breaker("model", probed=True)
    assert breaker(stage).open
    assert stage.store.close_breaker("model"), "a person does"
    assert not breaker(stage).open
    assert not stage.store.close_breaker("model"), "it is closed already"


def test_every_opening_is_on_record(stage: Stage) -> None:
    stage.store.open_breaker("model", "down", remedy="look")
    stage.clock.advance(60)
    stage.store.close_breaker("model")
    stage.store.open_breaker("other", "down too")
    assert stage.store.openings("model") == [
        {"dependency": "model", "opened_at": NOON, "closed_at": NOON + 60, "reason": "down", "remedy": "look"}
    ]
    assert [one["dependency"] for one in stage.store.openings()] == ["model", "other"]


def test_closing_what_is_not_open_changes_nothing(stage: Stage) -> None:
    stage.store.close_breaker("model")
    assert stage.store.breakers() == []
    assert len(claim(stage, 8)) == 8


def test_opening_leaves_a_document_alone_that_was_reset_since(stage: Stage) -> None:
    first, *others = claim(stage, 5)
    stage.settle(first, DeadLettered(["a"], charge=Charge.TRY, failure=failure()), dependencies=DOWN)
    stage.store.reset("pages", "a")
    for delivery in others:
        strike(stage, delivery)
    assert breaker(stage).open
    assert (stage.state("a").row, stage.state("a").attempt_count) == (None, 0)


def test_what_reports_an_outage_that_is_known_already_is_not_charged(stage: Stage) -> None:
    first, second = claim(stage, 2)
    for delivery in (first, second):
        stage.settle(
            delivery, RetryLater(charge=Charge.TRY), dependencies=DependencyReport(opens="model", reason="ill")
        )
    stage.store.close_breaker("model")
    assert {one.tries for one in stage.claim()} == {0}


def test_what_an_outage_brings_back_at_once_was_never_given_up(stage: Stage) -> None:
    (delivery,) = claim(stage)
    stage.settle(
        delivery,
        DeadLettered(["a"], charge=Charge.TRY, failure=failure(), notice=stage.noticed("gave up")),
        dependencies=DependencyReport(opens="model", reason="ill"),
    )
    assert (stage.store.dead_letters(), stage.claim(service="listening")) == ([], [])


def test_one_row_opens_it_a_bounded_number_of_times(stage: Stage) -> None:
    ill = DependencyReport(opens="model", reason="ill", by_health=True)
    opened: list[bool] = []
    for _ in range(MAX_ROW_OPENINGS + 1):
        (delivery,) = [one for one in stage.claim(8) if one.inputs[0].id == "a"]
        stage.settle(delivery, RetryLater(["a"], charge=Charge.TRY, failure=failure()), dependencies=ill)
        opened.append(breaker(stage).open)
        stage.store.close_breaker("model", probed=True)
        stage.store.release("anna")
        stage.clock.advance(5)
    assert opened == [True] * MAX_ROW_OPENINGS + [False], "then its failures are its own"
    (delivery,) = [one for one in stage.claim(8) if one.inputs[0].id == "a"]
    assert delivery.tries == 1
