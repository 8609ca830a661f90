"""Fleets of workers, by costs that are easy to reckon with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.ops.bad_input import BadInput
from onward.ops.capacity.figures import LedgerCosts
from onward.ops.capacity.fleet import Fleet, Limit, forecast, simulate
from onward.ops.capacity.request import FleetRequest, forecast_fleet
from tests.ops.test_capacity_plan import FIGURES

COSTS = LedgerCosts(
    server_batch=0.0,
    server_event=1e-4,
    worker_batch=0.0,
    worker_event=1e-4,
    server_idle=0.0,
    log_bytes=1000.0,
    flush_seconds=1e-3,
)
FLEET = Fleet(workers=1, handler_seconds=0.01, slots=2, server_cores=4, log_bytes_per_second=1e9)


def test_workers_alone_do_what_their_handlers_allow() -> None:
    run = simulate(FLEET, 10_000, COSTS)
    assert run.per_second == pytest.approx(200, rel=0.02)  # two at once, 10 ms each
    assert run.limit is Limit.WORKERS


def test_a_server_does_what_its_processors_allow() -> None:
    run = simulate(replace(FLEET, workers=400), 400_000, COSTS)
    assert run.per_second == pytest.approx(40_000, rel=0.02)  # four processors, 0.1 ms each
    assert run.server_use == pytest.approx(1.0, abs=0.02)
    assert run.limit is Limit.SERVER


def test_a_log_does_what_its_disk_allows() -> None:
    run = simulate(replace(FLEET, workers=400, log_bytes_per_second=10e6), 400_000, COSTS)
    assert run.per_second == pytest.approx(10_000, rel=0.02)
    assert run.limit is Limit.LOG


def test_a_flush_takes_along_all_that_wait_for_it() -> None:
    slow = replace(COSTS, flush_seconds=0.5, server_event=1e-7)
    alone = simulate(replace(FLEET, handler_seconds=0.0, slots=1), 20_000, slow)
    assert alone.limit is Limit.FLUSH
    assert alone.commit_seconds >= 0.5
    many = simulate(replace(FLEET, handler_seconds=0.0, slots=1, workers=50), 1_000_000, slow)
    assert many.per_second > 20 * alone.per_second


def test_idle_questions_take_their_part_of_the_server() -> None:
    asking = replace(COSTS, server_idle=2e-3)  # of a thousand workers: two of the four processors
    run = simulate(replace(FLEET, workers=1000), 400_000, asking)
    assert run.per_second == pytest.approx(20_000, rel=0.02)


def test_the_knee_is_where_the_server_is_full() -> None:
    found = forecast(replace(FLEET, workers=1000), 400_000, COSTS)
    assert [run.workers for run in found.runs] == [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    assert found.knee is not None
    # 40 000 a second are 200 workers of 200 a second; up to 250 they do 80 % of what they could.
    assert found.knee.workers == pytest.approx(250, rel=0.05)
    assert found.limit is Limit.SERVER


def test_few_workers_have_no_knee() -> None:
    found = forecast(replace(FLEET, workers=50), 100_000, COSTS)
    assert (found.knee, found.limit) == (None, None)


@given(
    workers=st.integers(1, 60),
    events=st.integers(1, 50_000),
    handler=st.floats(0.0, 0.5),
    cores=st.integers(1, 16),
    shared=st.booleans(),
)
def test_nothing_is_faster_than_what_it_uses(
    workers: int, events: int, handler: float, cores: int, shared: bool
) -> None:
    fleet = Fleet(workers, handler, 2, cores, 5e6, cores if shared else None)
    run = simulate(fleet, events, COSTS)
    assert run.events == events
    bounds = (
        cores / COSTS.server_event,
        5e6 / COSTS.log_bytes,
        workers / max(COSTS.worker_event, handler / 2),
    )
    assert 0 < run.per_second <= min(bounds) * 1.001
    for share in (run.server_use, run.log_use, run.worker_use):
        assert 0 <= share <= 1


@pytest.mark.prove
def test_a_thousand_workers_and_a_hundred_million_events() -> None:
    found = forecast_fleet(FleetRequest(), FIGURES)
    assert (found.runs[-1].workers, found.runs[-1].events) == (1000, 100_000_000)
    assert found.knee is not None


@pytest.mark.parametrize(
    ("request_", "words"),
    (
        (FleetRequest(workers="0"), ("--workers", "'0'")),
        (FleetRequest(events="lots"), ("--events", "'lots'")),
        (FleetRequest(events="1G", handler="10s"), ("--events", "batches of 1")),
        (FleetRequest(handler="soon"), ("--handler", "'soon'")),
        (FleetRequest(slots="none"), ("--slots", "'none'")),
        (FleetRequest(server_cores="2000"), ("--server-cores", "'2000'")),
        (FleetRequest(log_rate="fast"), ("--log-rate", "'fast'")),
    ),
)
def test_a_wrong_value_is_named(request_: FleetRequest, words: tuple[str, ...]) -> None:
    with pytest.raises(BadInput) as caught:
        forecast_fleet(request_, FIGURES)
    assert all(word in str(caught.value) for word in words), caught.value
