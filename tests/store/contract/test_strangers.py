"""Documents that others write may come after the event that names them."""

from __future__ import annotations

from onward.model.ledger import Charge, DeadLettered, Processed, RetryLater
from tests.support.store_pages import Stage, failure, page, standings


def test_a_document_that_is_not_there_is_missing(stage: Stage) -> None:
    stage.store.add_documents([page("there")])
    stage.publish("there", "not there")
    assert standings(stage.take()) == {"there": "ready", "not there": "missing"}


def test_its_coming_is_noticed_and_begins_its_round(stage: Stage) -> None:
    stage.publish("a")
    delivery = stage.take()
    stage.settle(delivery, RetryLater(["a"], after=1.0, charge=Charge.NOT_READY, able=1.0))
    stage.store.add_documents([page("a", source="s")])
    assert stage.state("a").round == 0
    stage.clock.advance(1)
    again = stage.take()
    assert (again.inputs[0].status, again.inputs[0].body) == ("ready", page("a").body)
    assert (again.not_ready, again.able, again.round, again.source) == (1, 1.0, 1, "s")
    assert (stage.state("a").round, stage.state("a").attempt_count, stage.state("a").row) == (1, 1, again.row)


def test_coming_while_the_event_is_told_that_it_is_missing_is_not_too_late(stage: Stage) -> None:
    stage.publish("a")
    delivery = stage.take()
    stage.store.add_documents([page("a")])
    stage.settle(delivery, RetryLater(["a"], charge=Charge.NOT_READY))
    again = stage.take()
    assert standings(again) == {"a": "ready"}
    stage.settle(again, Processed(["a"]))
    assert (stage.state("a").status, stage.state("a").round) == ("processed", 1)


def test_coming_while_its_event_is_given_up_still_links_the_dead_letter(stage: Stage) -> None:
    stage.publish("a")
    delivery = stage.take()
    stage.store.add_documents([page("a")])
    stage.settle(delivery, DeadLettered(["a"], charge=Charge.NOT_READY, failure=failure()))
    (letter,) = stage.store.dead_letters()
    assert (stage.state("a").dead_letter, stage.state("a").status) == (letter.row, "pending")


def test_only_the_missing_ones_wait(stage: Stage) -> None:
    stage.store.add_documents([page("there")])
    stage.publish("there", "late")
    delivery = stage.take()
    stage.settle(delivery, RetryLater(["late"], after=1.0, charge=Charge.NOT_READY), inputs=[], closes=False)
    stage.settle(delivery, Processed(["there"]))
    stage.clock.advance(1)
    assert standings(stage.take()) == {"late": "missing"}


def test_what_is_missing_waits_once_even_if_its_worker_dies(stage: Stage) -> None:
    stage.store.add_documents([page("there")])
    stage.publish("there", "late")
    delivery = stage.take()
    stage.settle(delivery, RetryLater(["late"], after=1.0, charge=Charge.NOT_READY), inputs=[], closes=False)
    stage.store.record_crash("anna", [])
    assert standings(stage.take()) == {"there": "ready"}


def test_of_two_events_that_waited_for_it_one_gets_it(stage: Stage) -> None:
    stage.publish("a")
    stage.publish("a", found_by="another")
    stage.store.add_documents([page("a")])
    first, second = stage.claim()
    assert [first.inputs[0].status, second.inputs[0].status] == ["ready", "superseded"]
    assert stage.state("a").round == 1


def test_a_document_that_was_there_and_is_gone_is_not_waited_for(stage: Stage) -> None:
    stage.bring("a")
    stage.publish("a", found_by="another")
    stage.store.publish([stage.noticed()])
    stage.settle(stage.take(service="listening"), Processed(), removes=[("pages", "a")])
    assert [standings(one) for one in stage.claim()] == [{"a": "superseded"}]


def test_looking_at_what_a_worker_holds_begins_no_round(stage: Stage) -> None:
    stage.publish("a")
    stage.take()
    stage.store.add_documents([page("a")])
    stage.store.claimed("anna")
    assert stage.state("a").round == 0


def test_of_two_that_come_while_they_are_told_missing_neither_is_too_late(stage: Stage) -> None:
    stage.publish("a", "b")
    delivery = stage.take()
    stage.store.add_documents([page("a"), page("b")])
    stage.settle(delivery, RetryLater(["a"], charge=Charge.NOT_READY), RetryLater(["b"], charge=Charge.NOT_READY))
    assert [standings(one) for one in stage.claim()] == [{"a": "ready"}, {"b": "ready"}]


def test_a_strangers_event_is_known_after_it_was_settled_and_pruned(stage: Stage) -> None:
    event = stage.found("a")
    event.foreign = True
    stage.store.add_documents([page("a")])
    assert stage.store.publish([event])[0].rows == 1
    stage.settle(stage.take(), Processed(["a"]))
    stage.store.prune(keep_seconds=0, keep_count=0)
    assert stage.rows("done") == 0
    (again,) = stage.store.publish([event])
    assert (again.rows, again.duplicates) == (0, 1), "a broker has brought it once more"
    stage.clock.advance(2 * 86_400)
    stage.store.prune(keep_seconds=0, keep_count=0)
    assert stage.store.publish([event])[0].duplicates == 1, "not even after days"
    stage.clock.advance(7 * 86_400)
    stage.store.prune(keep_seconds=0, keep_count=0)
    assert stage.store.publish([event])[0].duplicates == 0, "nobody remembers for ever"
