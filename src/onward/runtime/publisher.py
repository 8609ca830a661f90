"""Publishing from outside of a handler: events and the documents they name, in one transaction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from onward.model.documents import Document
from onward.model.events import Envelope, Event
from onward.model.ledger import KeptDocument, NewDocument, Published
from onward.retry import OnwardError
from onward.runtime.tracing import published_trace

if TYPE_CHECKING:
    from onward.ledger.store import Store

MAX_PRIORITY = 1_000_000


class PublishRefused(OnwardError, ValueError):
    """Something cannot be published as it was given; nothing was written."""


def priority_problem(given: object) -> str:
    """Return what is wrong with a priority; empty: nothing."""
    if isinstance(given, int) and abs(given) <= MAX_PRIORITY:
        return ""
    return f"a priority is a whole number between -{MAX_PRIORITY:,} and {MAX_PRIORITY:,}, not {given!r:.100}"


def delay_problem(given: object) -> str:
    """Return what is wrong with a delay; empty: nothing."""
    # An event that is due at infinity or NaN would never be claimed.
    if isinstance(given, int | float) and math.isfinite(given):
        return ""
    return f"a delay is a number of seconds, not {given!r:.100}"


def new_documents(documents: Sequence[Document], source: str | None, priority: int) -> list[NewDocument]:
    """Serialise documents for the store, or refuse them."""
    if problem := priority_problem(priority):
        raise PublishRefused(problem)
    return [
        NewDocument(one.collection, one.id, one.to_json(), source=source, priority=priority, keys=one.key_values())
        for one in documents
    ]


def publish(
    store: Store,
    events: Sequence[Event],
    documents: Sequence[Document],
    *,
    source: str | None = None,
    delay: float = 0.0,
    priority: int = 0,
) -> list[Published]:
    """Put events on the ledger, in one transaction with their documents; see `onward.App.publish`."""
    if problem := priority_problem(priority) or delay_problem(delay):
        raise PublishRefused(problem)
    now, due_in = store.now(), max(0.0, delay)
    envelopes: list[Envelope] = []
    for event in events:
        envelopes += Envelope.of(
            event, now=now, source=source, priority=priority, due_in=due_in, trace=published_trace(event)
        )

    def put() -> list[Published]:
        # New objects for each try: the store changes them, and a transaction may be repeated.
        new = new_documents(documents, source, priority)
        kept = _kept(store, new) if store.add_documents(new) < len(new) else ()
        published = store.publish(envelopes)
        return [replace(one, kept=kept) for one in published] if kept else published

    return store.atomically(put)


def _kept(store: Store, documents: Sequence[NewDocument]) -> tuple[KeptDocument, ...]:
    """Return which of these documents are stored with other content."""
    kept: list[KeptDocument] = []
    for collection in dict.fromkeys(one.collection for one in documents):
        given: dict[str, set[str]] = {}
        for one in documents:
            if one.collection == collection:
                given.setdefault(one.id, set()).add(one.body)
        kept += [
            KeptDocument(collection, id, revision)
            for id, revision, body in store.read_bodies(collection, list(given))
            if given[id] != {body}
        ]
    return tuple(kept)
