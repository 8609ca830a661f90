"""Rung 2: what may pass is tried again after 5 and 10 seconds; then it is a dead letter."""

from __future__ import annotations

import logging
from datetime import datetime

import pytest

from onward import Event, Exponential, RetryPolicy, Status, Work, names
from onward.retry.iso_time import iso_time
from onward.testing import Simulation
from tests.support.page_app import HOUR, MINUTE, HTTPError, Noticed, Page, PagesFound, bring, new_app


class ReadingFailed(Event):
    page_ids: list[str] = names(Page)
    error_message: str
    error_type: str
    retry_count: int
    failed_at: datetime


class PageSeen(Event):
    page_id: str = names(Page)


class SeeingFailed(Event):
    page_id: str = names(Page)
    error_message: str
    error_type: str
    retry_count: int
    failed_at: str


def test_it_is_tried_after_five_and_ten_seconds() -> None:
    app, times = new_app(), list[float]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        times.append(round(world.clock.now() - began))
        raise ConnectionError("reset by peer")

    with Simulation(app, retry_job=False) as world:
        began = world.clock.now()
        (page,) = bring(world, "a")
        world.run_for(HOUR)
        assert times == [0, 5, 15]
        (letter,) = world.dead_letters("reading")
        assert letter.abandoned_reason == "max_attempts_exceeded"
        assert letter.attempt_count == 3
        assert letter.failed_queue == "reading.failed"
        assert (letter.original_event or {})["data"] == {"page_ids": ["a"], "found_by": ""}
        assert letter.documents == (("pages", "a"),)
        state = world.state(page)
        assert state.status == Status.PENDING, "the retry job will begin another round"
        assert state.attempt_count == 1
        assert state.dead_letter == letter.row
        assert state.last_error is not None
        assert state.last_error["message"] == "reset by peer"
        assert state.last_error["error_type"] == "ConnectionError"


def test_a_success_on_the_way_leaves_no_dead_letter() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        if work.try_number < 3:
            raise ConnectionError

    with Simulation(app, retry_job=False) as world:
        (page,) = bring(world, "a")
        assert world.run_for(HOUR) == 3
        state = world.state(page)
        assert (state.status, state.last_error) == (Status.PROCESSED, None)
        assert world.dead_letters() == []


def test_a_requeued_dead_letter_that_heals_is_closed() -> None:
    app, broken = new_app(), [True]

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        if broken[0]:
            raise ConnectionError

    with Simulation(app, retry_job=False) as world:
        (page,) = bring(world, "a")
        world.run_for(HOUR)
        broken[0] = False
        assert world.store.requeue(world.dead_letters()[0].row)
        world.drain()
        assert world.dead_letters() == []
        assert world.state(page).attempt_count == 2, "a requeue is a new round"


def test_giving_up_is_announced_to_whoever_wants_to_know() -> None:
    app, told = new_app(), list[ReadingFailed]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        raise ConnectionError("reset by peer")

    @app.service("alerting", on=ReadingFailed)
    def alert(event: ReadingFailed, work: Work) -> None:
        told.append(event)

    with Simulation(app, retry_job=False) as world:
        began = world.clock.now()
        bring(world, "a")
        world.run_for(HOUR)
        (notice,) = told
        assert notice.page_ids == ["a"]
        assert (notice.error_type, notice.error_message) == ("ConnectionError", "reset by peer")
        assert notice.retry_count == 3
        assert round(notice.failed_at.timestamp() - began) == 15


def test_the_notice_names_documents_as_the_event_did() -> None:
    app, told = new_app(), list[SeeingFailed]()

    @app.service("seeing", on=PageSeen, finishes=Page)
    def see(page: Page, work: Work) -> None:
        raise KeyError("eyes")

    @app.service("alerting", on=SeeingFailed)
    def alert(event: SeeingFailed, work: Work) -> None:
        told.append(event)

    with Simulation(app, retry_job=False) as world:
        page = Page(id="a")
        app.publish(PageSeen.of(page), documents=[page])
        world.drain()
        assert [(one.page_id, one.retry_count) for one in told] == [("a", 1)]
        assert told[0].failed_at == iso_time(world.clock.now()), "ISO 8601, in UTC"


def test_a_notice_nobody_wants_is_not_kept() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        raise ConnectionError

    with Simulation(app, retry_job=False) as world:
        bring(world, "a")
        world.run_for(HOUR)
        assert world.store.counts() == {"reading": {"dead": 1}}


@pytest.mark.parametrize(
    ("asked", "waited"),
    (("7", 7), ("0", 0), ("86400", 3600), ("soon", 5)),
    ids=["wins", "zero", "clamped", "vague"],
)
def test_what_the_server_asks_for_wins(asked: str, waited: float) -> None:
    app, times = new_app(), list[float]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        times.append(round(world.clock.now() - began))
        if len(times) == 1:
            raise HTTPError(503, Retry_After=asked)

    with Simulation(app, retry_job=False) as world:
        began = world.clock.now()
        bring(world, "a")
        world.run_for(2 * HOUR)
        assert times == [0, waited]


def test_an_own_policy_replaces_the_rung() -> None:
    app, times = new_app(), list[float]()
    patient = RetryPolicy(Exponential(MINUTE, 1.0), max_tries=4)

    @app.service("reading", on=PagesFound, finishes=Page, policy=patient)
    def read(page: Page, work: Work) -> None:
        times.append(round(world.clock.now() - began))
        raise ConnectionError

    with Simulation(app, retry_job=False) as world:
        began = world.clock.now()
        bring(world, "a")
        world.run_for(HOUR)
        assert times == [0, 60, 120, 180]
        assert world.dead_letters()[0].attempt_count == 4


def test_an_own_policy_that_fails_is_replaced_by_the_usual_one(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def delay(self, n: int, random: object) -> float:
            if n == 1:
                raise ZeroDivisionError
            return float("nan")

        def bounds(self, n: int) -> tuple[float, float]:
            return 0.0, 0.0

    app, times = new_app(), list[float]()

    @app.service("reading", on=PagesFound, finishes=Page, policy=RetryPolicy(Broken()))
    def read(page: Page, work: Work) -> None:
        times.append(round(world.clock.now() - began))
        raise ConnectionError

    with Simulation(app, retry_job=False) as world:
        began = world.clock.now()
        bring(world, "a")
        world.run_for(HOUR)
        assert times == [0, 5, 15]
        problems = [record.getMessage() for record in caplog.records if "policy" in record.getMessage()]
        assert problems[0] == "the policy of service 'reading' failed (ZeroDivisionError); the usual one decides"
        assert problems[1] == "the policy of service 'reading' failed (a wait of nan s); the usual one decides"


def test_the_log_speaks_up_as_it_gets_serious(caplog: pytest.LogCaptureFixture) -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        raise ConnectionError("reset by peer")

    with caplog.at_level(logging.DEBUG, "onward"), Simulation(app, retry_job=False) as world:
        bring(world, "a")
        world.run_for(HOUR)
        (letter,) = world.dead_letters()
    key = letter.idempotency_key
    said = [(record.levelname, record.getMessage()) for record in caplog.records if record.levelno > logging.DEBUG]
    first, second, third = said
    problem = f"key {key}: ConnectionError: reset by peer"
    assert first == ("INFO", f"reading: a failed, try 1 of 3, again in 5.0 s, {problem}")
    assert second == ("WARNING", f"reading: a failed, try 2 of 3, again in 10.0 s, for the last time, {problem}")
    assert third[0] == "ERROR"
    assert third[1].startswith(f"reading: a given up (max_attempts_exceeded) at try 3 of 3, {problem}\n")
    assert 'raise ConnectionError("reset by peer")' in third[1], "with its traceback"


def test_an_event_without_documents_is_retried_alike(caplog: pytest.LogCaptureFixture) -> None:
    app = new_app()

    @app.service("listening", on=Noticed)
    def listen(event: Noticed, work: Work) -> None:
        raise OSError("no ears")

    with Simulation(app, retry_job=False) as world:
        app.publish(Noticed(what="rain"))
        assert world.run_for(HOUR) == 3
        (letter,) = world.dead_letters()
        assert (letter.service_name, letter.documents) == ("listening", ())
        assert "listening: event given up" in caplog.text


def test_a_handler_that_takes_too_long_has_failed() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, time_limit=30)
    def read(page: Page, work: Work) -> None:
        world.clock.advance(31)

    with Simulation(app, retry_job=False) as world:
        bring(world, "a")
        world.run_for(HOUR)
        (letter,) = world.dead_letters()
        assert letter.error_type == "HandlerTimeout"
        assert letter.last_error == "service 'reading', document pages/a took longer than its time limit of 30 s"


def test_what_is_given_up_before_any_call_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with Simulation(app, retry_job=False) as world:
        app.publish(PagesFound(page_ids=["never"]))
        world.run_for(HOUR)
        key = world.dead_letters()[0].idempotency_key
    warning, error = caplog.records
    assert ": never failed, try 8 of 9, again in " in warning.getMessage()
    assert warning.getMessage().endswith(f"for the last time, key {key}: NotReady: pages not found: never")
    assert error.getMessage().startswith(
        f"reading: never given up (max_attempts_exceeded) at try 9 of 9, key {key}"
    )
