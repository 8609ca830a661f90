"""What the retry job decides: a table, of which the first match counts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from onward.model.documents import DocumentState
from onward.recovery.retry_decision import RetryAction, RetryJobRules, decide
from onward.retry import Ladder
from onward.settings import Settings

NOW = 1_800_000_000.0
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
ERROR = {"error_type": "ValueError", "message": "no", "round": 1}
RULES = RetryJobRules()


def state(collection: str = "archives", **given: Any) -> DocumentState:
    fields: dict[str, Any] = {"status": "pending", "round": 1, "created_at": NOW - 30 * DAY}
    return DocumentState(collection, "a", **(fields | given))


def failed(rounds: int, ago: float, collection: str = "archives") -> DocumentState:
    return state(collection, attempt_count=rounds, last_attempt_time=NOW - ago, last_error=ERROR)


TABLE = [
    ("a live row comes first", failed(9, DAY), {"live": True}, RetryAction.NOT_NOW, None),
    ("then an outage", failed(9, DAY), {"down": "embedder"}, RetryAction.NOT_NOW, 120.0),
    ("an operator's time has come", state(retry_at=NOW - 1, attempt_count=9), {}, RetryAction.DUE, None),
    ("an operator's time is to come", state(retry_at=NOW + HOUR), {}, RetryAction.LATER, HOUR),
    (
        "an operator's time counts for what failed",
        state(status="failed", retry_at=NOW - 1),
        {},
        RetryAction.DUE,
        None,
    ),
    (
        "an operator's time counts in a failed batch",
        state(failed_batch="b", retry_at=NOW - 1),
        {},
        RetryAction.DUE,
        None,
    ),
    ("a failed batch is retried as one", state(failed_batch="b", attempt_count=9), {}, RetryAction.NOT_NOW, None),
    ("what is final stays so", state(status="failed_max_retries"), {}, RetryAction.NOT_NOW, None),
    ("the deadline has passed", replace(failed(1, HOUR), expires=NOW), {}, RetryAction.EXHAUSTED, None),
    ("it is before the next round", replace(failed(1, 1.0), expires=NOW + 299), {}, RetryAction.EXHAUSTED, None),
    ("it is after the next round", replace(failed(1, 0.0), expires=NOW + 301), {}, RetryAction.LATER, 300.0),
    ("all rounds have failed", failed(3, 1.0), {}, RetryAction.EXHAUSTED, None),
    ("more rounds than there are", failed(7, 1.0), {}, RetryAction.EXHAUSTED, None),
    ("a chunk has more rounds", failed(3, HOUR, "chunks"), {}, RetryAction.DUE, None),
    ("so have others", failed(4, HOUR, "orders"), {}, RetryAction.DUE, None),
    ("but not for ever", failed(5, 1.0, "orders"), {}, RetryAction.EXHAUSTED, None),
    (
        "the last round is silent, but not for long",
        state(attempt_count=3, last_attempt_time=NOW - HOUR),
        {},
        RetryAction.LATER,
        23 * HOUR,
    ),
    (
        "the last round is silent",
        state(attempt_count=3, last_attempt_time=NOW - DAY),
        {},
        RetryAction.EXHAUSTED,
        None,
    ),
    ("no time counts as long ago", state(attempt_count=3), {}, RetryAction.EXHAUSTED, None),
    ("after one round 5 minutes", failed(1, 4 * MINUTE), {}, RetryAction.LATER, MINUTE),
    ("5 minutes have passed", failed(1, 5 * MINUTE), {}, RetryAction.DUE, None),
    ("after two rounds 10 minutes", failed(2, 5 * MINUTE), {}, RetryAction.LATER, 5 * MINUTE),
    ("after three 20", failed(3, 0.0, "chunks"), {}, RetryAction.LATER, 20 * MINUTE),
    ("after four 40", failed(4, 0.0, "chunks"), {}, RetryAction.LATER, 40 * MINUTE),
    (
        "an error of an earlier round says nothing of this one",
        state(attempt_count=2, round=2, last_attempt_time=NOW - HOUR, last_error=ERROR),
        {},
        RetryAction.LATER,
        23 * HOUR,
    ),
    ("begun and silent for a day", state(attempt_count=1, last_attempt_time=NOW - DAY), {}, RetryAction.DUE, None),
    ("begun, and nobody knows when", state(attempt_count=1), {}, RetryAction.DUE, None),
    ("processing is understood", state(status="processing", attempt_count=1), {}, RetryAction.DUE, None),
    ("replaced since its last round", state(created_at=NOW - MINUTE), {}, RetryAction.DUE, None),
    ("never begun, and new", state(round=0, created_at=NOW - MINUTE), {}, RetryAction.LATER, 14 * MINUTE),
    ("never begun for an interval", state(round=0, created_at=NOW - 15 * MINUTE), {}, RetryAction.DUE, None),
    ("never begun, and nobody knows since when", state(round=0, created_at=None), {}, RetryAction.DUE, None),
]


@pytest.mark.parametrize(
    ("given", "about", "next", "wait"), [case[1:] for case in TABLE], ids=[case[0] for case in TABLE]
)
def test_the_first_match_counts(given: DocumentState, about: Any, next: RetryAction, wait: float | None) -> None:
    decision = decide(given, RULES, NOW, **about)
    assert (decision.action, decision.problems) == (next, ())
    assert decision.why
    if wait is not None:
        assert decision.at - NOW == pytest.approx(wait)


ODD = [
    ("a naive time is in UTC", {"last_attempt_time": "2027-01-15T07:59:00"}, RetryAction.LATER, False),
    ("a time with its zone", {"last_attempt_time": "2027-01-15T09:59:00+02:00"}, RetryAction.LATER, False),
    ("text that is no time", {"last_attempt_time": "yesterday"}, RetryAction.DUE, True),
    ("a truth value", {"last_attempt_time": True}, RetryAction.DUE, True),
    ("no number at all", {"last_attempt_time": math.nan}, RetryAction.DUE, True),
    ("a time in the future", {"last_attempt_time": NOW + 2 * DAY}, RetryAction.DUE, True),
    ("a clock that is a little ahead", {"last_attempt_time": NOW + 2.0}, RetryAction.LATER, False),
    ("a negative count", {"attempt_count": -4, "last_attempt_time": NOW - HOUR}, RetryAction.DUE, True),
    ("no count", {"attempt_count": None}, RetryAction.DUE, True),
    ("a count that is text", {"attempt_count": "two"}, RetryAction.DUE, True),
    ("an error that does not say which round", {"last_error": {"message": "no"}}, RetryAction.DUE, False),
]


@pytest.mark.parametrize(("given", "next", "odd"), [case[1:] for case in ODD], ids=[case[0] for case in ODD])
def test_what_others_write_is_understood_as_well_as_can_be(
    given: dict[str, Any], next: RetryAction, odd: bool
) -> None:
    fields: dict[str, Any] = {"attempt_count": 1, "last_error": ERROR} | given
    decision = decide(state(**fields), RULES, NOW)
    assert decision.action is next
    assert bool(decision.problems) is odd


def test_an_unknown_status_is_named_and_left_alone() -> None:
    decision = decide(state(status="waiting for Godot"), RULES, NOW)
    assert decision.action is RetryAction.ODD
    assert "waiting for Godot" in decision.problems[0]
    assert decision.at > NOW


def test_the_settings_set_the_numbers() -> None:
    settings = Settings(
        retry_job_interval_seconds=60,
        retry_job_base_delay_seconds=10,
        retry_job_max_delay_seconds=30,
        retry_job_stuck_threshold_hours=1,
        retry_job_max_attempts_archives=2,
    )
    rules = RetryJobRules.of(settings, [])
    assert (rules.interval, rules.stuck_after("archives")) == (60.0, HOUR)
    assert [rules.backoff("archives", rounds) for rounds in range(5)] == [0.0, 10.0, 20.0, 30.0, 30.0]
    assert decide(failed(2, 1.0), rules, NOW).action is RetryAction.EXHAUSTED


def test_backoff_is_5_10_20_40_60_minutes() -> None:
    assert [RULES.backoff("archives", rounds) / MINUTE for rounds in (1, 2, 3, 4, 5, 50)] == [
        5,
        10,
        20,
        40,
        60,
        60,
    ]
    assert RetryJobRules(Ladder()) == RULES
