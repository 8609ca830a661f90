"""A dead letter is a row; its failed queue holds a copy for people to look at, and nothing depends on that."""

from __future__ import annotations

import json

import pytest

from onward import Permanent, Work
from tests.rabbitmq.stage import eventually
from tests.runtime.cast import Page, PagesFound
from tests.wire.stage import Broker, Fleet, bring, read

pytestmark = pytest.mark.usefixtures("only_by_wire")


def test_a_copy_lies_in_the_failed_queue_and_requeueing_leaves_it_there(fleet: Fleet, broker: Broker) -> None:
    app, torn = fleet.app(), [True]

    @app.service("reading", on=PagesFound, finishes=Page)
    async def read_page(page: Page, work: Work) -> None:
        if torn[0]:
            raise Permanent("the page is torn")

    fleet.hire(app)
    bring(app, "a")
    eventually(app.store.dead_letters, "it is given up")
    eventually(lambda: broker.messages("reading.failed") == 1, "its copy is in the failed queue")
    (letter,) = app.store.dead_letters()
    torn.clear()
    torn.append(False)
    assert app.store.requeue(letter.row)
    assert read(app, 1)
    assert broker.all_acknowledged("reading")
    copy = json.loads(broker.take_from("reading.failed") or b"")
    assert (copy["row"], copy["last_error"]) == (letter.row, letter.last_error)
    assert copy["documents"] == [["pages", "a"]]
    assert broker.take_from("reading.failed") is None, "one copy, and none of the requeued event"
