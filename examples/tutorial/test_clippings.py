"""The clippings service during an outage and a race, on a simulated clock."""

from clippings import Page, PageFound, app

from onward.testing import Simulation

HOUR = 3600.0
home = Page(id="home", path="home.txt")


def test_an_outage_of_three_hours_uses_up_no_try() -> None:
    with Simulation(app) as world:
        world.fail("website", for_seconds=3 * HOUR)
        app.publish(PageFound.of(home), documents=[home])

        world.run_for(2 * HOUR)
        assert world.status(home) == "pending"

        world.run_for(2 * HOUR)
        assert world.status(home) == "processed"
        assert world.state(home).attempt_count == 1


def test_a_page_that_comes_late_is_waited_for() -> None:
    with Simulation(app) as world:
        app.publish(PageFound.of(home))
        world.drain()
        app.add(home)
        world.run_for(1)
        assert world.status(home) == "processed"
