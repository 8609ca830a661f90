"""What a handler receives: a document, a batch of them, or an event; beside it a work."""

from __future__ import annotations

from collections.abc import Sequence

from onward import Status, Work
from onward.testing import Simulation
from tests.support.page_app import Noticed, Page, PagesFound, all_processed, bring, new_app


def test_a_service_that_finishes_pages_gets_them_one_by_one() -> None:
    app, seen = new_app(), list[Page]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        seen.append(page)

    with Simulation(app) as world:
        given = [Page(id="a", text="one"), Page(id="b", text="two")]
        app.publish(PagesFound.of(given), documents=given)
        assert world.drain() == 2
        assert seen == given
        assert all_processed(world, "a", "b"), "returning finishes a document"


def test_an_async_handler_is_awaited() -> None:
    app, seen = new_app(), list[Page]()

    @app.service("reading", on=PagesFound, finishes=Page)
    async def read(page: Page, work: Work) -> None:
        seen.append(page)

    with Simulation(app) as world:
        bring(world, "a", "b")
        world.drain()
        assert [page.id for page in seen] == ["a", "b"]
        assert all_processed(world, "a", "b")


def test_a_batch_holds_at_most_so_many_documents() -> None:
    app, batches = new_app(), list[list[str]]()

    @app.service("reading", on=PagesFound, finishes=Page, batch=2)
    async def read(batch: Sequence[Page], work: Work) -> None:
        batches.append([page.id for page in batch])

    with Simulation(app) as world:
        bring(world, *"abcde")
        world.drain()
        assert batches == [["a", "b"], ["c", "d"], ["e"]]
        assert all_processed(world, *"abcde")


def test_the_size_of_a_batch_may_change_from_one_delivery_to_the_next() -> None:
    app, sizes, most = new_app(), list[int](), 2

    @app.service("reading", on=PagesFound, finishes=Page, batch=lambda: most)
    def read(batch: Sequence[Page], work: Work) -> None:
        sizes.append(len(batch))

    with Simulation(app) as world:
        for most in (2, 3, 0, 10_000):
            bring(world, *(f"{most}-{n}" for n in range(4)))
            world.drain()
    assert sizes == [2, 2, 3, 1, 1, 1, 1, 1, 4]


def test_a_batch_of_one_is_a_list_too() -> None:
    app, batches = new_app(), list[Sequence[Page]]()

    @app.service("reading", on=PagesFound, finishes=Page, batch=64)
    def read(batch: Sequence[Page], work: Work) -> None:
        batches.append(batch)

    with Simulation(app) as world:
        bring(world, "a")
        world.drain()
        assert batches == [[Page(id="a")]]


def test_a_service_that_finishes_nothing_gets_the_event() -> None:
    app, seen = new_app(), list[Noticed]()

    @app.service("listening", on=Noticed)
    def listen(event: Noticed, work: Work) -> None:
        assert work.event is event
        seen.append(event)

    with Simulation(app) as world:
        app.publish(Noticed(what="rain"))
        world.drain()
        assert seen == [Noticed(what="rain")]


def test_several_services_hear_of_one_event() -> None:
    app, heard = new_app(), list[str]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        heard.append(f"reading {page.id}")

    @app.service("counting", on=PagesFound)
    def count(event: PagesFound, work: Work) -> None:
        heard.append(f"counting {len(event.page_ids)}")

    with Simulation(app) as world:
        bring(world, "a", "b")
        world.drain()
        assert sorted(heard) == ["counting 2", "reading a", "reading b"]


def test_a_work_knows_its_event_try_and_round() -> None:
    app, known = new_app(), list[tuple[str, int, int]]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        assert isinstance(work.event, PagesFound)
        known.append((work.event.found_by, work.try_number, work.round))
        if work.round == 1:
            raise ConnectionError

    with Simulation(app) as world:
        (page,) = pages = [Page(id="a")]
        app.publish(PagesFound.of(pages, found_by="crawler"), documents=pages)
        world.run_for(60)
        assert known == [("crawler", 1, 1), ("crawler", 2, 1), ("crawler", 3, 1)]
        world.store.requeue(world.dead_letters()[0].row)
        world.drain()
        assert known[3:] == [("crawler", 1, 2)]
        assert world.status(page) == Status.PROCESSED


def test_documents_are_read_through_the_work_and_never_written() -> None:
    app, found = new_app(), list[Page | None]()

    @app.service("listening", on=Noticed)
    def listen(event: Noticed, work: Work) -> None:
        found.append(work.store.get(Page, "a"))
        found.extend(work.store.get_many(Page, ["missing", "a"]))
        found.append(work.store.get(Page, "missing"))
        assert not hasattr(work.store, "publish")
        assert not hasattr(work.store, "add_documents")

    with Simulation(app) as world:
        page = Page(id="a")
        app.add(page)
        app.publish(Noticed())
        world.drain()
        assert found == [page, page, None]


def test_fields_of_a_newer_version_of_a_document_are_kept() -> None:
    app, seen = new_app(), list[object]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        seen.append((page.model_extra or {}).get("language"))

    class NewerPage(Page, collection="pages"):
        language: str

    with Simulation(app) as world:
        app.publish(PagesFound(page_ids=["a"]), documents=[NewerPage(id="a", language="la")])
        world.drain()
        assert seen == ["la"]
