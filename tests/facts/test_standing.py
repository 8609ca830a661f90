"""How everything stands is told quickly: what takes a look at many documents is counted only where it is said."""

from __future__ import annotations

from pathlib import Path

from onward import App, Settings
from onward.facts.overdue import Overdue
from onward.facts.standing import Standing, look
from onward.model.ledger import Dead
from tests.store.stage import Clock, Stage, failure


def test_what_is_overdue_is_asked_for_only_if_a_need_speaks_of_it(tmp_path: Path) -> None:
    app = App(settings=Settings(home=tmp_path))
    stage = Stage(app.store, Clock(app.store.now()))
    asked: list[Standing] = []

    def late(standing: Standing) -> Overdue:
        asked.append(standing)
        return Overdue(3)

    stage.bring("a")
    assert "no worker runs" in look(app, late=late).needs[0].text
    assert not asked, "an event is due, which is said instead"
    stage.settle(stage.take(), Dead(["a"], failure=failure()))
    assert look(app, late=late).needs[0].text == "3 documents are due to be retried, and no worker runs"
    assert len(asked) == 1
    app.store.enlist("anna", {"services": ["reading"]})
    look(app, late=late)
    assert len(asked) == 1, "with a worker alive it is no need"
    app.close()
