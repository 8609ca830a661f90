"""An action that was interrupted goes on where it was, in another process, and does nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from onward import App
from onward.ledger.operations import OPERATION_LEASE_SECONDS
from onward.model.ledger import DeadLettered
from onward.model.operations import Operation
from onward.ops.actions.action import (
    Action,
    ActionOutcome,
    ActionPlan,
    ActionProgress,
    ActionStopped,
    Actor,
    say,
)
from onward.ops.actions.dead_letters import ArchiveDeadLetters, PurgeDeadLetters, RequeueDeadLetters
from onward.ops.actions.document_retries import RetryDocuments
from onward.ops.actions.documents import DiscardDocuments
from onward.ops.actions.failure_groups import RetryFailedBatches, RetryFailureGroup
from onward.ops.actions.stored_action import STORED_ACTIONS, action_parameters, read_action
from onward.ops.bad_input import NotFound, NotPossible
from onward.ops.operation_run import begin_operation, continue_operation
from onward.ops.queries.dead_letters import DeadLetterSelection
from onward.ops.queries.documents import DocumentFilter
from onward.settings import load_settings
from tests.support.failed_pages import fail, failure
from tests.support.store_pages import Clock, Stage

ANNA = Actor("anna", "console")
READING = DeadLetterSelection(queue="reading.failed")


class Killed(BaseException):
    """The process is gone: nothing after this runs."""


@dataclass(frozen=True, slots=True)
class Shop:
    app: App
    on: Stage

    def operation(self, id: str) -> Operation:
        found = self.app.store.operation(id)
        assert found is not None
        return found

    def rounds(self) -> dict[str, int]:
        """How often each page was put on the ledger."""
        return {state.id: state.round for state in self.app.store.states("pages", limit=1000)}


@pytest.fixture
def shop() -> Iterator[Shop]:
    clock = Clock()
    app = App(settings=load_settings({"ONWARD_STORE": "sqlite://:memory:"}), clock=clock)
    yield Shop(app, Stage(app.store, clock))
    app.close()


def run_and_die(shop: Shop, action: Action, after: int) -> str:
    """Run an action whose process is killed when so many things are done; return the id of its operation."""
    run = begin_operation(shop.app, action, ANNA, title="Put back")
    shop.on.clock.advance(1)

    def show() -> None:
        if run.done >= after:
            run.save()
            raise Killed

    run.show = show  # type: ignore[method-assign]
    with pytest.raises(Killed):
        run.execute(ANNA)
    assert shop.operation(run.id).running, "nobody knows yet"
    shop.on.clock.advance(OPERATION_LEASE_SECONDS + 1)
    assert shop.operation(run.id).status == "interrupted"
    return run.id


PAGES = [f"page-{number:03}" for number in range(120)]


@pytest.mark.parametrize(
    "action",
    (
        RequeueDeadLetters(READING),
        RetryFailureGroup("f00d1234"),
    ),
)
def test_a_retry_that_is_killed_in_the_middle_goes_on_with_the_rest(shop: Shop, action: Action) -> None:
    fail(shop.on, *PAGES)
    id = run_and_die(shop, action, after=50)
    before = {state.id for state in shop.app.store.states("pages", limit=1000) if state.status == "pending"}
    assert 0 < len(before) < len(PAGES), "it was in the middle"
    run = continue_operation(shop.app, id)
    run.execute(ANNA)
    done = shop.operation(id)
    assert (done.status, done.run) == ("done", 2)
    statuses = {state.id: state.status for state in shop.app.store.states("pages", limit=1000)}
    assert statuses == dict.fromkeys(PAGES, "pending")


@pytest.mark.parametrize(
    "action",
    (
        RetryDocuments(filters=DocumentFilter(collection="pages", status="failed")),
        RetryDocuments(filters=DocumentFilter(), everything=True),
        RetryDocuments(keys=tuple(("pages", id) for id in PAGES), after=60.0),
        RetryDocuments(filters=DocumentFilter(collection="pages"), reset=True),
    ),
)
def test_documents_are_retried_to_the_last_and_none_twice(
    shop: Shop, action: RetryDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.ops.actions.document_retries.PAGE", 50)
    fail(shop.on, *PAGES)
    shop.on.clock.advance(1)
    id = run_and_die(shop, action, after=50)
    first = {state.id for state in shop.app.store.states("pages", limit=1000) if state.retry_at is not None}
    assert len(first) == 50, "it was in the middle"
    continue_operation(shop.app, id).execute(ANNA)
    times = {state.id: state.retry_at for state in shop.app.store.states("pages", limit=1000)}
    assert None not in times.values()
    changed = {state.id: state.updated_at for state in shop.app.store.states("pages", limit=1000)}
    assert len({changed[id] for id in first}) == 1, "the first were not touched again"
    assert {changed[id] for id in first}.isdisjoint({changed[id] for id in PAGES if id not in first})


def test_what_has_failed_again_meanwhile_is_not_put_back_twice(shop: Shop) -> None:
    fail(shop.on, *PAGES)
    id = run_and_die(shop, RequeueDeadLetters(READING), after=50)
    for delivery in shop.on.claim(10):
        ids = [one.id for one in delivery.inputs]
        shop.on.settle(delivery, DeadLettered(ids, failure=failure("it broke", "f00d1234"), final=True))
    continue_operation(shop.app, id).execute(ANNA)
    assert set(shop.rounds().values()) == {2}
    assert shop.operation(id).done == len(PAGES)


def test_discarding_goes_on_with_the_rest(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.ops.actions.documents.PAGE", 50)
    fail(shop.on, *PAGES)
    id = run_and_die(shop, DiscardDocuments(DocumentFilter(collection="pages")), after=50)
    continue_operation(shop.app, id).execute(ANNA)
    assert {state.status for state in shop.app.store.states("pages", limit=1000)} == {"discarded"}
    assert [action.touched for action in shop.app.store.actions()] == [70, 50], "each run is in the log"


@pytest.mark.parametrize("action", (ArchiveDeadLetters(READING), PurgeDeadLetters(READING)))
def test_dead_letters_are_archived_and_removed_to_the_last(
    shop: Shop, action: Action, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.ops.actions.dead_letters.PAGE", 50)
    fail(shop.on, *PAGES)
    id = run_and_die(shop, action, after=50)
    assert shop.on.rows("dead") == 70
    continue_operation(shop.app, id).execute(ANNA)
    assert shop.on.rows("dead") == 0
    assert (shop.operation(id).done, shop.operation(id).total) == (120, 120)


# -- an action with a cursor


@dataclass(frozen=True, slots=True)
class Count(Action):
    """Counts to a number, five a step, each of which is stored."""

    to: int

    def plan(self, app: App) -> ActionPlan:
        return ActionPlan("Count", self.to, say("It counts."))

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        place = progress.cursor or 0
        progress.total = self.to - place
        while place < self.to:
            try:
                progress.check()
            except ActionStopped:
                return ActionOutcome(progress.done, say("Stopped."), stopped=True)
            place += 5
            app.store.log_action(*actor, "count", {"to": place}, 5)
            progress.checkpoint(place)
            progress.update(progress.done + 5)
        return ActionOutcome(progress.done, say(f"Counted to {place}."))


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STORED_ACTIONS, "Count", Count)


@pytest.mark.usefixtures("counts")
def test_an_action_goes_on_from_its_cursor(shop: Shop) -> None:
    id = run_and_die(shop, Count(20), after=10)
    assert shop.operation(id).cursor == 10
    run = continue_operation(shop.app, id)
    assert (run.cursor, run.began_at) == (10, shop.operation(id).began_at)
    run.execute(ANNA)
    operation = shop.operation(id)
    assert (operation.status, operation.text) == ("done", "Counted to 20.")
    assert [action.about["to"] for action in reversed(shop.app.store.actions())] == [5, 10, 15, 20]


@pytest.mark.usefixtures("counts")
def test_a_run_that_was_taken_over_ends_itself(shop: Shop) -> None:
    run = begin_operation(shop.app, Count(20), ANNA, title="Count")
    shop.on.clock.advance(OPERATION_LEASE_SECONDS + 1)
    other = continue_operation(shop.app, run.id)
    with pytest.raises(ActionStopped):
        run.execute(ANNA)
    assert shop.operation(run.id).running, "the other run is not touched"
    other.execute(ANNA)
    assert shop.operation(run.id).status == "done"


@pytest.mark.usefixtures("counts")
@pytest.mark.parametrize(("interrupted", "status"), ((True, "interrupted"), (False, "stopped")))
def test_it_is_said_whether_a_person_has_stopped_it(shop: Shop, interrupted: bool, status: str) -> None:
    run = begin_operation(shop.app, Count(20), ANNA, title="Count")
    run.stop(interrupted=interrupted)
    run.execute(ANNA)
    assert shop.operation(run.id).status == status
    continue_operation(shop.app, run.id).execute(ANNA)
    assert shop.operation(run.id).status == "done"


def test_what_cannot_be_continued_is_refused_with_the_reason(shop: Shop) -> None:
    with pytest.raises(NotFound, match="no operation 'nothing'"):
        continue_operation(shop.app, "nothing")
    run = begin_operation(shop.app, RequeueDeadLetters(READING), ANNA, title="Put back")
    with pytest.raises(NotPossible, match="Put back cannot be continued: it is running"):
        continue_operation(shop.app, run.id)
    run.execute(ANNA)
    with pytest.raises(NotPossible, match="it is done"):
        continue_operation(shop.app, run.id)
    newer = shop.app.store.begin_operation("Newer", *ANNA, action="FromTheFuture")
    with pytest.raises(NotPossible, match="cannot read the action 'FromTheFuture'"):
        continue_operation(shop.app, newer.id)
    other = shop.app.store.begin_operation("Other", *ANNA, action="RetryDocuments", parameters={"ids": 3})
    with pytest.raises(NotPossible, match="cannot read the action 'RetryDocuments'"):
        continue_operation(shop.app, other.id)


# -- actions as JSON


@pytest.mark.parametrize(
    ("action", "stored"),
    (
        (
            RequeueDeadLetters(READING, 3, 0.5),
            {"selection": {"queue": "reading.failed"}, "canary": 3, "rate": 0.5},
        ),
        (RetryDocuments(keys=(("pages", "a"),), reset=True), {"keys": [["pages", "a"]], "reset": True}),
        (RetryFailedBatches(everything=True), {"everything": True}),
        (DiscardDocuments(DocumentFilter(older_than=3600.0)), {"filters": {"older_than": 3600.0}}),
    ),
)
def test_an_action_is_read_as_it_was_stored(action: Action, stored: dict[str, Any]) -> None:
    found = action_parameters(action)
    for name, value in stored.items():
        kept = found[name]
        if isinstance(kept, dict):
            kept = {key: one for key, one in kept.items() if one not in (None, False, [])}
        assert kept == value
    assert read_action(type(action).__name__, found) == action
