"""Work: everything a handler wants written and announced, committed all at once."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from pydantic_core import PydanticSerializationError

from onward.model.documents import Document, DocumentState, UnserialisableDocument
from onward.model.events import Envelope, Event, EventTooLarge
from onward.model.failures import Failure
from onward.model.ledger import (
    MAX_COMMIT_BYTES,
    MAX_COMMIT_DOCUMENTS,
    Found,
    IndexedText,
    NewDocument,
    PlacedVector,
    Replacement,
)
from onward.ports import Reader
from onward.retry import OnwardError, Permanent
from onward.runtime.turns import Turns

D = TypeVar("D", bound=Document)

MAX_PRIORITY = 1_000_000
HANDLED: Any = object()
"""Stands for the document that is being handled."""


def about(documents: Sequence[tuple[str, str]]) -> str:
    """Name the documents of a call in an error, by collection and id."""
    if not documents:
        return ""
    more = f" and {len(documents) - 1} more" if len(documents) > 1 else ""
    return f", document {'/'.join(documents[0])}{more}"


class WorkTooLarge(Permanent):
    """A work holds more than one transaction may; checkpoints make several of it."""


class WorkMisused(Permanent):
    """A work was given something it cannot commit."""


class WorkRefused(OnwardError):
    """This delivery is not this worker's any more; whatever the handler still does is in vain."""


class Checkpointed(Awaitable[None]):
    """The answer to `work.checkpoint`: to be awaited in an `async def` handler."""

    def __init__(self, finish: Callable[[], Awaitable[None]] | None) -> None:
        self._finish = finish
        self.awaited = finish is None

    def __await__(self) -> Generator[Any, None, None]:
        self.awaited = True
        if self._finish is not None:
            yield from self._finish().__await__()


class Work:
    """What a handler says should be true once it returns.

    Nothing is written before that: either all of a work is committed, in one transaction with the
    settlement of its event, or nothing. A handler that fails leaves no trace but its failure.
    """

    def __init__(
        self,
        *,
        service: str,
        event: Event,
        documents: Sequence[Document],
        store: Reader,
        key: Callable[[], str],
        try_number: int,
        round: int,
        cursor: Any,
        now: Callable[[], float],
        checkpoint: Callable[[Work, Any], Checkpointed],
        turns: Turns,
        trace: Callable[[], str | None],
    ) -> None:
        self.event = event
        """The event that brought the documents."""
        self._key = key
        self.try_number = try_number
        """1 for the first try of this round."""
        self.round = round
        self.cursor = cursor
        """What the last `checkpoint` of an earlier try gave, or None."""
        self._reader = store
        self._service = service
        self._documents = documents
        self._now = now
        self._trace = trace
        self._checkpoint = checkpoint
        self._turns = turns
        self._revisions: dict[tuple[str, str], int] = {}
        self._open = True
        self._pending_checkpoint: Checkpointed | None = None
        self.waits_until: float | None = None
        self.failed: dict[str, BaseException] = {}
        self.aside: dict[str, BaseException] = {}
        self._clear()

    def _clear(self) -> None:
        self.adds: list[NewDocument] = []
        self.replaces: list[Replacement] = []
        self.removes: list[tuple[str, str]] = []
        self.emits: list[Envelope] = []
        self.texts: list[IndexedText] = []
        self.vectors: list[PlacedVector] = []
        self._added: list[Document] = []
        self._size = self._count = 0

    @property
    def key(self) -> str:
        """The same for every try and round of this work: an idempotency key for calls to the outside."""
        return self._key()

    @property
    def store(self) -> Reader:
        """Reads documents; it cannot write."""
        return _NotingReader(self._reader, self)

    # -- what a handler says

    def add(
        self,
        document: D,
        *,
        parent: Document | None = HANDLED,
        source: str | None = None,
        priority: int = 0,
        failed: BaseException | None = None,
    ) -> D:
        """Write a document if it is absent; one with this id that exists already stays as it is.

        It belongs to the same source as what is being handled, and descends from it: changed content
        takes its descendants along. In a batch, `parent` says from which document; `parent=None` gives
        it a life of its own. What is known to be beyond help is kept with `failed=error`, to be seen.
        """
        self._must_be(Document, document, "add")
        self._must_be_priority(priority)
        if parent is HANDLED:
            parent = self._documents[0] if len(self._documents) == 1 else None
        failure = None if failed is None else Failure.of(failed, at=self._now(), service=self._service)
        new = NewDocument(
            document.collection,
            document.id,
            self._body(document),
            source=source,
            parent=f"{parent.collection}/{parent.id}" if parent else None,
            priority=priority,
            keys=document.key_values(),
            failure=failure,
        )
        self._added.append(document)
        self.adds.append(new)
        return document

    def added(self, kind: type[D]) -> list[D]:
        """The documents of a kind that were added so far (since the last checkpoint)."""
        return [one for one in self._added if isinstance(one, kind)]

    def replace(self, document: Document) -> None:
        """Give a document new content, if it is still as it was read.

        If it changed meanwhile, this work is dropped and the event handled again. Changed content makes
        the document `pending` and removes what descended from the old content.
        """
        self._must_be(Document, document, "replace")
        revision = self._revisions.get((document.collection, document.id))
        if revision is None:
            raise WorkMisused(
                f"service {self._service!r}{self._about()}: work replaces {document.collection}/{document.id} "
                "without having read it; read it first with work.store.get()"
            )
        self.replaces.append(
            Replacement(document.collection, document.id, self._body(document), revision, document.key_values())
        )

    def index(self, document: Document, *, title: str = "", text: str = "") -> None:
        """Let full-text search find a document by this text, in place of what it was found by before."""
        self._must_be(Document, document, "index")
        self.texts.append(IndexedText(document.collection, document.id, title, text))
        self._grow(len(title) + len(text))

    def place(self, document: Document, vector: bytes, *, model: str) -> None:
        """Give a document its place in a model's vector space: 32-bit floats, as bytes."""
        self._must_be(Document, document, "place")
        self.vectors.append(PlacedVector(document.collection, document.id, model, vector))
        self._grow(len(vector))

    def remove(self, document: Document) -> None:
        """Remove a document with all that descended from it."""
        self._must_be(Document, document, "remove")
        self.removes.append((document.collection, document.id))

    def emit(self, event: Event, *, delay: float = 0.0, priority: int = 0) -> None:
        """Announce a fact; its consumers get it once this work is committed, after `delay` seconds."""
        self._must_be(Event, event, "emit")
        self._must_be_priority(priority)
        self._must_be_time(delay, "emit after")
        try:
            envelopes = Envelope.of(
                event, now=self._now(), priority=priority, due_in=max(0.0, delay), trace=self._trace()
            )
        except EventTooLarge as error:
            raise WorkTooLarge(f"service {self._service!r}{self._about()}: {error}") from error
        except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
            raise WorkMisused(
                f"service {self._service!r}{self._about()}: event {event.event_type} cannot be written as JSON: "
                f"{error}. Give the offending field a type that pydantic can serialise"
            ) from error
        self.emits += envelopes
        self._grow(sum(len(one.data) for one in envelopes))

    def wait(self, until: float) -> None:
        """Come back at this time (seconds since the epoch) instead of being finished; no failure."""
        self._must_be_time(until, "wait until")
        self.waits_until = float(until)

    def fail(self, document: Document, error: BaseException) -> None:
        """One document of the batch failed; the others are finished without it."""
        self._must_be(BaseException, error, "fail a document with")
        self._must_be_given(document, "fail")
        self.failed[document.id] = error

    def set_aside(self, document: Document, error: BaseException) -> None:
        """One document of the batch failed: it joins the failed batch of its source, to be retried later."""
        self._must_be(BaseException, error, "set a document aside with")
        self._must_be_given(document, "set aside")
        self.aside[document.id] = error

    def checkpoint(self, cursor: Any) -> Awaitable[None]:
        """Commit what is so far; a redelivery goes on from `work.cursor`.

        Await it in an `async def` handler; in a `def` handler it has happened when it returns.
        """
        self._must_be_open("checkpoint")
        try:
            json.dumps(cursor)
        except (TypeError, ValueError) as error:
            raise WorkMisused(
                f"service {self._service!r}{self._about()}: the cursor {cursor!r:.100} cannot be written as JSON"
            ) from error
        self._must_have_awaited()
        self._pending_checkpoint = self._checkpoint(self, cursor)
        return self._pending_checkpoint

    def computing(self) -> AbstractContextManager[None]:
        """Mark what a `def` handler only computes: it is done in turns with other computations and commits.

        Threads that compute side by side only hold each other up. Not for what waits: a call to the outside,
        a checkpoint.
        """
        return self._turns.computing()

    # -- checks

    def _must_be(self, kind: Any, given: object, verb: str) -> None:
        self._must_be_open(verb)
        # Most are of a class that says so; asking isinstance() is slow where there is a metaclass.
        if kind not in type(given).__mro__ and not isinstance(given, kind):
            wanted = getattr(kind, "__name__", str(kind))
            raise WorkMisused(
                f"service {self._service!r}{self._about()}: work can {verb} a {wanted}, "
                f"not {given!r:.100} ({type(given).__name__})"
            )

    def _must_be_given(self, document: Document, verb: str) -> None:
        if document.id not in {one.id for one in self._documents}:
            raise WorkMisused(
                f"service {self._service!r}{self._about()}: work can {verb} what the handler was given, "
                f"not {document.collection}/{document.id}"
            )

    def _must_be_time(self, given: object, verb: str) -> None:
        self._must_be(int | float, given, verb)
        # What waits until infinity, or until no time at all, would never be seen again.
        if not math.isfinite(given):  # type: ignore[arg-type]  # a number, as was checked
            raise WorkMisused(f"service {self._service!r}{self._about()}: work cannot {verb} {given!r} s")

    def _must_be_priority(self, given: object) -> None:
        if not isinstance(given, int) or abs(given) > MAX_PRIORITY:
            raise WorkMisused(
                f"service {self._service!r}{self._about()}: a priority is a whole number between "
                f"-{MAX_PRIORITY:,} and {MAX_PRIORITY:,}, not {given!r:.100}"
            )

    def _must_be_open(self, verb: str) -> None:
        if not self._open:
            raise WorkMisused(
                f"service {self._service!r}{self._about()}: {verb} after the handler returned; "
                "a work ends with its handler"
            )

    def _must_have_awaited(self) -> None:
        if self._pending_checkpoint is not None and not self._pending_checkpoint.awaited:
            raise WorkMisused(
                f"service {self._service!r}{self._about()}: a checkpoint was not awaited; "
                "write `await work.checkpoint(...)`"
            )

    def _about(self) -> str:
        return about([(one.collection, one.id) for one in self._documents])

    def _body(self, document: Document) -> str:
        try:
            body = document.to_json()
        except UnserialisableDocument as error:
            raise UnserialisableDocument(f"service {self._service!r}{self._about()}: {error}") from error
        if len(body) > MAX_COMMIT_BYTES:
            raise WorkTooLarge(
                f"service {self._service!r}{self._about()}: document {document.collection}/{document.id} takes "
                f"{len(body):,} bytes, more than {MAX_COMMIT_BYTES:,}; keep what is so large in a file, or "
                "divide it into several documents"
            )
        self._grow(len(body), documents=1)
        return body

    def _grow(self, size: int, documents: int = 0) -> None:
        self._size += size
        self._count += documents
        if self._count > MAX_COMMIT_DOCUMENTS or self._size > MAX_COMMIT_BYTES:
            raise WorkTooLarge(
                f"service {self._service!r}{self._about()}: a work of more than {MAX_COMMIT_DOCUMENTS:,} "
                f"documents or {MAX_COMMIT_BYTES // 1_000_000} MB; call work.checkpoint(cursor) along the way"
            )

    # -- for the runtime

    def note_revision(self, collection: str, id: str, revision: int) -> None:
        """Remember how a document was read; a replacement of it is checked against that."""
        self._revisions[collection, id] = revision

    def close(self) -> None:
        """The handler has returned."""
        self._must_have_awaited()
        self._open = False

    def taken(self) -> None:
        """What was said so far is committed."""
        self._clear()


class _NotingReader:
    """Reads for a handler, and notes the revisions it saw, so that a replacement can be checked."""

    def __init__(self, store: Reader, work: Work) -> None:
        self._store = store
        self._work = work

    def get(self, document: type[D], id: str) -> D | None:
        found = self.get_many(document, [id])
        return found[0] if found else None

    def get_many(self, document: type[D], ids: Sequence[str]) -> list[D]:
        bodies: dict[str, str] = {}
        for id, revision, body in self._store.read_bodies(document.collection, ids):
            self._work.note_revision(document.collection, id, revision)
            bodies[id] = body
        return [document.from_json(bodies[id]) for id in ids if id in bodies]

    def read_bodies(self, collection: str, ids: Sequence[str]) -> list[tuple[str, int, str]]:
        return self._store.read_bodies(collection, ids)

    def state(self, document: type[Document] | str, id: str) -> DocumentState | None:
        return self._store.state(document, id)

    def statuses(self, document: type[Document] | str, ids: Sequence[str]) -> dict[str, str]:
        return self._store.statuses(document, ids)

    def find(self, document: type[Document] | str, key: str, values: Sequence[str | float]) -> list[Found]:
        return self._store.find(document, key, values)

    def ids(self, document: type[Document] | str, key: str, value: str | float) -> list[str]:
        return self._store.ids(document, key, value)

    def related(
        self, document: type[Document] | str, key: str, values: Sequence[str | float], other: str
    ) -> list[tuple[str | float, str | float]]:
        return self._store.related(document, key, values, other)

    def unfinished(
        self,
        document: type[Document],
        key: str,
        values: Sequence[str | float],
        *,
        children: type[Document],
    ) -> set[str | float]:
        return self._store.unfinished(document, key, values, children=children)

    def children(
        self,
        document: type[Document] | str,
        of: type[Document] | str,
        ids: Sequence[str],
        *,
        unlike: str | None = None,
    ) -> list[Found]:
        return self._store.children(document, of, ids, unlike=unlike)
