"""Works share transactions: a group is committed all at once, or not at all."""

from __future__ import annotations

import pytest

from onward.ledger.store_errors import StoreError
from onward.model.ledger import CommitStatus, NewDocument, Processed
from tests.support.store_pages import Stage, page, settlement, word

BAD = NewDocument("words", "bad", body="\ud800")
"""Half a character: no database can write it."""


def test_one_bad_work_rolls_its_whole_group_back(stage: Stage) -> None:
    for id in "abc":
        stage.bring(id)
    works = [
        settlement(one, Processed([one.inputs[0].id]), adds=[word(f"w{one.row}")], emits=[stage.noticed()])
        for one in stage.claim()
    ]
    works[1].adds = [BAD]
    with pytest.raises(UnicodeEncodeError):
        stage.store.settle(works)
    assert stage.store.document_counts() == {"pages": {"pending": 3}}
    assert (stage.rows("claimed"), stage.rows("waiting", "listening")) == (3, 0)


def test_redone_singly_only_the_bad_one_fails(stage: Stage) -> None:
    for id in "abc":
        stage.bring(id)
    works = [settlement(one, Processed([one.inputs[0].id])) for one in stage.claim()]
    works[1].adds = [BAD]
    with pytest.raises(UnicodeEncodeError):
        stage.store.settle(works)
    verdicts = []
    for work in (works[0], works[2]):
        verdicts += [one.status for one in stage.store.settle([work])]
    assert verdicts == [CommitStatus.COMMITTED] * 2
    assert [stage.state(id).status for id in "abc"] == ["processed", "pending", "processed"]


def test_settling_and_claiming_can_share_a_transaction(stage: Stage) -> None:
    stage.bring("a")
    stage.bring("b")
    (first,) = stage.claim(limit=1)
    with stage.store.transaction():
        stage.settle(first, Processed(["a"]))
        (second,) = stage.claim()
    assert (second.inputs[0].id, stage.state("a").status) == ("b", "processed")


def bring_and_fail(stage: Stage) -> None:
    with stage.store.transaction():
        stage.bring("a")
        raise RuntimeError


def bring_and_overlook_a_failure(stage: Stage) -> None:
    with stage.store.transaction():
        stage.bring("a")
        with pytest.raises(UnicodeEncodeError):
            stage.store.add_documents([page("b"), BAD])


def test_a_transaction_that_fails_leaves_nothing(stage: Stage) -> None:
    with pytest.raises(RuntimeError):
        bring_and_fail(stage)
    assert (stage.store.document_counts(), stage.store.counts()) == ({}, {})


def test_a_step_that_failed_cannot_be_overlooked(stage: Stage) -> None:
    with pytest.raises(StoreError, match="nothing of it was written"):
        bring_and_overlook_a_failure(stage)
    assert stage.store.document_counts() == {}
    stage.bring("a")
    assert stage.rows("waiting") == 1, "the store goes on"
