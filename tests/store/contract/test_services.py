"""A renamed service takes over what its declaration names; a removed one is retired by a person."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onward.ledger.store_errors import ServiceConflict
from onward.model.ledger import DeadLettered, InFailedBatch
from tests.support.store_pages import LISTENING, NOON, READING, Stage, failure, ids, page

SCANNING = replace(READING, service="scanning", failed_queue="scanning.failed")
RENAMED = replace(SCANNING, was=("reading",))
HEARING = replace(LISTENING, service="hearing", was=("listening",))


def services(stage: Stage) -> list[str]:
    return sorted(one.service for one in stage.store.subscriptions())


# -- renamed


def test_a_service_that_only_looks_like_another_takes_nothing_and_is_refused(stage: Stage) -> None:
    stage.bring("a")
    with pytest.raises(ServiceConflict, match=r"'scanning'.*'reading'.*was='reading'.*services retire reading"):
        stage.store.subscribe([SCANNING])
    assert services(stage) == ["listening", "reading"]
    assert (stage.rows("waiting"), stage.rows("waiting", "scanning")) == (1, 0)


def test_a_declared_rename_takes_over_rows_dead_letters_and_failed_batches(stage: Stage) -> None:
    stage.bring("dead", source="s")
    stage.settle(stage.take(), DeadLettered(["dead"], failure=failure()))
    stage.bring("aside", source="s")
    stage.settle(stage.take(), InFailedBatch(["aside"], failure(), after=60))
    stage.bring("waiting")
    stage.store.subscribe([RENAMED])
    assert services(stage) == ["listening", "scanning"]
    assert RENAMED in stage.store.subscriptions()
    assert ids(stage.claim(service="scanning")) == [["waiting"]]
    assert [one.service_name for one in stage.store.dead_letters()] == ["scanning"]
    assert [one.service for one in stage.store.failed_batches()] == ["scanning"]


def test_a_service_that_finishes_nothing_can_be_renamed_as_well(stage: Stage) -> None:
    stage.store.publish([stage.noticed("one")])
    stage.store.subscribe([HEARING])
    assert (stage.rows("waiting", "listening"), stage.rows("waiting", "hearing")) == (0, 1)


def test_the_same_event_waiting_for_both_names_is_kept_twice(stage: Stage) -> None:
    stage.store.subscribe([replace(HEARING, was=())])
    stage.store.publish([stage.noticed("one")])
    stage.store.subscribe([HEARING])
    assert (stage.rows("waiting", "listening"), stage.rows("waiting", "hearing")) == (0, 2)


def test_a_declared_rename_waits_while_a_worker_runs_the_old_name(stage: Stage) -> None:
    stage.bring("a")
    stage.store.register_worker("old", {"services": {"reading": 1}})
    stage.store.subscribe([RENAMED])
    assert services(stage) == ["listening", "reading"]
    stage.store.unregister_worker("old")
    stage.store.subscribe([RENAMED])
    assert services(stage) == ["listening", "scanning"]
    assert stage.rows("waiting", "scanning") == 1


def test_a_release_from_before_a_rename_changes_nothing_when_it_starts_again(stage: Stage) -> None:
    stage.store.subscribe([RENAMED])
    stage.store.subscribe([READING])
    assert services(stage) == ["listening", "scanning"]
    stage.bring("a")
    assert (stage.rows("waiting", "scanning"), stage.rows("waiting", "reading")) == (1, 0)


def test_a_rename_can_be_taken_back_by_declaring_it(stage: Stage) -> None:
    stage.store.subscribe([RENAMED])
    stage.bring("a")
    stage.store.subscribe([replace(READING, was=("scanning",))])
    assert services(stage) == ["listening", "reading"]
    assert ids(stage.claim()) == [["a"]]


def test_the_old_name_may_be_given_to_a_service_with_another_event(stage: Stage) -> None:
    stage.store.subscribe([RENAMED])
    stage.store.subscribe([replace(LISTENING, service="reading")])
    assert services(stage) == ["listening", "reading", "scanning"]


@pytest.mark.parametrize(
    "changed", ({"event_type": "PagesSeen"}, {"finishes": "sheets"}), ids=("event", "collection")
)
def test_rows_of_another_event_or_collection_are_not_taken_over(stage: Stage, changed: dict[str, Any]) -> None:
    stage.bring("a")
    with pytest.raises(ServiceConflict, match=r"'scanning'.*was='reading'.*PagesFound.*pages"):
        stage.store.subscribe([replace(RENAMED, **changed)])
    assert stage.rows("waiting") == 1


# -- retired


def test_what_waits_for_a_retired_service_becomes_dead_letters(stage: Stage) -> None:
    stage.bring("a", "b")
    stage.clock.advance(5)
    assert stage.store.retire_service("reading") == 1
    assert services(stage) == ["listening"]
    (letter,) = stage.store.dead_letters()
    assert (letter.service_name, letter.abandoned_reason, letter.error_type) == (
        "reading",
        "service_retired",
        "ServiceRetired",
    )
    assert (letter.documents, letter.attempt_count) == ((("pages", "a"), ("pages", "b")), 0)
    for id in ("a", "b"):
        state = stage.state(id)
        assert (state.status, state.row, state.dead_letter) == ("pending", None, letter.row)
        assert state.last_error is not None
        assert state.last_error["at"] == NOON + 5
    assert stage.rows("waiting") + stage.rows("claimed") == 0


def test_events_of_every_kind_are_retired_also_many(stage: Stage) -> None:
    stage.bring("claimed")
    late = stage.take(worker="silent")
    stage.publish(*(f"missing{n}" for n in range(400)), due_in=3600.0)
    for start in range(0, 1200, 400):
        stage.bring(*(f"p{n}" for n in range(start, start + 400)))
    assert stage.store.retire_service("reading") == 5
    assert (stage.rows("waiting"), stage.rows("claimed"), stage.rows("dead")) == (0, 0, 5)
    stage.settle(late)
    assert stage.rows("dead") == 5, "the worker that held it is fenced off"


def test_documents_that_a_retired_service_set_aside_leave_their_failed_batch(stage: Stage) -> None:
    stage.bring("a", source="s")
    stage.settle(stage.take(), InFailedBatch(["a"], failure(), after=60))
    assert stage.store.retire_service("reading") == 0
    assert stage.store.failed_batches() == []
    assert (stage.state("a").status, stage.state("a").failed_batch) == ("pending", None)


def test_only_the_rows_of_the_retired_service_are_touched(stage: Stage) -> None:
    stage.bring("a")
    stage.store.publish([stage.noticed("one")])
    assert stage.store.retire_service("listening") == 1
    assert (stage.rows("waiting"), stage.rows("waiting", "listening")) == (1, 0)
    assert stage.store.retire_service("listening") == 0


def test_events_published_after_a_service_was_retired_wait_for_a_new_consumer(stage: Stage) -> None:
    stage.store.retire_service("reading")
    stage.store.add_documents([page("a")])
    assert stage.publish("a").unrouted
    stage.store.subscribe([SCANNING])
    assert stage.rows("waiting", "scanning") == 1


def test_a_dead_letter_of_a_retired_service_goes_back_only_when_a_service_takes_it_over(stage: Stage) -> None:
    stage.bring("a")
    stage.store.retire_service("reading")
    (letter,) = stage.store.dead_letters()
    assert not stage.store.requeue(letter.row)
    assert stage.rows("dead") == 1
    stage.store.subscribe([RENAMED])
    assert stage.store.requeue(letter.row)
    assert ids(stage.claim(service="scanning")) == [["a"]]


# -- last seen


def test_when_a_worker_last_ran_a_service_is_known_after_that_worker_is_gone(stage: Stage) -> None:
    assert stage.store.last_served() == {}
    stage.store.register_worker("anna", {"services": {"reading": 1}})
    assert stage.store.last_served() == {"reading": NOON}
    stage.clock.advance(60)
    stage.store.renew("anna", 60)
    assert stage.store.last_served() == {"reading": NOON + 60}
    stage.clock.advance(60)
    stage.store.unregister_worker("anna")
    assert stage.store.last_served() == {"reading": NOON + 60}


@pytest.mark.parametrize("way", ("buried", "reaped", "forgotten"))
def test_however_the_worker_went_its_last_sign_is_kept(stage: Stage, way: str) -> None:
    stage.store.register_worker("anna", {"services": {"reading": 1}})
    match way:
        case "buried":
            stage.store.record_crash("anna", [])
        case "reaped":
            stage.store.reclaim("anna")
        case _:
            stage.clock.advance(2 * 86_400)
            stage.store.prune(keep_seconds=0, keep_count=0)
    assert stage.store.workers(alive_within=1e9) == []
    assert stage.store.last_served() == {"reading": NOON}
