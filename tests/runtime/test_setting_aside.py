"""Setting aside: what fails while others succeed waits in a failed batch, and holds up nobody."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from onward import App, Permanent, Work
from onward.model.failures import outcomes
from onward.runtime.service import RegistrationError
from onward.testing import Simulation
from tests.store.library import rank
from tests.support.page_app import HOUR, Page, PagesFound, Word, bring, new_app, pages, statuses


def _app(bad: dict[str, Exception], *, batch: int | None = 8) -> App:
    """A service that sets aside what fails every try; `bad` says which pages fail, and how."""
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, batch=batch, sets_aside=True)
    def read(found: Sequence[Page] | Page, work: Work) -> None:
        for page in [found] if isinstance(found, Page) else found:
            if page.id in bad:
                raise bad[page.id]

    return app


def test_a_document_that_fails_every_try_is_set_aside_and_the_others_are_finished() -> None:
    with Simulation(_app({"bad": RuntimeError("it would not be read")}), retry_job=False) as world:
        bring(world, "a", "bad", "b", source="s")
        world.run_for(HOUR)
        assert statuses(world, "a", "bad", "b") == {"a": "processed", "bad": "pending", "b": "processed"}
        (batch,) = world.store.failed_batches("s")
        assert batch.items == (("pages", "bad"),)
        assert "it would not be read" in batch.errors[-1]["error"]
        assert world.dead_letters() == []
        state = world.state(pages("bad")[0])
        assert (state.failed_batch, state.row, state.attempt_count) == (batch.id, None, 1)
        tries = [(one["try"], one["outcome"]) for one in outcomes(state.attempts)]
        assert tries == [(1, "retried"), (2, "retried"), (3, "set_aside")]


def test_it_is_tried_as_often_as_anything_else_before() -> None:
    with Simulation(_app({"bad": RuntimeError("no")}, batch=None), retry_job=False) as world:
        bring(world, "bad")
        assert world.run_for(HOUR) == 3


def test_a_document_beyond_help_fails_and_is_not_set_aside() -> None:
    with Simulation(_app({"bad": Permanent("it is poison")}), retry_job=False) as world:
        bring(world, "a", "bad")
        world.run_for(HOUR)
        assert statuses(world, "a", "bad") == {"a": "processed", "bad": "failed"}
        assert world.store.failed_batches() == []
        assert len(world.dead_letters("reading")) == 1


def test_a_document_that_was_set_aside_recovers_with_its_next_event() -> None:
    bad: dict[str, Exception] = {"bad": RuntimeError("not today")}
    with Simulation(_app(bad), retry_job=False) as world:
        (page,) = bring(world, "bad", source="s")
        world.run_for(HOUR)
        assert world.store.failed_batches()
        bad.clear()
        world.app.publish(PagesFound.of(page))
        world.drain()
        assert world.status(page) == "processed"
        assert world.state(page).failed_batch is None
        assert world.state(page).attempt_count == 2
        assert world.store.failed_batches() == []


def test_a_handler_sets_single_documents_aside_itself() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, batch=8, sets_aside=True)
    def read(found: Sequence[Page], work: Work) -> None:
        for page in found:
            if page.id.startswith("bad"):
                work.set_aside(page, RuntimeError(f"{page.id} was refused"))
            else:
                work.add(Word(id=page.id), parent=page)

    with Simulation(app, retry_job=False) as world:
        bring(world, "a", "bad1", "b", "bad2", source="s")
        assert world.drain() == 1, "nothing is tried again"
        assert statuses(world, "a", "bad1", "b", "bad2") == {
            "a": "processed",
            "bad1": "pending",
            "b": "processed",
            "bad2": "pending",
        }
        (batch,) = world.store.failed_batches()
        assert sorted(batch.items) == [("pages", "bad1"), ("pages", "bad2")]
        assert sorted(one["error"] for one in batch.errors) == [
            "RuntimeError: bad1 was refused",
            "RuntimeError: bad2 was refused",
        ]
        assert sorted(one.id for one in world.store.states(Word)) == ["a", "b"]


def test_only_what_the_handler_was_given_can_be_set_aside() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, batch=8, sets_aside=True)
    def read(found: Sequence[Page], work: Work) -> None:
        work.set_aside(Page(id="stranger"), RuntimeError("no"))

    with Simulation(app, retry_job=False) as world:
        bring(world, "a")
        world.run_for(HOUR)
        (letter,) = world.dead_letters()
        assert "not pages/stranger" in letter.last_error


def test_an_outage_sets_nothing_aside() -> None:
    app = new_app()
    app.dependency("model", health=lambda: True)

    @app.service("reading", on=PagesFound, finishes=Page, batch=8, needs="model", sets_aside=True)
    def read(found: Sequence[Page], work: Work) -> None:
        assert found

    with Simulation(app, retry_job=False) as world:
        world.fail("model", for_seconds=5 * HOUR)
        found = bring(world, "a", "b", "c")
        world.run_for(6 * HOUR)
        assert {world.status(page) for page in found} == {"processed"}
        assert world.store.failed_batches() == []
        kept = {one["outcome"] for page in found for one in outcomes(world.state(page).attempts)}
        assert kept <= {"processed", "given_back"}, "no try was charged"


def test_only_a_service_that_finishes_documents_can_set_them_aside() -> None:
    app = new_app()
    with pytest.raises(RegistrationError, match="sets documents aside, but finishes none"):

        @app.service("listening", on=PagesFound, sets_aside=True)
        def listen(event: PagesFound, work: Work) -> None:
            """Never declared."""


def test_what_a_work_indexes_and_places_is_found_once_it_is_committed() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.index(page, title=page.id, text="a red house")
        work.place(page, struct.pack("<2f", 1.0, 0.0), model="m")
        assert work.store.statuses(Page, [page.id]) == {page.id: "pending"}
        if page.id == "bad":
            raise Permanent("nothing of it shall be found")

    with Simulation(app, retry_job=False) as world:
        bring(world, "good", "bad")
        world.drain()
        assert [hit.id for hit in rank(world.store, "house", document=Page).hits] == ["good"]
        assert world.store.ids_without_vector(Page, "m") == [], "what failed is not asked for"
        (hit,) = world.store.nearest(struct.pack("<2f", 1.0, 0.0), Page, model="m", parents=Page)
        assert hit.id == "good"


def test_what_a_work_keeps_as_failed_is_seen_with_its_error() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.add(Word(id="unreadable"), parent=None, failed=ValueError("no such letter"))

    with Simulation(app, retry_job=False) as world:
        bring(world, "a", source="s")
        world.drain()
        state = world.state(Word(id="unreadable"))
        assert (state.status, state.parent, state.source) == ("failed", None, "s")
        assert state.last_error is not None
        assert state.last_error["message"] == "no such letter"
