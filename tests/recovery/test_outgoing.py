"""What the retry job puts back is no new fact: it does not leave for other programs again."""

from __future__ import annotations

from onward import Work
from onward.model.ledger import OutgoingEvents
from onward.testing import Simulation
from tests.support.page_app import HOUR, Page, PagesFound, bring, new_app


def test_a_requeued_event_does_not_leave_again() -> None:
    app = new_app()
    tries = []

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        tries.append(page.id)
        if len(tries) <= 3:  # all tries of the first round
            raise OSError("not now")

    with Simulation(app) as world:
        app.store.outgoing = OutgoingEvents(None)
        bring(world, "a")
        world.run_for(HOUR)
        state = app.state(Page, "a")
        assert state is not None
        assert (state.status, state.attempt_count) == ("processed", 2), "it was requeued"
        leaving = [event.routing_key for event in app.store.due_outgoing(limit=10)]
    assert leaving == ["pages.found", "reading.failed.notice"]
