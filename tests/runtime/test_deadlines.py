"""Deadlines: after it, no try begins any more; what was never tried is discarded, what has failed is given up."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from onward import CallFailed, NotReady, Status, Work
from onward.model.failures import outcomes
from onward.ops.text.history import next_step_sentence
from onward.recovery.next_step import NextSteps
from onward.runtime.publish_options import PublishRefused
from onward.runtime.work import WorkMisused
from onward.testing import Simulation
from tests.support.caller_connections import connected
from tests.support.page_app import HOUR, MINUTE, Noticed, Page, PagesFound, Word, WordsFound, new_app, pages


def brought(world: Simulation, *ids: str, **more: Any) -> list[Page]:
    found = pages(*ids)
    world.app.publish(PagesFound.of(found), documents=found, **more)
    return found


def last_outcome(world: Simulation, page: Page) -> dict[str, Any]:
    return outcomes(world.state(page).attempts)[-1]


def expired_count(world: Simulation, service: str = "reading") -> float:
    return world.app.metrics.counted().counters.get(("events_expired_total", (("service", service),)), 0.0)


def failing(page: Any, work: Work) -> None:
    raise ConnectionError("no answer")


@pytest.mark.parametrize("expires", (60, 60.0, timedelta(minutes=1)))
def test_what_was_never_tried_in_time_is_discarded_without_a_dead_letter(
    store_url: str, expires: Any, caplog: pytest.LogCaptureFixture
) -> None:
    app, read = new_app(), list[str]()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: read.append(page.id))
    with Simulation(app, store=store_url) as world, caplog.at_level(logging.INFO, "onward"):
        (late,) = brought(world, "late", expires=expires)
        (timeless,) = brought(world, "timeless")
        assert world.state(late).expires == world.clock.now() + 60
        world.clock.advance(60)
        world.drain()
        assert read == ["timeless"]
        assert (world.state(late).status, world.state(timeless).status) == (Status.DISCARDED, Status.PROCESSED)
        assert (last_outcome(world, late)["outcome"], last_outcome(world, late)["round"]) == ("expired", 1)
        assert world.dead_letters() == []
        assert world.store.failure_groups() == []
        assert expired_count(world) == 1
        assert world.store.counts()["reading"] == {"done": 2}
    (line,) = [one for one in caplog.records if "expired" in one.message]
    assert line.levelno == logging.INFO
    assert line.message.startswith("reading: late expired before its first try, and is discarded")


def test_a_try_that_begins_in_time_goes_on_after_the_deadline(store_url: str) -> None:
    app = new_app()
    with Simulation(app, store=store_url) as world:

        @app.service("reading", on=PagesFound, finishes=Page)
        def read(page: Page, work: Work) -> None:
            world.clock.advance(MINUTE)
            work.add(Word(id="made late"))

        world.store.subscribe(app.registry.subscriptions())
        (page,) = brought(world, "a", expires=60)
        world.clock.advance(59.999)
        world.drain()
        assert world.state(page).status == Status.PROCESSED
        assert app.get(Word, "made late") is not None


def test_an_event_without_documents_that_expired_is_done_with_that_reason(store_url: str) -> None:
    app, noticed = new_app(), list[str]()
    app.service("listening", on=Noticed)(lambda event, work: noticed.append(event.what))
    with Simulation(app, store=store_url) as world:
        app.publish(Noticed(what="late"), expires=60)
        app.publish(Noticed(what="in time"))
        world.clock.advance(60)
        world.drain()
        assert noticed == ["in time"]
        assert world.store.counts()["listening"] == {"done": 2}
        assert world.dead_letters() == []
        reasons = [row.reason for row in world.store.settled_rows_naming("none", "late")]
        assert reasons == ["expired"]
        assert expired_count(world, "listening") == 1


def test_a_failure_whose_next_try_would_be_late_is_given_up_at_once(store_url: str) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(failing)
    with Simulation(app, store=store_url) as world:
        (page,) = brought(world, "a", expires=12)
        world.drain()
        assert world.state(page).status == Status.PENDING, "the second try, after 5 s, is in time"
        world.run_for(5)
        assert world.calls == 2, "the third would be after 15 s"
        (dead,) = world.dead_letters()
        assert (dead.abandoned_reason, dead.error_type) == ("ttl_exceeded", "ConnectionError")
        assert world.state(page).status == Status.FAILED
        world.run_for(24 * HOUR)
        assert world.calls == 2, "it is final: the retry job leaves it alone"
        assert expired_count(world) == 0


def test_a_document_that_never_came_is_given_up_by_the_deadline(store_url: str) -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        raise NotReady("not yet")

    with Simulation(app, store=store_url) as world:
        (page,) = brought(world, "a", expires=1.5)
        world.run_for(HOUR)
        (dead,) = world.dead_letters()
        assert dead.abandoned_reason == "ttl_exceeded"
        assert world.state(page).status == Status.FAILED
        app.publish(PagesFound(page_ids=["never"]), expires=1.5)
        world.run_for(HOUR)
        assert [one.abandoned_reason for one in world.dead_letters()] == ["ttl_exceeded"] * 2


def test_what_failed_before_and_is_found_too_late_is_a_dead_letter(store_url: str) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(failing)
    with Simulation(app, store=store_url) as world:
        (page,) = brought(world, "a", expires=12)
        world.drain()
        world.clock.advance(60)  # no worker ran when the second try was due
        world.drain()
        assert world.calls == 1
        (dead,) = world.dead_letters()
        assert (dead.abandoned_reason, dead.error_type) == ("ttl_exceeded", "DeadlinePassed")
        assert [one["error_type"] for one in dead.errors] == ["ConnectionError", "DeadlinePassed"]
        assert world.state(page).status == Status.FAILED


def test_an_event_that_failed_and_names_no_documents_becomes_a_dead_letter(store_url: str) -> None:
    app = new_app()
    app.service("listening", on=Noticed)(failing)
    with Simulation(app, store=store_url) as world:
        app.publish(Noticed(), expires=12)
        world.drain()
        world.clock.advance(60)
        world.drain()
        assert [one.abandoned_reason for one in world.dead_letters()] == ["ttl_exceeded"]


def test_expired_rows_are_settled_in_batches_between_others(store_url: str) -> None:
    app, read = new_app(), list[str]()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: read.append(page.id))
    with Simulation(app, store=store_url) as world:
        for number in range(60):
            brought(world, f"{number}", expires=10 if number % 3 else None)
        world.clock.advance(10)
        world.drain()
        assert sorted(map(int, read)) == list(range(0, 60, 3))
        assert world.store.document_counts()["pages"] == {"processed": 20, "discarded": 40}
        assert expired_count(world) == 40


# -- later rounds


def test_the_retry_job_begins_no_round_after_the_deadline(store_url: str) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(failing)
    with Simulation(app, store=store_url) as world:
        (page,) = brought(world, "a", expires=20 * MINUTE)
        world.run_for(7 * MINUTE)
        state = world.state(page)
        assert (state.status, state.attempt_count) == (Status.PENDING, 2), "round 2 began after 5 minutes"
        assert state.expires is not None, "and has the same deadline"
        world.run_for(24 * HOUR)
        assert world.state(page).status == Status.FAILED
        assert world.calls == 9, "round 4 would begin after 35 minutes"
        (dead,) = world.dead_letters()
        assert dead.abandoned_reason == "ttl_exceeded"
        assert last_outcome(world, page)["outcome"] == "expired"


def test_a_retry_of_an_operator_clears_the_deadline(store_url: str) -> None:
    app = new_app()
    is_broken = [True]

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        if is_broken[0]:
            raise ConnectionError("no answer")

    with Simulation(app, store=store_url) as world:
        (scheduled,) = brought(world, "scheduled", expires=1)
        (requeued,) = brought(world, "requeued", expires=1)
        (reset,) = brought(world, "reset", expires=1)
        (waiting,) = brought(world, "waiting", expires=HOUR, delay=timedelta(seconds=MINUTE))
        world.drain()
        is_broken[0] = False
        world.clock.advance(MINUTE)
        letters = {dead.documents[0][1]: dead.row for dead in world.dead_letters()}
        world.store.schedule([("pages", "scheduled")], world.clock.now())
        world.store.requeue(letters["requeued"])
        world.store.reset("pages", "reset")
        world.store.schedule([("pages", "waiting")], world.clock.now() + 2 * HOUR)
        assert [world.state(one).expires for one in (scheduled, requeued, reset, waiting)] == [None] * 4
        world.run_for(3 * HOUR)
        assert {world.state(one).status for one in (scheduled, requeued, reset, waiting)} == {Status.PROCESSED}


def test_a_dead_letter_that_the_retry_job_requeues_keeps_the_deadline(store_url: str) -> None:
    app = new_app()

    class Ordered(PagesFound):  # its event cannot be made from the ids alone
        colour: str

    app.service("reading", on=Ordered, finishes=Page)(failing)
    with Simulation(app, store=store_url) as world:
        (page,) = pages("a")
        app.publish(Ordered(page_ids=["a"], colour="red"), documents=[page], expires=20 * MINUTE)
        world.run_for(7 * MINUTE)
        state = world.state(page)
        assert (state.attempt_count, state.status) == (2, Status.PENDING)
        assert state.expires is not None
        world.run_for(HOUR)
        assert (world.state(page).status, world.calls) == (Status.FAILED, 9)


def test_items_of_a_failed_batch_are_not_retried_after_the_deadline(store_url: str) -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, batch=10)
    def read(batch: list[Page], work: Work) -> None:
        for page in batch:
            if page.id != "good":
                work.set_aside(page, ConnectionError("no answer"))

    with Simulation(app, store=store_url) as world:
        (late,) = brought(world, "late", expires=10)
        (timeless,) = brought(world, "timeless")
        world.run_for(10 * MINUTE)
        assert (world.state(late).status, world.state(late).attempt_count) == (Status.FAILED, 1)
        assert (world.state(timeless).status, world.state(timeless).attempt_count) == (Status.PENDING, 3)
        assert [one.items for one in world.store.failed_batches()] == [(("pages", "timeless"),)]


def test_changed_content_has_no_deadline_any_more(store_url: str) -> None:
    app, read = new_app(), list[str]()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: read.append(page.text))
    with Simulation(app, store=store_url) as world:
        (page,) = brought(world, "a", expires=60)
        world.clock.advance(60)
        world.drain()
        app.replace(Page(id="a", text="new"))
        world.run_for(HOUR)
        assert (read, world.state(page).status) == (["new"], Status.PROCESSED)


def test_changed_content_of_a_document_that_waits_has_no_deadline_any_more(store_url: str) -> None:
    app, read = new_app(), list[str]()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: read.append(page.text))
    with Simulation(app, store=store_url) as world:
        changed, other = brought(world, "a", "b", expires=60)
        app.replace(Page(id="a", text="new"))
        world.clock.advance(60)
        world.drain()
        assert (read, world.state(changed).status) == (["new"], Status.PROCESSED)
        assert world.state(other).status == Status.DISCARDED
        assert world.store.counts()["reading"] == {"done": 1}


def test_content_that_changes_in_a_try_has_no_deadline_any_more(store_url: str) -> None:
    app, read = new_app(), list[str]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def handle(page: Page, work: Work) -> None:
        if not read:
            app.replace(Page(id="a", text="new"))
            world.clock.advance(60)
        read.append(page.text)

    with Simulation(app, store=store_url) as world:
        (page,) = brought(world, "a", expires=60)
        world.drain()
        assert (read, world.state(page).status) == (["", "new"], Status.PROCESSED)


def test_a_retry_of_changed_content_has_no_deadline(store_url: str) -> None:
    app, read = new_app(), list[str]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def handle(page: Page, work: Work) -> None:
        read.append(page.text)
        if len(read) < 3:
            raise ConnectionError("no answer")

    with Simulation(app, store=store_url) as world:
        (page,) = brought(world, "a", expires=8)
        world.drain()
        app.replace(Page(id="a", text="new"))
        world.run_for(MINUTE)  # the third try is 15 s after the first
        assert (read, world.state(page).status) == (["", "new", "new"], Status.PROCESSED)


# -- where it comes from


def test_an_emitted_event_has_a_deadline(store_url: str) -> None:
    app, counted = new_app(), list[str]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.add(Word(id=page.id))
        work.emit(WordsFound(word_ids=[page.id]), delay=30, expires=timedelta(seconds=60))

    app.service("counting", on=WordsFound, finishes=Word)(lambda word, work: counted.append(word.id))
    with Simulation(app, store=store_url) as world:
        brought(world, "a")
        world.drain()
        state = world.store.state(Word, "a")
        assert state is not None
        assert state.expires == world.clock.now() + 60
        world.clock.advance(61)
        world.drain()
        assert counted == []
        assert world.store.document_counts()["words"] == {"discarded": 1}


def test_the_deadline_counts_from_the_publication_in_a_callers_transaction(store_url: str) -> None:
    app, read = new_app(), list[str]()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: read.append(page.id))
    with Simulation(app, store=store_url) as world, connected(store_url) as connection:
        for id in ("late", "timeless"):
            brought(world, id, expires=60 if id == "late" else None, connection=connection)
        connection.commit()
        world.clock.advance(60)
        world.drain()
        assert read == ["timeless"]
        state = world.store.state(Page, "late")
        assert state is not None
        assert state.status == Status.DISCARDED


def test_an_event_that_waits_for_its_first_consumer_keeps_its_deadline(store_url: str) -> None:
    app, noticed = new_app(), list[str]()
    with Simulation(app, store=store_url) as world:
        app.publish(Noticed(what="late"), expires=60)
        world.clock.advance(61)
        app.service("listening", on=Noticed)(lambda event, work: noticed.append(event.what))
        world.store.subscribe(app.registry.subscriptions())
        world.drain()
        assert noticed == []
        assert world.store.counts()["listening"] == {"done": 1}


@pytest.mark.parametrize(("later", "expected"), ((None, None), (120, 120), (30, 60)))
def test_of_two_equal_events_the_later_deadline_counts(
    store_url: str, later: float | None, expected: float | None
) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with Simulation(app, store=store_url) as world:
        (page,) = brought(world, "a", expires=60)
        (again,) = app.publish(PagesFound.of(page), expires=later)
        assert again.duplicates == 1
        assert world.state(page).expires == (None if expected is None else world.clock.now() + expected)
        world.clock.advance(61)
        world.drain()
        done = expected is None or expected > 61
        assert world.state(page).status == (Status.PROCESSED if done else Status.DISCARDED)


def test_a_call_of_a_task_that_expired_says_so(store_url: str) -> None:
    app = new_app()

    @app.task
    def send(address: str) -> None:
        """Send a mail."""

    with Simulation(app, store=store_url) as world:
        call = send.options(expires=60).delay("anna@example.org")
        world.clock.advance(60)
        world.drain()
        with pytest.raises(CallFailed, match=r"expired: its deadline passed before it was begun; .* onward retry"):
            call.result(timeout=0)


def test_what_has_expired_was_not_discarded_by_an_operator() -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with Simulation(app) as world:
        late, cancelled = (brought(world, id, expires=60)[0] for id in "ab")
        app.cancel(Page, cancelled.id)
        world.clock.advance(60)
        world.drain()
        steps = NextSteps(world.store)
        said = [next_step_sentence(steps.of(world.state(one))) for one in (late, cancelled)]
        assert said[0][0] == "nothing: its deadline passed before a try"
        assert said[1][0] == "nothing: an operator discarded it"


@pytest.mark.parametrize(
    ("options", "problem"),
    (
        ({"expires": 0}, "more than 0, not 0"),
        ({"expires": -5.0}, r"more than 0, not -5\.0"),
        ({"expires": float("nan")}, "not nan"),
        ({"expires": float("inf")}, "not inf"),
        ({"expires": "soon"}, "not 'soon'"),
        ({"expires": True}, "not True"),
        ({"expires": 10**400}, "not 1000"),
        ({"delay": 10**400}, "a delay is a number of seconds, or a timedelta, not 1000"),
        ({"expires": timedelta(0)}, r"not 0\.0"),
        ({"expires": 60, "delay": 60}, "expires=60 is no later than delay=60"),
        ({"expires": 60, "delay": timedelta(minutes=1)}, "expires=60 is no later than delay=60"),
    ),
)
def test_a_deadline_that_makes_no_sense_is_refused(options: Any, problem: str) -> None:
    app = new_app()
    problems: list[str] = []

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        with pytest.raises(WorkMisused, match=problem):
            work.emit(Noticed(), **options)
        problems.append(page.id)

    with Simulation(app) as world:
        with pytest.raises(PublishRefused, match=problem):
            app.publish(Noticed(), **options)
        brought(world, "a")
        world.drain()
    assert problems == ["a"]
