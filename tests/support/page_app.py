"""The cast of the runtime's tests: pages to be read, and the words found in them."""

from __future__ import annotations

import json
from typing import Any

from onward import App, Document, Event, Settings, Status, names
from onward.testing import Simulation

MINUTE = 60.0
HOUR = 3600.0
DAY = 24 * HOUR


class Page(Document):
    text: str = ""


class Word(Document):
    text: str = ""


class PagesFound(Event):
    page_ids: list[str] = names(Page)
    found_by: str = ""


class WordsFound(Event):
    word_ids: list[str] = names(Word)


class Noticed(Event):
    what: str = ""


class HTTPError(Exception):
    """What HTTP clients raise: a status, and headers."""

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(f"the server answered {status}")
        self.status_code = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def new_app() -> App:
    """An app with the usual settings, whatever the environment says."""
    return App(settings=Settings())


def pages(*ids: str) -> list[Page]:
    return [Page(id=id) for id in ids]


def bring(world: Simulation, *ids: str, **more: Any) -> list[Page]:
    """Write pages and announce them with one event."""
    found = pages(*ids)
    world.app.publish(PagesFound.of(found), documents=found, **more)
    return found


def bring_apart(world: Simulation, *ids: str) -> list[Page]:
    """Write pages and announce each with an event of its own."""
    return [page for id in ids for page in bring(world, id)]


def statuses(world: Simulation, *ids: str) -> dict[str, str]:
    """Where these pages stand; a page that does not exist is not named."""
    states = [world.store.state(Page, id) for id in ids]
    return {state.id: state.status for state in states if state is not None}


def how_many(world: Simulation, kind: type[Document]) -> int:
    """How many documents of a kind exist, wherever they stand."""
    return sum(world.store.document_counts().get(kind.collection, {}).values())


def all_processed(world: Simulation, *ids: str) -> bool:
    return statuses(world, *ids) == dict.fromkeys(ids, Status.PROCESSED)


def raw_event(event_type: str = "PagesFound", **envelope: Any) -> bytes:
    """An event as somebody else would send it."""
    return json.dumps({"event_type": event_type, **envelope}).encode()
