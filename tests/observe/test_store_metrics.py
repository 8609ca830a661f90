"""The gauges that every process reads from the store."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry

from onward.observe.prometheus import StoreCollector
from onward.retry import Ladder
from tests.support.failed_pages import set_aside, stage
from tests.support.store_pages import Stage


def measured(on: Stage) -> CollectorRegistry:
    collector, registry = StoreCollector(on.store, Ladder), CollectorRegistry()
    collector.read()
    registry.register(collector)
    return registry


def test_failed_batches_are_counted_by_their_retries(tmp_path: Path) -> None:
    with stage(tmp_path) as on:
        for source, retries in (("a", 0), ("b", 0), ("c", 4), ("d", 10), ("e", 72)):
            set_aside(on, f"page of {source}", source=source)
            (batch,) = on.store.failed_batches(source)
            on.store.reschedule_batch(batch.id, 0.0)
            for number in range(retries):
                assert on.store.claim_batch(batch.id, retry_count=number, until=0.0)
        registry = measured(on)
    labels = [*map(str, range(10)), "10+"]
    found = {label: registry.get_sample_value("failed_batches_by_retries", {"retries": label}) for label in labels}
    assert found == dict.fromkeys(labels, 0.0) | {"0": 2.0, "4": 1.0, "10+": 2.0}
    assert registry.get_sample_value("failed_batches_persistent") == 2.0


def test_a_collection_is_counted_before_it_has_a_document(tmp_path: Path) -> None:
    with stage(tmp_path) as on:
        labels = {"collection": "pages", "status": "failed"}
        assert measured(on).get_sample_value("documents", labels) == 0.0, "so that the first failures are a change"


def test_counters_of_the_retry_job_start_at_0_for_each_collection_it_has_seen(tmp_path: Path) -> None:
    with stage(tmp_path) as on:
        on.store.set_gauge("retry_job_stuck_documents", "pages", 0)
        on.store.count("retry_job_documents_requeued_total", "pages", 3)
        registry = measured(on)
    names = ("requeued", "skipped_backoff", "max_retries_exceeded")
    found = [
        registry.get_sample_value(f"retry_job_documents_{name}_total", {"collection": "pages"}) for name in names
    ]
    assert found == [3.0, 0.0, 0.0], "so that the first documents are a change"
