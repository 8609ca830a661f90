"""Test a service in milliseconds: a simulated clock, dependencies that fail, workers that crash.

def test_a_page_is_fetched_after_an_outage():
    with Simulation(app) as world:
        world.fail("website", for_seconds=3 * 3600)
        world.app.publish(PageFound.of(page), documents=[page])
        world.run_for(4 * 3600)
        assert world.status(page) == "processed"

def test_crashes_lose_nothing():
    with Fleet(app, workers=3, seed=7) as fleet:
        fleet.app.publish(*events, documents=pages)
        fleet.crash_at_random()
        fleet.run_until_idle()
        assert fleet.lost == []

`pytest_plugins = ["onward.testing.pytest"]` in a conftest.py makes both available as fixtures.
"""

from onward.testing.fleet import Fleet
from onward.testing.simulation import SimulatedClock, SimulatedWorker, Simulation

__all__ = ["Fleet", "SimulatedClock", "SimulatedWorker", "Simulation"]
