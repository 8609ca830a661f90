"""What is kept of failures, of counts and of the past has a limit, whatever number of events there is."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from onward.ledger import breaker_records, document_actions, failure_groups, store, subscriptions
from onward.ledger.postgres import PostgresStore
from onward.ledger.sqlite import SQLiteStore
from onward.ledger.store import SWEEP_SECONDS, Store
from onward.model.events import Envelope
from onward.model.failures import MAX_TRACEBACK
from onward.model.ledger import (
    MAX_RAW_BYTES,
    Charge,
    DeadLettered,
    IndexedVector,
    Processed,
    RetryLater,
    Settlement,
)
from onward.search import index_writer
from tests.store.library import indexed, match, pack_everything, place, vector, write
from tests.support.store_pages import NOON, Clock, Stage, failure, page, settlement

AT_ONCE = 500
TRACEBACK = "Traceback " * (MAX_TRACEBACK // 10)


class Reads:
    """What a store reads from its database."""

    def __init__(self, store: object, monkeypatch: pytest.MonkeyPatch) -> None:
        assert isinstance(store, Store)
        self.found: list[Any] = []
        for name in ("read", "read_unlocked", "fetch"):
            monkeypatch.setattr(store.db, name, self._noting(getattr(store.db, name)))

    def _noting(self, read: Any) -> Any:
        def noting(*args: Any) -> Any:
            self.found.append(read(*args))
            return self.found[-1]

        return noting

    @property
    def size(self) -> int:
        return len(str(self.found))


def fail_often(stage: Stage, times: int) -> None:
    stage.bring("a")
    for n in range(times):
        failed = replace(failure(f"try {n}", at=NOON + n), traceback=TRACEBACK, trace=f"00-{n:032x}-{n:016x}-01")
        stage.settle(stage.take(), RetryLater(["a"], charge=Charge.TRY, failure=failed))


def test_a_claim_reads_no_tracebacks_however_often_an_event_has_failed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_often(stage, 25)
    reads = Reads(stage.store, monkeypatch)
    delivery = stage.take()
    assert 0 < reads.size < 3 * MAX_TRACEBACK
    assert "Traceback" not in str(reads.found)
    assert (delivery.tries, delivery.failed_at, delivery.failed_trace) == (25, NOON, f"00-{24:032x}-{24:016x}-01")
    stage.settle(delivery, Processed(["a"]))
    assert "Traceback" not in str(reads.found), "one that succeeds does not look back"


def test_of_all_failures_of_an_event_the_last_keeps_its_traceback(stage: Stage) -> None:
    fail_often(stage, 25)
    stage.settle(stage.take(), DeadLettered(["a"], failure=replace(failure("the end"), traceback=TRACEBACK)))
    (letter,) = stage.store.dead_letters()
    messages = [one["message"] for one in letter.errors]
    assert messages == ["try 0", *(f"try {n}" for n in range(7, 25)), "the end"]
    assert [one["message"] for one in letter.errors if "traceback" in one] == ["the end"]


def test_what_is_split_off_keeps_the_history_of_its_event(stage: Stage) -> None:
    stage.bring("a", "b")
    stage.settle(stage.take(), RetryLater(["a", "b"], charge=Charge.TRY, failure=failure("together", at=NOON)))
    stage.settle(stage.take(), RetryLater(["a"]), DeadLettered(["b"], failure=failure("alone")))
    (letter,) = stage.store.dead_letters()
    assert [one["message"] for one in letter.errors] == ["together", "alone"]
    assert stage.take().failed_at == NOON


def failures(count: int, at: float = NOON) -> list[Any]:
    """Failures of as many kinds."""
    return [replace(failure(f"kind {n}", at=at + n), fingerprint=f"{n:016x}") for n in range(count)]


def test_failure_groups_are_as_many_as_are_kept_and_the_last_seen_stay(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failure_groups, "MAX_GROUPS", 10)
    for one in failures(50):
        stage.store.report_failure("reading", one)
    stage.store.report_failure("reading", replace(failure(at=NOON + 60), fingerprint=f"{45:016x}"))
    found = [one.message for one in stage.store.failure_groups()]
    assert found == ["it broke", *(f"kind {n}" for n in (49, 48, 47, 46, 44, 43, 42, 41, 40))]
    assert stage.store.failure_group(f"{0:016x}") is None


def test_openings_are_kept_for_each_dependency_the_last_ones(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker_records, "MAX_OPENINGS", 5)
    stage.store.open_breaker("steady", "it is down")
    for n in range(30):
        stage.store.open_breaker("flapping", f"opening {n}")
        stage.clock.advance(1)
        stage.store.close_breaker("flapping")
    assert [one["reason"] for one in stage.store.openings("flapping")] == [f"opening {n}" for n in range(25, 30)]
    assert [one["reason"] for one in stage.store.openings("steady")] == ["it is down"]


def test_actions_and_versions_are_kept_the_last_ones(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_actions, "MAX_ACTIONS", 5)
    monkeypatch.setattr(subscriptions, "MAX_VERSIONS", 5)
    for n in range(30):
        stage.store.log_action("ada", "cli", f"action {n}", {}, 1)
        stage.store.register_worker("anna", {"version": f"version {n}"})
        stage.clock.advance(1)
    assert [one.action for one in stage.store.actions()] == [f"action {n}" for n in range(29, 24, -1)]
    assert [version for version, _, _ in stage.store.versions()] == [f"version {n}" for n in range(25, 30)]


def test_events_without_a_consumer_are_dropped_the_oldest_first_when_there_are_too_many(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store, "MAX_UNROUTED", 5)
    for n in range(30):
        stage.store.publish([Envelope("Unheard", f'{{"number": {n}}}', f"event {n}", stage.store.now(), 1)])
        stage.clock.advance(1)
    stage.store.prune(keep_seconds=3600, keep_count=100)
    assert stage.store.counts()[""] == {"unrouted": 5}
    assert "25 events that no service takes were dropped" in caplog.text
    assert isinstance(stage.store, Store)
    left = [event_id for _, event_id, *_ in stage.store.db.read("unrouted", "Unheard")]
    assert sorted(left) == [f"event {n}" for n in range(25, 30)]


def test_of_bytes_that_cannot_be_read_the_beginning_is_kept_and_the_rest_is_said(stage: Stage) -> None:
    stage.store.keep_malformed(b"x" * MAX_RAW_BYTES, failure("not JSON"))
    stage.store.keep_malformed(b"y" * (MAX_RAW_BYTES + 1), failure("not JSON"))
    whole, cut = stage.store.dead_letters()
    assert (whole.raw, whole.last_error) == (b"x" * MAX_RAW_BYTES, "not JSON")
    assert cut.raw == b"y" * MAX_RAW_BYTES
    assert f"the first {MAX_RAW_BYTES:,} of its {MAX_RAW_BYTES + 1:,} bytes" in cut.last_error


def test_what_is_gone_from_the_index_is_not_remembered_for_ever(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts and vectors that were packed are only marked as gone, until many are: then they are taken out."""
    monkeypatch.setattr(index_writer, "MIN_TEXTS", 5)
    monkeypatch.setattr(index_writer, "MIN_VECTORS", 5)
    ids = [f"page {n}" for n in range(40)]
    write(stage, *(indexed(id, "a tent") for id in ids))
    place(stage, *(IndexedVector("pages", id, "model", vector(1, 0)) for id in ids))
    pack_everything(stage.store)
    stage.store.remove_documents([("pages", id) for id in ids[:4]])
    stage.store.pack_index()
    assert gone(stage) == (4, 4), "few are left as they are"
    stage.store.remove_documents([("pages", id) for id in ids[4:-1]])
    assert gone(stage) == (39, 39)
    stage.store.pack_index()
    assert gone(stage) == (0, 0)
    assert match(stage, "tent") == near(stage) == [ids[-1]]
    rows = tables(stage.store)
    assert {rows[name] for name in ("texts", "text_numbers", "vectors", "vector_blocks")} == {1}


def gone(stage: Stage) -> tuple[int, int]:
    rows = tables(stage.store)
    return rows["removed_texts"], rows["removed_vectors"]


def near(stage: Stage) -> list[str]:
    found = stage.store.nearest(vector(1, 0), "pages", model="model", parents="pages")
    return sorted(one.id for one in found)


def tables(store: object) -> dict[str, int]:
    """How many rows each table has."""
    assert isinstance(store, Store)
    if isinstance(store, SQLiteStore):
        writer = store.db._writer
        kept = "SELECT name FROM sqlite_schema WHERE type = 'table'"
        names = [name for (name,) in writer.execute(kept)]
        return {name: writer.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}
    assert isinstance(store, PostgresStore)
    with store.db.connections.use() as connection:
        kept = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        names = [name for (name,) in connection.execute(kept.encode()).fetchall()]
        count = "SELECT count(*) FROM {}".format
        return {name: connection.execute(count(name).encode()).fetchall()[0][0] for name in names}


def test_no_table_grows_with_the_number_of_events(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources come and go, breakers flap, and every tenth event fails in a way of its own before it succeeds."""
    assert largest_after(3_000, stage, monkeypatch) <= 100


@pytest.mark.prove
def test_no_table_has_grown_after_a_hundred_thousand_events(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    with closing(SQLiteStore(":memory:", clock)) as store:
        assert largest_after(100_000, Stage(store, clock), monkeypatch) <= 100


def largest_after(events: int, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> int:
    """Work through events; return how many rows the largest table has afterwards."""
    monkeypatch.setattr(failure_groups, "MAX_GROUPS", 100)
    monkeypatch.setattr(breaker_records, "MAX_OPENINGS", 100)
    monkeypatch.setattr(document_actions, "MAX_ACTIONS", 100)
    monkeypatch.setattr(subscriptions, "MAX_VERSIONS", 100)
    for batch in range(events // AT_ONCE):
        work_through(stage, batch)
        stage.clock.advance(SWEEP_SECONDS)
        stage.store.prune(keep_seconds=3600, keep_count=100)
    assert stage.store.document_counts() == {}
    counts = tables(stage.store)
    # That a source was forgotten is what refuses works from before.
    assert counts.pop("sources") == events // AT_ONCE
    assert counts["status_counts"] == 0
    return max(counts.values())


def work_through(stage: Stage, batch: int) -> None:
    at_once, store, source = AT_ONCE, stage.store, f"source {batch}"
    store.publish([stage.noticed(f"{batch} {n}", source=source) for n in range(at_once)])
    store.add_documents([page(f"{batch} {n}", source=source) for n in range(at_once // 10)])
    tenth = [replace(one, fingerprint=f"{batch} {one.message}") for one in failures(at_once // 10, store.now())]
    first = stage.claim(limit=at_once, service="listening")
    assert len(first) == at_once
    outcomes = [RetryLater(charge=Charge.TRY, failure=one) for one in tenth] + [Processed()] * (
        at_once - len(tenth)
    )
    store.settle([settlement(one, outcome) for one, outcome in zip(first, outcomes, strict=True)])
    again: list[Settlement] = [
        settlement(one, Processed()) for one in stage.claim(limit=at_once, service="listening")
    ]
    assert len(again) == len(tenth)
    store.settle(again)
    store.open_breaker("flapping", f"opening {batch}")
    store.close_breaker("flapping")
    store.log_action("ada", "cli", f"action {batch}", {}, 1)
    store.register_worker(f"worker {batch}", {"version": f"version {batch}"})
    store.unregister_worker(f"worker {batch}")
    store.forget(source)
