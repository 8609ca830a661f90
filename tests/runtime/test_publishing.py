"""Publishing from outside of a handler: what is given is written once, and the answer says what it led to."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onward import App, OnwardError, Status, Work
from onward.ledger.store_errors import StoreConflict
from onward.model.ledger import KeptDocument, Published
from onward.runtime.publish_options import PublishRefused
from onward.testing import Simulation
from tests.support.page_app import DAY, HOUR, Noticed, Page, PagesFound, new_app, pages


def meets_another_once(app: App) -> None:
    """Let the next transaction that publishes be done again, as when two got in each other's way."""
    publish = app.store.publish
    conflicts = iter((StoreConflict("another transaction was quicker"),))

    def put(envelopes: Any) -> list[Published]:
        published = publish(envelopes)
        for conflict in conflicts:
            raise conflict
        return published

    app.store.publish = put  # type: ignore[method-assign]


def test_documents_of_a_generator_are_kept_when_the_commit_is_repeated(app: App) -> None:
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    meets_another_once(app)
    app.publish(PagesFound(page_ids=["a", "b"]), documents=(Page(id=id) for id in "ab"))
    assert app.store.document_counts() == {"pages": {"pending": 2}}
    assert app.store.counts() == {"reading": {"waiting": 1}}


def test_a_known_document_with_other_content_is_said_to_be_kept(app: App) -> None:
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    first = [Page(id="a", text="first"), Page(id="b")]
    (published,) = app.publish(PagesFound.of(first), documents=first)
    assert (published.rows, published.kept) == (1, ())
    app.work_until_idle()
    assert app.replace(Page(id="a", text="second"))

    later = [Page(id="a", text="third"), Page(id="b"), Page(id="c")]
    (published,) = app.publish(PagesFound.of(later), documents=later)
    assert published.kept == (KeptDocument("pages", "a", revision=2),), "b is the same, c is new"
    assert app.store.get(Page, "a") == Page(id="a", text="second")
    (published,) = app.publish(PagesFound.of(later), documents=[Page(id="a", text="second")])
    assert published.kept == ()


def test_two_documents_with_one_id_are_said_too(app: App) -> None:
    (published,) = app.publish(Noticed(), documents=[Page(id="a", text="one"), Page(id="a", text="two")])
    assert published.kept == (KeptDocument("pages", "a", revision=1),)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a priority that is no number": ({"priority": "high"}, "priority .*'high'"),
    "a priority beyond all bounds": ({"priority": 2**70}, "priority .*1180591620717411303424"),
    "a delay that is no number": ({"delay": "soon"}, "delay .*'soon'"),
    "a delay for ever": ({"delay": math.inf}, "delay .*inf"),
    "a delay that is not a number": ({"delay": math.nan}, "delay .*nan"),
}


@pytest.mark.parametrize(("given", "complaint"), WRONG.values(), ids=WRONG)
def test_a_wrong_value_is_refused_and_nothing_is_written(app: App, given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as refused:
        app.publish(PagesFound(page_ids=["a"]), documents=pages("a"), **given)
    assert isinstance(refused.value, OnwardError)
    assert app.store.document_counts() == {}
    assert app.store.counts() == {}


@pytest.mark.parametrize(
    ("events", "documents", "complaint"),
    (
        (["a"], [], r"publish takes events, .* 'a' \(str\) is no event"),
        ([Page(id="a")], [], r"publish takes events, .* \(Page\) is no event"),
        ([[Noticed()]], [], r"publish takes events, .* \(list\) is no event"),
        ([Noticed()], Page(id="a"), r"documents= takes a list of documents, not .* \(Page\)"),
        ([Noticed()], None, r"documents= takes a list of documents, not None \(NoneType\)"),
        ([Noticed()], [Noticed()], r"documents= takes a list of documents; .* \(Noticed\) is none"),
    ),
)
def test_what_is_no_event_or_no_document_is_refused_by_name(
    app: App, events: Any, documents: Any, complaint: str
) -> None:
    with pytest.raises(PublishRefused, match=complaint):
        app.publish(*events, documents=documents)
    with pytest.raises(PublishRefused, match=complaint):
        asyncio.run(app.apublish(*events, documents=documents))
    assert app.store.document_counts() == {}


def test_a_document_of_a_wrong_priority_is_refused(app: App) -> None:
    with pytest.raises(ValueError, match=r"priority .*2147483648"):
        app.add(Page(id="a"), priority=2**31)


@pytest.fixture
def world(store_url: str) -> Iterator[Simulation]:
    with Simulation(new_app(), store=store_url) as world:
        yield world


def read_twice(world: Simulation, change: Callable[[], object]) -> tuple[Status | str, list[str]]:
    """Have a page read, then changed; return its status an hour later, and what was read."""
    read: list[str] = []

    @world.app.service("reading", on=PagesFound, finishes=Page)
    def handle(page: Page, work: Work) -> None:
        read.append(page.text)

    page = Page(id="a", text="old")
    world.app.publish(PagesFound.of(page), documents=[page])
    world.drain()
    change()
    world.drain(within=1.0)
    return world.status(page), read


def test_a_document_that_is_replaced_without_an_event_is_due_at_once(world: Simulation) -> None:
    found = read_twice(world, lambda: world.app.replace(Page(id="a", text="new")))
    assert found == (Status.PROCESSED, ["old", "new"])


def test_a_document_that_is_replaced_with_an_event_is_read_once(world: Simulation) -> None:
    def change() -> None:
        new = Page(id="a", text="new")
        world.app.atomically(lambda: (world.app.replace(new), world.app.publish(PagesFound.of(new))))

    assert read_twice(world, change) == (Status.PROCESSED, ["old", "new"])
    assert world.run_for(2 * DAY) == 0


def test_a_replacement_that_fails_waits_for_its_backoff(world: Simulation) -> None:
    calls: list[float] = []

    @world.app.service("reading", on=PagesFound, finishes=Page)
    def handle(page: Page, work: Work) -> None:
        calls.append(work.now)
        if page.text == "new":
            raise ConnectionError

    page = Page(id="a", text="old")
    world.app.publish(PagesFound.of(page), documents=[page])
    world.drain()
    world.app.replace(Page(id="a", text="new"))
    world.run_for(4 * 60.0)
    assert len(calls) == 1 + 3, "one round of three tries"
    world.run_for(HOUR)
    assert world.state(page).attempt_count > 1
