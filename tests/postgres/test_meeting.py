"""Two that change the same at the same time: the second sees what the first did, and nothing is done twice."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from onward.ledger.postgres import PostgresStore
from onward.model.breaker import Breaker
from onward.model.documents import Document
from onward.model.events import Envelope
from onward.model.ledger import (
    Charge,
    CommitResult,
    CommitStatus,
    DeadLettered,
    Delivery,
    DependencyReport,
    InFailedBatch,
    Processed,
    RetryLater,
)
from tests.postgres.stage import Meeting
from tests.support.store_pages import LEASE, LISTENING, READING, Noticed, Stage, failure, ids, page, word

DOWN = DependencyReport(struck="model", reason="ConnectionError: refused")


def by_id(deliveries: list[Delivery]) -> dict[str, Delivery]:
    return {one.inputs[0].id: one for one in deliveries}


def failing(stage: Stage, delivery: Delivery) -> CommitResult:
    return stage.settle(delivery, RetryLater(after=5.0, charge=Charge.TRY, failure=failure()), dependencies=DOWN)


# -- claiming and settling


def test_two_that_claim_get_different_rows_and_neither_waits(stage: Stage, meeting: Meeting) -> None:
    for id in "abcdef":
        stage.bring(id)
    anna, bert = meeting(lambda: stage.claim(3), lambda: stage.claim(4, worker="bert"))
    assert sorted(ids(anna) + ids(bert)) == [[id] for id in "abcdef"]
    assert (len(anna), len(bert)) == (3, 3)
    assert not meeting.waited


def test_a_delivery_that_is_settled_twice_has_its_effect_once(stage: Stage, meeting: Meeting) -> None:
    stage.bring("a")
    delivery = stage.take()
    one, two = meeting(
        lambda: stage.settle(delivery, Processed(["a"]), adds=[word("receipt 1")]),
        lambda: stage.settle(delivery, Processed(["a"]), adds=[word("receipt 2")]),
    )
    assert (one.status, two.status) == (CommitStatus.COMMITTED, CommitStatus.FENCED)
    assert stage.store.document_counts() == {"pages": {"processed": 1}, "words": {"processed": 1}}
    assert meeting.waited


def test_what_is_settled_just_now_is_not_taken_back(stage: Stage, meeting: Meeting) -> None:
    stage.bring("a")
    delivery = stage.take()
    settled, returned = meeting(
        lambda: stage.settle(delivery, Processed(["a"])), lambda: stage.store.record_crash("anna", [delivery.row])
    )
    assert (settled.status, returned) == (CommitStatus.COMMITTED, 0)
    assert (stage.state("a").status, stage.rows("waiting")) == ("processed", 0)


def test_what_is_taken_back_just_now_is_not_settled(stage: Stage, meeting: Meeting) -> None:
    stage.bring("a")
    delivery = stage.take()
    stage.clock.advance(2 * LEASE)
    returned, settled = meeting(stage.store.reclaim, lambda: stage.settle(delivery, Processed(["a"])))
    assert (returned, settled.status) == (1, CommitStatus.FENCED)
    assert (stage.state("a").status, stage.rows("waiting")) == ("pending", 1)


def test_two_that_take_back_what_has_lapsed_count_one_death(stage: Stage, meeting: Meeting) -> None:
    stage.bring("a")
    delivery = stage.take()
    stage.settle(delivery, closes=False, starts=True)
    stage.clock.advance(2 * LEASE)
    assert sum(meeting(stage.store.reclaim, stage.store.reclaim)) == 1
    assert stage.take().deaths == 1


def test_what_another_has_claimed_just_now_is_not_taken_back_as_lapsed(stage: Stage, meeting: Meeting) -> None:
    stage.bring("a")
    stage.take()
    stage.clock.advance(2 * LEASE)

    def pass_on() -> Delivery:
        stage.store.reclaim()
        return stage.take(worker="bert")

    berts, returned = meeting(pass_on, stage.store.reclaim)
    assert returned == 0
    assert stage.settle(berts, Processed(["a"])).status is CommitStatus.COMMITTED


def test_what_another_has_claimed_just_now_is_not_buried_with_its_last_holder(
    stage: Stage, meeting: Meeting
) -> None:
    stage.bring("a")
    stage.take()

    def pass_on() -> Delivery:
        stage.store.release("anna")
        return stage.take(worker="bert")

    berts, returned = meeting(pass_on, lambda: stage.store.record_crash("anna", []))
    assert returned == 0
    assert stage.settle(berts, Processed(["a"])).status is CommitStatus.COMMITTED


def test_a_lease_is_not_renewed_on_what_is_settled_just_now(stage: Stage, meeting: Meeting) -> None:
    stage.bring("a")
    delivery = stage.take()
    meeting(lambda: stage.settle(delivery, Processed(["a"])), lambda: stage.store.renew("anna", LEASE))
    assert not meeting.waited, "whoever renews leases waits for nobody"
    assert stage.store.next_change() is None


# -- documents


def test_a_work_on_content_that_changes_just_now_is_stale(stage: Stage, meeting: Meeting) -> None:
    stage.bring("a")
    delivery = stage.take()
    changed, settled = meeting(
        lambda: stage.store.replace_document(page("a", "new words")),
        lambda: stage.settle(delivery, Processed(["a"]), adds=[word("of the old content")]),
    )
    assert (changed, settled.status) == (True, CommitStatus.STALE)
    assert stage.state("a").status == "pending"
    assert stage.store.document_counts() == {"pages": {"pending": 1}}


def test_a_document_that_is_reset_just_now_is_not_finished(stage: Stage, meeting: Meeting) -> None:
    stage.bring("a")
    delivery = stage.take()
    _, settled = meeting(lambda: stage.store.reset("pages", "a"), lambda: stage.settle(delivery, Processed(["a"])))
    assert settled.status is CommitStatus.STALE
    assert stage.state("a").status == "pending"
    assert stage.store.document_counts() == {"pages": {"pending": 1}}


def test_a_document_that_two_add_is_added_once(stage: Stage, meeting: Meeting) -> None:
    assert meeting(
        lambda: stage.store.add_documents([page("a", "first")]),
        lambda: stage.store.add_documents([page("a", "second"), page("b")]),
    ) == (1, 1)
    assert stage.text("a") == "first"
    assert stage.store.document_counts() == {"pages": {"pending": 2}}


def test_two_that_replace_a_document_both_count(stage: Stage, meeting: Meeting) -> None:
    stage.store.add_documents([page("a")])
    meeting(
        lambda: stage.store.replace_document(page("a", "first")),
        lambda: stage.store.replace_document(page("a", "second")),
    )
    assert (stage.state("a").revision, stage.text("a")) == (3, "second")


def test_children_of_what_is_removed_just_now_do_not_stay(stage: Stage, meeting: Meeting) -> None:
    stage.bring("a")
    stage.bring("remover")
    works = by_id(stage.claim())
    meeting(
        lambda: stage.settle(works["a"], Processed(["a"]), adds=[word("child", parent="pages/a")]),
        lambda: stage.settle(works["remover"], Processed(["remover"]), removes=[("pages", "a")]),
    )
    assert stage.store.document_counts() == {"pages": {"processed": 1}}


def test_two_that_finish_documents_of_one_source_are_both_counted(stage: Stage, meeting: Meeting) -> None:
    for id in "ab":
        stage.bring(id, source="s")
    works = by_id(stage.claim())
    meeting(
        lambda: stage.settle(works["a"], Processed(["a"]), adds=[word("1")]),
        lambda: stage.settle(works["b"], Processed(["b"]), adds=[word("2")]),
    )
    assert not meeting.waited, "those who only share a count do not wait for each other"
    assert stage.store.document_counts("s") == {"pages": {"processed": 2}, "words": {"processed": 2}}


# -- publishing


def test_an_event_that_two_publish_begins_one_round(stage: Stage, meeting: Meeting) -> None:
    stage.store.add_documents([page("a")])
    one, two = meeting(lambda: stage.publish("a"), lambda: stage.publish("a"))
    assert (one.rows, two.rows, two.duplicates) == (1, 0, 1)
    assert (stage.rows("waiting"), stage.state("a").attempt_count) == (1, 1)


def test_an_event_without_documents_that_two_publish_waits_once(stage: Stage, meeting: Meeting) -> None:
    one, two = meeting(
        lambda: stage.store.publish([stage.noticed("smoke")])[0],
        lambda: stage.store.publish([stage.noticed("smoke")])[0],
    )
    assert (one.rows, two.rows, two.duplicates) == (1, 0, 1)
    assert stage.rows("waiting", "listening") == 1


def test_a_stranger_who_comes_twice_is_let_in_once(stage: Stage, meeting: Meeting) -> None:
    def stranger(what: str) -> Envelope:
        return replace(stage.noticed(what), event_id="theirs", foreign=True)

    one, two = meeting(
        lambda: stage.store.publish([stranger("smoke")])[0], lambda: stage.store.publish([stranger("fire")])[0]
    )
    assert (one.rows, two.rows, two.duplicates) == (1, 0, 1)
    assert stage.rows("waiting", "listening") == 1


def test_two_batches_of_the_same_strangers_let_each_in_once(stage: Stage, meeting: Meeting) -> None:
    def strangers(*names: str) -> list[Envelope]:
        return [replace(stage.noticed(name), event_id=name, foreign=True) for name in names]

    one, two = meeting(
        lambda: stage.store.publish(strangers("a", "b", "c")),
        lambda: stage.store.publish(strangers("c", "b", "d")),
    )
    assert [found.rows for found in one] == [1, 1, 1]
    assert [(found.rows, found.duplicates) for found in two] == [(0, 1), (0, 1), (1, 0)]
    assert stage.rows("waiting", "listening") == 4


def test_an_event_is_not_dropped_for_a_twin_that_is_claimed_just_now(stage: Stage, meeting: Meeting) -> None:
    stage.store.publish([stage.noticed("smoke")])
    (claimed, published) = meeting(
        lambda: stage.take(service="listening"), lambda: stage.store.publish([stage.noticed("smoke")])[0]
    )
    assert published.rows == 1, "the claimed one may have looked already"
    assert stage.take(service="listening").row != claimed.row


def test_an_event_that_returns_meets_the_twin_that_is_put_just_now(stage: Stage, meeting: Meeting) -> None:
    stage.store.publish([stage.noticed("smoke")])
    delivery = stage.take(service="listening")
    meeting(
        lambda: stage.store.publish([stage.noticed("smoke")]),
        lambda: stage.settle(delivery, RetryLater(charge=Charge.TRY, failure=failure())),
    )
    assert stage.take(service="listening").tries == 1, "they have become one, with the tries of both"
    assert stage.rows("waiting", "listening") == 0


def test_a_returning_event_is_not_merged_with_a_twin_that_is_claimed_just_now(
    stage: Stage, meeting: Meeting
) -> None:
    stage.store.publish([stage.noticed("smoke")])
    first = stage.take(service="listening")
    stage.store.publish([stage.noticed("smoke")])
    twin, _ = meeting(lambda: stage.take(service="listening"), lambda: stage.settle(first, RetryLater()))
    assert stage.take(service="listening").row == first.row
    assert stage.settle(twin, Processed()).status is CommitStatus.COMMITTED


def test_no_event_stays_without_a_consumer_that_subscribes_just_now(stage: Stage, meeting: Meeting) -> None:
    late = replace(LISTENING, service="late", event_type="Overheard")
    (envelope,) = Envelope.of(Noticed(what="steps"), now=stage.store.now())
    meeting(
        lambda: stage.store.publish([replace(envelope, event_type="Overheard")]),
        lambda: stage.store.subscribe([late]),
    )
    assert meeting.waited
    assert stage.store.counts() == {"late": {"waiting": 1}}


def test_what_is_published_while_a_consumer_subscribes_reaches_it(stage: Stage, meeting: Meeting) -> None:
    late = replace(LISTENING, service="late", event_type="Overheard")
    (envelope,) = Envelope.of(Noticed(what="steps"), now=stage.store.now())

    def subscribe() -> None:
        with stage.store.transaction():
            stage.store.subscribe([late])

    _, (published,) = meeting(subscribe, lambda: stage.store.publish([replace(envelope, event_type="Overheard")]))
    assert (published.rows, published.unrouted) == (1, False)


def test_a_document_that_begins_a_round_just_now_does_not_begin_another_with_the_event_that_waited_for_it(
    stage: Stage, meeting: Meeting
) -> None:
    stage.publish("a")
    stage.store.add_documents([page("a")])
    meeting(lambda: stage.publish("a", found_by="another"), stage.claim)
    (its_own,) = stage.claim(worker="bert")
    assert (stage.state("a").row, stage.state("a").attempt_count) == (its_own.row, 1)


def test_two_retry_jobs_that_put_back_the_same_document_begin_one_round(stage: Stage, meeting: Meeting) -> None:
    stage.store.add_documents([page("a")])

    def put_back() -> int:
        (state,) = stage.store.states_of([("pages", "a")])
        return stage.publish("a").rows if state.row is None else 0

    def put_back_and_claim() -> int:
        return put_back() * len(stage.claim())  # so that no twin waits any more

    assert meeting(put_back_and_claim, lambda: stage.store.atomically(put_back)) == (1, 0)
    assert stage.state("a").attempt_count == 1


def test_two_that_want_to_lead_have_one_leader(stage: Stage, meeting: Meeting) -> None:
    assert meeting(
        lambda: stage.store.acquire_role("retry-job", "anna", 60),
        lambda: stage.store.acquire_role("retry-job", "bert", 60),
    ) == (True, False)


def test_totals_that_two_count_are_added_up(stage: Stage, meeting: Meeting) -> None:
    meeting(lambda: stage.store.count("runs", "success"), lambda: stage.store.count("runs", "success"))
    assert stage.store.totals() == {"runs": {"success": 2}}


# -- forgetting


def test_what_a_work_adds_while_its_source_is_forgotten_does_not_stay(stage: Stage, meeting: Meeting) -> None:
    stage.bring("a", source="s")
    delivery = stage.take()
    event = stage.found("late", found_by="a", source="s")
    settled, removed = meeting(
        lambda: stage.settle(delivery, Processed(["a"]), adds=[page("late"), word("late")], emits=[event]),
        lambda: stage.store.forget("s"),
    )
    assert (settled.status, removed) == (CommitStatus.COMMITTED, 3)
    assert meeting.waited
    assert (stage.store.document_counts(), stage.store.counts()) == ({}, {})
    assert stage.store.sources() == []


def test_a_work_that_comes_after_the_forgetting_began_adds_nothing(
    stage: Stage, store: PostgresStore, meeting: Meeting
) -> None:
    stage.bring("a", source="s")
    delivery = stage.take()
    _, settled = meeting(
        partial(begin_forgetting, store, "s"),
        lambda: stage.settle(delivery, Processed(["a"]), adds=[word("late")]),
    )
    assert settled.status is CommitStatus.FENCED
    assert stage.store.document_counts() == {"pages": {"pending": 1}}


def begin_forgetting(store: PostgresStore, source: str) -> None:
    """The first step, which all others rely on: the source's next generation."""
    store.atomically(lambda: store.db.run("bump_generation", source), alone=True)


def test_what_is_added_to_a_source_while_it_is_forgotten_does_not_stay(stage: Stage, meeting: Meeting) -> None:
    _, removed = meeting(
        lambda: stage.store.add_documents([page("a", source="s")]), lambda: stage.store.forget("s")
    )
    assert removed == 1
    assert stage.store.document_counts() == {}


def test_an_event_that_is_published_while_its_source_is_forgotten_does_not_stay(
    stage: Stage, meeting: Meeting
) -> None:
    stage.store.add_documents([page("a", source="s")])
    meeting(lambda: stage.publish("a"), lambda: stage.store.forget("s"))
    assert (stage.store.document_counts(), stage.store.counts()) == ({}, {})


# -- what failed


@pytest.fixture
def aside(stage: Stage) -> dict[str, Delivery]:
    """Page `old` is in its source's failed batch, and under way again; page `new` is under way, too."""
    stage.bring("old", source="s")
    stage.settle(stage.take(), InFailedBatch(["old"], failure()))
    stage.publish("old")
    stage.bring("new", source="s")
    return by_id(stage.claim())


BATCH = Document.make_id("failed batch", "reading", "s")


def test_a_batch_that_one_joins_while_its_last_one_leaves_goes_on(
    stage: Stage, meeting: Meeting, aside: dict[str, Delivery]
) -> None:
    meeting(
        lambda: stage.settle(aside["new"], InFailedBatch(["new"], failure())),
        lambda: stage.settle(aside["old"], Processed(["old"])),
    )
    (batch,) = stage.store.failed_batches()
    assert (batch.id, batch.items) == (BATCH, (("pages", "new"),))
    assert stage.state("new").failed_batch == BATCH


def test_a_batch_that_its_last_one_leaves_while_another_joins_begins_anew(
    stage: Stage, meeting: Meeting, aside: dict[str, Delivery]
) -> None:
    meeting(
        lambda: stage.settle(aside["old"], Processed(["old"])),
        lambda: stage.settle(aside["new"], InFailedBatch(["new"], failure())),
    )
    (batch,) = stage.store.failed_batches()
    assert (batch.id, batch.items) == (BATCH, (("pages", "new"),))


def test_errors_of_a_batch_that_two_join_are_all_kept(stage: Stage, meeting: Meeting) -> None:
    for id in "ab":
        stage.bring(id, source="s")
    works = by_id(stage.claim())
    meeting(
        lambda: stage.settle(works["a"], InFailedBatch(["a"], failure("first"))),
        lambda: stage.settle(works["b"], InFailedBatch(["b"], failure("second"))),
    )
    (batch,) = stage.store.failed_batches()
    assert len(batch.items) == 2
    assert [one["error"] for one in batch.errors] == ["ValueError: first", "ValueError: second"]


def test_a_due_batch_is_taken_by_one(stage: Stage, meeting: Meeting) -> None:
    stage.bring("a", source="s")
    stage.settle(stage.take(), InFailedBatch(["a"], failure()))
    stage.clock.advance(60)

    def take() -> bool:
        return stage.store.claim_batch(BATCH, retry_count=0, until=stage.clock.now() + 300)

    assert meeting(take, take) == (True, False)


def test_failures_of_one_kind_at_the_same_time_are_all_counted(stage: Stage, meeting: Meeting) -> None:
    for id in "abc":
        stage.bring(id)
    works = by_id(stage.claim())
    broken = replace(failure(), kind="transient", version="1.0", dependency="model")

    def fail(id: str) -> None:
        stage.settle(works[id], RetryLater([id], charge=Charge.TRY, failure=broken))

    meeting(lambda: fail("a"), lambda: fail("b"))
    meeting(lambda: fail("c"), lambda: None)
    (group,) = stage.store.failure_groups()
    assert (group.failures, group.documents, group.affected) == (3, 3, 3)
    assert (group.kinds, group.versions, group.dependencies) == ({"transient": 3}, {"1.0": 3}, {"model": 3})


def test_a_dead_letter_that_two_put_back_goes_back_once(stage: Stage, meeting: Meeting) -> None:
    stage.bring("a")
    delivery = stage.take()
    stage.settle(delivery, DeadLettered(["a"], failure=failure()))
    assert meeting(lambda: stage.store.requeue(delivery.row), lambda: stage.store.requeue(delivery.row)) == (
        True,
        False,
    )
    assert (stage.state("a").attempt_count, stage.rows("waiting"), stage.rows("dead")) == (2, 1, 0)


def test_a_dead_letter_that_is_put_back_just_now_is_not_purged(stage: Stage, meeting: Meeting) -> None:
    stage.bring("a")
    delivery = stage.take()
    stage.settle(delivery, DeadLettered(["a"], failure=failure()))
    back, purged = meeting(
        lambda: stage.store.requeue(delivery.row), lambda: stage.store.purge_dead_letters([delivery.row])
    )
    assert (back, purged) == (True, 0)
    assert stage.take().inputs[0].id == "a"


# -- breakers


@pytest.fixture
def needing(stage: Stage) -> Stage:
    """The service needs a model."""
    stage.store.subscribe([replace(READING, needs=("model",))])
    for id in "abcdefgh":
        stage.bring(id)
    return stage


def breaker(stage: Stage) -> Breaker:
    (found,) = stage.store.breakers()
    return found


def test_strikes_at_the_same_time_are_all_counted(needing: Stage, meeting: Meeting) -> None:
    works = by_id(needing.claim(needs=["model"]))
    meeting(lambda: failing(needing, works["a"]), lambda: failing(needing, works["b"]))
    meeting(lambda: failing(needing, works["c"]), lambda: failing(needing, works["d"]))
    assert len(breaker(needing).strikes) == 4
    assert failing(needing, works["e"]).opened == ("model",), "five in a row, on five documents"


def test_an_opening_gives_back_what_failed_just_now(needing: Stage, meeting: Meeting) -> None:
    works = by_id(needing.claim(needs=["model"]))
    for id in "abc":
        failing(needing, works[id])
    meeting(lambda: failing(needing, works["d"]), lambda: failing(needing, works["e"]))
    assert breaker(needing).open
    assert [one.tries for one in needing.claim()] == [0] * 5


def test_of_many_that_claim_one_gets_the_probe(needing: Stage, meeting: Meeting) -> None:
    needing.store.open_breaker("model", "it is down")
    needing.clock.advance(10)
    anna, bert = meeting(
        lambda: needing.claim(needs=["model"]), lambda: needing.claim(worker="bert", needs=["model"])
    )
    assert (len(anna), len(bert)) == (1, 0)
    assert breaker(needing).probe_row == anna[0].row


def test_of_two_that_ask_one_gets_the_health_call(needing: Stage, meeting: Meeting) -> None:
    needing.store.open_breaker("model", "it is down")
    needing.clock.advance(10)
    assert meeting(lambda: needing.store.claim_probe("model"), lambda: needing.store.claim_probe("model")) == (
        True,
        False,
    )


def test_after_an_outage_the_fleet_begins_with_one(needing: Stage, meeting: Meeting) -> None:
    needing.store.open_breaker("model", "it is down")
    needing.store.close_breaker("model")
    anna, bert = meeting(
        lambda: needing.claim(needs=["model"]), lambda: needing.claim(worker="bert", needs=["model"])
    )
    assert (len(anna), len(bert)) == (1, 0)


def test_an_outage_that_two_find_out_about_is_one(needing: Stage, meeting: Meeting) -> None:
    works = by_id(needing.claim(needs=["model"]))
    down = DependencyReport(opens="model", reason="503")

    def find_out(id: str) -> CommitResult:
        return needing.settle(works[id], RetryLater([id], charge=Charge.TRY, failure=failure()), dependencies=down)

    one, two = meeting(lambda: find_out("a"), lambda: find_out("b"))
    assert (one.opened, two.opened) == (("model",), ())
    assert len(needing.store.openings()) == 1
    assert [one.tries for one in needing.claim()] == [0, 0], "an outage burns nothing"
