"""The cast of the tests of joins: an event that says how the documents of a list ended, and who takes it."""

from __future__ import annotations

import json

from onward import Joined
from onward.model.documents import DocumentKey
from onward.model.events import Event
from onward.model.joins import NewJoin
from onward.model.ledger import Processed, Settlement, Subscription
from onward.runtime.joins import new_join
from tests.support.store_pages import LEASE, Stage

GATHERING = Subscription("gathering", "Gathered", failed_queue="gathering.failed")


class Gathered(Event):
    what: str = ""
    joined: Joined = Joined()


def keys(ids: str, collection: str = "pages") -> list[DocumentKey]:
    """The keys of documents, each of which is named by a letter."""
    return [(collection, id) for id in ids]


def join(ids: str, *, what: str = "", allow_failed: bool = True, source: str | None = None) -> NewJoin:
    """A join of pages."""
    return new_join(keys(ids), Gathered(what=what), allow_failed, now=0.0, source=source)


def gathered(stage: Stage) -> list[Joined]:
    """How the documents ended, of each event that was published since the last call."""
    found = stage.store.claim("greta", "gathering", limit=1000, lease=LEASE)
    stage.store.settle([Settlement(one.row, one.token, parts=[Processed()]) for one in found])
    return [Joined.model_validate(json.loads(one.data)["joined"]) for one in found]
