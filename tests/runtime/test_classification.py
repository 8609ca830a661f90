"""What may pass and what is final: the usual judgement, and a service's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onward import Permanent, Status, Work, classify
from onward.retry import Classified, Kind
from onward.testing import Simulation
from tests.support.page_app import HOUR, HTTPError, Page, PagesFound, bring, new_app

FINAL: list[BaseException] = [
    Permanent("it is a photograph"),
    TypeError("no such argument"),
    KeyError("text"),
    AttributeError("NoneType"),
    AssertionError(),
    NotImplementedError(),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    HTTPError(404),
    HTTPError(410),
    ExceptionGroup("both", [TypeError(), KeyError()]),
]
PASSING: list[BaseException] = [
    ConnectionError(),
    TimeoutError(),
    ValueError("anything else"),
    RecursionError(),
    MemoryError(),
    HTTPError(408),
    HTTPError(429),
    HTTPError(500),
    HTTPError(503),
    HTTPError(401),
    ExceptionGroup("one of them may pass", [TypeError(), ConnectionError()]),
]


def name(error: BaseException) -> str:
    return f"{type(error).__name__} {getattr(error, 'status_code', '')}".strip()


@pytest.mark.parametrize("error", FINAL, ids=name)
def test_what_cannot_pass_is_given_up_at_once(error: BaseException) -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        raise error

    with Simulation(app, retry_job=False) as world:
        (page,) = bring(world, "a")
        assert world.run_for(HOUR) == 1
        (letter,) = world.dead_letters()
        assert letter.abandoned_reason == "non_retryable"
        assert world.status(page) == Status.FAILED, "nothing will try it again by itself"


@pytest.mark.parametrize("error", PASSING, ids=name)
def test_what_may_pass_is_tried_three_times(error: BaseException) -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        raise error

    with Simulation(app, retry_job=False) as world:
        (page,) = bring(world, "a")
        assert world.run_for(10 * HOUR) == 3
        assert world.dead_letters()[0].abandoned_reason == "max_attempts_exceeded"
        assert world.status(page) == Status.PENDING


def test_a_service_may_judge_for_itself() -> None:
    def judge(error: BaseException) -> Classified:
        return Classified(Kind.PERMANENT) if "for ever" in str(error) else classify(error)

    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, classify=judge)
    def read(page: Page, work: Work) -> None:
        raise ValueError("locked for ever" if page.id == "a" else "locked")

    with Simulation(app, retry_job=False) as world:
        locked, later = bring(world, "a", "b")
        world.run_for(HOUR)
        assert world.status(locked) == Status.FAILED
        assert world.status(later) == Status.PENDING


def fails(error: BaseException) -> Classified:
    raise RuntimeError("who am I to judge?") from error


def leaves(error: BaseException) -> Classified:
    raise SystemExit(1)


def shrugs(error: BaseException) -> Classified:
    return None  # type: ignore[return-value]  # what a careless classifier does


@pytest.mark.parametrize("careless", (fails, leaves, shrugs))
def test_a_classifier_that_fails_is_replaced_by_the_usual_one(
    careless: Callable[[BaseException], Any], caplog: pytest.LogCaptureFixture
) -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, classify=careless)
    def read(page: Page, work: Work) -> None:
        raise ValueError("cannot log in with password=hunter2")

    with Simulation(app, retry_job=False) as world:
        bring(world, "a")
        assert world.run_for(HOUR) == 3
        assert world.dead_letters()[0].error_type == "ValueError"
    assert "the classifier of service 'reading' failed; the usual one decides" in caplog.text
    assert "hunter2" not in caplog.text
