"""A handler starts many documents, and an event is published when all of them are final."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward import App, Event, Joined, Permanent, Settings, Work, names
from onward.runtime.publish_options import PublishRefused
from onward.testing import Fleet, Simulation
from tests.support.caller_connections import connected
from tests.support.crawl_app import (
    Page,
    PageFound,
    Site,
    SiteCrawled,
    crawl_app,
    expected,
    problems,
    publish,
    reports_of,
)
from tests.support.page_app import HOUR, Noticed, Word, new_app


@pytest.fixture
def world(store_url: str) -> Iterator[Simulation]:
    with Simulation(crawl_app(), store=store_url) as world:
        yield world


def joined(world: Simulation, site: str) -> Joined:
    """How the pages of a site ended, as its one report says."""
    (report,) = reports_of(world.app, site)
    assert report.unfinished == ()
    return report.joined


def test_a_site_is_reported_when_all_of_its_pages_are_final(world: Simulation) -> None:
    publish(world.app, Site(id="s", pages="..!~-"))
    world.run_for(HOUR)
    found = Joined(total=5, processed=3, failed=1, removed=1, failed_ids=("pages/s-2",))
    assert joined(world, "s") == found


def test_a_site_without_pages_is_reported_at_once(world: Simulation) -> None:
    publish(world.app, Site(id="s"))
    world.drain()
    assert joined(world, "s") == Joined()


def test_a_large_site_is_reported_once_though_it_has_checkpoints(world: Simulation) -> None:
    publish(world.app, Site(id="s", pages=".!" * 5, large=True))
    world.run_for(HOUR)
    assert joined(world, "s") == expected(world.app, Site(id="s", pages=".!" * 5))


def test_a_page_that_the_retry_job_gives_up_is_counted(store_url: str) -> None:
    app = new_app()
    events = listened(app)

    @app.service("reading", on=PageFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        raise ConnectionError("it never works")

    with Simulation(app, store=store_url) as world:
        page = Page(id="p")
        app.publish(PageFound.of(page), documents=[page])
        app.when_all([page], then=SiteCrawled(site_id="s"))
        world.run_for(24 * HOUR)
        assert world.status(page) == "failed_max_retries"
    assert events == [Joined(total=1, failed=1, failed_ids=("pages/p",))]


def listened(app: App) -> list[Joined]:
    """Collect how the documents of each published event ended."""
    events: list[Joined] = []

    @app.service("listening", on=SiteCrawled)
    def listen(event: SiteCrawled, work: Work) -> None:
        events.append(event.joined)

    return events


# -- outside of handlers


def test_calls_of_a_task_are_waited_for(store_url: str) -> None:
    app = new_app()
    events = listened(app)

    @app.task
    def fetch(number: int) -> int:
        if number == 3:
            raise Permanent("not this one")
        return number

    with Simulation(app, store=store_url) as world:
        calls = fetch.map(range(5))
        app.when_all(calls, then=SiteCrawled(site_id="s"))
        world.drain()
        assert events == [Joined(total=5, processed=4, failed=1, failed_ids=(calls[3].document,))]


def test_it_works_with_await(store_url: str) -> None:
    app = new_app()
    events = listened(app)
    app.task(name="nap")(lambda: None)
    with Simulation(app, store=store_url) as world:

        async def wait() -> None:
            await app.awhen_all([], then=SiteCrawled(site_id="s"))

        asyncio.run(wait())
        world.drain()
        assert events == [Joined()]


def test_pages_that_were_published_in_the_callers_transaction_are_found(store_url: str) -> None:
    app = App(store=store_url, settings=Settings())
    app.service("reading", on=PageFound, finishes=Page)(lambda page, work: None)
    _ = app.store
    page = Page(id="p")
    with connected(store_url) as connection:
        app.publish(PageFound.of(page), documents=[page], connection=connection)
        connection.commit()
    app.when_all([page], then=SiteCrawled(site_id="s"))
    (found,) = app.store.open_joins()
    app.close()
    assert found.open_documents == (("pages", "p"),), "it would count as removed if it was still on its way"


def test_the_event_of_a_real_engine_follows_at_once(app: App, store_url: str) -> None:
    crawl = crawl_app()
    app.registry = crawl.registry
    publish(app, Site(id="s", pages=".!~"))
    app.work_until_idle()
    (report,) = reports_of(app, "s")
    assert report.joined == Joined(total=3, processed=2, failed=1, failed_ids=("pages/s-1",))


def test_an_operators_action_wakes_the_engines_of_its_process(app: App) -> None:
    listened(app)
    app.service("reading", on=PageFound, finishes=Page)(lambda page, work: None)
    page = Page(id="p")
    app.publish(PageFound.of(page), documents=[page])
    app.when_all([page], then=SiteCrawled(site_id="s"))
    bus = app.store.bus()
    app.store.discard("pages", "p")
    assert bus.wait(30.0), "it does not wait for the next poll"
    bus.close()


# -- the event


class Bare(Event):
    site_id: str = names(Site)


class MayBeJoined(Event):
    how: Joined | None = None


@pytest.mark.parametrize(
    ("event", "data"),
    (
        (Bare(site_id="ü"), {"site_id": "ü"}),
        (MayBeJoined(), {"how": {"total": 0, "processed": 0, "failed": 0, "removed": 0, "failed_ids": []}}),
    ),
)
def test_only_a_field_of_this_type_is_filled_in(event: Event, data: dict[str, Any]) -> None:
    app, events = new_app(), list[Event]()
    app.service("listening", on=type(event))(lambda event, work: events.append(event))
    with Simulation(app) as world:
        app.when_all([], then=event)
        world.drain()
    (found,) = events
    assert found.model_dump(mode="json") == data


def test_an_equal_event_that_waits_already_is_a_duplicate(store_url: str) -> None:
    app = App(store=store_url, settings=Settings())
    listened(app)
    app.when_all([Page(id="gone")], then=SiteCrawled(site_id="s"))
    (published,) = app.publish(SiteCrawled(site_id="s", joined=Joined(total=1, removed=1)))
    assert (published.rows, published.duplicates) == (0, 1), "the key covers the counts"
    app.close()


def test_nested_fans_each_have_their_event() -> None:
    """The event of each site finishes a report; the event of all sites comes after the reports."""
    app, events = crawl_app(), list[Joined]()

    class AllCrawled(Event):
        joined: Joined = Joined()

    @app.service("closing", on=AllCrawled)
    def close(event: AllCrawled, work: Work) -> None:
        events.append(event.joined)

    sites = [Site(id=f"{number}", pages=".!") for number in range(3)]
    with Simulation(app) as world:
        publish(app, *sites)
        app.when_all(sites, then=AllCrawled())
        world.drain()
        assert events == [Joined(total=3, processed=3)]
        assert all(joined(world, site.id).total == 2 for site in sites)


# -- what is refused


def refused(use: Any, *, finishes: bool = True) -> str:
    """The error of a handler that uses its work like this."""
    app = new_app()

    def handle(_: object, work: Work) -> None:
        use(work)

    page = Page(id="p")
    if finishes:
        app.service("reading", on=PageFound, finishes=Page)(handle)
    else:
        app.service("reading", on=PageFound)(handle)
    with Simulation(app) as world:
        app.publish(PageFound.of(page), documents=[page])
        world.drain()
        (letter,) = world.dead_letters("reading")
        assert world.store.open_joins() == []
    return f"{letter.error_type}: {letter.last_error}"


NOTICED = Noticed(what="done")


def test_a_work_says_what_it_cannot_wait_for() -> None:
    problem = refused(lambda work: work.when_all(["p"], then=NOTICED))
    assert "WorkMisused" in problem
    assert "when_all waits for documents and calls of tasks, not for 'p' (str)" in problem
    assert "takes a list of documents" in refused(lambda work: work.when_all(Page(id="p"), then=NOTICED))
    assert "then= is 'x' (str); give an instance of an Event" in refused(lambda work: work.when_all([], then="x"))


class ManyNamed(Event):
    page_ids: list[str] = names(Page)


def test_an_event_that_would_be_several_is_refused() -> None:
    many = ManyNamed(page_ids=[f"{number}" for number in range(501)])
    assert "ManyNamed names more documents than one event may" in refused(
        lambda work: work.when_all([], then=many)
    )


def test_too_many_documents_for_one_transaction_are_refused() -> None:
    words = [Word(id=f"{number}") for number in range(1001)]
    problem = refused(lambda work: work.when_all(words, then=NOTICED))
    assert "WorkTooLarge" in problem
    assert "call work.checkpoint(cursor) along the way" in problem


def test_a_checkpoint_of_a_handler_without_a_document_is_refused() -> None:
    def use(work: Work) -> None:
        work.when_all([Page(id="p")], then=NOTICED)
        work.checkpoint(1)

    problem = refused(use, finishes=False)
    assert "WorkMisused" in problem
    assert "or call work.when_all after the last checkpoint" in problem


def test_after_its_last_checkpoint_a_handler_without_a_document_can_wait() -> None:
    app = new_app()
    events = listened(app)

    @app.service("noticing", on=Noticed)
    def notice(event: Noticed, work: Work) -> None:
        work.checkpoint(1)
        work.when_all([], then=SiteCrawled(site_id="s"))

    with Simulation(app) as world:
        app.publish(NOTICED)
        world.drain()
    assert events == [Joined()]


def test_the_app_refuses_the_same() -> None:
    app = new_app()
    with Simulation(app):
        with pytest.raises(PublishRefused, match=r"not for 7 \(int\)"):
            app.when_all([7], then=NOTICED)  # type: ignore[list-item]
        with pytest.raises(PublishRefused, match="then= is None"):
            app.when_all([], then=None)  # type: ignore[arg-type]


# -- crashes

SITES = st.lists(
    st.builds(lambda pages, large: (pages, large), st.text("..!~-", max_size=8), st.booleans()), max_size=4
)


def check_crashing_fleet(sites: list[Site], seed: int, rate: float) -> int:
    """Crawl sites with workers that crash; each is reported once, when and only when all of it is final."""
    app = crawl_app()
    with Fleet(app, workers=3, seed=seed) as fleet:
        publish(app, *sites)
        fleet.crash_at_random(rate)
        fleet.run_until_idle()
        assert fleet.lost == []
        assert problems(app, sites) == []
        return fleet.crashes


@settings(max_examples=15)
@given(SITES, st.integers(0, 2**32), st.sampled_from((0.0, 0.05, 0.2)))
def test_crashes_lose_and_double_no_event(kinds: list[tuple[str, bool]], seed: int, rate: float) -> None:
    sites = [Site(id=f"s{number}", pages=pages, large=large) for number, (pages, large) in enumerate(kinds)]
    check_crashing_fleet(sites, seed, rate)


def test_a_fleet_that_crashes_a_lot_reports_every_site() -> None:
    sites = [Site(id=f"s{number}", pages=".!~-." * 2, large=number % 2 == 0) for number in range(6)]
    assert check_crashing_fleet(sites, 7, 0.2) > 20


@pytest.mark.prove
@settings(max_examples=150)
@given(SITES, st.integers(0, 2**32), st.floats(0.0, 0.3))
def test_many_crashes_lose_and_double_no_event(kinds: list[tuple[str, bool]], seed: int, rate: float) -> None:
    sites = [Site(id=f"s{number}", pages=pages, large=large) for number, (pages, large) in enumerate(kinds)]
    check_crashing_fleet(sites, seed, rate)
