"""What a key costs: events a second of one worker process without a key, one at a time for each key, and in order.

Each event has a document, which the handler leaves as it is. With 10,000 keys each key occurs once, so that
nothing waits. With one key for all of them, each event waits for the commit of the one before.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.table import Row, medians
from onward import App, Document, Event, Settings, Work, names
from tests.support.servers import PostgresServer

EVENTS = 10_000
HOT_EVENTS = 1_000
KEYS = 10_000
REPEATS = 3


class Order(Document):
    customer: int


class OrdersPlaced(Event):
    order_ids: list[str] = names(Order)


def run() -> list[Row]:
    """Take turns with each way, on each database."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as server:
        number = iter(range(1_000_000))

        def postgres() -> str:
            url = server.url()
            return f"{url}{'&' if '?' in url else '?'}schema=k{next(number)}"

        stores = {"SQLite": lambda: f"sqlite:///{Path(folder) / f'{next(number)}.db'}", "PostgreSQL": postgres}
        for database, url in stores.items():
            ways = {
                "without a key": partial(_measure, url, EVENTS, KEYS, keyed=False, ordered=False),
                "one at a time for each key": partial(_measure, url, EVENTS, KEYS, keyed=True, ordered=False),
                "and in order": partial(_measure, url, EVENTS, KEYS, keyed=True, ordered=True),
            }
            title = f"{EVENTS:,} events with {KEYS:,} keys, one worker process, {database}"
            rows += [Row(name, True, rate, "", title) for name, rate in medians(ways, REPEATS).items()]
            hot = {
                "one at a time, all with the same key": partial(
                    _measure, url, HOT_EVENTS, 1, keyed=True, ordered=False
                ),
                "in order, all with the same key": partial(_measure, url, HOT_EVENTS, 1, keyed=True, ordered=True),
            }
            title = f"{HOT_EVENTS:,} events with one key, one worker process, {database}"
            note = "each waits for the commit before it"
            rows += [Row(name, True, rate, note, title) for name, rate in medians(hot, REPEATS).items()]
    return rows


def _measure(url: Callable[[], str], events: int, keys: int, *, keyed: bool, ordered: bool) -> float:
    app = App(store=url(), settings=Settings())
    key = (lambda order: order.customer) if keyed else None

    @app.service("billing", on=OrdersPlaced, finishes=Order, key=key, ordered=ordered)
    async def bill(order: Order, work: Work) -> None: ...

    orders = [Order(id=f"{number}", customer=number * 7919 % keys) for number in range(events)]
    for start in range(0, events, 500):
        some = orders[start : start + 500]
        # One row for each document in every way.
        app.publish(*(OrdersPlaced(order_ids=[one.id]) for one in some), documents=some)
    began = time.perf_counter()
    app.work_until_idle()
    took = time.perf_counter() - began
    done = app.store.document_counts()["orders"]
    assert done == {"processed": events}, done
    app.close()
    return events / took
