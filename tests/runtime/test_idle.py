"""A run ends when nothing is due; an outage may hold up what needs it, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from onward.backends import open_store
from onward.model.events import Envelope, Event
from onward.runtime.service import Service
from onward.runtime.supervisor import Supervisor
from tests.store.stage import Clock

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
