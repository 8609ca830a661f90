"""Joins: an event that is published when all documents of a list are final, and how they ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from pydantic import BaseModel, ConfigDict

from onward.model.documents import DocumentKey
from onward.model.events import Envelope

MAX_FAILED_IDS = 100
MAX_FAILED_IDS_CHARACTERS = 20_000  # Of all together: they are part of an event, which has a limit


class Joined(BaseModel):
    """How the documents of a `when_all` ended. A field of this type is filled in when the event is published.

        class SiteCrawled(Event):
            site_id: str = names(Site)
            joined: Joined = Joined()

    `failed` counts documents that were given up or discarded; `failed_ids` names them as `collection/id`, in
    order, at most `MAX_FAILED_IDS`. `removed` counts documents that do not exist, or not any more.
    """

    model_config = ConfigDict(frozen=True)

    total: int = 0
    processed: int = 0
    failed: int = 0
    removed: int = 0
    failed_ids: tuple[str, ...] = ()


class MemberOutcome(IntEnum):
    """How a member of a join has ended, as the database stores it."""

    OPEN = 0
    PROCESSED = 1
    FAILED = 2
    REMOVED = 3


@dataclass(frozen=True, slots=True)
class NewJoin:
    """Documents to be waited for, and the event to be published then."""

    key: str  # The idempotency key of the event as it was given. While a join is open, the same key extends it
    then: Envelope
    members: Sequence[DocumentKey]
    allow_failed: bool = True
    joined_field: str | None = None  # The field of the event that is filled in
    holders: Sequence[DocumentKey] = ()  # Documents whose handler adds more members; not counted if processed
    hold_seconds: float = 0.0  # If not 0, the event is not published before a later call has `releases`
    releases: bool = False


@dataclass(frozen=True, slots=True)
class OpenJoin:
    """A join that waits for documents."""

    id: int
    event_type: str
    event_id: str
    remaining: int
    processed: int
    failed: int
    removed: int
    allow_failed: bool
    created_at: float
    source: str | None
    open_documents: tuple[DocumentKey, ...] = ()  # Some of those that it waits for
