"""Forgetting a source removes all that came from it, and nothing of it comes back."""

from __future__ import annotations

from dataclasses import replace

from onward.model.ledger import Charge, CommitStatus, DeadLettered, Processed, RetryLater
from tests.support.store_pages import Stage, failure, page, word


def test_a_source_goes_with_its_documents_rows_and_dead_letters(stage: Stage) -> None:
    stage.bring("a", source="s")
    stage.settle(stage.take(), DeadLettered(["a"], failure=failure()), adds=[word("w")])
    stage.bring("b", source="s")
    stage.bring("kept", source="t")
    assert stage.store.forget("s") == 3
    assert stage.store.document_counts() == {"pages": {"pending": 1}}
    assert stage.store.counts() == {"reading": {"waiting": 1}}
    assert stage.store.dead_letters() == []


def test_a_work_begun_before_is_refused(stage: Stage) -> None:
    stage.bring("a", source="s")
    stage.store.publish([stage.noticed(source="s")])
    page_work, other_work = stage.take(), stage.take(service="listening")
    stage.store.forget("s")
    for delivery in (page_work, other_work):
        settled = stage.settle(delivery, Processed(), inputs=[], adds=[word("w")], emits=[stage.noticed("back")])
        assert settled.status is CommitStatus.FENCED
    assert (stage.store.document_counts(), stage.store.counts()) == ({}, {})


def test_the_same_source_can_be_ingested_again(stage: Stage) -> None:
    stage.bring("a", source="s")
    old = stage.take()
    stage.store.forget("s")
    stage.bring("a", source="s")
    assert stage.settle(old, Processed(["a"])).status is CommitStatus.FENCED
    assert stage.settle(stage.take(), Processed(["a"])).status is CommitStatus.COMMITTED
    assert (stage.state("a").round, stage.state("a").status) == (1, "processed")


def test_documents_of_other_sources_keep_the_event_they_share(stage: Stage) -> None:
    stage.store.add_documents([page("a", source="s"), page("b", source="t"), page("c")])
    stage.publish("a", "b", "c")
    stage.store.forget("s")
    deliveries = stage.claim()
    assert sorted(one.inputs[0].id for one in deliveries) == ["b", "c"]
    assert {stage.state("b").row, stage.state("c").row} == {one.row for one in deliveries}


def test_an_event_that_came_before_its_documents_loses_only_the_forgotten(stage: Stage) -> None:
    stage.publish("a", "b")
    stage.store.add_documents([page("a", source="s"), page("b", source="t")])
    delivery = stage.take()
    stage.store.forget("s")
    assert stage.settle(delivery, Processed(["a", "b"]), adds=[word("w")]).status is not CommitStatus.COMMITTED
    assert stage.store.state("words", "w") is None
    state = stage.state("b")
    assert state.row is None or [one.row for one in stage.claim()] == [state.row]


def test_more_than_one_transaction_may_hold_is_forgotten_in_several(stage: Stage) -> None:
    for start in range(0, 2500, 500):
        names = [f"{n:04}" for n in range(start, start + 500)]
        stage.bring(*names, source="s")
    assert stage.store.forget("s") == 2500
    assert (stage.store.document_counts(), stage.store.counts()) == ({}, {})


def test_forgetting_what_nobody_knows_removes_nothing(stage: Stage) -> None:
    stage.bring("a", source="s")
    assert stage.store.forget("t") == 0
    assert stage.rows("waiting") == 1


def test_a_dead_letter_is_left_to_the_documents_of_other_sources(stage: Stage) -> None:
    stage.publish("a", "b")
    stage.store.add_documents([page("a", source="s"), page("b", source="t")])
    stage.settle(stage.take(), DeadLettered(["a", "b"], failure=failure()))
    stage.store.forget("s")
    (letter,) = stage.store.dead_letters()
    assert letter.documents == (("pages", "b"),)
    assert stage.store.requeue(letter.row)


def test_what_is_made_from_a_document_is_forgotten_with_it_and_with_nothing_else(stage: Stage) -> None:
    stage.publish("a", "b")
    stage.store.add_documents([page("a", source="s"), page("b", source="t")])
    stage.settle(
        stage.take(), Processed(["a", "b"]), adds=[word("of a", parent="pages/a"), word("of b", parent="pages/b")]
    )
    assert stage.store.forget("s") == 2
    assert stage.state("of b", "words").source == "t"


def groups(stage: Stage) -> list[str]:
    return sorted(one.fingerprint for one in stage.store.failure_groups())


def failed(stage: Stage, id: str, fingerprint: str, source: str | None) -> None:
    stage.bring(id, source=source)
    stage.settle(stage.take(), DeadLettered([id], failure=replace(failure(), fingerprint=fingerprint)))


def test_failure_groups_that_only_forgotten_documents_were_in_are_forgotten(stage: Stage) -> None:
    failed(stage, "a", "aaaa", "s")
    failed(stage, "b", "bbbb", "s")
    failed(stage, "c", "bbbb", "t")
    failed(stage, "d", "dddd", None)
    assert groups(stage) == ["aaaa", "bbbb", "dddd"]
    stage.store.forget("s")
    assert groups(stage) == ["bbbb", "dddd"]
    assert [one.documents for one in stage.store.dead_letters()] == [(("pages", "c"),), (("pages", "d"),)]
    stage.store.forget("t")
    assert groups(stage) == ["dddd"]


def test_the_group_of_a_document_that_recovered_before_is_forgotten_with_it(stage: Stage) -> None:
    stage.bring("a", source="s")
    stage.settle(stage.take(), RetryLater(["a"], charge=Charge.TRY, failure=failure()))
    stage.settle(stage.take(), Processed(["a"]))
    assert groups(stage) == ["f00d"]
    stage.store.forget("s")
    assert groups(stage) == []


def test_the_group_of_a_forgotten_event_that_named_no_document_is_forgotten(stage: Stage) -> None:
    stage.store.publish([stage.noticed(source="s")])
    stage.settle(stage.take(service="listening"), DeadLettered(failure=failure()))
    assert groups(stage) == ["f00d"]
    stage.store.forget("s")
    assert groups(stage) == []
    assert stage.store.dead_letters() == []
