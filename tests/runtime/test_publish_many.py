"""Publishing many: a stream of events and documents, in transactions of a bounded size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import pytest

from onward import Event, Status
from onward.ledger.store import Store
from onward.model.ledger import MAX_COMMIT_BYTES, MAX_COMMIT_DOCUMENTS, PublishedMany
from onward.runtime.publish_items import PublishManyStopped
from onward.runtime.publish_options import PublishRefused
from onward.testing import Simulation
from tests.support.page_app import HOUR, Noticed, Page, PagesFound, new_app


def items(count: int, size: int = 0) -> Iterator[tuple[Event, Page]]:
    for number in range(count):
        page = Page(id=f"{number}", text="x" * size)
        yield PagesFound.of(page), page


@pytest.fixture
def transactions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of documents of each transaction."""
    found: list[int] = []
    original = Store.publish_with_documents

    def counted(store: Store, documents: Any, envelopes: Any) -> Any:
        found.append(len(documents))
        return original(store, documents, envelopes)

    monkeypatch.setattr(Store, "publish_with_documents", counted)
    return found


def world_of(store_url: str) -> Simulation:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    app.service("listening", on=Noticed)(lambda event, work: None)
    return Simulation(app, store=store_url)


def test_pairs_are_stored_in_slices_of_one_transaction(store_url: str, transactions: list[int]) -> None:
    count = 2 * MAX_COMMIT_DOCUMENTS + 5
    with world_of(store_url) as world:
        taken: list[int] = []

        def streamed() -> Iterator[Any]:
            for number, item in enumerate(items(count)):
                taken.append(len(transactions))
                yield item
                assert number < MAX_COMMIT_DOCUMENTS + 1 or transactions, "nothing is read far ahead"

        published = world.app.publish_many(streamed(), priority=3)
        assert published == PublishedMany(count, count, 0)
        assert transactions == [MAX_COMMIT_DOCUMENTS, MAX_COMMIT_DOCUMENTS, 5]
        assert taken[-1] == 2
        assert world.store.counts()["reading"] == {"waiting": count}
        state = world.store.state(Page, "7")
        assert state is not None
        assert (state.priority, state.attempt_count) == (3, 1)


def test_large_documents_make_smaller_slices(store_url: str, transactions: list[int]) -> None:
    with world_of(store_url) as world:
        world.app.publish_many(items(5, MAX_COMMIT_BYTES // 2 - 1000))
        assert transactions == [2, 2, 1]


def test_events_alone_and_with_options(store_url: str) -> None:
    with world_of(store_url) as world:
        events = [Noticed(what=what) for what in "aba"]
        assert world.app.publish_many(events, delay=timedelta(minutes=1)) == PublishedMany(3, 0, 1), "one waits"
        assert world.drain() == 0
        assert world.run_for(60) == 2
        assert world.app.publish_many(events, unique_for=HOUR, expires=60) == PublishedMany(3, 0, 1)
        world.clock.advance(60)
        assert world.drain() == 0
        assert world.app.publish_many(events, unique_for=HOUR) == PublishedMany(3, 0, 3)


def test_of_a_duplicate_no_document_is_stored(store_url: str) -> None:
    with world_of(store_url) as world:
        pairs = [(Noticed(what=what), Page(id=f"{number}")) for number, what in enumerate("aab")]
        assert world.app.publish_many(pairs, unique_for=HOUR) == PublishedMany(3, 2, 1)
        assert world.store.state(Page, "1") is None


def test_documents_that_are_stored_already_are_not_counted(store_url: str) -> None:
    with world_of(store_url) as world:
        world.app.add(Page(id="0"))
        assert world.app.publish_many(items(3)) == PublishedMany(3, 2, 0)
        world.drain()
        assert world.store.document_counts()["pages"] == {Status.PROCESSED: 3}


def test_after_an_error_what_was_stored_stays_and_is_counted(store_url: str) -> None:
    def broken() -> Iterator[Any]:
        yield from items(MAX_COMMIT_DOCUMENTS + 10)
        raise OSError("the file ends here: password=hunter2")

    with world_of(store_url) as world:
        with pytest.raises(PublishManyStopped, match="The first 1,000 items are stored and stay") as stopped:
            world.app.publish_many(broken())
        assert "hunter2" not in str(stopped.value)
        assert (stopped.value.stored, stopped.value.published.documents) == (1000, 1000)
        assert isinstance(stopped.value.__cause__, OSError)
        assert world.store.document_counts()["pages"] == {Status.PENDING: 1000}
        rest = list(items(MAX_COMMIT_DOCUMENTS + 10))[stopped.value.stored :]
        assert world.app.publish_many(rest).items == 10


@pytest.mark.parametrize("wrong", ("text", None, (Noticed(), "text"), (Noticed(),), Page(id="a")))
def test_what_is_no_event_is_refused_by_name(wrong: Any) -> None:
    with world_of("sqlite://:memory:") as world:
        with pytest.raises(PublishManyStopped, match="is no event; give events, or pairs") as stopped:
            world.app.publish_many([Noticed(), wrong])
        assert isinstance(stopped.value.__cause__, PublishRefused)
        assert stopped.value.stored == 0


def test_a_document_that_no_transaction_may_hold_is_refused() -> None:
    too_large = r"document pages/0 takes 8,000,\d+ characters, more than"
    with world_of("sqlite://:memory:") as world, pytest.raises(PublishManyStopped, match=too_large):
        world.app.publish_many(items(1, MAX_COMMIT_BYTES))


def test_in_a_transaction_of_the_caller_nothing_stays(store_url: str) -> None:
    def broken() -> Iterator[Any]:
        yield from items(MAX_COMMIT_DOCUMENTS + 10)
        raise OSError("the file ends here")

    with world_of(store_url) as world:
        with pytest.raises(OSError, match="the file ends here"), world.app.transaction():
            world.app.publish_many(broken())
        assert world.store.document_counts() == {}


@pytest.mark.parametrize("is_async", (True, False))
def test_it_takes_async_iterables_too(store_url: str, is_async: bool) -> None:
    async def streamed() -> AsyncIterator[Any]:
        for item in items(MAX_COMMIT_DOCUMENTS + 1):
            yield item

    with world_of(store_url) as world:
        given: Any = streamed() if is_async else items(MAX_COMMIT_DOCUMENTS + 1)
        published = asyncio.run(world.app.apublish_many(given))
        assert published == PublishedMany(1001, 1001, 0)


def test_an_async_error_says_how_many_are_stored(store_url: str) -> None:
    async def broken() -> AsyncIterator[Any]:
        for item in items(MAX_COMMIT_DOCUMENTS + 1):
            yield item
        raise OSError("the connection ended")

    with world_of(store_url) as world:
        with pytest.raises(PublishManyStopped, match="The first 1,000 items") as stopped:
            asyncio.run(world.app.apublish_many(broken()))
        assert stopped.value.stored == 1000
