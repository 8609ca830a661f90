"""Failures with the same fingerprint are one group, counted in the transaction that stores them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onward.ledger.failure_groups import MAX_NAMES
from onward.model.failures import Failure
from onward.model.ledger import Charge, DeadLettered, Processed, RetryLater, Settlement
from onward.model.ledger_views import FailureGroup
from onward.retry import Reason
from tests.support.store_pages import NOON, Clock, Stage, page, settlement, word

BROKEN = Failure(
    at=NOON,
    error_type="KeyError",
    message="'subject'",
    fingerprint="f00d",
    version="1.0",
    traceback="Traceback …",
    kind="permanent",
    place="pages:read",
)


def only_group(stage: Stage) -> FailureGroup:
    (group,) = stage.store.failure_groups()
    return group


def retried(stage: Stage, id: str, failure: Failure = BROKEN) -> Settlement:
    """What ends the one delivery of a page in a wait."""
    stage.bring(id)
    return settlement(stage.take(), RetryLater([id], after=60.0, charge=Charge.TRY, failure=failure))


def give_up(stage: Stage, id: str, failure: Failure = BROKEN) -> None:
    stage.bring(id)
    stage.settle(stage.take(), DeadLettered([id], reason=Reason.NON_RETRYABLE, failure=failure, final=True))


def finish(stage: Stage, id: str) -> None:
    stage.bring(id)
    stage.settle(stage.take(), Processed([id]))


def test_a_group_tells_what_its_failures_have_in_common(stage: Stage, clock: Clock) -> None:
    finish(stage, "good")
    give_up(stage, "a", replace(BROKEN, dependency="model", kind="unavailable"))
    finish(stage, "better")
    clock.advance(60)
    give_up(stage, "b", replace(BROKEN, at=clock.now(), message="'date'", version="1.1", traceback=""))
    assert only_group(stage) == FailureGroup(
        fingerprint="f00d",
        service="reading",
        collection="pages",
        error_type="KeyError",
        message="'date'",
        place="pages:read",
        traceback="Traceback …",
        first_seen=NOON,
        last_seen=NOON + 60,
        failures=2,
        documents=2,
        kinds={"unavailable": 1, "permanent": 1},
        versions={"1.0": 1, "1.1": 1},
        dependencies={"model": 1},
        succeeded_before={"": 1},
        succeeded_at_last={"": 2},
        succeeded_now={"": 2},
        affected=2,
        dead_letters=2,
    )


def test_one_group_is_found_by_its_fingerprint(stage: Stage) -> None:
    finish(stage, "good")
    give_up(stage, "a")
    assert stage.store.failure_group("f00d") == only_group(stage)
    assert stage.store.failure_group("f0") is None


def test_many_failures_of_one_commit_are_one_group(stage: Stage) -> None:
    works = [retried(stage, id) for id in "abc"]
    stage.store.settle(works)
    group = only_group(stage)
    assert (group.failures, group.documents, group.affected, group.dead_letters) == (3, 3, 3, 0)


def test_a_document_that_fails_so_again_is_counted_once(stage: Stage, clock: Clock) -> None:
    stage.store.settle([retried(stage, "a")])
    clock.advance(61)
    stage.settle(stage.take(), RetryLater(["a"], after=60.0, charge=Charge.TRY, failure=BROKEN))
    group = only_group(stage)
    assert (group.failures, group.documents) == (2, 1)


def test_what_heals_is_affected_no_more_but_was(stage: Stage, clock: Clock) -> None:
    stage.store.settle([retried(stage, "a")])
    clock.advance(61)
    stage.settle(stage.take(), Processed(["a"]))
    group = only_group(stage)
    assert (group.affected, group.documents, group.succeeded_now) == (0, 1, {"": 1})


def test_what_is_discarded_is_affected_no_more(stage: Stage) -> None:
    give_up(stage, "a")
    stage.store.discard("pages", "a")
    group = only_group(stage)
    assert (group.affected, group.dead_letters) == (0, 0)


def test_a_commit_that_fails_counts_nothing(stage: Stage) -> None:
    work = retried(stage, "a")
    work.adds = [page("bad")]
    work.adds[0].body = "\ud800"
    with pytest.raises(UnicodeEncodeError):
        stage.store.settle([work])
    assert stage.store.failure_groups() == []


def test_an_event_without_documents_counts_as_one(stage: Stage) -> None:
    stage.store.publish([stage.noticed("smoke")])
    delivery = stage.take(service="listening")
    stage.settle(delivery, DeadLettered([], reason=Reason.NON_RETRYABLE, failure=BROKEN))
    group = only_group(stage)
    assert (group.service, group.collection, group.documents, group.affected) == ("listening", None, 1, 0)
    assert (group.dead_letters, group.succeeded_before, group.succeeded_now) == (1, {}, {})


def test_groups_are_listed_the_last_seen_first(stage: Stage) -> None:
    for number, name in enumerate(("old", "newest", "new")):
        at = NOON + (0, 20, 10)[number]
        give_up(stage, name, replace(BROKEN, fingerprint=name, at=at))
    assert [one.fingerprint for one in stage.store.failure_groups()] == ["newest", "new", "old"]
    assert [one.fingerprint for one in stage.store.failure_groups(since=NOON + 10)] == ["newest", "new"]
    assert [one.fingerprint for one in stage.store.failure_groups(limit=1)] == ["newest"]
    assert stage.store.failure_groups(service="listening") == []
    assert len(stage.store.failure_groups(service="reading")) == 3


def test_the_first_documents_of_several_groups_are_read_together(stage: Stage) -> None:
    for number, name in enumerate(("one", "two", "one", "one", "three")):
        give_up(stage, f"p{number}", replace(BROKEN, fingerprint=name))
    found = stage.store.states_of_groups(["two", "one", "nothing"], limit=2)
    assert {name: [one.id for one in states] for name, states in found.items()} == {
        "one": ["p0", "p2"],
        "two": ["p1"],
    }
    assert found["one"] == stage.store.find_states(fingerprint="one", limit=2)
    assert stage.store.states_of_groups([], limit=2) == {}


def test_a_group_keeps_a_bounded_number_of_names(stage: Stage) -> None:
    for number in range(MAX_NAMES + 5):
        give_up(stage, f"p{number}", replace(BROKEN, version=f"v{number}"))
    group = only_group(stage)
    assert list(group.versions) == [f"v{number}" for number in range(5, MAX_NAMES + 5)]
    assert group.failures == MAX_NAMES + 5


def test_a_group_is_forgotten_and_its_documents_stay(stage: Stage) -> None:
    give_up(stage, "a")
    assert stage.store.forget_group("f00d")
    assert not stage.store.forget_group("f00d")
    assert stage.store.failure_groups() == []
    assert stage.state("a").status == "failed"
    assert len(stage.store.dead_letters()) == 1


def test_versions_are_told_from_the_oldest_on(stage: Stage, clock: Clock) -> None:
    stage.store.register_worker("anna", {"version": "2"})
    clock.advance(5)
    stage.store.register_worker("bert", {"version": "1"})
    clock.advance(5)
    stage.store.register_worker("anna", {"version": "2"})
    assert stage.store.versions() == [("2", NOON, NOON + 10), ("1", NOON + 5, NOON + 5)]


def test_a_report_is_counted_in_its_group_without_an_event(stage: Stage, clock: Clock) -> None:
    stage.store.report_failure("billing", BROKEN)
    clock.advance(60)
    stage.store.report_failure("billing", replace(BROKEN, at=clock.now(), version="1.1"))
    group = only_group(stage)
    assert (group.service, group.collection, group.error_type) == ("billing", None, "KeyError")
    assert (group.failures, group.documents, group.affected, group.dead_letters) == (2, 0, 0, 0)
    assert (group.first_seen, group.last_seen) == (NOON, NOON + 60)
    assert group.versions == {"1.0": 1, "1.1": 1}


def test_a_group_keeps_the_context_of_the_last_report_that_had_one(stage: Stage) -> None:
    for context in ("", '{"retry_count": 2}', '{"retry_count": 3, "text": "\\u00e9 \\\\x00"}', ""):
        stage.store.report_failure("billing", replace(BROKEN, context=context))
    assert only_group(stage).context == {"retry_count": 3, "text": "é \\x00"}
    assert stage.store.failure_group("f00d") == only_group(stage)


def test_a_report_joins_the_failures_of_events(stage: Stage) -> None:
    give_up(stage, "a")
    stage.store.report_failure("reading", BROKEN, collection="pages")
    group = only_group(stage)
    assert (group.failures, group.documents, group.collection) == (2, 1, "pages")


def test_a_report_is_undone_with_its_transaction(stage: Stage) -> None:
    def report_and_fail() -> None:
        stage.store.report_failure("billing", BROKEN)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        stage.store.atomically(report_and_fail)
    assert stage.store.failure_groups() == []


# -- what a diagnosis compares


def test_a_forgotten_document_counts_no_more(stage: Stage) -> None:
    give_up(stage, "kept")
    stage.bring("gone", source="s")
    failed = DeadLettered(["gone"], reason=Reason.NON_RETRYABLE, failure=BROKEN, final=True)
    stage.settle(stage.take(), failed)
    assert only_group(stage).documents == 2
    stage.store.forget("s")
    group = only_group(stage)
    assert (group.documents, group.affected) == (1, 1)


def test_an_event_that_fails_again_is_one_event(stage: Stage, clock: Clock) -> None:
    stage.store.publish([stage.noticed("smoke")])
    for _ in range(3):
        again = RetryLater([], after=60.0, charge=Charge.TRY, failure=BROKEN)
        stage.settle(stage.take(service="listening"), again)
        clock.advance(61)
    group = only_group(stage)
    assert (group.failures, group.documents) == (3, 1)


def test_successes_are_counted_by_service_and_version(stage: Stage, clock: Clock) -> None:
    for version, id in (("1.0", "a"), ("1.0", "b"), ("1.1", "c")):
        stage.bring(id)
        clock.advance(1)
        stage.settle(stage.take(), Processed([id]), version=version, service="reading")
    stage.store.publish([stage.noticed("smoke")])
    stage.settle(stage.take(service="listening"), Processed([]), version="1.1", service="listening")
    found = {(one.service, one.version): one for one in stage.store.successes(["reading", "listening"])}
    assert {name: one.count for name, one in found.items()} == {
        ("reading", "1.0"): 2,
        ("reading", "1.1"): 1,
        ("listening", "1.1"): 1,
    }
    assert (found["reading", "1.0"].first_at, found["reading", "1.0"].last_at) == (NOON + 1, NOON + 2)


def test_of_a_batch_only_what_went_well_before_the_first_failure_counts_as_before(stage: Stage) -> None:
    def good(id: str) -> Settlement:
        stage.bring(id)
        return settlement(stage.take(), Processed([id]), service="reading")

    stage.store.settle([good("a"), retried(stage, "b"), good("c"), good("d"), retried(stage, "e")])
    group = only_group(stage)
    assert (group.succeeded_before, group.succeeded_at_last) == ({"": 1}, {"": 3})


def test_documents_that_a_service_makes_are_compared_with_others_that_it_makes(stage: Stage) -> None:
    stage.bring("a", "b")
    bad = word("bad", failure=replace(BROKEN, fingerprint="bad"))
    stage.settle(stage.take(), Processed(["a", "b"]), adds=[word("x"), word("y"), bad], service="reading")
    assert only_group(stage).succeeded_now == {"": 2}, "words, not pages"
