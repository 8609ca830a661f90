"""An event that waits already is reported as a duplicate, and costs nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onward.model.ledger import Charge, Processed, RetryLater
from tests.support.store_pages import LISTENING, NOON, READING, Stage, page, settlement


def test_a_duplicate_is_reported_and_costs_no_round(stage: Stage) -> None:
    stage.bring("a", "b")
    again = stage.publish("a", "b")
    assert (again.rows, again.duplicates) == (0, 1)
    assert (stage.state("a").round, stage.state("a").attempt_count) == (1, 1)
    assert stage.rows("waiting") == 1


def test_a_waiting_event_is_brought_forward_by_a_duplicate_that_is_due_earlier(stage: Stage) -> None:
    stage.store.add_documents([page("a")])
    stage.publish("a", due_in=600.0)
    stage.store.publish([stage.noticed(due_in=600.0)])
    assert stage.publish("a", due_in=900.0).duplicates == 1
    assert stage.store.next_due(["reading"]) == NOON + 600
    assert stage.publish("a", due_in=60.0).duplicates == 1
    assert stage.store.publish([stage.noticed()])[0].duplicates == 1
    assert stage.store.next_due(["reading"]) == NOON + 60
    assert (stage.rows("waiting"), stage.rows("waiting", "listening")) == (1, 1)
    stage.take(service="listening")
    stage.clock.advance(60)
    assert stage.take().inputs[0].id == "a"
    assert stage.state("a").attempt_count == 1


def test_a_waiting_event_takes_the_higher_priority_of_a_duplicate(stage: Stage) -> None:
    stage.bring("a")
    stage.bring("b")
    stage.bring("c")
    stage.publish("c", priority=5)
    stage.publish("b", priority=-5)
    assert [one.inputs[0].id for one in stage.claim()] == ["c", "a", "b"]


def test_workers_are_woken_for_what_is_brought_forward(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[set[str]] = []
    monkeypatch.setattr(stage.store.db, "notify_on_commit", lambda woke, returned: woken.append(woke))
    stage.store.publish([stage.noticed(due_in=600.0)])
    stage.store.publish([stage.noticed(due_in=600.0)])
    stage.store.publish([stage.noticed()])
    assert woken == [{"listening"}, set(), {"listening"}]


def test_a_returning_event_keeps_its_time_if_its_twin_is_due_later(stage: Stage) -> None:
    stage.store.publish([stage.noticed()])
    stage.take(service="listening")
    stage.store.publish([stage.noticed(due_in=600.0)])
    stage.store.release("anna")
    assert stage.rows("waiting", "listening") == 1
    assert stage.take(service="listening").event_id


def test_what_one_work_emits_twice_is_due_at_the_earlier_time(stage: Stage) -> None:
    stage.bring("a")
    later = [stage.noticed(due_in=600.0, expires_in=700.0), stage.noticed(due_in=60.0, priority=3)]
    stage.settle(stage.take(), Processed(["a"]), emits=later)
    assert stage.rows("waiting", "listening") == 1
    assert stage.store.next_due(["listening"]) == NOON + 60
    stage.clock.advance(60)
    assert stage.take(service="listening").expires is None


@pytest.mark.parametrize("charge", (Charge.TRY, Charge.NOT_READY, Charge.NOTHING))
def test_a_duplicate_shortens_no_wait_of_an_event_that_was_tried(stage: Stage, charge: Charge) -> None:
    stage.bring("a")
    stage.settle(stage.take(), RetryLater(["a"], after=600.0, charge=charge))
    assert stage.publish("a", priority=9).duplicates == 1
    assert stage.store.next_due(["reading"]) == NOON + 600


def test_a_duplicate_does_not_change_the_time_that_an_operator_has_set(stage: Stage) -> None:
    stage.bring("a")
    stage.store.schedule([("pages", "a")], NOON + 600)
    assert stage.publish("a").duplicates == 1
    assert stage.store.next_due(["reading"]) == NOON + 600


def test_the_order_of_publication_is_kept(stage: Stage) -> None:
    stage.store.subscribe([replace(READING, per_key="ordered"), LISTENING])
    stage.store.add_documents([page("a")])
    stage.publish("a", due_in=600.0)
    assert stage.publish("a", priority=9).duplicates == 1
    assert stage.store.next_due(["reading"]) == NOON + 600


def test_the_order_of_ids_does_not_matter(stage: Stage) -> None:
    stage.bring("a", "b")
    assert stage.publish("b", "a").duplicates == 1


def test_other_data_is_another_event(stage: Stage) -> None:
    stage.bring("a")
    assert stage.publish("a", found_by="somebody else").rows == 1


def test_changed_content_is_another_event(stage: Stage) -> None:
    stage.bring("a")
    stage.store.replace_document(page("a", "new"))
    assert stage.publish("a").rows == 1


def test_a_claimed_event_is_no_reason_to_drop_another(stage: Stage) -> None:
    stage.bring("a")
    stage.take()
    assert stage.publish("a").rows == 1, "what is being handled may have read the old state of the world"
    assert stage.state("a").round == 2


def test_a_returning_event_merges_with_its_waiting_twin(stage: Stage) -> None:
    stage.bring("a")
    first = stage.take()
    stage.publish("a")
    stage.store.release("anna")
    assert stage.rows("waiting") == 1
    second = stage.take()
    assert second.row != first.row
    stage.settle(second, Processed(["a"]))
    assert (stage.state("a").status, stage.state("a").round) == ("processed", 2)


def test_two_returning_twins_merge_too(stage: Stage) -> None:
    stage.store.publish([stage.noticed()])
    stage.take(service="listening")
    stage.store.publish([stage.noticed()])
    stage.take(service="listening")
    assert stage.store.release("anna") == 2
    assert stage.rows("waiting", "listening") == 1


def test_what_was_counted_survives_a_merge(stage: Stage) -> None:
    stage.store.publish([stage.noticed()])
    delivery = stage.take(service="listening")
    stage.store.publish([stage.noticed()])
    stage.settle(delivery, RetryLater(charge=Charge.TRY, deaths=1))
    merged = stage.take(service="listening")
    assert (merged.tries, merged.deaths) == (1, 1)


def test_an_event_emitted_twice_by_one_group_of_works_is_one(stage: Stage) -> None:
    stage.bring("a")
    stage.bring("b")
    deliveries = stage.claim()
    answers = stage.store.settle([settlement(one, emits=[stage.noticed("same")]) for one in deliveries])
    assert [one.duplicates for one in answers] == [0, 1]
    assert stage.rows("waiting", "listening") == 1


def test_a_work_may_emit_the_event_that_another_of_its_group_gives_back(stage: Stage) -> None:
    stage.store.publish([stage.noticed("x")])
    waits = stage.take(service="listening")
    stage.bring("a")
    emits = stage.take()
    stage.store.settle(
        [settlement(waits, RetryLater()), settlement(emits, Processed(["a"]), emits=[stage.noticed("x")])]
    )
    assert stage.rows("waiting", "listening") == 1


def test_an_event_for_a_document_that_is_made_anew_is_no_duplicate_of_the_old(stage: Stage) -> None:
    stage.bring("old")
    stage.publish("a")
    stage.store.add_documents([page("a")])
    stage.clock.advance(1)
    delivery = next(one for one in stage.claim() if one.inputs[0].id == "old")
    stage.store.release("anna", [one.row for one in stage.store.claimed("anna") if one.row != delivery.row])
    again = stage.settle(
        delivery, Processed(["old"]), removes=[("pages", "a")], adds=[page("a")], emits=[stage.found("a")]
    )
    assert again.duplicates == 0
    assert stage.state("a").row is not None


def test_an_event_is_no_duplicate_if_its_twin_no_longer_brings_the_document(stage: Stage) -> None:
    stage.bring("a", "b")
    stage.store.reset("pages", "b")
    assert stage.publish("a", "b").rows == 1
    stage.settle(next(one for one in stage.claim() if len(one.inputs) == 2), Processed(["a", "b"]))
    assert stage.state("b").status == "processed"


def test_what_others_send_twice_is_known_by_its_id_even_after_it_was_settled(stage: Stage) -> None:
    envelope = stage.noticed("from afar")
    envelope.foreign = True
    first, twice = stage.store.publish([envelope, envelope])
    assert (first.rows, twice.rows, twice.duplicates) == (1, 0, 1)
    stage.settle(stage.take(service="listening"), Processed())
    (late,) = stage.store.publish([envelope])
    assert (late.rows, late.duplicates) == (0, 1)


def test_an_event_that_goes_on_from_a_checkpoint_is_no_twin_of_a_new_one(stage: Stage) -> None:
    """It will not look again at what lies before its checkpoint, and just that may have changed."""
    stage.store.publish([stage.noticed()])
    delivery = stage.take(service="listening")
    stage.settle(delivery, closes=False, cursor="7")
    stage.store.release("anna")
    (again,) = stage.store.publish([stage.noticed()])
    assert (again.rows, again.duplicates) == (1, 0)
    assert sorted(str(one.cursor) for one in stage.claim(service="listening")) == ["7", "None"]
