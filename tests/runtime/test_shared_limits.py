"""Services that share a limited dependency take turns, and a higher priority goes first."""

from __future__ import annotations

from typing import Any

import pytest

from onward import App, Dependency, Settings
from onward.ledger.store import Store
from onward.runtime.limited_claims import LimitedClaims
from onward.runtime.task import Task
from onward.testing import Fleet, Simulation
from tests.support.page_app import HOUR, MINUTE, new_app

ONE_AT_ONCE, ONE_A_SECOND = Dependency("api", concurrency=1), Dependency("api", rate="60/min")
LIMITS = pytest.mark.parametrize("limited", (ONE_AT_ONCE, ONE_A_SECOND), ids=("concurrency", "rate"))
Tasks = tuple[Task[[int], None, Any], Task[[int], None, Any]]


def two_tasks(app: App, calls: list[str], needs: Any) -> Tasks:
    @app.task(needs=needs)
    def bulk(number: int) -> None:
        calls.append("bulk")

    @app.task(needs=needs)
    def other(number: int) -> None:
        calls.append("other")

    return bulk, other


@LIMITS
def test_an_urgent_call_of_another_service_is_the_next(store_url: str, limited: Dependency) -> None:
    app, calls = new_app(), list[str]()
    bulk, other = two_tasks(app, calls, limited)
    with Simulation(app, store=store_url) as world:
        bulk.map(range(20))
        other.options(priority=100).delay(0)
        world.run_for(MINUTE)
    assert calls == ["other", *["bulk"] * 20]


@LIMITS
def test_services_with_the_same_priority_take_turns(store_url: str, limited: Dependency) -> None:
    app, calls = new_app(), list[str]()
    bulk, other = two_tasks(app, calls, limited)
    with Simulation(app, store=store_url) as world:
        bulk.map(range(25))
        other.map(range(5))
        world.run_for(MINUTE)
    assert calls == [*["bulk", "other"] * 5, *["bulk"] * 20]


@LIMITS
def test_two_workers_take_turns_too(limited: Dependency) -> None:
    app, calls = new_app(), list[str]()
    bulk, other = two_tasks(app, calls, limited)
    with Fleet(app, workers=2) as fleet:
        bulk.map(range(40))
        other.map(range(4))
        other.options(priority=100).map(range(4, 8))
        fleet.run_until_idle()
    assert calls[:4] == ["other"] * 4
    assert len(calls) == 48
    assert calls[:20].count("other") == 8


def test_a_service_that_looked_for_tokens_later_gets_its_turn() -> None:
    app, calls = new_app(), list[str]()
    bulk, other = two_tasks(app, calls, ONE_A_SECOND)
    with Simulation(app) as world, pytest.MonkeyPatch.context() as patch:
        wait = LimitedClaims.wait

        def wait_longer(self: LimitedClaims) -> bool:
            waits = wait(self)
            if self.service.name == other.name:
                self.not_before += 0.01 if waits else 0.0
            return waits

        patch.setattr(LimitedClaims, "wait", wait_longer)
        bulk.map(range(20))
        other.map(range(5))
        world.run_for(MINUTE)
    assert calls[:10].count("other") == 5


def test_what_recovers_from_an_outage_is_shared(store_url: str) -> None:
    app, calls = new_app(), list[str]()
    app.dependency("api", health=lambda: True)
    bulk, other = two_tasks(app, calls, "api")
    with Simulation(app, store=store_url) as world:
        world.fail("api", for_seconds=HOUR)
        bulk.map(range(200))
        world.run_for(HOUR)
        assert calls == []
        other.options(priority=100).delay(0)
        other.map(range(5))
        world.run_for(HOUR)
    assert len(calls) == 206
    assert calls[:5].count("other") >= 3


def test_a_real_worker_lets_another_service_take_the_free_place(store_url: str) -> None:
    app, calls = App(store=store_url, settings=Settings()), list[str]()
    bulk, other = two_tasks(app, calls, ONE_AT_ONCE)
    bulk.map(range(30))
    other.map(range(3))
    app.work_until_idle()
    app.close()
    assert len(calls) == 33
    assert calls[:10].count("other") == 3


def test_services_that_share_no_limit_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(Store, "due_priority", lambda store, service: asked.append(service))
    app, calls = new_app(), list[str]()
    tasks = two_tasks(app, calls, "paper")  # without a limit

    @app.task(needs=ONE_AT_ONCE)
    def alone(number: int) -> None: ...

    with Simulation(app) as world:
        for task in tasks:
            task.map(range(5))
        alone.map(range(5))
        world.run_for(MINUTE)
    assert len(calls) == 10
    assert asked == []
