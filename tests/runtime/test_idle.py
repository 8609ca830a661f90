"""A run ends when nothing is due; an outage may hold up what needs it, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from onward import Work
from onward.backend_urls import open_store
from onward.model.events import Envelope, Event
from onward.model.ledger import Delivery
from onward.runtime.service import Service
from onward.runtime.supervisor import Supervisor
from onward.testing import Simulation
from tests.support.page_app import Page, PagesFound, bring, new_app
from tests.support.store_pages import Clock

WITHIN = 60.0


class Asked(Event):
    pass


class Told(Event):
    pass


def handle(event: Event, work: object) -> None:
    raise AssertionError("nothing is run here")


SERVICES = [
    Service("asking", handle, on=Asked, needs=("oracle",)),
    Service("telling", handle, on=Told),
]


class World:
    """A store with two services, of which one needs the oracle; and a supervisor that looks at it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = open_store("sqlite://:memory:", self.clock)
        self.store.subscribe([one.subscription() for one in SERVICES])

    def supervisor(self) -> Supervisor:
        nothing: Any = None
        return Supervisor(self.store, SERVICES, nothing, nothing, name=lambda: "anna", idle_within=WITHIN)

    def publish(self, event: Event, **more: Any) -> None:
        self.store.publish(Envelope.of(event, now=self.clock.now(), **more))

    def is_idle(self, supervisor: Supervisor) -> bool:
        return supervisor._is_idle([one.name for one in SERVICES], WITHIN)


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_is_due(world: World) -> None:
    assert world.is_idle(world.supervisor())
    world.publish(Told(), due_in=WITHIN + 1)
    assert world.is_idle(world.supervisor())
    world.clock.advance(1.5)
    assert not world.is_idle(world.supervisor())


def test_an_outage_is_given_as_long_as_anything_else(world: World) -> None:
    supervisor = world.supervisor()
    world.publish(Asked())
    world.store.open_breaker("oracle", "it is silent")
    assert not world.is_idle(supervisor), "it may be over soon"
    world.clock.advance(WITHIN + 1)
    assert world.is_idle(supervisor), "nobody watches for ever"


def test_an_outage_of_long_ago_gets_a_new_chance_in_the_next_run(world: World) -> None:
    world.publish(Asked())
    world.store.open_breaker("oracle", "it is silent")
    world.clock.advance(3600.0)
    assert not world.is_idle(world.supervisor())


def test_an_outage_of_long_ago_holds_up_nothing_that_does_not_need_it(world: World) -> None:
    supervisor = world.supervisor()
    world.publish(Asked())
    world.store.open_breaker("oracle", "it is silent")
    world.clock.advance(3600.0)
    world.publish(Told())
    assert not world.is_idle(supervisor)


def test_working_until_idle_rests_while_a_breaker_holds_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    app, rests, looks = new_app(), list[None](), list[None]()

    @app.service("reading", on=PagesFound, finishes=Page, needs="website")
    def read(page: Page, work: Work) -> None: ...

    with Simulation(app) as world:
        world.store.open_breaker("website", "down")
        bring(world, "a")
        engine = app.engine(until_idle=True)
        claim, rest = world.store.claim, engine._rest

        def look(*given: Any, **more: Any) -> list[Delivery]:
            looks.append(None)
            if len(looks) > 100:
                world.store.close_breaker("website")  # else this would go on for ever
            return claim(*given, **more)

        async def rest_once() -> None:
            rests.append(None)
            world.store.close_breaker("website")
            await rest()

        monkeypatch.setattr(world.store, "claim", look)
        monkeypatch.setattr(engine, "_rest", rest_once)
        engine.run()
        assert len(looks) < 100, "it looked again and again without a pause"
        assert rests
