"""While a breaker is open, the ledger says what may be claimed, whatever messages tell of."""

from __future__ import annotations

import time
from collections import Counter
from threading import Event

from onward import App, Unavailable, Work
from tests.rabbitmq.stage import eventually
from tests.runtime.cast import Noticed, Page, PagesFound
from tests.wire.stage import Broker, Fleet, bring, count, read, rows

THIRTY = [f"{n:02}" for n in range(30)]


class Ahead:
    """The time, and as much more as a test says."""

    def __init__(self) -> None:
        self.by = 0.0

    def now(self) -> float:
        return time.time() + self.by

    def advance(self, seconds: float) -> None:
        self.by += seconds


def read_in_the_end(app: App, clock: Ahead, pages: int) -> None:
    """Let time fly until all pages are read."""

    def done() -> bool:
        clock.advance(1.0)
        return count(app, Page, "processed") == pages

    eventually(done, f"{pages} pages are read")


def test_nothing_is_claimed_while_it_is_open_and_one_probe_gets_through(fleet: Fleet, broker: Broker) -> None:
    clock, calls, heard, over = Ahead(), list[str](), list[str](), Event()
    app = fleet.app(clock)

    @app.service("reading", on=PagesFound, finishes=Page, needs="model", time_limit=3600)
    def read_page(page: Page, work: Work) -> None:
        calls.append(page.id)
        over.wait(60)

    @app.service("listening", on=Noticed)
    async def listen(event: Noticed, work: Work) -> None:
        heard.append(event.what)

    app.store.open_breaker("model", "down")
    fleet.hire(app)
    bring(app, *THIRTY)
    eventually(lambda: broker.messages("reading") == len(THIRTY), "all are announced")
    for n in range(20):
        app.publish(Noticed(what=f"{n}"))
    eventually(lambda: len(heard) == 20, "what does not need it goes on")
    assert calls == []
    clock.advance(10)
    eventually(lambda: calls, "the probe gets through")
    app.publish(Noticed(what="meanwhile"))
    eventually(lambda: len(heard) == 21, "the engine has looked for more")
    assert len(calls) == 1
    over.set()
    read_in_the_end(app, clock, len(THIRTY))
    assert sorted(calls) == THIRTY
    assert broker.all_acknowledged("reading", "listening")


def test_one_that_opens_in_the_middle_costs_nothing(fleet: Fleet, broker: Broker) -> None:
    clock, down, tries = Ahead(), Event(), Counter[str]()
    app = fleet.app(clock)

    @app.service("reading", on=PagesFound, finishes=Page, needs="model")
    async def read_page(page: Page, work: Work) -> None:
        if down.is_set():
            raise Unavailable("model")
        assert work.try_number == 1
        tries[page.id] += 1

    fleet.hire(app)
    bring(app, *THIRTY[:10])
    assert read(app, 10)
    down.set()
    bring(app, *THIRTY[10:])
    eventually(lambda: [one for one in app.store.breakers() if one.open], "the breaker opens")
    down.clear()
    read_in_the_end(app, clock, len(THIRTY))
    assert tries == Counter(THIRTY)
    assert (rows(app, "reading", "dead"), rows(app, "reading", "waiting")) == (0, 0)
    assert broker.all_acknowledged("reading")
