"""Failure groups are merged and split by rules, which hold for what is stored and for what fails later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onward.ledger import group_actions
from onward.model.failures import Failure
from onward.model.group_rules import GroupRule, RuleState, SplitBy
from onward.model.ledger import Charge, DeadLettered, Processed, RetryLater
from onward.retry import Reason
from tests.support.store_pages import NOON, Clock, Stage

SLOW = Failure(
    at=NOON, error_type="Timeout", message="no reply", fingerprint="aaaa", version="1.0", kind="timeout"
)
LOST = Failure(at=NOON, error_type="Reset", message="lost", fingerprint="bbbb", version="1.1", kind="transient")


def give_up(stage: Stage, failure: Failure, *ids: str) -> None:
    for id in ids:
        stage.bring(id)
        stage.settle(stage.take(), DeadLettered([id], reason=Reason.NON_RETRYABLE, failure=failure, final=True))


def groups(stage: Stage) -> dict[str, tuple[int, int, int, int]]:
    """How many failures, documents, affected documents and dead letters each group has."""
    return {
        one.fingerprint: (one.failures, one.documents, one.affected, one.dead_letters)
        for one in stage.store.failure_groups()
    }


def merge(stage: Stage, group: str, into: str) -> GroupRule:
    rule = stage.store.merge_group(group, into, "ana")
    stage.store.apply_rule(rule)
    return rule


def split(stage: Stage, group: str, by: SplitBy, value: str) -> GroupRule:
    rule = stage.store.split_group(group, by, value, "ana")
    stage.store.apply_rule(rule)
    return rule


def undo(stage: Stage, rule: GroupRule) -> None:
    ended = stage.store.end_rule(rule.id)
    assert ended is not None
    stage.store.apply_rule(ended)


def documents_of(stage: Stage, group: str) -> list[str]:
    return [state.id for state in stage.store.find_states(fingerprint=group)]


@pytest.fixture
def two(stage: Stage) -> Stage:
    """Two pages fail for one reason, three for another."""
    give_up(stage, SLOW, "a1", "a2")
    give_up(stage, LOST, "b1", "b2", "b3")
    return stage


# -- merging


def test_a_merged_group_counts_with_the_other_one(two: Stage) -> None:
    merge(two, "bbbb", "aaaa")
    assert groups(two) == {"aaaa": (5, 5, 5, 5)}
    group = two.store.failure_group("aaaa")
    assert group is not None
    assert (dict(group.kinds), dict(group.versions)) == ({"timeout": 2, "transient": 3}, {"1.0": 2, "1.1": 3})


def test_documents_and_dead_letters_move_at_once(two: Stage) -> None:
    merge(two, "bbbb", "aaaa")
    assert documents_of(two, "aaaa") == ["a1", "a2", "b1", "b2", "b3"]
    assert documents_of(two, "bbbb") == []
    letters = two.store.find_dead_letters(fingerprint="aaaa")
    assert sorted(letter.documents[0][1] for letter in letters) == ["a1", "a2", "b1", "b2", "b3"]
    assert {letter.fingerprint for letter in letters} == {"aaaa"}


def test_archived_dead_letters_move_too(two: Stage) -> None:
    (letter, *_) = two.store.find_dead_letters(fingerprint="bbbb")
    two.store.archive_dead_letters([letter.row])
    merge(two, "bbbb", "aaaa")
    (archived,) = two.store.find_dead_letters(fingerprint="aaaa", archived=True)
    assert archived.row == letter.row


def test_the_computed_fingerprint_is_kept(two: Stage) -> None:
    merge(two, "bbbb", "aaaa")
    error = two.state("b1").last_error
    assert error is not None
    assert (error["fingerprint"], error["raw_fingerprint"]) == ("aaaa", "bbbb")
    assert two.state("b1").attempts["first"]["fingerprint"] == "aaaa"
    assert "raw_fingerprint" not in (two.state("a1").last_error or {})


def test_later_failures_count_with_the_other_group(two: Stage) -> None:
    merge(two, "bbbb", "aaaa")
    give_up(two, LOST, "b4")
    assert groups(two) == {"aaaa": (6, 6, 6, 6)}
    assert documents_of(two, "aaaa")[-1] == "b4"
    (letter,) = two.store.find_dead_letters(fingerprint="aaaa", document=("pages", "b4"))
    assert letter.fingerprint == "aaaa"


def test_a_document_that_fails_again_is_counted_once(two: Stage, clock: Clock) -> None:
    two.bring("c")
    two.settle(two.take(), RetryLater(["c"], after=60.0, charge=Charge.TRY, failure=LOST))
    merge(two, "bbbb", "aaaa")
    clock.advance(61)
    two.settle(two.take(), RetryLater(["c"], after=60.0, charge=Charge.TRY, failure=LOST))
    assert groups(two)["aaaa"] == (7, 6, 6, 5)


def test_what_is_merged_recovers_as_usual(two: Stage, clock: Clock) -> None:
    merge(two, "bbbb", "aaaa")
    for letter in two.store.find_dead_letters(fingerprint="aaaa"):
        two.store.requeue(letter.row)
    for delivery in two.claim():
        two.settle(delivery, Processed([one.id for one in delivery.inputs]))
    assert groups(two) == {"aaaa": (5, 5, 0, 0)}


def test_merges_are_followed_one_after_the_other(two: Stage) -> None:
    give_up(two, replace(LOST, fingerprint="cccc"), "c1")
    merge(two, "aaaa", "bbbb")
    merge(two, "bbbb", "cccc")
    give_up(two, SLOW, "a3")
    assert groups(two) == {"cccc": (7, 7, 7, 7)}


def test_merging_twice_is_one_rule(two: Stage) -> None:
    assert merge(two, "bbbb", "aaaa").id == merge(two, "bbbb", "aaaa").id
    assert len(two.store.group_rules()) == 1


def test_notes_and_owner_come_along(two: Stage, clock: Clock) -> None:
    two.store.note_group("bbbb", "ben", "the switch is broken")
    two.store.assign_group("bbbb", "ben")
    clock.advance(1)
    two.store.note_group("aaaa", "ana", "looks like the network")
    merge(two, "bbbb", "aaaa")
    group = two.store.failure_group("aaaa")
    assert group is not None
    assert [note.who for note in group.life.notes] == ["ben", "ana"]
    assert group.life.owner == "ben"


def test_merging_into_a_closed_group_does_not_reopen_it(two: Stage, clock: Clock) -> None:
    two.store.close_group("aaaa", "ana")
    clock.advance(5)
    give_up(two, replace(LOST, at=clock.now()), "b4")
    merge(two, "bbbb", "aaaa")
    group = two.store.failure_group("aaaa")
    assert group is not None
    assert group.life.closed


def test_malformed_and_reported_failures_follow_the_rules_too(two: Stage) -> None:
    two.store.keep_malformed(b"?", replace(LOST, fingerprint="eeee"))
    merge(two, "eeee", "aaaa")
    two.store.keep_malformed(b"!", replace(LOST, fingerprint="eeee"))
    two.store.report_failure("reading", replace(LOST, fingerprint="eeee"))
    assert "eeee" not in groups(two)
    assert groups(two)["aaaa"] == (5, 4, 2, 4)
    letters = two.store.find_dead_letters(service="")
    assert {letter.fingerprint for letter in letters} == {"aaaa"}


# -- undoing a merge


def test_undoing_a_merge_gives_back_what_is_still_affected(two: Stage) -> None:
    rule = merge(two, "bbbb", "aaaa")
    give_up(two, LOST, "b4")
    undo(two, rule)
    assert two.store.group_rules() == []
    assert groups(two) == {"aaaa": (2, 2, 2, 2), "bbbb": (4, 4, 4, 4)}
    assert "raw_fingerprint" not in (two.state("b4").last_error or {})


def test_later_failures_are_in_the_old_group_again(two: Stage) -> None:
    undo(two, merge(two, "bbbb", "aaaa"))
    give_up(two, LOST, "b4")
    assert documents_of(two, "bbbb")[-1] == "b4"


def test_what_has_recovered_stays_counted_where_it_was(two: Stage) -> None:
    rule = merge(two, "bbbb", "aaaa")
    for letter in two.store.find_dead_letters(fingerprint="aaaa"):
        two.store.requeue(letter.row)
    for delivery in two.claim():
        two.settle(delivery, Processed([one.id for one in delivery.inputs]))
    undo(two, rule)
    assert groups(two) == {"aaaa": (5, 5, 0, 0)}


def test_a_merge_in_the_middle_of_others_can_be_undone(two: Stage) -> None:
    give_up(two, replace(LOST, fingerprint="cccc"), "c1")
    first = merge(two, "aaaa", "bbbb")
    merge(two, "bbbb", "cccc")
    undo(two, first)
    assert groups(two) == {"aaaa": (2, 2, 2, 2), "cccc": (4, 4, 4, 4)}


# -- splitting


def test_what_matches_becomes_a_group_of_its_own(stage: Stage) -> None:
    give_up(stage, replace(SLOW, message="no reply from Berlin"), "b1", "b2")
    give_up(stage, replace(SLOW, message="no reply from Paris"), "p1")
    rule = split(stage, "aaaa", SplitBy.MESSAGE, "BERLIN")
    assert groups(stage) == {"aaaa": (1, 1, 1, 1), rule.target: (2, 2, 2, 2)}
    assert documents_of(stage, rule.target) == ["b1", "b2"]
    group = stage.store.failure_group(rule.target)
    assert group is not None
    assert (group.service, group.collection, group.message) == ("reading", "pages", "no reply from Berlin")


def test_later_failures_that_match_join_it(stage: Stage) -> None:
    give_up(stage, replace(SLOW, message="no reply from Berlin"), "b1")
    rule = split(stage, "aaaa", SplitBy.MESSAGE, "berlin")
    give_up(stage, replace(SLOW, message="no reply from Berlin"), "b2")
    give_up(stage, replace(SLOW, message="no reply from Paris"), "p1")
    assert documents_of(stage, rule.target) == ["b1", "b2"]
    assert documents_of(stage, "aaaa") == ["p1"]


@pytest.mark.parametrize(("by", "value"), ((SplitBy.VERSION, "2.0"), (SplitBy.DEPENDENCY, "model")))
def test_a_split_by_another_fact_wants_it_whole(stage: Stage, by: SplitBy, value: str) -> None:
    for id, found in (("x", value), ("y", f"{value}.1")):
        give_up(stage, replace(SLOW, version=found, dependency=found), id)
    rule = split(stage, "aaaa", by, value)
    assert (documents_of(stage, rule.target), documents_of(stage, "aaaa")) == (["x"], ["y"])


def test_undoing_a_split_makes_one_group_of_both(stage: Stage) -> None:
    give_up(stage, replace(SLOW, message="no reply from Berlin"), "b1", "b2")
    give_up(stage, replace(SLOW, message="no reply from Paris"), "p1")
    undo(stage, split(stage, "aaaa", SplitBy.MESSAGE, "berlin"))
    assert groups(stage) == {"aaaa": (3, 3, 3, 3)}


def test_what_is_split_off_stays_apart_when_the_rest_is_merged(two: Stage) -> None:
    give_up(two, replace(SLOW, message="no reply from Berlin"), "a3")
    rule = split(two, "aaaa", SplitBy.MESSAGE, "berlin")
    merge(two, "aaaa", "bbbb")
    give_up(two, replace(SLOW, message="no reply from Berlin"), "a4")
    assert documents_of(two, rule.target) == ["a3", "a4"]
    assert documents_of(two, "bbbb") == ["a1", "a2", "b1", "b2", "b3"]


def test_merging_back_what_was_split_off_ends(stage: Stage) -> None:
    give_up(stage, replace(SLOW, message="no reply from Berlin"), "b1")
    rule = split(stage, "aaaa", SplitBy.MESSAGE, "berlin")
    merge(stage, rule.target, "aaaa")
    give_up(stage, replace(SLOW, message="no reply from Berlin"), "b2")
    assert groups(stage) == {"aaaa": (2, 2, 2, 2)}


# -- interruptions


def test_what_was_interrupted_goes_on_where_it_was(two: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_actions, "PAGE", 1)
    rule = two.store.merge_group("bbbb", "aaaa", "ana")

    def stop(moved: int) -> None:
        if moved == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        two.store.apply_rule(rule, stop)
    assert groups(two) == {"aaaa": (4, 4, 4, 2), "bbbb": (1, 1, 1, 3)}, "nothing is counted twice or lost"
    two.store.apply_rule(rule)
    assert groups(two) == {"aaaa": (5, 5, 5, 5)}


def test_a_worker_finishes_what_a_process_has_left(two: Stage, clock: Clock) -> None:
    two.store.merge_group("bbbb", "aaaa", "ana")
    two.store.finish_rules()
    assert len(groups(two)) == 2, "it may still be at work"
    clock.advance(group_actions.UNFINISHED_SECONDS + 1)
    two.store.finish_rules()
    assert groups(two) == {"aaaa": (5, 5, 5, 5)}
    (rule,) = two.store.group_rules()
    assert rule.state is RuleState.ACTIVE


def test_an_unfinished_undo_is_finished_too(two: Stage, clock: Clock) -> None:
    two.store.end_rule(merge(two, "bbbb", "aaaa").id)
    clock.advance(group_actions.UNFINISHED_SECONDS + 1)
    two.store.prune(keep_seconds=1.0, keep_count=1)
    assert groups(two) == {"aaaa": (2, 2, 2, 2), "bbbb": (3, 3, 3, 3)}
    assert two.store.group_rules() == []


# -- how groups are described


def test_a_merged_group_is_described_by_its_last_failure(two: Stage, clock: Clock) -> None:
    clock.advance(60)
    give_up(two, replace(SLOW, at=clock.now()), "a3")
    merge(two, "bbbb", "aaaa")
    assert error(two, "aaaa") == ("Timeout", "no reply")
    clock.advance(60)
    give_up(two, replace(LOST, at=clock.now()), "b4")
    assert error(two, "aaaa") == ("Reset", "lost"), "type and message are of one failure"


def test_what_is_left_of_a_group_is_described_by_a_failure_that_is_in_it(two: Stage) -> None:
    rule = merge(two, "bbbb", "aaaa")
    assert error(two, "aaaa") == ("Timeout", "no reply")
    undo(two, rule)
    assert (error(two, "aaaa"), error(two, "bbbb")) == (("Timeout", "no reply"), ("Reset", "lost"))


def test_a_group_that_is_split_off_has_a_traceback(stage: Stage) -> None:
    give_up(stage, replace(SLOW, traceback="Traceback …"), "a")
    rule = split(stage, "aaaa", SplitBy.VERSION, "1.0")
    group = stage.store.failure_group(rule.target)
    assert group is not None
    assert group.traceback == "Traceback …"


def error(stage: Stage, fingerprint: str) -> tuple[str, str]:
    group = stage.store.failure_group(fingerprint)
    assert group is not None
    return group.error_type, group.message
