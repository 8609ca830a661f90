"""A handler may do anything at all: its error names service and document, and nothing is half written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from onward import Document, Event, Status, Work
from onward.testing import Simulation
from tests.support.page_app import HOUR, Noticed, Page, PagesFound, Word, bring, how_many, new_app, statuses

RAISED: list[BaseException] = [
    BaseException("base"),
    SystemExit(3),
    KeyboardInterrupt(),
    asyncio.CancelledError(),
    GeneratorExit(),
    StopIteration(1),
    StopAsyncIteration(),
    ExceptionGroup("both", [ValueError(1), ConnectionError(2)]),
    BaseExceptionGroup("even", [SystemExit(1), ValueError(2)]),
]


@pytest.mark.parametrize("is_async", (False, True), ids=("def", "async def"))
@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_whatever_it_raises_is_a_failure_of_that_document_alone(error: BaseException, is_async: bool) -> None:
    app = new_app()

    def read(page: Page, work: Work) -> None:
        work.add(Word(id=f"of {page.id}"))
        if page.id == "bad":
            raise error

    async def read_async(page: Page, work: Work) -> None:
        read(page, work)

    app.service("reading", on=PagesFound, finishes=Page)(read_async if is_async else read)
    with Simulation(app) as world:
        bring(world, "a", "bad", "b")
        world.run_for(HOUR)
        (letter,) = world.dead_letters()
        # A coroutine cannot raise StopIteration; Python makes a RuntimeError of it.
        turned = "RuntimeError" if is_async and isinstance(error, StopIteration) else type(error).__name__
        assert letter.error_type == turned
        assert (letter.service_name, letter.documents) == ("reading", (("pages", "bad"),))
        assert letter.attempt_count == 3
        assert statuses(world, "a", "bad", "b") == {"a": "processed", "bad": "pending", "b": "processed"}
        assert how_many(world, Word) == 2, "and nothing of it was written"


class Odd(Document):
    value: Any = None


class Stranger(Event):
    value: Any = None


def circle() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


async def coroutine() -> None: ...


def adding(value: object) -> Callable[[Work], object]:
    return lambda work: work.add(Odd(id="o", value=value))


class Shy:
    def __repr__(self) -> str:
        raise ValueError("do not look")


GARBAGE: dict[str, tuple[Callable[[Work], object], str]] = {
    "returns a number": (lambda work: 42, "returned 42 (int); a handler returns nothing: "),
    "returns a document": (lambda work: Word(id="w"), "returned Word(id='w', text='') (Word); "),
    "returns False": (lambda work: False, "returned False (bool); "),
    "yields": (lambda work: (word for word in "ab"), "a handler yields nothing: what it wants written goes"),
    "forgets to be async": (lambda work: coroutine(), "a handler that awaits is declared with `async def`"),
    "adds an object": (adding(object()), "document odds/o cannot be written as JSON"),
    "adds a circle": (adding(circle()), "document odds/o cannot be written as JSON"),
    "adds a surrogate": (adding("\ud800"), "document odds/o cannot be written as JSON"),
}


@pytest.mark.parametrize(("garbage", "complaint"), GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_a_clear_and_final_failure(garbage: Callable[[Work], object], complaint: str) -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> Any:
        work.add(Word(id="before"))
        return garbage(work)

    with Simulation(app) as world:
        bring(world, "a")
        world.drain()
        (letter,) = world.dead_letters()
        assert letter.last_error.startswith("service 'reading', document pages/a")
        assert complaint in letter.last_error
        assert statuses(world, "a") == {"a": Status.FAILED}
        assert world.store.document_counts() == {"pages": {"failed": 1}}


def test_what_cannot_even_be_shown_is_refused_all_the_same() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> Any:
        return Shy()

    with Simulation(app) as world:
        bring(world, "a")
        world.run_for(HOUR)
        assert len(world.dead_letters()) == 1


def test_an_event_nobody_knows_waits_for_its_first_consumer() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.emit(Noticed(what="rain"))

    with Simulation(app) as world:
        bring(world, "a")
        world.drain()
        assert statuses(world, "a") == {"a": Status.PROCESSED}, "it blocks nothing"
        assert world.store.counts()[""] == {"unrouted": 1}, "and is not lost"
        app.service("listening", on=Noticed)(lambda event, work: None)
        world.store.subscribe([app.registry.services["listening"].subscription()])
        assert world.drain() == 1


@pytest.mark.parametrize("value", (object(), "\ud800", circle()), ids=("an object", "a surrogate", "a circle"))
def test_an_event_that_cannot_be_written_is_a_final_failure(value: object) -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.emit(Stranger(value=value))

    with Simulation(app) as world:
        bring(world, "a")
        world.run_for(HOUR)
        (letter,) = world.dead_letters()
        assert letter.last_error.startswith("service 'reading', document pages/a: event Stranger cannot be stored")
        assert letter.abandoned_reason == "non_retryable"


def test_a_document_that_does_not_fit_its_class_any_more() -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)

    class OldPage(Document, collection="pages"):
        text: int

    with Simulation(app) as world:
        found = [OldPage(id="a", text=7)]
        app.publish(PagesFound(page_ids=["a"]), documents=found)
        world.run_for(HOUR)
        (letter,) = world.dead_letters()
        assert (letter.error_type, letter.abandoned_reason) == ("ValidationError", "non_retryable")
        assert "7" not in letter.last_error.split("\n")[2], "errors do not quote the content"
