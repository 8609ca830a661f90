"""What became of a source: every message accounted for, what failed and what waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onward.facts.wording import iso
from onward.recovery.deciding import Rules
from onward.recovery.outlook import Outlooks, describe_error
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App, DocumentState
    from onward.model.breaker import Breaker
    from onward.pipeline.sources import SourceStatus

COLLECTIONS = ("archives", "messages", "chunks", "threads")
"""What is retried, and so can fail or wait."""
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Trouble:
    """A document that failed, and why."""

    collection: str
    id: str
    error: str

    def as_dict(self) -> dict[str, str]:
        return {"collection": self.collection, "id": self.id, "error": self.error}


@dataclass(frozen=True, slots=True)
class Waiting:
    """Documents of a collection that are not finished, and when that may change."""

    collection: str
    count: int
    until: float | None
    error: str
    dependency: str = ""
    """What is down, if they wait for that."""
    incomplete: bool = False
    """They wait until the documents that belong to them are finished."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "collection": self.collection,
            "count": self.count,
            "dependency": self.dependency,
            "incomplete": self.incomplete,
            "until": iso(self.until),
            "error": self.error,
        }


@dataclass(slots=True)
class Account:
    """One source after a run."""

    source: str
    status: str
    items: dict[str, int]
    messages: dict[str, int]
    documents: dict[str, dict[str, int]]
    added: dict[str, int]
    """By how many documents each collection has grown in this run."""
    failed: int = 0
    troubles: list[Trouble] = field(default_factory=list)
    """The first few of what failed, archives first."""
    waiting: list[Waiting] = field(default_factory=list)
    request_failed: bool = False

    @property
    def is_clean(self) -> bool:
        return not self.failed and not self.waiting and self.status == "completed"

    def as_dict(self) -> dict[str, Any]:
        return {
            "source": redact(self.source),
            "status": self.status,
            "items": self.items,
            "messages": self.messages,
            "documents": self.documents,
            "added": self.added,
            "failed": self.failed,
            "failures": [one.as_dict() for one in self.troubles],
            "waiting": [one.as_dict() for one in self.waiting],
        }


def totals(app: App, source: str) -> dict[str, int]:
    """How many documents of each collection a source has."""
    return {name: sum(found.values()) for name, found in app.store.document_counts(source).items()}


def account(app: App, source: str, before: dict[str, int], *, waiting: bool = True) -> Account:
    """What became of a source in this run; `before` are its totals when it began.

    Why something waits takes a look at many documents; without `waiting` nobody asks for it.
    """
    from onward.pipeline.documents import source_id
    from onward.pipeline.sources import reports, source_status

    standing = source_status(app, source)
    told = reports(app, source)
    after = totals(app, source)
    troubles = list(_troubles(app, source, standing))
    return Account(
        source,
        # Somebody may have let go of it while it was ingested.
        standing.status if after else "forgotten",
        told.get("source", {}),
        told.get("messages", {}),
        standing.documents,
        {name: after.get(name, 0) - before.get(name, 0) for name in sorted(after.keys() | before.keys())},
        standing.failed,
        troubles,
        [one for name in COLLECTIONS if waiting and (one := _waiting(app, source, standing, name)) is not None],
        any(one.id == source_id(source) for one in troubles),
    )


def _troubles(app: App, source: str, standing: SourceStatus) -> Iterator[Trouble]:
    left = SHOWN
    for collection in COLLECTIONS:
        for status in ("failed", "failed_max_retries"):
            if left > 0 and standing.count(collection, status):
                for state in app.store.find_states(
                    collection=collection, status=status, source=source, limit=left
                ):
                    left -= 1
                    yield Trouble(collection, state.id, error_of(state))


def _waiting(app: App, source: str, standing: SourceStatus, collection: str) -> Waiting | None:
    count = standing.count(collection, "pending")
    if not count:
        return None
    states = app.store.states(collection, status="pending", source=source, limit=500)
    if (down := outage_of(app, collection)) and any(state.row is not None for state in states):
        return Waiting(collection, count, down.next_probe, down.reason, down.dependency)
    if (
        collection == "threads"
        and standing.pending > count
        and not any(state.row or state.round for state in states)
    ):
        return Waiting(collection, count, None, "", incomplete=True)
    outlooks = Outlooks(app.store, Rules.of(app.settings))
    times = [at for state in states if (at := due_time(outlooks, state)) is not None]
    error = next((text for state in states if (text := error_of(state))), "")
    return Waiting(collection, count, min(times, default=None), error)


def outage_of(app: App, collection: str) -> Breaker | None:
    """The open breaker that a collection's documents wait for."""
    needs = {name for one in app.store.subscriptions() if one.finishes == collection for name in one.needs}
    return next((one for one in app.store.breakers() if one.open and one.dependency in needs), None)


def due_time(outlooks: Outlooks, state: DocumentState) -> float | None:
    """When a pending document is next tried; None: at once, or when something else is done first."""
    at = outlooks.of(state).at
    return at if at is not None and at > outlooks.now else None


def error_of(state: DocumentState) -> str:
    """The last error of a document in words, if it has one."""
    return describe_error(state.last_error)
