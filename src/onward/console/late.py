"""What is overdue, for whoever shows it."""

from __future__ import annotations

from fastapi import FastAPI

from onward.app import App
from onward.console.recent import Recent
from onward.facts.overdue import Overdue, overdue
from onward.facts.standing import Standing
from onward.recovery.deciding import Rules


def late(web: FastAPI, standing: Standing) -> Overdue:
    """What is overdue; not counted again at once, as long as nothing has become of it."""
    app: App = web.state.onward
    last: Recent[Overdue] = web.state.late
    seen = (standing.documents, len(standing.set_aside))
    return last.get(seen, lambda: overdue(app.store, Rules.of(app.settings)))
