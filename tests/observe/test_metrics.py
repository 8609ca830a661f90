"""Counting: cheap, bounded, and never in the way of the work."""

from __future__ import annotations

import pickle
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from onward import App, Settings
from onward.model.ledger import OutgoingEvents
from onward.model.metric_catalogue import CATALOGUE
from onward.observe.prometheus import ProcessCollector, StoreCollector
from onward.runtime.metrics import LONGEST_VALUE, MOST_SERIES, Counted, Metrics, NoMetrics
from tests.support.store_pages import Clock, Stage


def exposed(metrics: Metrics) -> list[str]:
    registry = CollectorRegistry()
    registry.register(ProcessCollector(metrics))
    return generate_latest(registry).decode().splitlines()


def test_what_is_counted_is_told_in_the_words_of_prometheus() -> None:
    metrics = Metrics()
    metrics.increment("letters_total", box="a")
    metrics.increment("letters_total", 2, box="a")
    metrics.gauge("boxes", 7)
    metrics.observe("waiting_seconds", 0.3, box="a")
    metrics.observe("waiting_seconds", 10_000, box="a")
    lines = exposed(metrics)
    assert "# TYPE letters_total counter" in lines
    assert 'letters_total{box="a"} 3.0' in lines
    assert "boxes 7.0" in lines
    assert 'waiting_seconds_bucket{box="a",le="0.25"} 0.0' in lines
    assert 'waiting_seconds_bucket{box="a",le="0.5"} 1.0' in lines
    assert 'waiting_seconds_bucket{box="a",le="+Inf"} 2.0' in lines
    assert 'waiting_seconds_sum{box="a"} 10000.3' in lines
    assert 'waiting_seconds_count{box="a"} 2.0' in lines


def test_a_value_on_a_limit_belongs_to_the_bucket_below() -> None:
    metrics = Metrics()
    metrics.observe("waiting_seconds", 0.25)
    assert 'waiting_seconds_bucket{le="0.25"} 1.0' in exposed(metrics)


def test_what_another_process_counted_is_added() -> None:
    here, there = Metrics(), Metrics()
    for metrics in (here, there):
        metrics.increment("letters_total", 2)
        metrics.observe("waiting_seconds", 1.0)
    here.add(pickle.loads(pickle.dumps(there.take())))
    assert not there.take(), "it was handed on"
    assert {"letters_total 4.0", "waiting_seconds_count 2.0"} <= set(exposed(here))


def test_a_gauge_keeps_its_last_word_when_the_counts_are_taken() -> None:
    metrics = Metrics()
    metrics.gauge("boxes", 3)
    metrics.take()
    assert "boxes 3.0" in exposed(metrics)


def test_label_values_are_bounded() -> None:
    metrics = Metrics()
    for number in range(MOST_SERIES + 50):
        metrics.increment("letters_total", writer=f"writer {number}")
    lines = [line for line in exposed(metrics) if line.startswith("letters_total{")]
    assert len(lines) == MOST_SERIES + 1
    assert 'letters_total{writer="other"} 50.0' in lines


def test_values_that_are_cut_to_the_same_are_not_kept_one_by_one() -> None:
    metrics = Metrics()
    tracemalloc.start()
    try:
        for number in range(MOST_SERIES * 20):
            metrics.increment("letters_total", writer="x" * 1_000 + str(number))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < MOST_SERIES * 20 * 1_000 / 2, "in bytes"
    assert [line for line in exposed(metrics) if line.startswith("letters_total{")] == [
        f'letters_total{{writer="{"x" * LONGEST_VALUE}"}} {MOST_SERIES * 20}.0'
    ]


def test_a_label_is_cut_short() -> None:
    metrics = Metrics()
    metrics.increment("letters_total", writer="x" * 10_000)
    assert max(map(len, exposed(metrics))) < 300


@pytest.mark.parametrize(
    ("name", "value", "labels"),
    (
        ("with blank", 1.0, {}),
        ("letters_total", float("nan"), {}),
        ("letters_total", -1.0, {}),
        ("letters_total", "many", {}),
        ("letters_total", 1.0, {"__name__": "x"}),
        (7, 1.0, {}),
    ),
)
def test_what_makes_no_sense_is_said_once_and_left_out(
    name: Any, value: Any, labels: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    metrics = Metrics()
    for _ in range(3):
        metrics.increment(name, value, **labels)
    assert not metrics.counted().counters
    assert len(caplog.records) == 1


def test_a_name_has_one_kind() -> None:
    metrics = Metrics()
    metrics.increment("letters_total")
    metrics.gauge("letters_total", 5)
    metrics.observe("letters_total", 5)
    counted = metrics.counted()
    assert len(counted.counters) == 1
    assert not counted.gauges
    assert not counted.histograms


def test_a_name_has_the_same_labels_every_time() -> None:
    metrics = Metrics()
    metrics.increment("letters_total", box="a")
    metrics.increment("letters_total", 5)
    metrics.increment("letters_total", 5, name="box", by="me")
    assert metrics.counted().counters == {("letters_total", (("box", "a"),)): 1.0}


def test_what_is_onwards_own_cannot_be_said_by_others(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    metrics.gauge("workers_alive", 99)
    metrics.increment("failures_total", kind="mine")
    metrics.increment("failures_total", service="reading", error_type="KeyError")
    metrics.observe("letter_words", 5, le="7")
    counted = metrics.counted()
    assert not counted.gauges
    assert not counted.histograms
    assert [labels for _, labels in counted.counters] == [(("error_type", "KeyError"), ("service", "reading"))]
    assert len(caplog.records) == 3


def test_secrets_in_labels_are_hidden() -> None:
    metrics = Metrics()
    for _ in range(2):
        metrics.increment("letters_total", source="https://user:hunter2@example.org/")
    assert metrics.counted().counters == {("letters_total", (("source", "https://user:***@example.org/"),)): 2.0}


def test_nothing_is_lost_between_threads() -> None:
    metrics, taken = Metrics(), Metrics()

    def count() -> None:
        for _ in range(2000):
            metrics.increment("letters_total")
            metrics.observe("waiting_seconds", 1.0)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        taken.add(metrics.take())
    taken.add(metrics.take())
    assert taken.counted().counters == {("letters_total", ()): 8000.0}
    assert sum(taken.counted().histograms[("waiting_seconds", ())].counts) == 8000


def test_switched_off_it_counts_nothing() -> None:
    metrics = NoMetrics()
    metrics.increment("letters_total")
    metrics.gauge("boxes", 1)
    metrics.observe("waiting_seconds", 1)
    assert metrics.counted() == Counted()


def test_every_name_that_others_rely_on_is_there_with_its_kind_and_labels() -> None:
    """The names are promised: an alert or a dashboard that uses one must go on finding it."""
    promised = {
        "counter": """retry_job_documents_requeued_total{collection}
            retry_job_documents_skipped_backoff_total{collection}
            retry_job_documents_max_retries_exceeded_total{collection} retry_job_runs_total{status}
            retry_job_errors_total{error_type} event_retry_success_total{service,attempt}
            event_retry_dlq_total{service,reason} event_duplicates_total{service} events_processed_total{service}
            events_expired_total{service}
            failures_total{service,error_type} chunks_created_total failure_group_regressions_total{service}""",
        "gauge": """retry_job_stuck_documents{collection} retry_job_failed_documents{collection}
            retry_job_last_success_timestamp_seconds queue_depth{queue} queue_oldest_seconds{queue}
            failed_queue_messages{queue} failed_batches{project} failed_batches_persistent
            failed_batches_by_retries{retries} breaker_open{dependency}
                breaker_failing_seconds{dependency} breaker_openings{dependency}
            workers_alive outbox_lag_seconds disk_free_bytes documents{collection,status}""",
        "histogram": """retry_job_duration_seconds event_retry_latency_seconds{service}
            event_retry_attempt_count{service} processing_duration_seconds{service} chunk_size_tokens
            failed_batch_retries failed_batch_recovery_seconds""",
    }
    known = {
        (one.kind, f"{one.name}{{{','.join(one.labels)}}}" if one.labels else one.name)
        for one in CATALOGUE.values()
    }
    assert known == {(kind, name) for kind, names in promised.items() for name in names.split()}


def test_the_outbox_lags_as_long_as_its_oldest_event_has_waited(tmp_path: Path) -> None:
    app = App(settings=Settings(home=tmp_path), clock=(clock := Clock()))
    collector = StoreCollector(app.store, app.settings.ladder)

    def lag() -> float:
        (found,) = [one for one in collector._store_metrics() if one.name == "outbox_lag_seconds"]
        (sample,) = found.samples
        return sample.value

    assert lag() == 0.0
    app.store.outgoing = OutgoingEvents(None)
    stage = Stage(app.store, clock)
    stage.bring("a")
    clock.advance(90)
    stage.bring("b")
    assert lag() == 90.0
    first, second = app.store.due_outgoing(limit=10)
    app.store.settle_outgoing([first.id])
    clock.advance(1)
    assert lag() == 1.0
    app.store.settle_outgoing([], unroutable=[second.id])
    assert lag() == 0.0, "what no queue takes does not wait"
    app.close()
