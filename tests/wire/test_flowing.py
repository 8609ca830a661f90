"""Events flow from the ledger over the wire to workers and back, and leave no message behind."""

from __future__ import annotations

from collections import Counter
from threading import Event

import pytest

from onward import App, Work
from onward.model.ledger import BACKGROUND, OVERDUE, TURNS
from onward.runtime import relay
from tests.rabbitmq.stage import eventually
from tests.runtime.cast import Noticed, Page, PagesFound, Word
from tests.store.stage import Clock
from tests.wire.stage import PATIENCE, Broker, Fleet, bring, count, read

MANY = [f"{n:03}" for n in range(300)]

pytestmark = pytest.mark.usefixtures("only_by_wire")


def test_each_event_is_worked_off_once_and_its_message_is_acknowledged(fleet: Fleet, broker: Broker) -> None:
    app, calls = fleet.app(), Counter[str]()

    @app.service("reading", on=PagesFound, finishes=Page)
    async def read_page(page: Page, work: Work) -> None:
        calls[page.id] += 1
        work.add(Word(id=page.id))

    fleet.hire(app)
    for start in range(0, len(MANY), 10):
        bring(app, *MANY[start : start + 10])
    assert read(app, len(MANY))
    assert calls == Counter(MANY)
    assert count(app, Word) == len(MANY)
    assert broker.all_acknowledged("reading", "reading.failed", "onward.inbox")


def test_what_a_handler_emits_goes_on_over_the_wire(fleet: Fleet, broker: Broker) -> None:
    app, heard = fleet.app(), list[str]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read_page(page: Page, work: Work) -> None:
        work.emit(Noticed(what=page.id))

    @app.service("listening", on=Noticed)
    async def listen(event: Noticed, work: Work) -> None:
        heard.append(event.what)

    fleet.hire(app)
    bring(app, *MANY[:50])
    eventually(lambda: len(heard) == 50, "all are heard of")
    assert sorted(heard) == MANY[:50]
    assert broker.all_acknowledged("reading", "listening")


def test_what_returns_later_is_announced_again(fleet: Fleet, broker: Broker) -> None:
    app, tries = fleet.app(), list[int]()

    @app.service("reading", on=PagesFound, finishes=Page)
    async def read_page(page: Page, work: Work) -> None:
        tries.append(work.try_number)
        if len(tries) == 1:
            work.wait(app.store.now() + 0.3)

    fleet.hire(app)
    bring(app, "a")
    eventually(lambda: tries, "it is tried")
    assert broker.all_acknowledged("reading")
    assert read(app, 1)


def test_an_event_of_so_many_documents_that_one_claim_holds_only_two(fleet: Fleet, broker: Broker) -> None:
    app = fleet.app()

    @app.service("reading", on=PagesFound, finishes=Page, batch=500)
    async def read_pages(pages: list[Page], work: Work) -> None: ...

    for n in range(8):
        pages = [Page(id=f"{n}-{m}") for m in range(500)]
        app.publish(PagesFound.of(pages), documents=pages)
    fleet.hire(app)
    assert read(app, 4000)
    assert broker.all_acknowledged("reading")


def test_two_engines_share_the_load(fleet: Fleet) -> None:
    """Each of them goes on only when the other has something, too."""
    met = [Event(), Event()]

    def app_of(me: Event, other: Event) -> App:
        app = fleet.app()

        @app.service("reading", on=PagesFound, finishes=Page, concurrency=1)
        def read_page(page: Page, work: Work) -> None:
            me.set()
            assert other.wait(PATIENCE), "the other one gets nothing"

        return app

    apps = [app_of(*met), app_of(*reversed(met))]
    for app in apps:
        fleet.hire(app)
    bring(apps[0], *MANY[:20])
    assert read(apps[0], 20)


def test_what_waits_too_long_in_the_background_has_its_share(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "MOST_IN_MESSAGE", 1)  # within a message, the urgent ones come first
    clock, calls = Clock(), list[str]()
    app = fleet.app(clock)

    @app.service("reading", on=PagesFound, finishes=Page, concurrency=1)
    async def read_page(page: Page, work: Work) -> None:
        calls.append(page.id)

    bring(app, *(f"old-{n}" for n in range(50)), priority=BACKGROUND)
    clock.advance(OVERDUE)
    bring(app, *MANY)
    fleet.hire(app)
    assert read(app, 350)
    theirs = sum(id.startswith("old") for id in calls[:200])
    assert 200 // TURNS - 5 <= theirs <= 200 // TURNS + 5
