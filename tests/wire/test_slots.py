"""However a call ends, its message is acknowledged: a worker never runs out of messages that it may hold."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from threading import Event

from onward import NotReady, Permanent, RetryPolicy, Unavailable, Work
from onward.retry.backoff import Exponential
from tests.rabbitmq.stage import eventually
from tests.runtime.cast import Page, PagesFound
from tests.wire.stage import Broker, Fleet, bring, rows

MANY = int(os.environ.get("WIRE_EVENTS", "600"))
AT_ONCE = RetryPolicy(Exponential(0.001), max_tries=3, name="at once")


def test_calls_that_end_in_every_way_there_is(fleet: Fleet, broker: Broker) -> None:
    app, calls, half = fleet.app(), Counter[str](), Event()

    @app.service(
        "reading",
        on=PagesFound,
        finishes=Page,
        needs="model",
        concurrency=8,
        time_limit=0.2,
        policy=AT_ONCE,
        not_ready=AT_ONCE,
    )
    async def read_page(page: Page, work: Work) -> None:
        calls[page.id] += 1
        if len(calls) == MANY // 2:
            half.set()
        first = calls[page.id] == 1
        match int(page.id) % 8:
            case 1 if first:
                raise ValueError("it may pass")
            case 2:
                raise Permanent("it will not")
            case 3 if first:
                raise NotReady("not yet")
            case 4 if first and int(page.id) % 100 == 4:
                await asyncio.Event().wait()  # until its time is up
            case 5 if first:
                raise Unavailable("model")
            case 6 if first:
                work.wait(app.store.now() + 0.05)
            case 7:
                raise ValueError("it never passes")

    fleet.hire(app)
    for start in range(0, MANY, 100):
        bring(app, *(str(n) for n in range(start, min(start + 100, MANY))))
    assert half.wait(120), f"half of them are tried: {app.store.counts()}"
    app.store.open_breaker("model", "down")  # what is claimed and not begun is released

    def settled() -> bool:
        app.store.close_breaker("model")
        counts = app.store.counts()["reading"]  # in one look: between two, what was claimed may wait again
        return not counts.get("waiting") and not counts.get("claimed")

    eventually(settled, "all are settled", seconds=240)
    assert rows(app, "reading", "dead") == len([n for n in range(MANY) if n % 8 in (2, 7)])
    assert broker.all_acknowledged("reading")
    eventually(lambda: broker.messages("reading.failed") == rows(app, "reading", "dead"), "each has its copy")
