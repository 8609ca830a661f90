"""A simulated outage: the same as the engine in `Simulation`, also scaled down; other settings side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onward import App, Settings, Status, Work
from onward.ops.bad_input import BadInput
from onward.ops.simulation import scenario
from onward.ops.simulation.outage_run import OutageRun, RunPlan, RunResult
from onward.ops.simulation.quantities import read_rate, read_share, read_time_span
from onward.ops.simulation.request import SimulationRequest, simulate_outage
from onward.ops.simulation.scenario import Comparison, Outcome
from onward.testing import Simulation
from tests.support.page_app import HOUR, MINUTE, Page, PagesFound, new_app

LEAD = 10 * MINUTE
LOAD = {"load": "1/s", "duration": "500ms", "workers": "1"}


def reading(*, needs: bool = True, health: bool = False) -> App:
    app = new_app()
    if health:
        app.dependency("website", health=lambda: True)

    @app.service("reading", on=PagesFound, finishes=Page, needs="website" if needs else ())
    def read(page: Page, work: Work) -> None:
        """Read it."""

    return app


def plan(app: App, **changes: Any) -> RunPlan:
    usual = RunPlan(
        service=app.registry.services["reading"],
        settings=app.settings,
        per_second=1 / MINUTE,
        duration=0.0001,
        failed_duration=0.0001,
        slots=1,
        pace=0.0,
        health="website" in app.registry.dependencies,
        failing=0.0,
        outage=3 * HOUR,
        lead=LEAD,
        horizon=24 * HOUR,
        scale=1.0,
    )
    return replace(usual, **changes)


def simulated(app: App, outage: float) -> tuple[list[float], int]:
    """Return the calls during an outage, and how many documents are given up, from `Simulation`."""
    calls: list[float] = []
    service = app.registry.services["reading"]
    world: Simulation

    class Watched(Simulation):
        def is_down(self, dependency: str) -> bool:
            down = super().is_down(dependency)
            if down and service.needs:
                calls.append(self.clock.now() - began)
            return down

    def read(page: Page, work: Work) -> None:
        if world._down.get("website", 0.0) > world.clock.now():
            calls.append(world.clock.now() - began)
            raise ConnectionError("refused")

    if not service.needs:
        app.registry.services["reading"] = replace(service, handler=read)
    with Watched(app) as world:
        began = world.clock.now() + LEAD
        pages = []
        for minute in range(int((LEAD + outage) / MINUTE) + 5 * 60):
            if world.clock.now() >= began - 1 and not world._down:
                world.fail("website", for_seconds=outage)
            pages.append(Page(id=f"page {minute}"))
            app.publish(PagesFound.of(pages[-1:]), documents=pages[-1:])
            world.run_for(MINUTE)
        return calls, sum(world.status(page) == Status.FAILED_MAX_RETRIES for page in pages)


def run(app: App, **changes: Any) -> RunResult:
    return OutageRun(plan(app, **changes)).run()


@pytest.mark.prove
def test_with_a_breaker_its_calls_are_those_of_the_engine() -> None:
    calls, given_up = simulated(reading(), HOUR)
    result = run(reading(), outage=HOUR)
    assert result.calls_in_outage == len(calls)
    made = [at for at in result.probes if at < HOUR]
    assert made == pytest.approx(calls, abs=0.1), "the probes come at the same times"
    assert (result.given_up, given_up) == (0, 0)


@pytest.mark.prove
def test_without_one_it_makes_the_calls_that_the_engine_makes() -> None:
    calls, given_up = simulated(reading(needs=False), 2 * HOUR)
    result = run(reading(needs=False), outage=2 * HOUR)
    # Their microseconds differ: at the end of the outage, some calls are on the other side of it.
    assert result.calls_in_outage == pytest.approx(len(calls), rel=0.005)
    # Nothing is given up while everything fails, unless a round ends just after the first success.
    assert result.given_up == result.needlessly
    assert max(given_up, result.given_up) <= 3


@pytest.mark.prove
def test_scaled_down_it_tells_the_same() -> None:
    load = {
        "per_second": 2.0,
        "duration": 0.5,
        "failed_duration": 0.1,
        "slots": 2,
        "outage": 0.1 * HOUR,
        "lead": MINUTE,
    }
    exact, scaled = run(reading(), **load), run(reading(), **load, scale=8.0)
    assert scaled.calls_in_outage == pytest.approx(exact.calls_in_outage, abs=3)
    assert exact.drained is not None
    assert scaled.drained == pytest.approx(exact.drained, rel=0.05)
    assert max(scaled.calls) == pytest.approx(max(exact.calls), rel=0.01)
    most = max(waiting for _, waiting in exact.waiting)
    assert max(waiting for _, waiting in scaled.waiting) == pytest.approx(most, rel=0.05)


@pytest.mark.prove
def test_scaled_down_without_a_breaker_as_many_calls_are_burned() -> None:
    load = {
        "per_second": 1.0,
        "duration": 0.2,
        "failed_duration": 0.2,
        "slots": 1,
        "outage": 0.1 * HOUR,
        "lead": MINUTE,
    }
    exact, scaled = run(reading(needs=False), **load), run(reading(needs=False), **load, scale=8.0)
    assert scaled.calls_in_outage == pytest.approx(exact.calls_in_outage, rel=0.1)
    assert exact.calls_in_outage > 500


def test_a_health_call_is_asked_in_place_of_documents() -> None:
    result = run(reading(health=True), outage=HOUR)
    assert result.health_calls > 0
    assert not OutageRun(plan(reading(), outage=60.0)).run().health_calls


# -- comparisons


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulations in a second."""
    monkeypatch.setattr(scenario, "CALLS_IN_ALL", 800)


pytestmark = pytest.mark.usefixtures("coarse")


def ask(app: App, **given: Any) -> Comparison:
    return simulate_outage(app, SimulationRequest(**{"outage": "1h", "load": LOAD} | given), None)


def two(app: App, **given: Any) -> tuple[Outcome, Outcome]:
    first, second = ask(app, **given).outcomes
    return first, second


@pytest.mark.prove
def test_more_frequent_probes_find_the_end_sooner_and_cost_calls() -> None:
    now, changed = two(reading(), changes=["breaker.probe_max=30s"])
    assert changed.settings == {"breaker_probe_max_seconds": 30.0}
    assert changed.calls_in_outage > 2 * now.calls_in_outage
    assert changed.resumed_after is not None
    assert changed.resumed_after <= 31


@pytest.mark.prove
def test_without_a_breaker_the_dependency_is_called_for_nothing_all_the_time() -> None:
    load = LOAD | {"failed_duration": "5ms", "failing": "10%", "load": "2/min"}
    now, without = two(reading(), outage="3h", load=load, what_if=["no-breaker"])
    assert now.given_up_needlessly == without.given_up_needlessly == 0, (
        "while everything fails, nothing is given up"
    )
    assert now.given_up == without.given_up == 36, "only those that fail in any case: 10 % of 360"
    assert without.calls_in_outage > 100 * now.calls_in_outage


@pytest.mark.prove
def test_a_rate_limit_stays_below_the_capacity_and_takes_longer() -> None:
    now, slower = two(reading(), capacity="3/s", changes=["rate=2/s"])
    assert now.peak_per_second == pytest.approx(6.0)
    assert slower.peak_per_second == pytest.approx(2.0, rel=0.01)
    assert (now.over_capacity_seconds or 0) > 600
    assert slower.over_capacity_seconds == 0
    assert (slower.drained_after or 0) > (now.drained_after or 0)


@pytest.mark.prove
def test_a_slower_restart_begins_with_few_calls() -> None:
    now, slow = two(reading(), load=LOAD | {"workers": "4"}, what_if=["slower-restart"])
    assert slow.settings == {"breaker_restart_seconds": 300.0}

    def early(one: Outcome) -> float:
        began = 3600 + (one.resumed_after or 0)
        return sum(rate for at, rate in one.calls if began <= at < began + 240)

    assert early(slow) < early(now) / 2
    assert (slow.drained_after or 0) > (now.drained_after or 0)


@pytest.mark.prove
def test_the_same_seed_gives_the_same() -> None:
    given = {"what_if": ["longer-backoff"], "seed": 7}
    assert ask(reading(), **given).as_dict() == ask(reading(), **given).as_dict()


def test_a_load_that_is_too_much_is_said() -> None:
    (only,) = ask(reading(), load=LOAD | {"load": "100/s"}).outcomes
    assert only.drained_after is None
    assert only.notes == ["100/s arrive, but 3 calls at once make at most 6/s."]


@pytest.mark.prove
def test_a_setting_of_another_rung_changes_nothing_and_says_so() -> None:
    _, changed = two(reading(), changes=["retry.max_attempts=5"])
    assert "RETRY_MAX_ATTEMPTS is for events that come before their document" in changed.notes[0]


@pytest.mark.parametrize(
    ("given", "words"),
    (
        ({"outage": "soon"}, ("--outage", "'soon'", "3h")),
        ({"outage": "99d"}, ("--outage", "'99d'", "14 days")),
        ({"load": {"load": "many"}}, ("--load", "'many'", "20/s")),
        ({"load": LOAD | {"workers": "0"}}, ("--workers", "'0'", "from 1 to")),
        ({"load": LOAD | {"failing": "120%"}}, ("--failing", "'120%'", "below 100%")),
        ({"load": {"duration": "1s"}}, ("the load on service reading", "--load")),
        ({"load": {"load": "1/s"}}, ("the load on service reading", "--duration")),
        ({"capacity": "-1"}, ("--capacity", "'-1'")),
        ({"changes": ["max_retries"]}, ("--set", "'max_retries'", "a name and a value")),
        ({"changes": ["max_retries=0"]}, ("--set max_retries", "'0'", "at least 1")),
        ({"changes": ["breaker=maybe"]}, ("--set breaker", "'maybe'", "on or off")),
        ({"changes": ["breaker_probes=3"]}, ("--set breaker_probes", "breaker_probe")),
        ({"changes": ["store=x"]}, ("--set store", "can be simulated")),
        ({"compare": ["rate=fast"]}, ("--compare rate", "'fast'")),
        ({"what_if": ["magic"]}, ("--what-if", "'magic'", "no-breaker")),
        ({"what_if": ["no-breaker"] * 6}, ("7 variants", "at most 6")),
        ({"service": "writing"}, ("--service", "'writing'", "reading")),
    ),
)
def test_a_bad_value_is_named_with_what_is_allowed(given: dict[str, Any], words: tuple[str, ...]) -> None:
    with pytest.raises(BadInput) as caught:
        ask(reading(), **given)
    assert caught.value.exit_code == 2
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_times_rates_and_shares_are_read_as_people_write_them() -> None:
    assert [read_time_span(text, "x") for text in ("200ms", "30", "5 min", "1.5h")] == [0.2, 30, 300, 5400]
    assert [read_rate(text, "x") for text in ("20/s", "20", "120/min", "3600/h")] == [20, 20, 2, 1]
    assert [read_share(text, "x") for text in ("2%", "0.02", "0")] == [0.02, 0.02, 0.0]


@pytest.mark.prove
def test_names_are_those_of_the_settings_and_their_variables() -> None:
    spellings = ["BREAKER.PROBE_MAX=1min", "ONWARD_BREAKER_PROBE_MAX_SECONDS=60", "breaker_probe_max=60s"]
    for spelling in spellings:
        _, changed = two(reading(), load=LOAD | {"load": "1/min"}, changes=[spelling])
        assert changed.settings == {"breaker_probe_max_seconds": 60.0}
    assert Settings().breaker_probe_max_seconds == 300.0
