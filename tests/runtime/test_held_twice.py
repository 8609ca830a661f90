"""A worker that slept past its lease may claim again what it still holds: the row is settled all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from onward import App, Document, Event, Settings, Work, names
from onward.runtime.handler_call import open_delivery
from onward.runtime.slots import InlineSlots


class Page(Document):
    """Something to read."""


class PageFound(Event):
    """There is a page."""

    page_id: str = names(Page)


@pytest.mark.parametrize("newest_first", (True, False))
def test_a_row_that_is_held_twice_goes_back_once(tmp_path: Path, newest_first: bool) -> None:
    app = App(store=f"sqlite:///{tmp_path}/onward.db", settings=Settings())

    @app.service("reading", on=PageFound, finishes=Page)
    def read(page: Page, work: Work) -> None: ...

    page = Page(id="one")
    app.publish(PageFound.of(page), documents=[page])
    engine = app.engine(worker="sleepy")
    service = app.registry.services["reading"]
    (old,) = app.store.claim("sleepy", "reading", limit=1, lease=60.0)
    app.store.release("sleepy")  # its lease has lapsed
    (new,) = app.store.claim("sleepy", "reading", limit=1, lease=60.0)
    assert (old.row, old.token + 1) == (new.row, new.token)

    calls = [call for one in (old, new) for call in open_delivery(service, one, engine.context).calls]
    slots = InlineSlots(service, 1, engine.record, engine.finished, lambda: None)
    slots.feed(calls if newest_first else calls[::-1])  # the last one is withdrawn first
    slots.withdraw()
    engine.commit_now()
    assert app.store.claimed_count(["reading"]) == 0, "nothing is held by nobody"
    assert app.store.counts()["reading"] == {"waiting": 1}
    (again,) = app.store.claim("other", "reading", limit=1, lease=60.0)
    assert [one.id for one in again.inputs] == ["one"]
    app.close()
