"""An operator finds dead letters by what they have in common, puts them away, brings them back, removes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onward.model.documents import DocumentKey
from onward.model.failures import Failure
from onward.model.ledger import Charge, DeadLetter, DeadLettered, DependencyReport, Processed, RetryLater
from tests.support.store_pages import NOON, Stage, failure, page


def give_up(stage: Stage, *ids: str, error: Failure | None = None, final: bool = False) -> DeadLetter:
    """Announce pages and give their event up."""
    stage.bring(*ids)
    return bury(stage, *ids, error=error, final=final)


def bury(stage: Stage, *ids: str, error: Failure | None = None, final: bool = False) -> DeadLetter:
    stage.settle(stage.take(), DeadLettered(ids, failure=error or failure(), final=final, charge=Charge.TRY))
    return stage.store.find_dead_letters(document=("pages", ids[0]))[-1]


def give_up_notice(stage: Stage) -> DeadLetter:
    stage.store.publish([stage.noticed("x")])
    stage.settle(stage.take(service="listening"), DeadLettered(failure=failure(), charge=Charge.TRY))
    return stage.store.find_dead_letters(service="listening")[-1]


# -- finding


def test_each_filter_finds_what_it_names(stage: Stage) -> None:
    a = give_up(stage, "a")
    stage.clock.advance(60)
    b = give_up(stage, "b", error=Failure(NOON, "KeyError", "no such key", "beef"))
    other = give_up_notice(stage)
    find = stage.store.find_dead_letters
    assert find() == [a, b, other]
    assert find(service="reading") == [a, b]
    assert find(fingerprint="beef") == [b]
    assert find(fingerprint="f00d", service="reading") == [a]
    assert find(error_type="KeyError") == [b]
    assert find(since=NOON + 60) == [b, other]
    assert find(document=("pages", "b")) == [b]
    assert find(service="reading", error_type="KeyError", since=NOON, document=("pages", "b")) == [b]


@pytest.mark.parametrize("document", (("words", "a"), ("pages", "a_"), ("pages", "")))
def test_what_matches_nothing_finds_nothing(stage: Stage, document: DocumentKey) -> None:
    give_up(stage, "a")
    find = stage.store.find_dead_letters
    assert find(document=document) == []
    assert find(service="nobody") == find(fingerprint="0000") == find(error_type="valueerror") == []
    assert find(since=NOON + 1) == find(archived=True) == []


def test_the_error_type_is_that_of_the_last_error(stage: Stage) -> None:
    stage.bring("a")
    early = Failure(NOON, "KeyError", "first", "beef")
    stage.settle(stage.take(), RetryLater(["a"], charge=Charge.TRY, failure=early))
    letter = bury(stage, "a")
    assert stage.store.find_dead_letters(error_type="ValueError") == [letter]
    assert stage.store.find_dead_letters(error_type="KeyError") == []


def test_pages_follow_each_other_by_row_whatever_the_filter(stage: Stage) -> None:
    letters = [give_up(stage, id) for id in "abcde"]
    filters: list[dict[str, Any]] = [{}, {"service": "reading"}, {"fingerprint": "f00d"}]
    for found_by in filters:
        seen: list[DeadLetter] = []
        while page := stage.store.find_dead_letters(after=seen[-1].row if seen else 0, limit=2, **found_by):
            assert len(page) <= 2
            seen += page
        assert seen == letters


def test_what_named_no_service_is_found_under_the_empty_name(stage: Stage) -> None:
    give_up(stage, "a")
    stage.store.keep_malformed(b"\xff", failure("not JSON"))
    (letter,) = stage.store.find_dead_letters(service="")
    assert (letter.failed_queue, letter.raw) == ("events.failed", b"\xff")


def test_a_letter_of_several_documents_is_found_by_each(stage: Stage) -> None:
    letter = give_up(stage, "a", "b")
    for id in "ab":
        assert stage.store.find_dead_letters(document=("pages", id)) == [letter]


# -- where rows stand


def test_the_states_of_rows_follow_them_and_what_is_gone_was_done(stage: Stage) -> None:
    letter = give_up(stage, "a")
    states = stage.store.row_states
    assert states([letter.row]) == {letter.row: "dead"}
    stage.store.requeue(letter.row)
    assert states([letter.row]) == {letter.row: "waiting"}
    delivery = stage.take()
    assert states([letter.row, 10_000]) == {letter.row: "claimed", 10_000: "done"}
    stage.settle(delivery, Processed(["a"]))
    assert states([letter.row]) == {letter.row: "done"}
    stage.store.prune(keep_seconds=-1, keep_count=0)
    assert states([letter.row]) == {letter.row: "done"}
    assert states([]) == {}


# -- what has recovered


def test_a_letter_has_not_recovered_while_its_document_points_to_it(stage: Stage) -> None:
    pending, failed = give_up(stage, "a"), give_up(stage, "b", final=True)
    assert not stage.store.is_recovered(pending)
    assert not stage.store.is_recovered(failed)


def test_a_letter_whose_document_succeeded_has_recovered(stage: Stage) -> None:
    letter = give_up(stage, "a", "b")
    for id in "ab":
        assert not stage.store.is_recovered(letter)
        stage.publish(id)
        stage.settle(stage.take(), Processed([id]))
    assert stage.store.is_recovered(letter)


def test_a_letter_whose_document_was_discarded_or_forgotten_has_recovered(stage: Stage) -> None:
    discarded = give_up(stage, "a")
    stage.store.discard("pages", "a")
    assert stage.store.is_recovered(discarded)
    stage.bring("b", source="s")
    forgotten = bury(stage, "b")
    stage.store.forget("s")
    assert stage.store.is_recovered(forgotten)


def test_a_letter_that_is_being_tried_again_has_not_recovered_yet(stage: Stage) -> None:
    letter = give_up(stage, "a")
    stage.store.requeue(letter.row)
    assert not stage.store.is_recovered(letter)


def test_a_letter_whose_document_has_not_come_has_not_recovered(stage: Stage) -> None:
    stage.publish("late")
    letter = bury(stage, "late")
    assert not stage.store.is_recovered(letter)
    stage.store.add_documents([page("late")])
    assert not stage.store.is_recovered(letter), "nothing else would bring it forward"
    stage.publish("late")
    stage.settle(stage.take(), Processed(["late"]))
    assert stage.store.is_recovered(letter)


def test_a_letter_without_documents_recovers_only_by_its_row(stage: Stage) -> None:
    letter = give_up_notice(stage)
    assert not stage.store.is_recovered(letter)
    stage.store.purge_dead_letters([letter.row])
    assert stage.store.is_recovered(letter)


# -- putting away


def test_an_archived_letter_is_kept_but_in_no_failed_queue(stage: Stage) -> None:
    letter, other = give_up(stage, "a"), give_up(stage, "b")
    assert stage.store.archive_dead_letters([letter.row, letter.row, 10_000]) == 1
    assert stage.store.find_dead_letters() == stage.store.dead_letters() == [other]
    assert stage.store.find_dead_letters(archived=True) == [letter]
    assert stage.store.find_dead_letters(archived=True, service="reading", fingerprint="f00d") == [letter]
    assert stage.store.find_dead_letters(archived=True, service="listening") == []
    assert (stage.rows("dead"), stage.rows("archived")) == (1, 1)
    assert stage.state("a").dead_letter == letter.row


def test_an_archived_letter_comes_back_as_it_was(stage: Stage) -> None:
    letter = give_up(stage, "a")
    stage.store.archive_dead_letters([letter.row])
    assert not stage.store.requeue(letter.row), "it was put away"
    assert stage.store.restore_dead_letters([letter.row]) == 1
    assert stage.store.find_dead_letters() == [letter]
    assert stage.store.requeue(letter.row)
    stage.settle(stage.take(), Processed(["a"]))
    assert stage.state("a").status == "processed"


def test_success_closes_an_archived_letter(stage: Stage) -> None:
    letter = give_up(stage, "a")
    stage.store.archive_dead_letters([letter.row])
    stage.publish("a")
    stage.settle(stage.take(), Processed(["a"]))
    assert stage.store.find_dead_letters(archived=True) == []
    assert stage.state("a").dead_letter is None
    assert stage.store.restore_dead_letters([letter.row]) == 0


def test_the_success_of_one_document_leaves_an_archived_letter_to_the_others(stage: Stage) -> None:
    letter = give_up(stage, "a", "b")
    stage.store.archive_dead_letters([letter.row])
    stage.publish("a")
    stage.settle(stage.take(), Processed(["a"]))
    assert stage.store.find_dead_letters(archived=True) == [replace(letter, documents=(("pages", "b"),))]


def test_a_later_round_that_fails_is_shown_again(stage: Stage) -> None:
    archived = give_up(stage, "a")
    stage.store.archive_dead_letters([archived.row])
    stage.publish("a")
    letter = bury(stage, "a")
    assert stage.store.find_dead_letters() == [letter]
    assert stage.store.find_dead_letters(archived=True) == []


def test_a_breaker_that_opens_leaves_what_was_put_away(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    struck = DependencyReport(struck="api", ids=["a"], reason="down")
    stage.settle(delivery, DeadLettered(["a"], failure=failure(), charge=Charge.TRY), dependencies=struck)
    stage.store.archive_dead_letters([delivery.row])
    stage.store.open_breaker("api", "down")
    assert stage.store.row_states([delivery.row]) == {delivery.row: "archived"}


def test_only_dead_letters_are_put_away_or_removed(stage: Stage) -> None:
    stage.bring("a")
    row = stage.take().row
    assert stage.store.archive_dead_letters([row]) == 0
    assert stage.store.restore_dead_letters([row]) == 0
    assert stage.store.purge_dead_letters([row]) == 0
    assert stage.store.row_states([row]) == {row: "claimed"}


# -- removing


def test_a_purged_letter_is_gone_and_its_documents_stay_as_they_are(stage: Stage) -> None:
    pending, failed = give_up(stage, "a"), give_up(stage, "b", final=True)
    before = stage.state("a")
    assert stage.store.purge_dead_letters([pending.row, failed.row, failed.row, 10_000]) == 2
    assert stage.store.find_dead_letters() == []
    assert stage.state("a") == replace(before, dead_letter=None)
    assert (stage.state("b").status, stage.state("b").dead_letter) == ("failed", None)
    assert not stage.store.requeue(pending.row)


def test_an_archived_letter_can_be_purged_too(stage: Stage) -> None:
    letter = give_up(stage, "a")
    stage.store.archive_dead_letters([letter.row])
    assert stage.store.purge_dead_letters([letter.row]) == 1
    assert stage.store.find_dead_letters(archived=True) == []
    assert stage.state("a").dead_letter is None


def test_purging_leaves_a_newer_round_alone(stage: Stage) -> None:
    letter = give_up(stage, "a")
    stage.publish("a")
    delivery = stage.take()
    assert stage.store.purge_dead_letters([letter.row]) == 1
    stage.settle(delivery, Processed(["a"]))
    assert (stage.state("a").status, stage.state("a").dead_letter) == ("processed", None)
