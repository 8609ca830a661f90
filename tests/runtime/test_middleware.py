"""Middleware runs around each call of a handler, in its thread or task, and cannot hide its failure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from onward import App, Permanent, Unavailable, Work
from onward.runtime.service import RegistrationError
from onward.testing import Simulation
from tests.support.page_app import Noticed, Page, PagesFound, Word, bring, pages

TENANT: ContextVar[str] = ContextVar("tenant", default="nobody")


def declare(app: App, handler: Callable[[Page, Work], None], *, is_async: bool) -> None:
    """The service `reading`, with this handler, as `def` or as `async def`."""
    if is_async:

        async def read(page: Page, work: Work) -> None:
            handler(page, work)

        app.service("reading", on=PagesFound, finishes=Page)(read)
    else:
        app.service("reading", on=PagesFound, finishes=Page)(handler)


def publish(app: App, *ids: str) -> None:
    found = pages(*ids)
    app.publish(PagesFound.of(found), documents=found)


both = pytest.mark.parametrize("is_async", (False, True), ids=("def", "async def"))


@both
def test_it_runs_before_and_after_each_call(app: App, is_async: bool) -> None:
    seen: list[str] = []

    @app.middleware
    def note(work: Work) -> Iterator[None]:
        (page,) = work.documents
        assert isinstance(work.event, PagesFound)
        seen.append(f"before {work.service} {page.id}")
        work.add(Word(id=f"before {page.id}"))
        yield
        seen.append(f"after {page.id}")
        work.add(Word(id=f"after {page.id}"))

    declare(app, lambda page, work: seen.append(page.id), is_async=is_async)
    publish(app, "a")
    app.work_until_idle()
    assert seen == ["before reading a", "a", "after a"]
    assert app.get(Word, "before a"), "what it adds is committed with the handler's work"
    assert app.get(Word, "after a")


@both
def test_several_are_nested_in_the_order_of_their_declaration(app: App, is_async: bool) -> None:
    seen: list[str] = []

    def around(name: str) -> Callable[[Work], Iterator[None]]:
        def note(work: Work) -> Iterator[None]:
            seen.append(f"{name} in")
            yield
            seen.append(f"{name} out")

        return note

    app.middleware(around("outer"))
    declare(app, lambda page, work: seen.append("handler"), is_async=is_async)
    app.middleware(around("inner"))
    publish(app, "a")
    app.work_until_idle()
    assert seen == ["outer in", "inner in", "handler", "inner out", "outer out"]


@both
def test_it_runs_where_the_handler_runs(app: App, is_async: bool) -> None:
    places: list[object] = []

    def place() -> object:
        return (threading.get_ident(), asyncio.current_task() if is_async else None)

    @app.middleware
    def tenant(work: Work) -> Iterator[None]:
        places.append(place())
        token = TENANT.set(f"tenant of {work.documents[0].id}")
        try:
            yield
        finally:
            TENANT.reset(token)
            places.append(place())

    def read(page: Page, work: Work) -> None:
        places.append(place())
        assert TENANT.get() == f"tenant of {page.id}"

    declare(app, read, is_async=is_async)
    publish(app, "a")
    app.work_until_idle()
    assert len(places) == 3
    assert len(set(places)) == 1
    state = app.state(Page, "a")
    assert state is not None
    assert state.status == "processed"


def test_an_async_one_runs_around_async_handlers(app: App) -> None:
    seen: list[str] = []

    @app.middleware
    async def session(work: Work) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        seen.append("open")
        try:
            yield
        except Permanent:
            seen.append("roll back")
            raise
        finally:
            await asyncio.sleep(0)
            seen.append("close")

    @app.service("reading", on=PagesFound, finishes=Page)
    async def read(page: Page, work: Work) -> None:
        await asyncio.sleep(0)
        seen.append("handler")
        if page.id == "bad":
            raise Permanent("it is bad")

    publish(app, "a")
    app.work_until_idle()
    assert seen == ["open", "handler", "close"]
    seen.clear()
    publish(app, "bad")
    app.work_until_idle()
    assert seen == ["open", "handler", "roll back", "close"]


@both
def test_it_sees_the_error_of_the_handler_and_cannot_hide_it(app: App, is_async: bool) -> None:
    seen: list[object] = []

    @app.middleware
    def outer(work: Work) -> Iterator[None]:
        try:
            yield
        except Permanent as error:
            seen.append(str(error))
            raise

    @app.middleware
    def hides(work: Work) -> Iterator[None]:
        try:
            yield
        except Permanent:
            seen.append("hidden")

    def read(page: Page, work: Work) -> None:
        work.add(Word(id="half"))
        raise Permanent("it is torn")

    declare(app, read, is_async=is_async)
    publish(app, "a")
    app.work_until_idle()
    (letter,) = app.store.dead_letters()
    assert (letter.error_type, letter.last_error) == ("Permanent", "it is torn")
    assert seen == ["hidden", "it is torn"], "those further out see it, too"
    assert app.get(Word, "half") is None


@both
@pytest.mark.parametrize("when", ("before", "after", "instead"))
def test_what_it_raises_is_the_failure_of_the_handler(app: App, is_async: bool, when: str) -> None:
    ran: list[str] = []

    @app.middleware
    def strict(work: Work) -> Iterator[None]:
        if when == "before":
            raise Permanent("not for this tenant")
        try:
            yield
        except KeyError as error:
            raise Permanent("not for this tenant") from error
        raise Permanent("not for this tenant")

    def read(page: Page, work: Work) -> None:
        ran.append(page.id)
        work.add(Word(id="half"))
        if when == "instead":
            raise KeyError("tenant")

    declare(app, read, is_async=is_async)
    publish(app, "a")
    app.work_until_idle()
    (letter,) = app.store.dead_letters()
    assert (letter.error_type, letter.abandoned_reason) == ("Permanent", "non_retryable")
    assert ran == ([] if when == "before" else ["a"])
    assert app.get(Word, "half") is None


@both
def test_failures_are_grouped_as_without_it(app: App, is_async: bool) -> None:
    def read(page: Page, work: Work) -> None:
        raise Permanent("it is torn")

    declare(app, read, is_async=is_async)
    publish(app, "a")
    app.work_until_idle()
    app.middleware(lambda work: (yield))
    publish(app, "b")
    app.work_until_idle()
    (group,) = app.store.failure_groups()
    assert group.affected == 2


def test_a_batch_and_an_event_are_given_as_they_are(app: App) -> None:
    seen: list[tuple[str, list[str], str]] = []

    @app.middleware
    def note(work: Work) -> Iterator[None]:
        seen.append((work.service, [one.id for one in work.documents], type(work.event).__name__))
        yield

    app.service("reading", on=PagesFound, finishes=Page, batch=8)(lambda pages, work: None)
    app.service("hearing", on=Noticed)(lambda event, work: None)
    publish(app, "a", "b")
    app.publish(Noticed())
    app.work_until_idle()
    assert sorted(seen) == [("hearing", [], "Noticed"), ("reading", ["a", "b"], "PagesFound")]


def test_it_may_be_for_some_services_only(app: App) -> None:
    seen: list[str] = []

    @app.middleware(services="hearing")
    def note(work: Work) -> Iterator[None]:
        seen.append(work.service)
        yield

    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    app.service("hearing", on=Noticed)(lambda event, work: None)
    publish(app, "a")
    app.publish(Noticed())
    app.work_until_idle()
    assert seen == ["hearing"]


def test_a_handler_without_middleware_is_called_as_it_is(app: App) -> None:
    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None: ...

    assert [service.handler for service in app.engine().services] == [read]

    @app.middleware(services="hearing")
    def note(work: Work) -> Iterator[None]:
        yield

    app.service("hearing", on=Noticed)(lambda event, work: None)
    assert app.engine().services[0].handler is read


def test_in_a_simulation_it_sees_outages() -> None:
    app, seen = App(), list[str]()

    @app.middleware
    def note(work: Work) -> Iterator[None]:
        try:
            yield
        except Unavailable as error:
            seen.append(error.dependency)
            raise

    app.service("reading", on=PagesFound, finishes=Page, needs="website")(lambda page, work: None)
    with Simulation(app) as world:
        world.fail("website", for_seconds=60)
        (page,) = bring(world, "a")
        world.run_for(3600)
        assert (world.status(page), set(seen)) == ("processed", {"website"})


# -- declaring


def a_function(work: Work) -> None: ...


def of_two(work: Work, more: Work) -> Iterator[None]:
    yield


@pytest.mark.parametrize("wrong", (a_function, of_two, print))
def test_it_is_a_function_of_one_parameter_with_a_yield(app: App, wrong: Any) -> None:
    with pytest.raises(RegistrationError, match="must be a function of one parameter, `work`, with one yield"):
        app.middleware(wrong)


def test_an_async_one_is_refused_around_a_def_handler(app: App) -> None:
    async def session(work: Work) -> AsyncIterator[None]:
        yield

    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with pytest.raises(RegistrationError, match="'session' is `async def`, but the handler of service 'reading'"):
        app.middleware(session)
    app.middleware(services="hearing")(session)
    with pytest.raises(RegistrationError, match="write the middleware as `def`, or name the services"):
        app.service("hearing", on=Noticed)(lambda event, work: None)


def test_a_service_that_it_names_is_declared(app: App) -> None:
    def note(work: Work) -> Iterator[None]:
        yield

    app.middleware(services=("reding",))(note)
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with pytest.raises(
        RegistrationError, match="for the service 'reding', which is not declared; there are: reading"
    ):
        app.engine()
