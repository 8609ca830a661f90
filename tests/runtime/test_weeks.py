"""Simulated days and weeks of ordinary trouble: outages, poison, wrong health calls, refused keys, bad deploys.

At the end every document is final, or what it waits for is shown as needing a person; no outage has cost a round,
and no poison document has delayed another by more than one probe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from onward import App, Status, Unavailable, Work
from onward.model.breaker import SLOWEST_PROBE_SECONDS
from onward.model.documents import FINAL
from onward.testing import Simulation
from tests.support.page_app import DAY, HOUR, MINUTE, HTTPError, Page, PagesFound, new_app

WEEK = 7 * DAY
SEEDS = tuple(range(14))
SETTLING = 12 * MINUTE
"""How long a dependency has to work before a delay can only be somebody else's fault."""


@dataclass
class Spans:
    """Times in which something is so, in seconds since the beginning."""

    spans: list[tuple[float, float]] = field(default_factory=list)

    def at(self, now: float) -> bool:
        return any(begin <= now < end for begin, end in self.spans)

    def near(self, begin: float, end: float) -> bool:
        return any(start < end and begin < stop for start, stop in self.spans)


def outages(random: Random) -> Spans:
    """Short and long ones, and some days of flapping."""
    spans, now = list[tuple[float, float]](), random.uniform(0, 12 * HOUR)
    while now < WEEK:
        if random.random() < 0.3:
            for _ in range(random.randrange(3, 40)):
                down = random.uniform(MINUTE, 20 * MINUTE)
                spans.append((now, now + down))
                now += down + random.uniform(10.0, 15 * MINUTE)
        else:
            spans.append((now, now + random.choice((30.0, 10 * MINUTE, 3 * HOUR, 30 * HOUR))))
            now = spans[-1][1]
        now += random.uniform(2 * HOUR, 2 * DAY)
    return Spans(spans)


class Trouble:
    """One service, what it needs, and all that goes wrong with it."""

    def __init__(self, world: World, name: str, *, health: str) -> None:
        self.world, self.name, self.health = world, name, health
        self.random = Random(f"{world.seed}/{name}")
        self.down = Spans() if health == "wrong no" else outages(self.random)
        self.limited = Spans([(at, at + HOUR) for at in (self.random.uniform(0, WEEK) for _ in range(3))])
        self.bug = Spans([(at, at + 20 * MINUTE) for at in (self.random.uniform(0, WEEK) for _ in range(2))])
        self.refused = Spans([(at, at + 8 * HOUR) for at in (self.random.uniform(0, WEEK) for _ in range(2))])
        if health == "lying yes":
            self.refused = Spans()
        self.poison: dict[str, Callable[[], Exception]] = {}
        self.published: dict[str, float] = {}
        self.done: dict[str, float] = {}
        self.own_failures: set[str] = set()
        """Documents that failed for another reason than an outage."""

    def declare(self, app: App) -> None:
        answers: dict[str, Callable[[], bool]] = {
            "honest": lambda: not (self.down.at(self.world.now) or self.refused.at(self.world.now)),
            "lying yes": lambda: True,
            "wrong no": lambda: False,
        }
        if self.health in answers:
            app.dependency(self.name, health=answers[self.health])

        @app.service(f"reading.{self.name}", on=self.world.events[self.name], finishes=Page, needs=self.name)
        def read(page: Page, work: Work) -> None:
            self.read(page.id)

    def read(self, id: str) -> None:
        now = self.world.now
        if self.down.at(now):
            if self.health == "lying yes":
                self.own_failures.add(id)
            raise self._error()
        if self.refused.at(now):
            raise Unavailable(self.name, "401", opens=True, remedy="renew the key")
        if self.limited.at(now) and self.random.random() < 0.5:
            raise HTTPError(429, Retry_After=str(self.random.choice((5, 60, 300))))
        if self.bug.at(now):
            self.own_failures.add(id)
            raise ValueError("a bad deploy")
        if id in self.poison:
            error = self.poison[id]
            raise error()
        self.done[id] = now

    def _error(self) -> Exception:
        unreached = (lambda: Unavailable(self.name, "down"), lambda: ConnectionRefusedError(111, "refused"))
        answered = (lambda: HTTPError(500), lambda: HTTPError(503), lambda: TimeoutError("no answer"))
        # Without a health call, a lone document is only known to be innocent if nothing was reached.
        return self.random.choice(unreached if self.health == "none" else (*unreached, *answered))()

    def publish(self) -> None:
        for _ in range(self.random.choice((1, 1, 2, 8))):
            id = f"{self.name}/{len(self.published):04}"
            if self.random.random() < 0.05:
                kinds: tuple[Callable[[], Exception], ...] = (
                    lambda: HTTPError(403),
                    lambda: HTTPError(500),
                    lambda: TimeoutError("it never ends"),
                    lambda: KeyError("torn"),
                    lambda: Unavailable(self.name, "not for this one"),
                )
                self.poison[id] = self.random.choice(kinds)
            page = Page(id=id)
            self.published[id] = self.world.now
            self.world.simulation.app.publish(self.world.events[self.name](page_ids=[id]), documents=[page])

    # -- what must be true afterwards

    def check(self, report: Counter[str]) -> None:
        simulation = self.world.simulation
        breakers = {one.dependency: one for one in simulation.store.breakers()}
        for id, published in self.published.items():
            state = simulation.state(Page(id=id))
            report[state.status] += 1
            if state.status not in FINAL:
                breaker = breakers[self.name]
                assert breaker.needs_person(simulation.clock.now()), f"{id} waits, and nobody is told"
                assert breaker.reason, f"{id} waits, and nobody is told why"
            if id in self.poison or id in self.own_failures:
                continue
            assert state.status == Status.PROCESSED, f"{id}: {state.last_error}"
            assert state.attempt_count == 1, f"{id}: an outage has cost a round: {state.attempts}"
            self._check_delay(id, published)

    def _check_delay(self, id: str, published: float) -> None:
        trouble = (self.down, self.refused, self.limited, self.bug)
        if any(spans.near(published - SETTLING, published + SETTLING) for spans in trouble):
            return
        late = self.done[id] - published
        assert late <= SLOWEST_PROBE_SECONDS + MINUTE, f"{id} was delayed by {late:.0f} s"


class World:
    """Several services, each with its own kind of health call."""

    KINDS = ("honest", "none", "lying yes", "wrong no")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.events = {kind.replace(" ", "-"): _event(kind) for kind in self.KINDS}
        self.app = new_app()
        self.troubles = [Trouble(self, kind.replace(" ", "-"), health=kind) for kind in self.KINDS]
        for trouble in self.troubles:
            trouble.declare(self.app)
        self.simulation = Simulation(self.app, seed=seed)
        self.began = self.simulation.clock.now()

    @property
    def now(self) -> float:
        return self.simulation.clock.now() - self.began

    def run(self, seconds: float) -> Counter[str]:
        """Publish for some time, let the last outages end, and check every document."""
        random, report = Random(self.seed), Counter[str]()
        with self.simulation:
            while self.now < seconds:
                for trouble in random.sample(self.troubles, random.randrange(len(self.troubles) + 1)):
                    trouble.publish()
                self.simulation.run_for(random.choice((MINUTE, 10 * MINUTE, 20 * MINUTE, HOUR)))
            self.simulation.run_for(3 * DAY)
            for trouble in self.troubles:
                trouble.check(report)
            report["calls"] = self.simulation.calls
            report["openings"] = len(self.simulation.store.openings())
        return report


def _event(kind: str) -> type[PagesFound]:
    return type(f"Found{kind.title().replace(' ', '')}", (PagesFound,), {"__module__": __name__})


def _live_through(seed: int, seconds: float, report: Callable[[str], None]) -> None:
    counts = World(seed).run(seconds)
    assert counts[Status.PROCESSED] > 100
    report(f"seed {seed}: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))


def test_a_day_of_ordinary_trouble(report: Callable[[str], None]) -> None:
    _live_through(0, DAY, report)


@pytest.mark.prove
@pytest.mark.parametrize("seed", SEEDS)
def test_a_week_of_ordinary_trouble(seed: int, report: Callable[[str], None]) -> None:
    _live_through(seed, WEEK, report)
