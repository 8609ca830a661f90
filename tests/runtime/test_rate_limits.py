"""The rate and the concurrency of a dependency hold in the whole fleet, and what waits for them loses nothing."""

from __future__ import annotations

import asyncio
import bisect
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from onward import App, Dependency, Settings, Unavailable, Work
from onward.ledger.store import Store
from onward.model.dependency_limits import CLOCK_STEP_SECONDS
from onward.runtime.handler_call import CURRENT
from onward.runtime.limited_claims import LimitedClaims
from onward.runtime.service import RegistrationError
from onward.testing import Fleet, Simulation
from tests.support.page_app import DAY, HOUR, MINUTE, Noticed, Page, PagesFound, bring, new_app


def most_in_a_window(times: Sequence[float], seconds: float) -> int:
    """Return the most of these times that lie in a window of this length, which does not include its end."""
    times = sorted(times)
    return max((bisect.bisect_left(times, one + seconds) - n for n, one in enumerate(times)), default=0)


class Calls(list[float]):
    """The times at which the handler was called."""

    handle: Callable[[Page], None] = staticmethod(lambda page: None)


def reading(needs: Any, calls: Calls, **options: Any) -> App:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, needs=needs, **options)
    def read(page: Any, work: Work) -> None:
        calls.append(work.now)
        calls.handle(page)

    return app


def bring_each(world: Simulation, count: int) -> None:
    for number in range(count):
        bring(world, f"p{number}")


def processed(world: Simulation) -> int:
    return world.store.document_counts()["pages"].get("processed", 0)


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many deliveries each claim got."""
    counts: list[int] = []
    claim = Store.claim

    def counted(self: Store, *args: Any, **more: Any) -> Any:
        claimed = claim(self, *args, **more)
        counts.append(len(claimed))
        return claimed

    monkeypatch.setattr(Store, "claim", counted)
    return counts


# -- on the simulated clock, on every store


def test_a_minute_never_has_more_calls_than_the_rate_allows(store_url: str, claims: list[int]) -> None:
    calls = Calls()
    with Simulation(reading(Dependency("api", rate="60/min"), calls), store=store_url) as world:
        bring_each(world, 130)
        world.run_for(2 * MINUTE)
        assert 115 <= len(calls) < 120
        assert world.store.counts()["reading"] == {"waiting": 130 - len(calls), "done": len(calls)}
        world.run_for(MINUTE)
        assert (len(calls), processed(world)) == (130, 130)
        assert most_in_a_window(calls, MINUTE) <= 60
    assert len(claims) < 2 * 130, "it claims when a token comes, and not in between"


def test_a_week_takes_a_moment() -> None:
    calls = Calls()
    with Simulation(reading(Dependency("api", rate="10/5hour"), calls)) as world:
        bring_each(world, 400)
        world.run_for(7 * DAY)
    assert 0.98 * 336 <= len(calls) <= 336
    assert most_in_a_window(calls, 5 * HOUR) <= 10


def test_the_documents_of_one_event_are_calls_of_their_own(store_url: str) -> None:
    calls = Calls()
    with Simulation(reading(Dependency("api", rate="10/min"), calls), store=store_url) as world:
        bring(world, *(f"p{number}" for number in range(30)))
        world.run_for(5 * MINUTE)
        assert (len(calls), processed(world)) == (30, 30)
    assert most_in_a_window(calls, MINUTE) <= 10


@pytest.mark.parametrize("limit", ({"concurrency": 1}, {"rate": "1/s"}))
def test_documents_of_a_large_event_are_not_read_again_for_each_call(
    store_url: str, limit: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    count, read = 128, 0
    claim = Store.claim

    def counted(self: Store, *args: Any, **more: Any) -> Any:
        nonlocal read
        claimed = claim(self, *args, **more)
        read += sum(len(delivery.inputs) for delivery in claimed)
        return claimed

    monkeypatch.setattr(Store, "claim", counted)
    with Simulation(reading(Dependency("api", **limit), Calls()), store=store_url) as world:
        bring(world, *(f"p{number}" for number in range(count)))
        world.run_for(5 * MINUTE)
        assert processed(world) == count
    assert read <= count * count.bit_length(), "each time, the others were halved"


def test_a_batch_is_one_call(store_url: str) -> None:
    calls = Calls()
    with Simulation(reading(Dependency("api", rate="2/min"), calls, batch=10), store=store_url) as world:
        bring(world, *(f"p{number}" for number in range(30)))
        world.run_for(2 * MINUTE)
        assert (len(calls), processed(world)) == (3, 30)
    assert most_in_a_window(calls, MINUTE) <= 2


@pytest.mark.parametrize("key", (None, lambda page: page.id))
def test_what_has_expired_takes_nothing_of_the_rate(store_url: str, key: Any) -> None:
    calls = Calls()
    with Simulation(reading(Dependency("api", rate="4/h"), calls, key=key), store=store_url) as world:
        for number in range(20):
            bring(world, f"late{number}", expires=MINUTE)
        bring(world, "in time")
        world.clock.advance(2 * MINUTE)
        world.run_for(MINUTE)
        assert len(calls) == 1
        assert world.store.document_counts()["pages"] == {"discarded": 20, "processed": 1}


def test_retries_count(store_url: str) -> None:
    calls = Calls()
    seen: set[str] = set()

    def fail_once(page: Page) -> None:
        if page.id not in seen:
            seen.add(page.id)
            raise ValueError("once")

    calls.handle = fail_once
    with Simulation(reading(Dependency("api", rate="10/min"), calls), store=store_url) as world:
        bring_each(world, 15)
        world.run_for(5 * MINUTE)
        assert (len(calls), processed(world)) == (30, 15)
    assert most_in_a_window(calls, MINUTE) <= 10


def test_an_outage_and_a_rate_together(store_url: str) -> None:
    calls = Calls()
    with Simulation(reading(Dependency("api", rate="10/min"), calls), store=store_url) as world:

        def unavailable(page: Page) -> None:
            if world.clock.now() < ends:
                raise Unavailable("api", "down")

        calls.handle = unavailable
        ends = world.clock.now() + 20 * MINUTE
        bring_each(world, 40)
        world.run_for(2 * HOUR)
        assert processed(world) == 40
        assert world.dead_letters() == []
    assert most_in_a_window(calls, MINUTE) <= 10


def test_a_call_that_comes_too_late_is_not_made_and_not_charged(store_url: str) -> None:
    calls = Calls()
    called: list[str] = []
    # Three calls are granted at once. The first takes longer than the others may wait.
    with Simulation(reading(Dependency("api", rate="150/s"), calls), store=store_url) as world:

        def take_long(page: Page) -> None:
            call = CURRENT.get()
            assert call is not None
            assert call.delivery.begin_by is not None
            assert world.clock.now() <= call.delivery.begin_by
            called.append(page.id)
            world.clock.advance(2.0)

        calls.handle = take_long
        found = bring(world, "a", "b", "c", "d")
        world.run_for(MINUTE)
        assert sorted(called) == ["a", "b", "c", "d"]
        assert [world.state(page).attempt_count for page in found] == [1] * 4
        assert processed(world) == 4


def test_a_clock_that_is_set_back_stops_no_calls(store_url: str) -> None:
    calls = Calls()
    with Simulation(reading(Dependency("api", rate="10/hour"), calls), store=store_url) as world:
        bring_each(world, 1)
        world.run_for(MINUTE)
        world.clock.advance(-DAY)
        pages = [Page(id=f"later{number}") for number in range(20)]
        world.app.publish(*(PagesFound.of([page]) for page in pages), documents=pages)
        world.run_for(HOUR)
        assert processed(world) == 10


def test_a_process_waits_for_no_token_of_a_clock_that_was_set_back() -> None:
    app = reading(Dependency("api", rate="10/hour"), Calls())
    service = app.registry.services["reading"]
    claims, noon = LimitedClaims(service, app.registry.limits_of(service)), 1_800_000_000.0
    claims.begin(free_slots=1).next_claim = noon + 360
    assert claims.wait()
    assert claims.room(0, noon) == 0
    assert claims.room(0, noon + 1 - CLOCK_STEP_SECONDS) == 0, "clocks of processes differ a little"
    assert claims.room(0, noon - HOUR) > 0


def test_other_services_do_not_wait(store_url: str) -> None:
    calls = Calls()
    app = reading(Dependency("api", rate="1/hour"), calls)
    heard: list[float] = []

    @app.service("listening", on=Noticed)
    def listen(event: Noticed, work: Work) -> None:
        heard.append(work.now)

    with Simulation(app, store=store_url) as world:
        bring_each(world, 3)
        for number in range(3):
            app.publish(Noticed(what=str(number)))
        world.run_for(MINUTE)
    assert (len(calls), len(heard)) == (1, 3)


@pytest.mark.parametrize("seed", range(3))
def test_workers_that_crash_keep_to_the_rate(seed: int) -> None:
    calls = Calls()
    with Fleet(reading(Dependency("api", rate="30/min", concurrency=2), calls), workers=3, seed=seed) as fleet:
        bring_each(fleet, 60)
        fleet.crash_at_random(0.1)
        fleet.drain(within=MINUTE)
        fleet.crash_at_random(0.0)
        fleet.run_until_idle()
        assert fleet.lost == []
        assert fleet.crashes > 0
    assert len(calls) >= 60
    assert most_in_a_window(calls, MINUTE) <= 30


def test_two_workers_share_a_rate() -> None:
    calls = Calls()
    with Fleet(reading(Dependency("api", rate="60/min"), calls), workers=2) as fleet:
        bring_each(fleet, 100)
        fleet.run_until_idle()
    assert len(calls) == 100
    assert most_in_a_window(calls, MINUTE) <= 60


# -- real engines


@pytest.fixture
def engine_app(store_url: str) -> Any:
    app = App(store=store_url, settings=Settings())
    yield app
    app.close()


def test_a_worker_claims_when_a_token_comes(
    engine_app: App, claims: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[float] = []
    rests: list[float] = []
    wait_for = asyncio.wait_for

    def rest(awaited: Any, seconds: float) -> Any:
        rests.append(seconds)
        return wait_for(awaited, seconds)

    monkeypatch.setattr(asyncio, "wait_for", rest)

    @engine_app.service("reading", on=PagesFound, finishes=Page, needs=Dependency("api", rate="20/s"))
    def read(page: Page, work: Work) -> None:
        calls.append(work.now)

    pages = [Page(id=f"p{number}") for number in range(12)]
    engine_app.publish(*(PagesFound.of([page]) for page in pages), documents=pages)
    engine_app.work_until_idle()
    assert len(calls) == 12
    assert sum(claims) >= 12
    assert sum(seconds <= 1.05 / 20 + 1e-3 for seconds in rests) >= 5, "it rests until the next token comes"
    assert len(claims) <= 4 * 12, "no busy loop"


@pytest.mark.parametrize("is_async", (False, True), ids=("def", "async def"))
def test_concurrency_holds_in_a_process_with_more_slots(
    engine_app: App, claims: list[int], is_async: bool
) -> None:
    lock = threading.Lock()
    running, most = 0, 0

    def enter() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)

    def leave() -> None:
        nonlocal running
        with lock:
            running -= 1

    def read(page: Page, work: Work) -> None:
        enter()
        engine_app.get(Page, page.id)  # something that lets others run
        leave()

    async def read_async(page: Page, work: Work) -> None:
        enter()
        await asyncio.sleep(0)
        leave()

    api = engine_app.dependency("api", concurrency=2)
    declare = engine_app.service("reading", on=PagesFound, finishes=Page, needs=api, concurrency=8)
    declare(read_async if is_async else read)
    pages = [Page(id=f"p{number}") for number in range(24)]
    for first in range(0, 24, 6):
        engine_app.publish(PagesFound.of(pages[first : first + 6]), documents=pages[first : first + 6])
    engine_app.work_until_idle()
    assert engine_app.store.document_counts()["pages"] == {"processed": 24}
    assert 1 <= most <= 2
    assert len(claims) <= 4 * 24, "no busy loop"


# -- declaring


@pytest.mark.parametrize("rate", ("", "60", "60/fortnight", "0/min", 60))
def test_a_wrong_rate_is_refused(rate: Any) -> None:
    with pytest.raises(RegistrationError, match=r"dependency 'api' has rate=.*such as '10/s', '60/min'"):
        Dependency("api", rate=rate)


@pytest.mark.parametrize("concurrency", (0, -1, 1.5, "4", True, 2**64))
def test_a_wrong_concurrency_is_refused(concurrency: Any) -> None:
    with pytest.raises(RegistrationError, match=r"dependency 'api' has concurrency=.*from 1 to 1,000,000,000 is"):
        new_app().dependency("api", concurrency=concurrency)


@pytest.mark.parametrize("name", ("", " ", None))
def test_a_dependency_has_a_name(name: Any) -> None:
    with pytest.raises(RegistrationError, match="give a name"):
        Dependency(name)


@pytest.mark.parametrize("needs", (None, 5, Dependency))
def test_needs_that_are_no_dependency_are_refused(needs: Any) -> None:
    with pytest.raises(RegistrationError, match=r"service 'reading' needs .*; give the name of a dependency"):
        reading(needs, Calls())


def test_one_object_serves_many_services_and_tasks() -> None:
    app = new_app()
    api = Dependency("api", rate="60/min")

    @app.service("reading", on=PagesFound, finishes=Page, needs=[api, "paper"])
    def read(page: Page, work: Work) -> None: ...

    @app.task(needs=api)
    def print_page(id: str) -> None: ...

    @app.service("listening", on=Noticed, needs="api")
    def listen(event: Noticed, work: Work) -> None: ...

    services = app.registry.services
    assert services["reading"].needs == ("api", "paper")
    assert all([one.dependency for one in app.registry.limits_of(each)] == ["api"] for each in services.values())


def test_a_name_and_its_declaration_come_in_any_order() -> None:
    app = new_app()

    @app.service("listening", on=Noticed, needs="api")
    def listen(event: Noticed, work: Work) -> None: ...

    assert app.registry.limits_of(app.registry.services["listening"]) == ()
    declared = app.dependency("api", rate="60/min")
    assert declared == Dependency("api", rate="60/min")
    assert len(app.registry.limits_of(app.registry.services["listening"])) == 1


def test_two_declarations_of_one_name_are_refused() -> None:
    app = new_app()
    app.dependency("api", rate="60/min")
    with pytest.raises(RegistrationError, match="declared twice"):
        app.dependency("api", rate="61/min")
    with pytest.raises(RegistrationError, match=r"rate='61/min'.*other options.*rate='60/min'"):
        app.service("listening", on=Noticed, needs=Dependency("api", rate="61/min"))
    with pytest.raises(RegistrationError, match="give the name of a dependency or a Dependency"):
        app.service("listening", on=Noticed, needs=[60])  # type: ignore[list-item]
