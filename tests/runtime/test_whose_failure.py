"""A breaker is about a dependency, a charge is about a document; the evidence decides whose failure it is."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from itertools import pairwise

import pytest

from onward import App, Event, Joined, RetryPolicy, Schedule, Settings, Status, Unavailable, Work
from onward.model.breaker import MAX_RATE_LIMITED, Breaker
from onward.ops.queries.joins import join_facts
from onward.ops.queries.needs import NeedKind
from onward.ops.queries.status import read_status
from onward.ops.text.format import sentence_text
from onward.ops.text.history import next_step_sentence
from onward.recovery.common_failures import FAILING_TOGETHER_SECONDS
from onward.recovery.next_step import NextStepKind, NextSteps
from onward.recovery.retry_decision import RetryReason
from onward.runtime.dependency import Dependency, HealthCalls
from onward.runtime.registry import Registry
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

GOOD = [f"good {n:02}" for n in range(40)]
FIVE = [f"bad {n}" for n in range(5)]
Open = Callable[[App], Simulation]


class AllRead(Event):
    joined: Joined = Joined()


QUICKLY_ON_SQLITE = pytest.mark.parametrize(
    "simulate", ("sqlite", pytest.param("postgres", marks=pytest.mark.prove)), indirect=True
)
"""For tests that simulate long, or in many forms: on PostgreSQL they are long proofs."""


@pytest.fixture(params=("sqlite", "postgres"))
def simulate(request: pytest.FixtureRequest) -> Open:
    """Simulates an app on each kind of store."""
    url = "sqlite://:memory:" if request.param == "sqlite" else request.getfixturevalue("postgres_store_url")
    return lambda app: Simulation(app, store=url)


def reading(
    handle: Callable[[Page, Simulation], None], *, health: Callable[[], bool] | None = None
) -> tuple[App, list[Simulation]]:
    """An app whose one service needs a website; the handler gets the world that is simulated."""
    app, worlds = new_app(), list[Simulation]()
    if health is not None:
        app.dependency("website", health=health)

    @app.service("reading", on=PagesFound, finishes=Page, needs="website")
    def read(page: Page, work: Work) -> None:
        handle(page, worlds[0])

    return app, worlds


def rarely_retried(error: Callable[[], Exception]) -> App:
    """An app whose service fails for bad pages, with one try a round and a round every four hours."""
    wait = 4 * HOUR
    app = App(settings=Settings(retry_job_base_delay_seconds=wait, retry_job_max_delay_seconds=wait))

    @app.service("reading", on=PagesFound, finishes=Page, policy=RetryPolicy(Schedule((5,)), max_tries=1))
    def read(page: Page, work: Work) -> None:
        if page.id.startswith("bad"):
            raise error()

    return app


def breaker(world: Simulation) -> Breaker:
    found = [one for one in world.store.breakers() if one.dependency == "website"]
    return found[0] if found else Breaker("website")


def openings(world: Simulation) -> int:
    return len(world.store.openings("website"))


def fail_bad(error: Callable[[], Exception]) -> Callable[[Page, Simulation], None]:
    """Handle a page: what is called bad fails, each time."""

    def handle(page: Page, world: Simulation) -> None:
        if page.id.startswith("bad"):
            raise error()

    return handle


# -- the document's own


@QUICKLY_ON_SQLITE
@pytest.mark.parametrize("status", (401, 403, 500, 503))
@pytest.mark.parametrize("health", (None, lambda: True), ids=("no health call", "health call"))
def test_one_page_that_fails_while_others_succeed_is_set_aside(
    simulate: Open, status: int, health: Callable[[], bool] | None
) -> None:
    app, worlds = reading(fail_bad(lambda: HTTPError(status)), health=health)
    with simulate(app) as world:
        worlds.append(world)
        bring_apart(world, "bad 0", *GOOD)
        world.drain()
        assert all_processed(world, *GOOD), "nobody waits for it"
        world.run_for(6 * HOUR)
        state = world.state(Page(id="bad 0"))
        assert (state.status, state.attempt_count) == (Status.FAILED_MAX_RETRIES, 5)
        (letter,) = world.dead_letters()
        assert letter.attempt_count == 3
        assert openings(world) == 0


def test_a_health_call_that_says_yes_makes_every_failure_the_documents_own(simulate: Open) -> None:
    app, worlds = reading(fail_bad(lambda: HTTPError(500)), health=lambda: True)
    with simulate(app) as world:
        worlds.append(world)
        bring_apart(world, *FIVE, GOOD[0])
        calls = world.run_for(6 * HOUR)
        assert set(statuses(world, *FIVE).values()) == {Status.FAILED_MAX_RETRIES}
        assert calls == 3 * 5 * len(FIVE) + 1, "three tries in each of five rounds"
        assert openings(world) == 0


@pytest.mark.prove
def test_what_fails_like_everything_else_keeps_being_retried_until_something_succeeds(simulate: Open) -> None:
    """An outage that is not recognised: each call fails in another way, and the health call says yes."""
    errors = (lambda: HTTPError(500), lambda: ValueError("no JSON"), lambda: RuntimeError("try later"))

    def handle(page: Page, world: Simulation) -> None:
        if page.id.startswith("bad"):
            error = errors[world.calls % 3]()
            raise error

    app, worlds = reading(handle, health=lambda: True)
    with simulate(app) as world:
        worlds.append(world)
        bring_apart(world, *FIVE)
        world.run_for(3 * DAY)
        assert set(statuses(world, *FIVE).values()) == {Status.PENDING}, "nothing shows that it is their own fault"
        step = NextSteps(world.store).of(world.state(Page(id=FIVE[0])))
        assert (step.kind, step.decision and step.decision.reason) == (NextStepKind.DUE, RetryReason.ALL_FAIL)
        bring_apart(world, GOOD[0])
        world.run_for(2 * HOUR)
        assert set(statuses(world, *FIVE).values()) == {Status.FAILED_MAX_RETRIES}, "after one more round each"


@QUICKLY_ON_SQLITE
def test_what_fails_together_for_a_week_is_given_up_all_the_same(simulate: Open) -> None:
    """The last pages of a list time out: nothing of their service can succeed meanwhile."""
    app, joined = rarely_retried(lambda: TimeoutError("no reply")), list[Joined]()

    @app.service("reporting", on=AllRead)
    def report(event: AllRead, work: Work) -> None:
        joined.append(event.joined)

    with simulate(app) as world:
        app.when_all([*bring_apart(world, *GOOD), *bring_apart(world, *FIVE[:3])], then=AllRead())
        began = world.clock.now()
        world.run_for(FAILING_TOGETHER_SECONDS - 2 * HOUR)
        assert set(statuses(world, *FIVE[:3]).values()) == {Status.PENDING}, "it may be an outage"
        step = NextSteps(world.store).of(world.state(Page(id=FIVE[0])))
        until = step.decision and step.decision.until
        assert until == pytest.approx(began + FAILING_TOGETHER_SECONDS, abs=MINUTE)
        assert "nothing else of its service" in sentence_text(next_step_sentence(step), step.now)
        (need,) = (one for one in read_status(app).needs if one.kind is NeedKind.STUCK)
        assert need.count == 3
        (waits,) = join_facts(app, limit=2)
        assert waits["next"]["document"] in waits["open_documents"]
        assert "it is given up" in waits["next"]["text"]
        world.run_for(DAY)
        (counts,) = joined
        assert (counts.processed, counts.failed, counts.total) == (len(GOOD), 3, len(GOOD) + 3)
        assert set(statuses(world, *FIVE[:3]).values()) == {Status.FAILED_MAX_RETRIES}


@QUICKLY_ON_SQLITE
def test_a_long_stop_of_the_workers_is_no_time_of_failing(simulate: Open) -> None:
    app = rarely_retried(lambda: ValueError("no JSON"))
    with simulate(app) as world:
        bring_apart(world, *FIVE[:3])
        world.run_for(DAY)
        assert set(statuses(world, *FIVE[:3]).values()) == {Status.PENDING}
        world.clock.advance(2 * FAILING_TOGETHER_SECONDS)
        tried = world.calls
        world.drain()
        assert world.calls == tried + 3, "the next round is begun before anything is given up"


@QUICKLY_ON_SQLITE
def test_after_a_reset_the_time_of_failing_begins_anew(simulate: Open) -> None:
    app = rarely_retried(lambda: ValueError("no JSON"))
    with simulate(app) as world:
        found = bring_apart(world, *FIVE[:3])
        world.run_for(FAILING_TOGETHER_SECONDS - HOUR)
        world.store.schedule([("pages", page.id) for page in found], world.clock.now(), reset=True)
        world.run_for(DAY)
        assert set(statuses(world, *FIVE[:3]).values()) == {Status.PENDING}
        world.run_for(FAILING_TOGETHER_SECONDS)
        assert set(statuses(world, *FIVE[:3]).values()) == {Status.FAILED_MAX_RETRIES}


def test_a_lone_document_is_given_up_although_nothing_else_was_tried(simulate: Open) -> None:
    app, worlds = reading(fail_bad(lambda: ValueError("no JSON")))
    with simulate(app) as world:
        worlds.append(world)
        bring_apart(world, *FIVE[:2])
        world.run_for(DAY)
        assert set(statuses(world, *FIVE[:2]).values()) == {Status.FAILED_MAX_RETRIES}


def test_of_two_dependencies_the_one_whose_health_call_says_no_is_the_cause() -> None:
    app = new_app()
    app.dependency("api", health=lambda: True)
    app.dependency("db", health=lambda: False)

    @app.service("reading", on=PagesFound, finishes=Page, needs=("api", "db"))
    def read(page: Page, work: Work) -> None:
        raise ConnectionResetError("connection reset by peer")

    with Simulation(app) as world:
        bring_apart(world, *FIVE)
        world.run_for(HOUR)
        assert {one.dependency for one in world.store.breakers() if one.open} == {"db"}
        (group,) = world.store.failure_groups()
        assert set(group.dependencies) == {"db"}


def test_texts_that_an_embedder_refuses_are_set_aside_and_the_run_comes_to_rest() -> None:
    app = new_app()
    app.dependency("website", health=lambda: True)

    @app.service("reading", on=PagesFound, finishes=Page, needs="website", sets_aside=True)
    def read(page: Page, work: Work) -> None:
        if page.id.startswith("bad"):
            raise HTTPError(500)

    with Simulation(app) as world:
        bring_apart(world, *FIVE, *GOOD)
        world.run_for(MINUTE)
        assert all_processed(world, *GOOD)
        assert {id for batch in world.store.failed_batches() for _, id in batch.items} == set(FIVE)
        assert openings(world) == 0


def test_five_bad_pages_without_a_health_call_delay_the_others_by_one_probe(simulate: Open) -> None:
    done: dict[str, float] = {}

    def handle(page: Page, world: Simulation) -> None:
        if page.id.startswith("bad"):
            raise HTTPError(500)
        done[page.id] = round(world.clock.now() - began)

    app, worlds = reading(handle)
    with simulate(app) as world:
        worlds.append(world)
        began = world.clock.now()
        bring_apart(world, *FIVE, *GOOD)
        world.run_for(MINUTE)
        assert all_processed(world, *GOOD)
        assert max(done.values()) <= 10.0


def test_five_bad_pages_are_given_up_although_little_else_happens() -> None:
    app, worlds = reading(fail_bad(lambda: HTTPError(500)))
    with Simulation(app) as world:
        worlds.append(world)
        bring_apart(world, *FIVE)
        for n in range(200):
            bring(world, f"good {n:03}")
            world.run_for(10 * MINUTE)
            assert all_processed(world, f"good {n:03}"), "a probe takes at most five minutes"
        assert set(statuses(world, *FIVE).values()) == {Status.FAILED_MAX_RETRIES}


def test_a_region_that_is_down_does_not_hold_up_the_others(simulate: Open) -> None:
    done: dict[str, float] = {}

    def handle(page: Page, world: Simulation) -> None:
        if page.id.startswith("bad"):
            raise Unavailable("website", "the region is down")
        done[page.id] = round(world.clock.now() - began)

    app, worlds = reading(handle)
    bad = [f"bad {n:02}" for n in range(40)]
    with simulate(app) as world:
        worlds.append(world)
        began = world.clock.now()
        bring_apart(world, *bad, *GOOD)
        world.run_for(HOUR)
        assert all_processed(world, *GOOD)
        assert max(done.values()) <= 5 * MINUTE


def test_what_keeps_failing_gets_a_bounded_number_of_tries_back() -> None:
    """Every try meets a rate limit, and nothing else happens at all."""
    app, tries = new_app(), list[int]()

    @app.service("reading", on=PagesFound, finishes=Page, needs="website")
    def read(page: Page, work: Work) -> None:
        tries.append(work.try_number)
        raise HTTPError(429, Retry_After="60")

    with Simulation(app, retry_job=False) as world:
        bring(world, "a")
        world.run_for(DAY)
        assert len(tries) == MAX_RATE_LIMITED + 3
        assert len(world.dead_letters()) == 1


# -- the dependency's


@QUICKLY_ON_SQLITE
@pytest.mark.parametrize(
    "error",
    (
        lambda: Unavailable("website", "down"),
        lambda: ConnectionRefusedError(111, "Connection refused"),
        lambda: socket.gaierror(-2, "Name or service not known"),
    ),
    ids=("Unavailable", "refused", "no such name"),
)
@pytest.mark.parametrize("count", (1, 2))
def test_a_lone_document_waits_for_what_cannot_be_reached_and_loses_no_round(
    simulate: Open, error: Callable[[], Exception], count: int
) -> None:
    times = list[float]()

    def handle(page: Page, world: Simulation) -> None:
        if page.id == "good 00":
            times.append(world.clock.now() - began)
        if world.clock.now() < began + 3 * HOUR:
            raise error()

    app, worlds = reading(handle)
    with simulate(app) as world:
        worlds.append(world)
        began = world.clock.now()
        bring_apart(world, *GOOD[:count])
        world.run_for(3 * HOUR)
        waits = [round(later - before) for before, later in pairwise(times)]
        assert waits[:6] == [10, 20, 40, 80, 160, 300], "the schedule of a breaker's probes"
        assert set(waits[5:]) == {300}
        assert not breaker(world).open, "two documents open nothing"
        waiting = world.state(Page(id="good 00"))
        kept = {one["outcome"] for one in (waiting.attempts["first"], *waiting.attempts["last"])}
        assert (kept, waiting.attempts["total"]) == ({"given_back"}, len(times)), "its history is kept"
        assert waiting.last_error is None, "nothing is held against it"
        step = NextSteps(world.store).of(waiting)
        assert (step.kind, step.breaker and step.breaker.dependency) == ("outage", "website")
        assert breaker(world).failing_since == began
        world.run_for(10 * MINUTE)
        for id in GOOD[:count]:
            state = world.state(Page(id=id))
            assert (state.status, state.attempt_count) == (Status.PROCESSED, 1)
        assert breaker(world).quiet


@QUICKLY_ON_SQLITE
def test_after_a_day_a_lone_document_needs_a_person(simulate: Open) -> None:
    app, worlds = reading(fail_bad(lambda: Unavailable("website", "down")))
    with simulate(app) as world:
        worlds.append(world)
        bring(world, "bad 0")
        world.run_for(DAY - HOUR)
        assert not breaker(world).needs_person(world.clock.now())
        world.run_for(2 * HOUR)
        assert breaker(world).needs_person(world.clock.now())
        assert "down" in breaker(world).reason
        state = world.state(Page(id="bad 0"))
        assert (state.status, state.attempt_count) == (Status.PENDING, 1)


def test_a_lone_document_is_charged_once_others_are_known_to_succeed(simulate: Open) -> None:
    app, worlds = reading(fail_bad(lambda: Unavailable("website", "not for this page")))
    with simulate(app) as world:
        worlds.append(world)
        bring(world, "bad 0")
        for id in GOOD:
            world.run_for(30.0)
            bring(world, id)
            world.drain()
            assert all_processed(world, id)
        (letter,) = world.dead_letters()
        assert letter.documents == (("pages", "bad 0"),)


# -- episodes


def flapping(period: float, up: float, until: float) -> Callable[[float], bool]:
    """Whether something that flaps is down, so long after it began to."""
    return lambda now: now < until and now % period >= up


@pytest.mark.prove
def test_flapping_is_one_episode_that_needs_a_person_after_a_day() -> None:
    is_down = flapping(20 * MINUTE, 2 * MINUTE, 30 * HOUR)

    def handle(page: Page, world: Simulation) -> None:
        if is_down(world.clock.now() - began):
            raise Unavailable("website", "flapping")

    app, worlds = reading(handle)
    with Simulation(app) as world:
        worlds.append(world)
        began, turns = world.clock.now(), round(28 * HOUR / (10 * MINUTE))
        for turn in range(turns):
            world.run_for(10 * MINUTE)
            bring_apart(world, *(f"{turn}/{n}" for n in range(4)))
        assert (breaker(world).episode_began_at or 0.0) - began < 2 * HOUR
        assert breaker(world).openings > 2
        assert breaker(world).needs_person(world.clock.now())
        world.run_for(4 * HOUR)
        counts = world.store.document_counts()["pages"]
        assert counts == {Status.PROCESSED: turns * 4}
        rounds = {world.state(Page(id=f"{turn}/{n}")).attempt_count for turn in range(turns) for n in range(4)}
        assert rounds == {1}, "no round was burned"


def test_a_success_that_is_followed_by_failures_does_not_reset_the_delay_between_probes(simulate: Open) -> None:
    app, worlds = reading(fail_bad(lambda: Unavailable("website")))
    with simulate(app) as world:
        worlds.append(world)
        bring_apart(world, *FIVE)
        world.run_for(5 * MINUTE)
        delay, began = breaker(world).probe_delay, breaker(world).episode_began_at
        assert delay >= 160
        world.store.close_breaker("website", probed=True)
        world.drain()
        bring_apart(world, *(f"bad {n}" for n in range(5, 30)))
        world.drain()
        assert breaker(world).open
        assert (breaker(world).openings, breaker(world).episode_began_at) == (2, began)
        assert breaker(world).probe_delay >= delay


def test_an_episode_is_over_when_it_has_worked_for_ten_minutes(simulate: Open) -> None:
    app, worlds = reading(lambda page, world: None, health=lambda: True)
    with simulate(app) as world:
        worlds.append(world)
        world.fail("website", for_seconds=MINUTE)
        bring_apart(world, *GOOD[:5])
        world.run_for(5 * MINUTE)
        assert all_processed(world, *GOOD[:5])
        assert breaker(world).openings == 1
        world.run_for(10 * MINUTE)
        assert breaker(world).episode_began_at is None
        world.fail("website", for_seconds=MINUTE)
        bring_apart(world, *GOOD[5:10])
        world.drain()
        assert (breaker(world).open, breaker(world).openings) == (True, 1)


# -- health calls


def test_a_health_call_that_is_wrong_holds_nobody_up_for_long(simulate: Open) -> None:
    app, worlds = reading(fail_bad(lambda: HTTPError(500)), health=lambda: False)
    with simulate(app) as world:
        worlds.append(world)
        bring_apart(world, "bad 0", *GOOD)
        world.run_for(MINUTE)
        assert all_processed(world, *GOOD), "a document may probe, too"
        world.run_for(DAY)
        assert world.state(Page(id="bad 0")).status == Status.FAILED_MAX_RETRIES


def test_many_failures_at_once_make_one_health_call() -> None:
    asked = list[str]()

    def health() -> bool:
        asked.append("")
        return True

    app, worlds = reading(fail_bad(lambda: HTTPError(500)), health=health)
    with Simulation(app) as world:
        worlds.append(world)
        bring_apart(world, *(f"bad {n}" for n in range(64)))
        world.drain()
        assert (world.calls, len(asked)) == (64, 1)


def test_threads_that_ask_at_once_share_one_health_call() -> None:
    asked, began, answer = list[str](), threading.Barrier(8), threading.Event()

    def health() -> bool:
        asked.append("")
        answer.wait()
        return False

    calls = HealthCalls(Registry(dependencies={"website": Dependency("website", health)}), lambda: 0.0)
    problems = list[str | None]()

    def ask() -> None:
        began.wait()
        problems.append(calls.ask("website"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    answer.set()
    for thread in threads:
        thread.join()
    assert len(asked) == 1
    assert problems == ["its health call says no"] * 8


def test_an_answer_is_shared_for_a_second() -> None:
    now, asked = [0.0], list[str]()

    def health() -> bool:
        asked.append("")
        return True

    calls = HealthCalls(Registry(dependencies={"website": Dependency("website", health)}), lambda: now[0])
    for now[0], expected in ((0.0, 1), (0.9, 1), (1.0, 2), (1.5, 2), (0.5, 3)):
        assert calls.ask("website") is not None
        assert len(asked) == expected, "and asked anew where the clock went back"
    assert calls.ask("library") is None


def test_a_part_of_a_dependency_that_is_down_does_not_hold_up_the_other_part_for_long() -> None:
    """One region in ten works: its pages are done within minutes, among hundreds that fail."""
    done: dict[str, float] = {}

    def handle(page: Page, world: Simulation) -> None:
        if page.id.startswith("bad"):
            raise HTTPError(503)
        done[page.id] = world.clock.now()

    app, worlds = reading(handle)
    with Simulation(app) as world:
        worlds.append(world)
        began = world.clock.now()
        for n in range(20):
            bring_apart(world, *(f"bad {n:02} {one}" for one in range(9)), f"good {n:02}")
        world.run_for(10 * MINUTE)
        assert len(done) == 20
        assert max(done.values()) - began < 5 * MINUTE
