"""Publishing and reading with `await`: the event loop goes on while the database works."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from onward import App, Document, Work
from onward.runtime.publish_options import PublishRefused
from onward.runtime.task_call import CallNotFound
from onward.testing import Simulation
from tests.support.caller_connections import connected
from tests.support.page_app import Page, PagesFound, Word, new_app, pages


class Book(Document, keys=("shelf",)):
    shelf: str = ""


@pytest.fixture
def read(app: App) -> list[str]:
    found: list[str] = []

    @app.service("reading", on=PagesFound, finishes=Page)
    def reading(page: Page, work: Work) -> None:
        found.append(page.id)

    return found


def test_apublish_and_aget_and_astate(app: App, read: list[str]) -> None:
    async def run() -> None:
        found = pages("a")
        (published,) = await app.apublish(PagesFound.of(found), documents=found, priority=3)
        assert (published.rows, published.awaits_commit) == (1, False)
        assert await app.aget(Page, "a") == Page(id="a")
        state = await app.astate(Page, "a")
        assert state is not None
        assert (state.status, state.priority) == ("pending", 3)
        assert await app.aget(Page, "b") is None

    asyncio.run(run())
    app.work_until_idle()
    assert read == ["a"]


def test_apublish_refuses_what_publish_refuses(app: App) -> None:
    with pytest.raises(PublishRefused):
        asyncio.run(app.apublish(priority=2_000_000))


def test_aget_finds_what_a_caller_has_committed(app: App, read: list[str], store_url: str) -> None:
    async def run() -> Page | None:
        with connected(store_url) as connection:
            await app.apublish(documents=[Page(id="a")], connection=connection)
            connection.commit()
        return await app.aget(Page, "a")

    _ = app.store
    assert asyncio.run(run()) == Page(id="a")


@pytest.fixture
def held(app: App, read: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Every read and every transaction of the store waits until the event loop sets this."""
    _ = app.store
    let_go = threading.Event()
    database: Any = app.store.db

    def held_up(name: str) -> None:
        call = getattr(database, name)

        def wait(*given: Any, **more: Any) -> Any:
            assert let_go.wait(60), "the loop was blocked"
            return call(*given, **more)

        monkeypatch.setattr(database, name, wait)

    for name in ("read", "fetch", "transaction"):
        held_up(name)
    yield let_go
    let_go.set()


CALLS: list[Callable[[App], Awaitable[Any]]] = [
    lambda app: app.apublish(PagesFound(page_ids=["a"])),
    lambda app: app.aget(Page, "a"),
    lambda app: app.astate(Page, "a"),
    lambda app: app.store.aget(Page, "a"),
    lambda app: app.store.aget_many(Page, ["a"]),
    lambda app: app.store.astate(Page, "a"),
    lambda app: app.store.afind(Book, "shelf", ["high"]),
    lambda app: app.store.achildren(Word, Page, ["a"]),
]


@pytest.mark.parametrize("call", CALLS)
def test_the_loop_goes_on_while_the_database_works(
    app: App, held: threading.Event, call: Callable[[App], Awaitable[Any]]
) -> None:
    async def run() -> None:
        waiting = asyncio.ensure_future(call(app))
        await asyncio.sleep(0)
        held.set()  # only a loop that is not blocked gets here
        await waiting

    asyncio.run(run())


def test_in_a_transaction_of_the_app_it_belongs_to_that(app: App, read: list[str]) -> None:
    async def run() -> None:
        with app.transaction():
            await app.apublish(documents=pages("a"))
            assert await app.aget(Page, "a") == Page(id="a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run())
    assert app.get(Page, "a") is None


def test_a_call_of_a_task_belongs_to_a_transaction_of_the_app(app: App) -> None:
    """In a thread of its own, it would wait for the lock of this transaction, or be committed without it."""

    @app.task
    def double(number: int) -> int:
        return 2 * number

    async def run() -> None:
        with app.transaction():
            await double.options(id="kept").adelay(1)
        with app.transaction():
            await double.options(id="undone").adelay(2)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run())
    app.work_until_idle()
    assert double.call("kept").result(timeout=0) == 2
    with pytest.raises(CallNotFound):
        double.call("undone").state()


def test_an_async_handler_reads_and_replaces_what_it_has_read(store_url: str) -> None:
    app = new_app()
    found: dict[str, Any] = {}

    @app.service("reading", on=PagesFound, finishes=Page)
    async def reading(page: Page, work: Work) -> None:
        book = await work.store.aget(Book, "b")
        assert book is not None
        found["many"] = await work.store.aget_many(Book, ["c", "b"])
        found["shelf"] = [one.id for one in await work.store.afind(Book, "shelf", ["high"])]
        found["children"] = await work.store.achildren(Word, Page, [page.id])
        work.replace(book.model_copy(update={"shelf": "low"}))  # its revision is known

    with Simulation(app, store=store_url) as world:
        app.add(Book(id="b", shelf="high"))
        app.publish(PagesFound.of(pages("a")), documents=pages("a"))
        world.drain()
        assert world.status(Page(id="a")) == "processed"
        assert app.get(Book, "b") == Book(id="b", shelf="low")
    assert found == {"many": [Book(id="b", shelf="high")], "shelf": ["b"], "children": []}
