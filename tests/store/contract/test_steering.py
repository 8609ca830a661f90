"""An operator finds documents, has them tried again at a time, and removes them; what was done is kept."""

from __future__ import annotations

from onward.model.documents import Status
from onward.model.ledger import DeadLettered, InFailedBatch, Processed, RetryLater
from onward.model.ledger_views import ScheduleResult
from tests.support.store_pages import NOON, Stage, failure, ids, page, word

LATER = NOON + 3600.0


def fail(stage: Stage, *names: str) -> None:
    """Bring pages that fail for good, each by itself."""
    for name in names:
        stage.bring(name)
        stage.settle(stage.take(), DeadLettered([name], failure=failure(), final=True))


def schedule(stage: Stage, id: str, at: float = LATER, *, reset: bool = False, priority: int | None = None) -> str:
    return stage.store.schedule([("pages", id)], at, reset=reset, priority=priority)["pages", id]


# -- scheduling


def test_a_failed_document_stays_failed_until_its_time(stage: Stage) -> None:
    fail(stage, "a")
    assert schedule(stage, "a", priority=7) is ScheduleResult.SCHEDULED
    state = stage.state("a")
    assert (state.status, state.retry_at, state.priority) == ("failed", LATER, 7)
    assert state.attempt_count == 1, "scheduling is no round"


def test_a_processed_document_is_left_alone(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), Processed(["a"]))
    assert schedule(stage, "a", priority=7) is ScheduleResult.PROCESSED
    assert (stage.state("a").retry_at, stage.state("a").priority) == (None, 0)


def test_a_reset_lets_even_a_processed_document_begin_anew(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), Processed(["a"]))
    assert schedule(stage, "a", NOON, reset=True) is ScheduleResult.SCHEDULED
    state = stage.state("a")
    assert (state.status, state.attempt_count, state.retry_at) == ("pending", 0, NOON)


def test_a_reset_for_later_leaves_everything_as_it_is_until_then(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), Processed(["a"]))
    assert schedule(stage, "a", reset=True) is ScheduleResult.SCHEDULED
    state = stage.state("a")
    assert (state.status, state.attempt_count, state.retry_at) == ("processed", 0, LATER)
    assert stage.store.unschedule([("pages", "a")]) == {("pages", "a"): ScheduleResult.CANCELLED}
    assert (stage.state("a").status, stage.store.next_check()) == ("processed", None)


def test_what_nobody_finishes_is_not_scheduled(stage: Stage) -> None:
    stage.store.add_documents([word("w")])
    assert stage.store.schedule([("words", "w")], NOON, reset=True) == {("words", "w"): ScheduleResult.NO_SERVICE}
    assert stage.state("w", "words").status == "processed"


def test_what_a_worker_has_is_under_way(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    assert schedule(stage, "a") is ScheduleResult.UNDER_WAY
    assert stage.state("a").retry_at is None
    stage.settle(delivery, Processed(["a"]))
    assert stage.state("a").status == "processed"


def test_a_reset_supersedes_what_a_worker_has(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    assert schedule(stage, "a", NOON, reset=True) is ScheduleResult.SCHEDULED
    stage.settle(delivery, Processed(["a"]))
    state = stage.state("a")
    assert (state.status, state.retry_at, state.row) == ("pending", NOON, None)


def test_a_waiting_event_falls_due_at_that_time(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), RetryLater(["a"], after=600.0))
    assert schedule(stage, "a", NOON) is ScheduleResult.RESCHEDULED
    assert ids(stage.claim()) == [["a"]]


def test_a_waiting_event_may_also_be_put_off(stage: Stage) -> None:
    stage.bring("a")
    assert schedule(stage, "a", LATER) is ScheduleResult.RESCHEDULED
    assert stage.claim() == []
    assert stage.store.next_due(["reading"]) == LATER


def test_a_hurried_event_with_priority_is_claimed_first(stage: Stage) -> None:
    stage.bring("a")
    stage.bring("b")
    assert schedule(stage, "b", NOON, priority=5) is ScheduleResult.RESCHEDULED
    assert ids(stage.claim()) == [["b"], ["a"]]


def test_of_an_event_of_many_only_the_named_document_gets_another_time(stage: Stage) -> None:
    stage.bring("a", "b", "c")
    assert schedule(stage, "b", LATER, priority=5) is ScheduleResult.RESCHEDULED
    first = stage.take()
    assert ids([first]) == [["a", "c"]]
    stage.settle(first, Processed(["a", "c"]))
    stage.clock.time = LATER
    second = stage.take()
    assert (ids([second]), second.priority) == ([["b"]], 5)
    stage.settle(second, Processed(["b"]))
    state = stage.state("b")
    assert (state.status, state.round, state.attempt_count) == ("processed", 1, 1)
    assert stage.rows("waiting") == 0


def test_documents_of_one_event_that_are_all_named_stay_together(stage: Stage) -> None:
    stage.bring("a", "b")
    outcomes = stage.store.schedule([("pages", "a"), ("pages", "b")], LATER)
    assert set(outcomes.values()) == {ScheduleResult.RESCHEDULED}
    assert stage.rows("waiting") == 1


def test_a_missing_document_is_told(stage: Stage) -> None:
    assert schedule(stage, "nowhere") is ScheduleResult.MISSING
    assert stage.store.unschedule([("pages", "nowhere")]) == {("pages", "nowhere"): ScheduleResult.MISSING}


def test_what_is_set_aside_stays_in_its_batch(stage: Stage) -> None:
    stage.bring("a")
    stage.settle(stage.take(), InFailedBatch(["a"], failure()))
    assert schedule(stage, "a") is ScheduleResult.SCHEDULED
    state = stage.state("a")
    assert (state.retry_at, state.failed_batch is not None) == (LATER, True)


def test_more_documents_than_a_transaction_may_hold(stage: Stage) -> None:
    names = [f"{number:04}" for number in range(1001)]
    for start in range(0, 1001, 500):
        stage.store.add_documents([page(name) for name in names[start : start + 500]])
    keys = [("pages", name) for name in names]
    assert list(stage.store.schedule(keys, LATER).values()) == [ScheduleResult.SCHEDULED] * 1001
    assert list(stage.store.unschedule(keys).values()) == [ScheduleResult.CANCELLED] * 1001
    assert stage.store.remove_documents(keys) == 1001


def test_cancelling_leaves_a_document_as_it_was(stage: Stage) -> None:
    fail(stage, "a")
    schedule(stage, "a")
    assert stage.store.unschedule([("pages", "a")]) == {("pages", "a"): ScheduleResult.CANCELLED}
    assert (stage.state("a").status, stage.state("a").retry_at) == ("failed", None)
    assert stage.store.unschedule([("pages", "a")]) == {("pages", "a"): ScheduleResult.NOT_SCHEDULED}


# -- finding


def found(stage: Stage, **wanted: object) -> list[str]:
    return [f"{one.collection}/{one.id}" for one in stage.store.find_states(**wanted)]  # type: ignore[arg-type]


def test_pages_of_what_is_found_follow_each_other_over_collections(stage: Stage) -> None:
    stage.store.add_documents([page("a"), page("b"), word("a"), word("c")])
    seen: list[str] = []
    after = ("", "")
    while some := stage.store.find_states(after=after, limit=1):
        after = (some[0].collection, some[0].id)
        seen.append("/".join(after))
    assert seen == ["pages/a", "pages/b", "words/a", "words/c"]
    assert found(stage, limit=3) == seen[:3]


def test_documents_are_found_by_status_source_and_collection(stage: Stage) -> None:
    fail(stage, "a", "b")
    stage.store.add_documents([page("c", source="here"), word("w", source="here")])
    assert found(stage, status=Status.FAILED) == ["pages/a", "pages/b"]
    assert found(stage, status="failed", after=("pages", "a")) == ["pages/b"]
    assert found(stage, status="pending") == ["pages/c"]
    assert found(stage, source="here") == ["pages/c", "words/w"]
    assert found(stage, collection="words") == ["words/w"]
    assert found(stage, collection="words", status="failed") == []


def test_documents_are_found_by_the_fingerprint_of_their_last_error(stage: Stage) -> None:
    fail(stage, "a", "b")
    stage.bring("c")
    stage.settle(stage.take(), DeadLettered(["c"], failure=failure()))
    assert found(stage, fingerprint="f00d") == ["pages/a", "pages/b", "pages/c"]
    assert found(stage, fingerprint="f00d", status="pending") == ["pages/c"]
    assert found(stage, fingerprint="f00d", after=("pages", "a"), limit=1) == ["pages/b"]
    assert found(stage, fingerprint="beef") == []


def test_what_changed_lately_is_left_out(stage: Stage) -> None:
    fail(stage, "a")
    stage.clock.advance(100.0)
    fail(stage, "b")
    assert found(stage, before=NOON + 50.0) == ["pages/a"]
    assert found(stage, before=NOON + 50.0, status="failed") == ["pages/a"]
    assert found(stage, before=NOON + 50.0, fingerprint="f00d") == ["pages/a"]


def test_a_found_state_is_the_state(stage: Stage) -> None:
    fail(stage, "a")
    assert stage.store.find_states() == [stage.state("a")]
    assert stage.store.find_states(status="failed") == [stage.state("a")]
    assert stage.store.find_states(fingerprint="f00d") == [stage.state("a")]


# -- removing


def test_documents_are_removed_with_all_that_descended_from_them(stage: Stage) -> None:
    stage.store.add_documents([page("a"), page("b")])
    stage.store.add_documents([word("w", parent="pages/a"), word("v", parent="words/w"), word("x")])
    assert stage.store.remove_documents([("pages", "a"), ("pages", "nowhere")]) == 3
    assert found(stage) == ["pages/b", "words/x"]


def test_what_is_removed_takes_its_waiting_event_and_dead_letter_along(stage: Stage) -> None:
    fail(stage, "a")
    stage.bring("b")
    assert stage.store.remove_documents([("pages", "a"), ("pages", "b")]) == 2
    assert (stage.rows("waiting"), stage.rows("dead")) == (0, 0)
    assert stage.store.document_counts() == {}


# -- actions


def test_actions_are_kept_the_latest_first(stage: Stage) -> None:
    stage.store.log_action("ada", "cli", "retry", {"collection": "pages"}, 3)
    stage.clock.advance(5.0)
    stage.store.log_action("bob", "console", "purge", {"ids": ["a"]}, 1)
    latest, first = stage.store.actions()
    assert (first.at, first.who, first.via, first.action) == (NOON, "ada", "cli", "retry")
    assert (first.about, first.touched) == ({"collection": "pages"}, 3)
    assert (latest.at, latest.who, latest.about) == (NOON + 5.0, "bob", {"ids": ["a"]})


def test_actions_are_read_a_page_at_a_time(stage: Stage) -> None:
    for number in range(5):
        stage.clock.advance(-1.0 if number == 3 else 1.0)  # a clock that is set back makes no gap
        stage.store.log_action("ada", "cli", f"act {number}", {}, 0)
    seen: list[str] = []
    before: int | None = None
    while some := stage.store.actions(limit=2, before=before):
        seen += [one.action for one in some]
        before = some[-1].id
    assert seen == ["act 4", "act 2", "act 3", "act 1", "act 0"]
