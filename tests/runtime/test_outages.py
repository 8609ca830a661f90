"""An outage burns nothing: what needs a dependency that is down waits, and loses neither tries nor rounds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from threading import Event

import pytest

from onward import App, Status, Unavailable, Work
from onward.model.breaker import Breaker
from onward.model.ledger import Delivery, DependencyReport, Processed, Settlement
from onward.runtime import dependency
from onward.runtime.dependency import Dependency
from onward.runtime.outcomes import AnySignal, BreakerMoved
from onward.testing import Simulation
from tests.support.page_app import (
    DAY,
    HOUR,
    MINUTE,
    HTTPError,
    Page,
    PagesFound,
    all_processed,
    bring,
    bring_apart,
    new_app,
    statuses,
)

TWENTY = [f"{n:02}" for n in range(20)]


def app_that_needs_a_website(*, health: bool = False, batch: int | None = None) -> App:
    app = new_app()
    if health:
        app.dependency("website", health=lambda: True)

    @app.service("reading", on=PagesFound, finishes=Page, needs="website", batch=batch)
    async def read(page: Page | Sequence[Page], work: Work) -> None: ...

    return app


def breaker(world: Simulation) -> Breaker:
    (found,) = world.store.breakers()
    return found


@pytest.mark.parametrize("health", (True, False), ids=("with health call", "without"))
@pytest.mark.parametrize("batch", (None, 8), ids=("single", "batches"))
def test_three_hours_of_outage(health: bool, batch: int | None) -> None:
    app = app_that_needs_a_website(health=health, batch=batch)
    with Simulation(app) as world:
        began = world.clock.now()
        world.fail("website", for_seconds=3 * HOUR)
        for start in range(0, 20, 5):
            bring(world, *TWENTY[start : start + 5])
        calls = world.run_for(3 * HOUR)
        assert set(statuses(world, *TWENTY).values()) == {Status.PENDING}
        assert calls < 100, "it is asked now and then, not hammered"
        assert breaker(world).open
        world.run_for(HOUR)
        assert all_processed(world, *TWENTY)
        assert world.dead_letters() == []
        for id in TWENTY:
            state = world.state(Page(id=id))
            assert state.attempt_count == state.round == 1, "no round was burned"
            assert state.attempts["last" if state.attempts["last"] else "first"], "and its history is kept"
        (opening,) = world.store.openings("website")
        assert 0 <= opening["opened_at"] - began <= MINUTE
        assert 0 <= opening["closed_at"] - (began + 3 * HOUR) <= 5 * MINUTE
        assert "simulated outage" in opening["reason"] or "health call" in opening["reason"]


@pytest.mark.parametrize("health", (True, False), ids=("with health call", "without"))
def test_no_try_is_burned_either(health: bool) -> None:
    app, tries = new_app(), list[int]()
    if health:
        app.dependency("website", health=lambda: True)

    @app.service("reading", on=PagesFound, finishes=Page, needs="website")
    def read(page: Page, work: Work) -> None:
        tries.append(work.try_number)

    with Simulation(app) as world:
        world.fail("website", for_seconds=3 * HOUR)
        bring_apart(world, *TWENTY)
        world.run_for(4 * HOUR)
        assert tries == [1] * 20


def test_what_is_published_meanwhile_waits_too() -> None:
    with Simulation(app_that_needs_a_website()) as world:
        world.fail("website", for_seconds=3 * HOUR)
        bring_apart(world, *TWENTY[:10])
        world.run_for(HOUR)
        bring_apart(world, *TWENTY[10:])
        world.run_for(HOUR)
        assert set(statuses(world, *TWENTY[10:]).values()) == {Status.PENDING}
        world.run_for(2 * HOUR)
        assert all_processed(world, *TWENTY)


@pytest.mark.prove
@pytest.mark.parametrize("days", (1, pytest.param(3, marks=pytest.mark.prove)))
def test_days_of_outage_are_no_different(days: int) -> None:
    with Simulation(app_that_needs_a_website(health=True)) as world:
        world.fail("website", for_seconds=days * DAY)
        (page,) = bring(world, "a")
        calls = world.run_for(days * DAY)
        assert calls < days * DAY / 300 + 10, "a document probes, too: the health call may be wrong"
        world.run_for(10 * MINUTE)
        state = world.state(page)
        assert (state.status, state.attempt_count) == (Status.PROCESSED, 1)


def test_a_health_call_opens_the_breaker_for_a_single_document() -> None:
    with Simulation(app_that_needs_a_website(health=True)) as world:
        world.fail("website", for_seconds=HOUR)
        (page,) = bring(world, "a")
        assert world.drain() == 1
        assert breaker(world).open
        assert breaker(world).reason == "its health call says no"
        assert world.state(page).last_error is None, "nothing is held against the page"


def test_without_one_it_takes_five_failures_of_three_documents() -> None:
    with Simulation(app_that_needs_a_website()) as world:
        world.fail("website", for_seconds=HOUR)
        bring_apart(world, "a", "b")
        world.run_for(4)
        assert world.store.openings() == [], "two failures of two documents"
        bring_apart(world, "c", "d")
        world.drain()
        assert world.store.openings() == [], "four failures"
        bring(world, "e")
        world.drain()
        assert breaker(world).open
        assert [world.state(Page(id=id)).attempt_count for id in "abcde"] == [1] * 5
        assert world.calls == 5


@pytest.mark.parametrize("health", (True, False), ids=("with health call", "without"))
def test_one_poison_document_opens_no_breaker_and_the_others_pass(health: bool) -> None:
    app = new_app()
    if health:
        app.dependency("website", health=lambda: True)

    @app.service("reading", on=PagesFound, finishes=Page, needs="website", batch=4)
    def read(batch: Sequence[Page], work: Work) -> None:
        if any(page.id == "poison" for page in batch):
            raise TimeoutError("it never ends")

    with Simulation(app) as world:
        bring(world, "poison", "a", "b", "c")
        bring(world, *TWENTY)
        world.run_for(HOUR)
        assert all_processed(world, "a", "b", "c", *TWENTY)
        assert world.store.openings() == []
        (letter,) = world.dead_letters()
        assert (letter.documents, letter.attempt_count) == ((("pages", "poison"),), 3)
        assert letter.error_type == "TimeoutError"


def test_not_even_when_it_is_alone_and_comes_back_every_hour() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, needs="website")
    def read(page: Page, work: Work) -> None:
        raise TimeoutError

    with Simulation(app) as world:
        bring(world, "poison")
        for _ in range(10):
            world.run_for(HOUR)
            world.store.requeue(world.dead_letters()[0].row)
        assert world.store.openings() == []


def test_a_batch_and_its_halves_are_one_witness() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, needs="website", batch=8)
    def read(batch: Sequence[Page], work: Work) -> None:
        if any(page.id == "h" for page in batch):
            raise TimeoutError

    with Simulation(app) as world:
        bring(world, *"habcdefg")
        world.run_for(HOUR)
        assert world.store.openings() == []
        assert all_processed(world, *"abcdefg")


def test_a_failure_that_is_not_the_dependencys_proves_nothing() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, needs="website")
    def read(page: Page, work: Work) -> None:
        raise ValueError("torn") if page.id < "05" else Unavailable("library", "not what we need")

    with Simulation(app) as world:
        bring_apart(world, *TWENTY)
        world.run_for(HOUR)
        assert world.store.breakers() == []
        assert len(world.dead_letters()) == 20


def test_of_several_dependencies_only_a_named_one_is_blamed() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, needs=["website", "model"])
    def read(page: Page, work: Work) -> None:
        raise Unavailable("model") if page.id < "10" else TimeoutError

    with Simulation(app) as world:
        bring_apart(world, *TWENTY[10:])
        world.drain()
        assert world.store.breakers() == [], "nobody knows which of the two it was"
        bring_apart(world, *TWENTY[:10])
        world.drain()
        assert [one.dependency for one in world.store.breakers() if one.open] == ["model"]


# -- probing, and coming back


def test_each_probe_is_another_document() -> None:
    app, probes = new_app(), list[tuple[float, str]]()

    @app.service("reading", on=PagesFound, finishes=Page, needs="website")
    def read(page: Page, work: Work) -> None:
        if breaker_is_open(world):
            probes.append((round(world.clock.now() - began), page.id))
        raise Unavailable("website")

    with Simulation(app) as world:
        began = world.clock.now()
        bring_apart(world, *TWENTY)
        world.run_for(HOUR)
        times, ids = zip(*probes, strict=True)
        assert times[:6] == (10, 30, 70, 150, 310, 610), "after 10 s, doubling up to 5 minutes"
        assert len(set(ids)) == len(ids), "so none can keep it open"
        assert {later - before for before, later in pairwise(times[4:])} == {300}


def breaker_is_open(world: Simulation) -> bool:
    return any(one.open for one in world.store.breakers())


def test_a_poison_document_cannot_keep_it_open() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, needs="website")
    def read(page: Page, work: Work) -> None:
        if page.id == "00" or world.clock.now() < up_again:
            raise Unavailable("website")

    with Simulation(app) as world:
        up_again = world.clock.now() + HOUR
        bring_apart(world, *TWENTY)
        world.run_for(2 * HOUR)
        assert all_processed(world, *TWENTY[1:])
        assert not breaker_is_open(world)
        for n in range(5):
            bring(world, f"later {n}")
            world.run_for(6 * MINUTE)
            assert all_processed(world, f"later {n}")
        assert [letter.documents for letter in world.dead_letters()] == [(("pages", "00"),)]


def claim(world: Simulation) -> list[Delivery]:
    return world.store.claim("fleet", "reading", limit=100, lease=600, needs=["website"])


def test_after_it_the_fleet_begins_with_one_and_doubles() -> None:
    app = app_that_needs_a_website()
    with Simulation(app) as world:
        bring_apart(world, *(f"{n}" for n in range(64)))
        world.store.open_breaker("website", "down")
        assert claim(world) == []
        world.store.close_breaker("website")
        waves: list[int] = []
        for _ in range(4):
            wave = claim(world)
            waves.append(len(wave))
            assert claim(world) == [], "the whole fleet shares the limit"
            for delivery in wave:
                done = Processed([one.id for one in delivery.inputs])
                report = DependencyReport(succeeded=["website"])
                world.store.settle(
                    [Settlement(delivery.row, delivery.token, "pages", parts=[done], dependencies=report)]
                )
        assert waves == [1, 2, 4, 8]


def test_the_fleet_hears_of_it() -> None:
    told = list[AnySignal]()
    app = app_that_needs_a_website(health=True)
    app.observe(told.append)
    with Simulation(app) as world:
        world.fail("website", for_seconds=MINUTE)
        bring(world, "a")
        world.run_for(HOUR)
    assert [one for one in told if isinstance(one, BreakerMoved)] == [
        BreakerMoved("website", True),
        BreakerMoved("website", False),
    ]


def test_a_health_call_may_hang_or_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependency, "HEALTH_SECONDS", 0.01)
    never = Event()
    assert Dependency("website").problem() == ""
    hanging = Dependency("website", never.wait)
    assert hanging.problem() == "its health call did not answer within 0.01 s"
    never.set()
    monkeypatch.setattr(dependency, "HEALTH_SECONDS", 10)

    def broken() -> bool:
        raise SystemExit("password=hunter2")

    assert Dependency("website", broken).problem() == "password=***"
    assert Dependency("website", lambda: False).problem() == "its health call says no"
    assert Dependency("website", lambda: None).problem() == ""


# -- refusals


def test_a_refused_key_opens_at_once_and_says_what_to_do() -> None:
    app, key = new_app(), ["expired"]

    @app.service("reading", on=PagesFound, finishes=Page, needs="model")
    def read(page: Page, work: Work) -> None:
        if key[0] == "expired":
            raise Unavailable("model", "401", opens=True, remedy="renew the key")

    with Simulation(app) as world:
        found = bring_apart(world, *TWENTY)
        world.drain()
        assert world.calls == 1
        assert breaker(world).open
        assert breaker(world).remedy == "renew the key"
        assert breaker(world).needs_person(world.clock.now())
        world.run_for(DAY)
        key[0] = "renewed"
        world.run_for(HOUR)
        assert all(world.state(page).attempt_count == 1 for page in found)
        assert all_processed(world, *TWENTY)
        assert len(world.store.openings("model")) == 1


def test_a_rate_limit_pauses_and_never_opens() -> None:
    app, times = new_app(), list[float]()

    @app.service("reading", on=PagesFound, finishes=Page, needs="model")
    def read(page: Page, work: Work) -> None:
        times.append(round(world.clock.now() - began))
        if len(times) in (3, 4, 5, 6, 7, 8):
            raise HTTPError(429, Retry_After="120")

    with Simulation(app) as world:
        began = world.clock.now()
        bring_apart(world, *TWENTY)
        world.run_for(2 * HOUR)
        assert times[:9] == [0, 0, 0, 120, 240, 360, 480, 600, 720], "everybody waits as long as was asked"
        assert world.store.openings() == []
        assert all_processed(world, *TWENTY)


def test_a_rate_limit_that_does_not_say_for_how_long() -> None:
    app, times = new_app(), list[float]()

    @app.service("reading", on=PagesFound, finishes=Page, needs="model")
    def read(page: Page, work: Work) -> None:
        times.append(round(world.clock.now() - began))
        if len(times) == 1:
            raise HTTPError(429)

    with Simulation(app) as world:
        began = world.clock.now()
        bring_apart(world, "a", "b")
        world.run_for(HOUR)
        assert times == [0, 10, 10]


# -- by hand


def test_a_breaker_opened_by_hand_stays_open_until_it_is_closed_by_hand() -> None:
    with Simulation(app_that_needs_a_website(health=True)) as world:
        world.store.open_breaker("website", "we are moving house", by_hand=True)
        bring_apart(world, *TWENTY)
        assert world.run_for(3 * DAY) == 0, "nobody even asks"
        assert breaker(world).reason == "we are moving house"
        world.store.close_breaker("website")
        world.drain()
        assert all_processed(world, *TWENTY)


def test_a_health_call_leaves_to_a_person_what_that_person_opens_meanwhile() -> None:
    app, moved = new_app(), list[AnySignal]()
    world: Simulation

    def health() -> bool:
        world.store.open_breaker("website", "it is being moved", by_hand=True)
        return True

    app.dependency("website", health=health)

    @app.service("reading", on=PagesFound, finishes=Page, needs="website")
    async def read(page: Page, work: Work) -> None: ...

    app.hooks.observers.append(moved.append)
    with Simulation(app) as world:
        world.store.open_breaker("website", "down")
        bring(world, "a")
        world.run_for(HOUR)
        assert breaker(world).by_hand
        assert breaker(world).open
        assert [one for one in moved if isinstance(one, BreakerMoved)] == [], "nobody is told that it closed"
        assert statuses(world, "a") == {"a": Status.PENDING}
