"""What the database refuses is one document's failure: it is no outage, and the others go on."""

from __future__ import annotations

import random
import string

from onward import App, Document, Settings, Work
from tests.postgres.stage import Opener
from tests.support.store_pages import Page, PagesFound

LONG = "".join(random.Random(1).choices(string.ascii_letters, k=5000))
"""Too long for an index, however it is packed."""


class Note(Document, keys=("about",)):
    about: str


def test_a_work_that_the_database_refuses_is_charged_alone(opened: Opener, postgres_store_url: str) -> None:
    app = App(store=opened(postgres_store_url), settings=Settings())

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.add(Note(id=page.id, about=LONG if page.id == "poison" else "weather"))

    pages = [Page(id=id) for id in ("a", "b", "poison", "c", "d")]
    app.publish(PagesFound.of(pages), documents=pages)
    app.work_until_idle()
    assert app.store.document_counts() == {
        "pages": {"processed": 4, "pending": 1},
        "notes": {"processed": 4},
    }
    state = app.state(Page, "poison")
    assert state is not None
    assert state.last_error is not None
    assert "index row size" in state.last_error["message"]
    assert app.store.counts()["reading"]["waiting"] == 1, "it is tried again later, as whatever may pass"
