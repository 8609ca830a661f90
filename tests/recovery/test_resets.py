"""An operator resets a document while an old delivery of it is running: the old one does not count any more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onward import App, Permanent, Work
from onward.ledger.store import Store
from onward.model.failures import Failure
from onward.model.ledger import (
    Charge,
    CommitStatus,
    DeadLettered,
    Delivery,
    InFailedBatch,
    InputStatus,
    NewDocument,
    Processed,
    RetryLater,
    Settlement,
    SettlementPart,
)
from onward.testing import Simulation
from tests.support.page_app import HOUR, Page, PagesFound, Word, bring, how_many, new_app

KEY = ("pages", "a")


def by_reset(store: Store) -> None:
    store.reset(*KEY)


def by_schedule(store: Store) -> None:
    store.schedule([KEY], store.now(), reset=True)


RESETS = pytest.mark.parametrize("reset", (by_reset, by_schedule))


@pytest.fixture
def app() -> App:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, sets_aside=True)
    def read(page: Page, work: Work) -> None:
        """The workers of these tests settle without it."""

    return app


def claim(world: Simulation, worker: str) -> Delivery:
    (delivery,) = world.store.claim(worker, "reading", limit=10, lease=24 * HOUR)
    return delivery


def settle(world: Simulation, delivery: Delivery, part: SettlementPart, word: str = "") -> CommitStatus:
    """Settle as a worker does; where a page is done, a word is found in it."""
    done = isinstance(part, Processed)
    (settled,) = world.store.settle(
        [
            Settlement(
                delivery.row,
                delivery.token,
                "pages",
                inputs=[(one.id, one.revision) for one in delivery.inputs] if done else [],
                parts=[part],
                adds=[NewDocument("words", word, Word(id=word).to_json(), parent="pages/a")] if done else [],
            )
        ]
    )
    return settled.status


def put_back(world: Simulation, reset: Callable[[Store], None]) -> Delivery:
    """Reset the page, let the retry job put it back, and hand it to a new worker."""
    reset(world.store)
    world.clock.advance(HOUR)
    assert world.retry_job.run().requeued == {"pages": 1}
    return claim(world, "new")


def check_new_result(world: Simulation) -> None:
    (page,) = [one for one in world.store.states(Page) if one.id == "a"]
    assert (page.status, page.attempt_count, page.row, page.dead_letter) == ("processed", 1, None, None)
    assert [one.id for one in world.store.states(Word)] == ["new"]
    assert world.dead_letters() == []
    assert world.store.failed_batches() == []
    assert world.store.counts()["reading"].keys() == {"done"}, "nothing is left to do"
    assert world.run_for(48 * HOUR) == 0, "nor comes anything back"


@RESETS
@pytest.mark.parametrize("when", ("before the job", "before the new one is claimed", "while it runs", "after"))
def test_the_old_delivery_is_refused_and_the_new_one_counts(
    app: App, reset: Callable[[Store], None], when: str
) -> None:
    with Simulation(app) as world:
        bring(world, "a")
        old = claim(world, "old")
        reset(world.store)
        if when == "before the job":
            assert settle(world, old, Processed(["a"]), "old") is not CommitStatus.COMMITTED
        world.clock.advance(HOUR)
        assert world.retry_job.run().requeued == {"pages": 1}
        if when == "before the new one is claimed":
            assert settle(world, old, Processed(["a"]), "old") is not CommitStatus.COMMITTED
        deliveries = world.store.claim("new", "reading", limit=10, lease=HOUR)
        (new,) = [one for one in deliveries if one.row != old.row]
        for again in (one for one in deliveries if one.row == old.row):
            assert [one.status for one in again.inputs] == [InputStatus.SUPERSEDED]
            world.store.settle([Settlement(again.row, again.token, "pages", parts=[Processed()])])
        if when == "while it runs":
            assert settle(world, old, Processed(["a"]), "old") is not CommitStatus.COMMITTED
        assert settle(world, new, Processed(["a"]), "new") is CommitStatus.COMMITTED
        if when == "after":
            assert settle(world, old, Processed(["a"]), "old") is not CommitStatus.COMMITTED
        world.drain()
        check_new_result(world)


def failing(how: str, now: float) -> SettlementPart:
    failure = Failure(at=now, error_type="ValueError", message="too late", fingerprint="f00d")
    parts: dict[str, SettlementPart] = {
        "gives up": DeadLettered(["a"], failure=failure, charge=Charge.TRY),
        "fails for good": DeadLettered(["a"], failure=failure, charge=Charge.TRY, final=True),
        "waits": RetryLater(["a"], after=5.0, charge=Charge.TRY, failure=failure),
        "sets aside": InFailedBatch(["a"], failure),
    }
    return parts[how]


@RESETS
@pytest.mark.parametrize("how", ("gives up", "fails for good", "waits", "sets aside"))
def test_an_old_delivery_that_fails_does_no_harm(app: App, reset: Callable[[Store], None], how: str) -> None:
    with Simulation(app) as world:
        bring(world, "a")
        old = claim(world, "old")
        new = put_back(world, reset)
        settle(world, old, failing(how, world.clock.now()))
        (page,) = world.store.states(Page)
        assert (page.status, page.row, page.last_error) == ("pending", new.row, None)
        assert settle(world, new, Processed(["a"]), "new") is CommitStatus.COMMITTED
        check_new_result(world)


def test_a_reset_from_within_the_handler_runs_it_again() -> None:
    app, calls = new_app(), list[int]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        calls.append(work.round)
        work.add(Word(id=f"{len(calls)}"))
        if len(calls) == 1:
            by_schedule(world.store)  # an operator, at that moment
        if len(calls) > 2:
            raise Permanent("once is enough")

    with Simulation(app) as world:
        (page,) = bring(world, "a")
        world.run_for(HOUR)
        assert len(calls) == 2
        assert calls[1] > calls[0], "another round"
        assert (world.status(page), world.state(page).attempt_count) == ("processed", 1)
        assert how_many(world, Word) == 1
