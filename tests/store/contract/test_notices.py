"""A notice tells those who listen that something was given up; where nobody listens it is nothing."""

from __future__ import annotations

import json

from onward.model.events import Envelope, new_id
from onward.model.ledger import Charge, DeadLettered, DependencyReport, InFailedBatch, RetryLater, Subscription
from tests.support.store_pages import NOON, Stage, failure

HEEDING = Subscription("heeding", "ReadingFailed")


def _notice(*ids: str) -> Envelope:
    return Envelope("ReadingFailed", json.dumps({"page_ids": ids}), new_id(), NOON, notice=True)


def _heard(stage: Stage) -> list[list[str]]:
    return [json.loads(one.data)["page_ids"] for one in stage.claim(service="heeding")]


def test_who_listens_is_told_of_a_dead_letter(stage: Stage) -> None:
    stage.store.subscribe([HEEDING])
    stage.bring("a", source="s")
    stage.settle(stage.take(), DeadLettered(["a"], failure=failure(), notice=_notice("a")))
    (delivery,) = stage.claim(service="heeding")
    assert json.loads(delivery.data) == {"page_ids": ["a"]}
    assert delivery.source == "s", "it goes when its source is forgotten"


def test_who_listens_is_told_of_what_is_set_aside(stage: Stage) -> None:
    stage.store.subscribe([HEEDING])
    stage.bring("a", "b")
    stage.settle(
        stage.take(),
        InFailedBatch(["a"], failure(), notice=_notice("a")),
        DeadLettered(["b"], failure=failure(), final=True, notice=_notice("b")),
    )
    assert sorted(_heard(stage)) == [["a"], ["b"]]


def test_a_notice_that_nobody_listens_to_is_not_kept(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), DeadLettered(["a"], failure=failure(), notice=_notice("a")))
    assert stage.store.counts() == {"reading": {"dead": 1}}
    (published,) = stage.store.publish([_notice("a")])
    assert (published.rows, published.unrouted) == (0, False)


def test_who_listens_later_hears_nothing_of_the_past(stage: Stage) -> None:
    stage.store.publish([_notice("a")])
    stage.store.subscribe([HEEDING])
    assert _heard(stage) == []


def test_where_an_outage_brings_the_dead_letter_back_nothing_was_given_up(stage: Stage) -> None:
    stage.store.subscribe([HEEDING])
    stage.bring("a")
    stage.settle(
        stage.take(),
        DeadLettered(["a"], failure=failure(), charge=Charge.TRY, notice=_notice("a")),
        dependencies=DependencyReport(opens="model", ids=["a"], reason="down"),
    )
    assert _heard(stage) == []
    assert stage.store.dead_letters() == []
    assert stage.rows("waiting") == 1


def test_what_is_only_tried_again_is_not_told(stage: Stage) -> None:
    stage.store.subscribe([HEEDING])
    stage.bring("a")
    stage.settle(stage.take(), RetryLater(["a"], charge=Charge.TRY, failure=failure()))
    assert _heard(stage) == []


def test_a_notice_of_a_forgotten_source_is_forgotten_with_it(stage: Stage) -> None:
    stage.store.subscribe([HEEDING])
    stage.bring("a", source="s")
    stage.settle(stage.take(), DeadLettered(["a"], failure=failure(), notice=_notice("a")))
    stage.store.forget("s")
    assert stage.store.counts() == {}
