"""What a load needs, by figures that are easy to reckon with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onward.ops.bad_input import BadInput
from onward.ops.capacity.figures import (
    EMBEDDING,
    POSTGRES,
    SQLITE,
    SUMMARIZATION,
    Figures,
    LedgerCosts,
    MessageCosts,
    StoreCosts,
)
from onward.ops.capacity.plan import MONTH_SECONDS, RemoteModel, Workload, make_plan
from onward.ops.capacity.request import PlanRequest, plan_capacity
from onward.settings import Settings

MESSAGE = MessageCosts(
    bytes=1000.0,
    chunks=4.0,
    tokens=800.0,
    threads=0.5,
    processor_seconds={"parsing": 0.001, "chunking": 0.001, "embedding": 0.002, "summarization": 0.001},
)
FIGURES = Figures(
    measured_on="2026-01-01",
    machine="one processor",
    message=MESSAGE,
    stores={
        SQLITE: StoreCosts(3000.0, 0.002, 0.0, 0.05, 6000.0, 2.0),
        POSTGRES: StoreCosts(4000.0, 0.003, 0.001, 0.05, 6000.0, 2.0),
    },
    ledger=LedgerCosts(1e-3, 5e-5, 1e-3, 8e-5, 1e-4, 1500.0, 1e-3),
)
LOAD = Workload(100.0, MESSAGE, peak=2.0, keep_seconds=10 * 86_400.0, embedder_batch=50)


def test_workers_have_processors_for_the_busiest_hour() -> None:
    plan = make_plan(LOAD, FIGURES)
    assert plan.advised == SQLITE
    assert plan.cores == pytest.approx(
        {"parsing": 0.2, "chunking": 0.2, "embedding": 0.4, "summarization": 0.2, "ledger and search index": 0.4}
    )
    assert plan.processes == 2  # 1.4 processors, used to 70 %


def test_a_database_holds_what_is_kept() -> None:
    small, large = make_plan(LOAD, FIGURES).databases
    assert small.bytes_kept == pytest.approx(100 * 10 * 86_400 * 3000)
    assert large.bytes_per_month == pytest.approx(100 * MONTH_SECONDS * 4000)
    assert (large.server_cores, large.commits_per_second) == pytest.approx((0.2, 10.0))
    assert large.log_bytes_per_second == pytest.approx(1.2e6)
    assert large.writes_per_second == pytest.approx(10 + 400)
    assert make_plan(LOAD, FIGURES).blob_bytes == pytest.approx(100 * 10 * 86_400 * 1000)


def test_one_writer_has_an_end() -> None:
    assert make_plan(replace(LOAD, per_second=174.0), FIGURES).advised == SQLITE
    plan = make_plan(replace(LOAD, per_second=176.0), FIGURES)  # 352 in the busiest hour, 2 ms each: above 70 %
    assert plan.advised == POSTGRES
    assert plan.cores["ledger and search index"] == pytest.approx(352 * 0.003)


def test_one_file_has_an_end() -> None:
    assert make_plan(replace(LOAD, keep_seconds=19 * 86_400.0), FIGURES).advised == SQLITE
    assert make_plan(replace(LOAD, keep_seconds=20 * 86_400.0), FIGURES).advised == POSTGRES


def test_a_remote_model_takes_calls_instead_of_processors() -> None:
    plan = make_plan(replace(LOAD, remote={EMBEDDING: RemoteModel(0.5, calls_per_second=40.0)}), FIGURES)
    assert EMBEDDING not in plan.cores
    (calls,) = plan.calls
    assert calls.per_month == pytest.approx(100 * MONTH_SECONDS * 4 / 50)  # four chunks of fifty in a call
    assert calls.tokens_per_month == pytest.approx(100 * MONTH_SECONDS * 800)
    assert calls.at_once == pytest.approx(8.0)
    assert (calls.limit_use, calls.peak_limit_use) == pytest.approx((0.2, 0.4))
    assert calls.catch_up_seconds == 0
    assert plan.waiting_processes == 3  # three calls at once in each


def test_a_thread_is_a_call_of_the_summariser() -> None:
    (calls,) = make_plan(replace(LOAD, remote={SUMMARIZATION: RemoteModel(2.0)}), FIGURES).calls
    assert calls.per_month == pytest.approx(100 * MONTH_SECONDS * 0.5)
    assert calls.at_once == pytest.approx(200.0)
    assert (calls.limit_use, calls.peak_limit_use) == (None, None)


@pytest.mark.parametrize(
    ("limit", "catch_up", "most"),
    (
        # 12.8 calls a second: 16 come in the busiest hour, 8 on average.
        (RemoteModel(0.5, calls_per_second=12.8), 0.25 * 3600 / (1 - 0.625), 160.0),
        (RemoteModel(0.5, calls_per_second=6.4), None, 80.0),
        (RemoteModel(0.5, tokens_per_second=80_000.0), None, 100.0),
        # The scarcer of two limits counts.
        (RemoteModel(0.5, calls_per_second=1000.0, tokens_per_second=40_000.0), None, 50.0),
    ),
)
def test_what_exceeds_a_limit_waits(limit: RemoteModel, catch_up: float | None, most: float) -> None:
    (calls,) = make_plan(replace(LOAD, remote={EMBEDDING: limit}), FIGURES).calls
    assert calls.catch_up_seconds == (None if catch_up is None else pytest.approx(catch_up))
    assert calls.most_messages_per_second == pytest.approx(most)


def test_an_outage_is_caught_up_by_what_is_spare() -> None:
    plan = make_plan(LOAD, FIGURES)
    each = sum(plan.cores.values()) / plan.peak_per_second
    spare = plan.processes / each - 100
    assert plan.outage_catch_up_seconds == pytest.approx(100 * 3600 / spare)
    limited = make_plan(replace(LOAD, remote={EMBEDDING: RemoteModel(0.5, calls_per_second=10.0)}), FIGURES)
    assert limited.outage_catch_up_seconds == pytest.approx(100 * 3600 / 25)  # 125 messages a second
    never = make_plan(replace(LOAD, remote={EMBEDDING: RemoteModel(0.5, calls_per_second=8.0)}), FIGURES)
    assert never.outage_catch_up_seconds is None


def test_larger_messages_cost_more() -> None:
    request = PlanRequest(messages="50/s", size="2kB", peak="2", keep="10d")
    plan = plan_capacity(request, FIGURES, Settings(), None)
    assert plan.workload.message.chunks == pytest.approx(8.0)
    # Half as many, twice as large.
    assert sum(plan.cores.values()) == pytest.approx(sum(make_plan(LOAD, FIGURES).cores.values()))
    assert plan.databases[1].bytes_per_message == pytest.approx(8000.0)


def test_texts_are_read() -> None:
    request = PlanRequest(
        messages="1M/day", tokens="1600", calls=["embedding=200ms"], limits=["embedding=6M tokens/min"]
    )
    workload = plan_capacity(request, FIGURES, Settings(), None).workload
    assert workload.per_second == pytest.approx(1e6 / 86_400)
    assert (workload.message.tokens, workload.message.chunks) == pytest.approx((1600, 8.0))
    assert workload.remote == {EMBEDDING: RemoteModel(0.2, None, 100_000.0)}


@pytest.mark.parametrize(
    ("request_", "words"),
    (
        (PlanRequest(), ("the store does not know", "--messages 50k/day")),
        (PlanRequest(messages="many"), ("--messages", "'many'")),
        (PlanRequest(messages="1/s", size="big"), ("--size", "'big'", "7kB")),
        (PlanRequest(messages="1/s", tokens="0"), ("--tokens", "'0'")),
        (PlanRequest(messages="1/s", peak="0.5"), ("--peak", "'0.5'", "from 1")),
        (PlanRequest(messages="1/s", keep="-1d"), ("--keep", "'-1d'")),
        (PlanRequest(messages="1/s", calls=["chunking=1s"]), ("--call", "'chunking=1s'", "embedding")),
        (PlanRequest(messages="1/s", limits=["embedding"]), ("--limit", "'embedding'", "3000/min")),
        (PlanRequest(messages="1/s", limits=["embedding=much"]), ("--limit embedding", "'much'")),
    ),
)
def test_a_wrong_value_is_named(request_: PlanRequest, words: tuple[str, ...]) -> None:
    with pytest.raises(BadInput) as caught:
        plan_capacity(request_, FIGURES, Settings(), None)
    assert all(word in str(caught.value) for word in words), caught.value
