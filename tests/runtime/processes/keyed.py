"""An app for worker processes that are killed: services that book orders one at a time for each account."""

from __future__ import annotations

import os

from onward.app import App
from onward.model.documents import Document
from onward.model.events import Event, names
from onward.runtime.work import Work
from onward.settings import Settings

STORE = "KEYED_STORE"
ACCOUNTS = [f"account {number}" for number in range(50)]


class Order(Document):
    account: str
    number: int


class Booked(Document, collection="booked"):
    """The orders of an account, in the order in which they were booked."""

    numbers: tuple[int, ...] = ()


class Counted(Document, collection="counted"):
    """The orders of an account, in any order."""

    numbers: tuple[int, ...] = ()


class OrderPlaced(Event):
    order_id: str = names(Order)


class OrderCounted(Event):
    account: str
    number: int


app = App(
    store=os.environ.get(STORE, "sqlite://:memory:"),
    settings=Settings(retry_backoff_seconds=0.05, keep_completed_count=1_000_000),
)


@app.service("booking", on=OrderPlaced, finishes=Order, key=lambda order: order.account, ordered=True)
def book(order: Order, work: Work) -> None:
    if order.number % 7 == 3 and work.try_number == 1:
        raise ValueError("the first try fails")
    booked = work.store.get(Booked, order.account)
    assert booked is not None, "the accounts are there from the start"
    work.replace(Booked(id=booked.id, numbers=(*booked.numbers, order.number)))
    work.emit(OrderCounted(account=order.account, number=order.number))


@app.service("counting", on=OrderCounted, key=lambda event: event.account)
async def count(event: OrderCounted, work: Work) -> None:
    counted = work.store.get(Counted, event.account)
    assert counted is not None
    work.replace(Counted(id=counted.id, numbers=(*counted.numbers, event.number)))
