"""What is kept and told of every try: on the document, on the dead letter, to observers; never a secret."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

import pytest

from onward import Event, Exponential, RetryPolicy, Status, Unavailable, Work
from onward.runtime import outcomes
from onward.testing import Simulation
from tests.support.page_app import HOUR, HTTPError, Noticed, Page, PagesFound, bring, new_app


def test_of_many_failures_the_first_and_the_last_nineteen_are_kept() -> None:
    app = new_app()
    stubborn = RetryPolicy(Exponential(1.0, 1.0), max_tries=50)

    @app.service("reading", on=PagesFound, finishes=Page, policy=stubborn)
    def read(page: Page, work: Work) -> None:
        raise ValueError(f"failure number {work.try_number}")

    with Simulation(app, retry_job=False) as world:
        (page,) = bring(world, "a")
        world.run_for(HOUR)
        history = world.state(page).attempts
        assert history["total"] == 50
        assert history["first"]["message"] == "failure number 1"
        assert [one["message"] for one in history["last"]] == [f"failure number {n}" for n in range(32, 51)]
        (letter,) = world.dead_letters()
        assert [one["message"] for one in letter.errors] == [
            "failure number 1",
            *(f"failure number {n}" for n in range(32, 51)),
        ]
        assert len({one["fingerprint"] for one in letter.errors}) == 1, "numbers do not make a new kind of failure"


def test_each_outcome_says_when_who_and_what() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        if work.try_number == 1:
            raise ConnectionError("reset")

    with Simulation(app, retry_job=False) as world:
        began = world.clock.now()
        (page,) = bring(world, "a")
        world.run_for(HOUR)
        history = world.state(page).attempts
        failed, (finished,) = history["first"], history["last"]
        assert failed["outcome"] == "retried"
        assert (failed["error_type"], failed["message"]) == ("ConnectionError", "reset")
        assert (failed["worker"], failed["version"]) == ("simulation", app.version)
        assert (failed["round"], failed["try"], failed["at"]) == (1, 1, began)
        assert failed["fingerprint"]
        assert (finished["outcome"], finished["round"]) == ("processed", 1)
        assert world.state(page).status == Status.PROCESSED


SECRET = "hunter2-is-my-secret"


class ReadingFailed(Event):
    page_ids: list[str]
    error_message: str
    error_type: str
    retry_count: int
    failed_at: datetime


def test_secrets_are_redacted_wherever_an_error_goes(caplog: pytest.LogCaptureFixture) -> None:
    app, told = new_app(), list[str]()
    app.observe(lambda signal: told.append(repr(signal)))

    @app.service("reading", on=PagesFound, finishes=Page, needs="website")
    def read(page: Page, work: Work) -> None:
        try:
            raise ConnectionError(f"no route to https://me:{SECRET}@example.org/")
        except ConnectionError as error:
            raise HTTPError(401, token=SECRET) from error

    @app.service("writing", on=PagesFound, batch=None)
    def write(event: PagesFound, work: Work) -> None:
        raise ValueError(f"Authorization: Bearer {SECRET}", {"api_key": SECRET})

    @app.service("embedding", on=PagesFound, batch=None, needs="model")
    def embed(event: PagesFound, work: Work) -> None:
        raise Unavailable("model", f"the key token={SECRET} is refused", opens=True)

    @app.service("alerting", on=ReadingFailed)
    def alert(event: ReadingFailed, work: Work) -> None:
        told.append(event.model_dump_json())

    with caplog.at_level("DEBUG"), Simulation(app, retry_job=False) as world:
        (page,) = bring(world, "a")
        world.run_for(HOUR)
        everything = [
            caplog.text,
            *told,
            repr(world.state(page)),
            repr(world.dead_letters()),
            repr(world.store.breakers()),
            repr(world.store.openings()),
        ]
        assert world.dead_letters(), "there was something to be redacted"
        assert world.store.openings()
    assert not [text for text in everything if SECRET in text]


def test_an_observer_hears_of_everything_after_its_commit() -> None:
    app, told = new_app(), list[outcomes.AnySignal]()
    app.observe(told.append)

    @app.service("reading", on=PagesFound, finishes=Page, batch=2)
    def read(batch: Sequence[Page], work: Work) -> None:
        if batch[0].id == "bad":
            raise KeyError("ink")
        if work.try_number == 1:
            work.fail(batch[0], ConnectionError())

    with Simulation(app, retry_job=False) as world:
        bring(world, "a", "b")
        bring(world, "bad")
        world.run_for(HOUR)
    assert [(type(one).__name__, getattr(one, "ids", ())) for one in told] == [
        ("Finished", ("b",)),
        ("Retried", ("a",)),
        ("GaveUp", ("bad",)),
        ("Finished", ("a",)),
    ]
    gave_up = told[2]
    assert isinstance(gave_up, outcomes.GaveUp)
    assert (gave_up.reason, gave_up.error_type, gave_up.tries) == ("non_retryable", "KeyError", 1)


def test_a_work_that_comes_to_nothing_is_told_as_dropped() -> None:
    app, told = new_app(), list[outcomes.AnySignal]()
    app.observe(told.append)

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        if page.text == "":
            app.replace(Page(id="a", text="changed"))

    with Simulation(app, retry_job=False) as world:
        bring(world, "a")
        world.drain()
    assert [type(one).__name__ for one in told] == ["Dropped", "Finished"]


def test_an_observer_that_fails_fails_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    app, told = new_app(), list[outcomes.AnySignal]()

    def careless(signal: outcomes.AnySignal) -> None:
        raise ValueError(f"password={SECRET}")

    app.observe(careless)
    app.observe(told.append)
    app.service("listening", on=Noticed)(lambda event, work: None)
    with Simulation(app, retry_job=False) as world:
        app.publish(Noticed())
        world.drain()
        assert world.store.counts() == {"listening": {"done": 1}}
    assert len(told) == 1
    assert "an observer failed on Finished" in caplog.text
    assert SECRET not in caplog.text


def test_an_exception_that_cannot_be_shown_is_still_a_failure() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise SystemExit("I will not say")

        @property
        def dependency(self) -> object:
            raise RuntimeError

    class Talkative(Exception):
        dependency = object()

    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        raise Unspeakable if page.id == "a" else Talkative("at length")

    with Simulation(app, retry_job=False) as world:
        bring(world, "a", "b")
        world.run_for(HOUR)
        errors = sorted(letter.last_error for letter in world.dead_letters())
        assert errors == ["Unspeakable cannot be described: SystemExit", "at length"]
        assert json.dumps([letter.errors for letter in world.dead_letters()]), "it can be written down"
