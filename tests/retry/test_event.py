"""One event, handled in place: the race is waited out, all else becomes a dead letter."""

from __future__ import annotations

import logging
from random import Random
from typing import Any

import pytest

from onward import App, Settings
from onward.compat import DocumentNotFoundError, RetryConfig, handle_event_with_retry
from onward.retry import Malformed
from onward.runtime.metrics import Counted, Metrics
from tests.retry.fake_time import FakeTime

EVENT = {"event_type": "JSONParsed", "data": {"message_doc_ids": ["m1"]}}


class LongestWaits(Random):
    def random(self) -> float:
        return 1.0


class Service:
    """Handles events on a fake clock and keeps its dead letters."""

    def __init__(self, *errors: Exception) -> None:
        self.time = FakeTime(now=1_768_626_000.0)
        self.errors = list(errors)
        self.random = Random(1)
        self.dead_letters: list[dict[str, Any]] = []

    def handle(self, event: dict[str, Any]) -> None:
        if self.errors:
            raise self.errors.pop(0)

    def receive(self, config: RetryConfig | None = None, metrics: Metrics | None = None) -> bool:
        return handle_event_with_retry(
            self.handle,
            EVENT,
            config=config,
            idempotency_key="chunking-m1",
            service_name="chunking",
            dead_letter=self.dead_letters.append,
            metrics_collector=metrics,
            clock=self.time.clock,
            sleep=self.time.sleep,
            random=self.random,
        )


def test_an_event_that_came_too_early_is_handled_a_little_later() -> None:
    service = Service(DocumentNotFoundError("no m1"), DocumentNotFoundError("no m1"))
    assert service.receive() is True
    assert len(service.time.slept) == 2
    assert service.dead_letters == []


def test_after_eight_retries_it_is_a_dead_letter() -> None:
    service = Service(*[DocumentNotFoundError("no m1") for _ in range(99)])
    assert service.receive() is False
    [letter] = service.dead_letters
    assert letter["original_event"] is EVENT
    assert letter["idempotency_key"] == "chunking-m1"
    assert letter["attempt_count"] == 9
    assert letter["last_error"] == "NotReady: no m1"
    assert letter["error_type"] == "NotReady"
    assert letter["abandoned_reason"] == "max_attempts_exceeded"
    assert letter["service_name"] == "chunking"
    assert letter["timestamp"].startswith("2026-01-17T05:00:")
    assert letter["timestamp"].endswith("Z")
    assert len(letter["errors"]) == 9
    assert len(service.time.slept) == 8


def test_its_time_to_live_ends_it_too() -> None:
    service = Service(*[DocumentNotFoundError() for _ in range(99)])
    service.receive(RetryConfig(max_attempts=99, base_delay_ms=60_000, ttl_minutes=5))
    [letter] = service.dead_letters
    assert letter["abandoned_reason"] == "ttl_exceeded"
    assert sum(service.time.slept) <= 300


@pytest.mark.parametrize(
    ("error", "reason"),
    (
        (TypeError("a bug"), "non_retryable"),
        (ConnectionError("down"), "non_retryable"),
        (Malformed("no such field"), "malformed"),
    ),
)
def test_any_other_error_is_final_at_once(error: Exception, reason: str) -> None:
    service = Service(error)
    assert service.receive() is False
    [letter] = service.dead_letters
    assert (letter["abandoned_reason"], letter["attempt_count"]) == (reason, 1)
    assert service.time.slept == []


def test_without_a_place_for_dead_letters_the_error_is_raised() -> None:
    service = Service(TypeError("a bug"))
    with pytest.raises(TypeError, match="a bug"):
        handle_event_with_retry(service.handle, EVENT, idempotency_key="k", service_name="chunking")


def test_of_many_errors_the_first_and_the_latest_are_kept() -> None:
    service = Service(*[DocumentNotFoundError(str(n)) for n in range(1, 41)])
    service.receive(RetryConfig(max_attempts=39, base_delay_ms=1, ttl_minutes=9999))
    [letter] = service.dead_letters
    kept = [error["error"].removeprefix("NotReady: ") for error in letter["errors"]]
    assert kept == ["1", *(str(n) for n in range(22, 41))]


def test_levels_rise_as_patience_ends_and_secrets_stay_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "onward.retry")
    service = Service(*[DocumentNotFoundError("password=hunter2") for _ in range(3)])
    service.receive(RetryConfig(max_attempts=2))
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "ERROR"]
    assert "Traceback" in caplog.text
    assert "password=***" in caplog.text
    assert "password=***" in service.dead_letters[0]["last_error"]
    assert "hunter2" not in caplog.text + str(service.dead_letters)


def test_each_line_has_the_number_of_the_try_and_the_key(caplog: pytest.LogCaptureFixture) -> None:
    """The example of the event-retry design: done after three retries, 1.75 s after the first try."""
    caplog.set_level(logging.DEBUG, "onward.retry")
    service = Service(*[DocumentNotFoundError("no m1")] * 3)
    service.random = LongestWaits()  # 250 ms, 500 ms, 1 s
    assert service.receive()
    starts = [message for message in caplog.messages if message.endswith("begins")]
    assert starts == [f"chunking: try {n} of event chunking-m1 begins" for n in (1, 2, 3, 4)]
    *_, third, done = [one for one in caplog.records if one.levelno == logging.INFO]
    assert third.getMessage() == "chunking: event chunking-m1 failed, try 3 of 9, again in 1 s: NotReady: no m1"
    ended = "chunking: event chunking-m1 processed after 4 tries, 1.75 s after the first failure"
    assert done.getMessage() == ended
    fields = {"service": "chunking", "idempotency_key": "chunking-m1", "attempts": 4, "latency_seconds": 1.75}
    assert vars(done)["onward"] == fields


# -- metrics


def test_a_success_after_retries_is_measured() -> None:
    metrics, service = Metrics(), Service(*[DocumentNotFoundError("no m1")] * 2)
    service.random = LongestWaits()
    service.receive(metrics=metrics)
    counted = metrics.counted()
    labels = (("attempt", "3"), ("service", "chunking"))
    assert counted.counters == {("event_retry_success_total", labels): 1}
    assert sums(counted) == {"event_retry_attempt_count": 3, "event_retry_latency_seconds": 0.75}


def test_a_plain_success_counts_its_one_try() -> None:
    metrics = Metrics()
    Service().receive(metrics=metrics)
    assert (metrics.counted().counters, sums(metrics.counted())) == ({}, {"event_retry_attempt_count": 1})


@pytest.mark.parametrize(
    ("error", "reason", "tries"),
    ((DocumentNotFoundError(), "max_attempts_exceeded", 9), (TypeError("a bug"), "non_retryable", 1)),
)
def test_a_dead_letter_is_measured_with_its_reason(error: Exception, reason: str, tries: int) -> None:
    metrics, service = Metrics(), Service(*[error] * 99)
    service.receive(metrics=metrics)
    labels = (("reason", reason), ("service", "chunking"))
    assert metrics.counted().counters == {("event_retry_dlq_total", labels): 1}
    assert sums(metrics.counted()) == {"event_retry_attempt_count": tries}


def test_the_metrics_of_an_app_take_them() -> None:
    app = App(settings=Settings())
    assert Service(DocumentNotFoundError("no m1")).receive(metrics=app.metrics)
    assert sums(app.metrics.counted())["event_retry_attempt_count"] == 2


class BrokenCollector(Metrics):
    def observe(self, name: str, value: float, /, **labels: str) -> None:
        raise OSError("no room")


def test_a_collector_that_fails_does_not_fail_the_event(caplog: pytest.LogCaptureFixture) -> None:
    assert Service().receive(metrics=BrokenCollector()) is True
    assert "the metrics collector failed: OSError: no room" in caplog.text


def sums(counted: Counted) -> dict[str, float]:
    return {name: round(seen.sum, 6) for (name, labels), seen in counted.histograms.items() if labels}


# -- settings


def test_the_numbers_come_from_the_environment() -> None:
    assert RetryConfig.from_env({}) == RetryConfig(8, 250, 2.0, 60, 30)
    environ = {"RETRY_MAX_ATTEMPTS": "3", "RETRY_BASE_DELAY_MS": "10", "RETRY_BACKOFF_FACTOR": "1.5"}
    environ |= {"RETRY_MAX_DELAY_SECONDS": "9", "RETRY_TTL_MINUTES": "0.5"}
    assert RetryConfig.from_env(environ) == RetryConfig(3, 10, 1.5, 9, 0.5)


@pytest.mark.parametrize("value", ("eight", "2.5"))
def test_a_number_that_is_none_is_refused_by_the_name_of_its_variable(value: str) -> None:
    with pytest.raises(ValueError, match=rf"RETRY_MAX_ATTEMPTS is '{value}', but must be a whole number"):
        RetryConfig.from_env({"RETRY_MAX_ATTEMPTS": value})


def test_no_time_to_live_means_one_try() -> None:
    config = RetryConfig.from_env({"RETRY_TTL_MINUTES": "0"})
    service = Service(DocumentNotFoundError("no m1"))
    assert service.receive(config) is False
    [letter] = service.dead_letters
    assert (letter["attempt_count"], letter["abandoned_reason"]) == (1, "ttl_exceeded")
    assert service.time.slept == []


def test_a_negative_number_of_retries_is_refused() -> None:
    with pytest.raises(ValueError, match="max_attempts=-1"):
        RetryConfig(max_attempts=-1)
