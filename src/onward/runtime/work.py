"""Work: everything a handler wants written and announced, committed all at once."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from onward.ledger.reader import Reader
from onward.model.documents import Document, UnserialisableDocument
from onward.model.events import Envelope, Event, EventTooLarge, UnstorableEvent
from onward.model.failures import Failure
from onward.model.joins import NewJoin
from onward.model.ledger import (
    MAX_COMMIT_BYTES,
    MAX_COMMIT_DOCUMENTS,
    IndexedText,
    IndexedVector,
    NewDocument,
    Replacement,
)
from onward.retry import OnwardError, Permanent
from onward.runtime.joins import member_keys, new_join
from onward.runtime.publish_options import (
    PublishRefused,
    Seconds,
    delay_problem,
    expires_problem,
    priority_problem,
    seconds_of,
)
from onward.search.postings import TextEntry, storable_text, text_entry

if TYPE_CHECKING:
    from onward.runtime.handler_call import Call
    from onward.runtime.joins import Waitable

D = TypeVar("D", bound=Document)

HANDLED: Any = object()  # stands for the document that is being handled


class WorkTooLarge(Permanent):
    """A work holds more than one transaction may; checkpoints make several of it."""


class WorkMisused(Permanent):
    """A work was given something it cannot commit."""


class WorkRefused(OnwardError):
    """This delivery is not this worker's any more: what its handler still does is not committed."""


class Checkpointed(Awaitable[None]):
    """The result of `work.checkpoint`, to be awaited in an `async def` handler."""

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

    def __init__(self, call: Call, event: Event, documents: Sequence[Document]) -> None:
        self.event = event  # the event that brought the documents
        self._call = call
        self._now = call.opened.context.now
        self._documents = documents
        self.cursor: Any = call.cursor if call.opened.cursors else None
        """The cursor of the last `checkpoint` of an earlier try, or None."""
        self._revisions = {(call.delivery.collection or "", given.id): given.revision for given in call.inputs}
        """The revision of each document that was read; a replacement is checked against it."""
        self._open = True
        self._pending_checkpoint: Checkpointed | None = None
        self.waits_until: float | None = None
        self.failed: dict[str, BaseException] = {}
        self.aside: dict[str, BaseException] = {}
        self.clear()

    def clear(self) -> None:
        """Forget what was committed by a checkpoint."""
        self.adds: list[NewDocument] = []
        self.replaces: list[Replacement] = []
        self.removes: list[tuple[str, str]] = []
        self.emits: list[Envelope] = []
        self.joins: list[NewJoin] = []
        self.texts: list[IndexedText] = []
        self.vectors: list[IndexedVector] = []
        self._added: list[Document] = []
        self._size = self._count = self._members = 0

    @property
    def service(self) -> str:
        """The name of the service whose handler fills it."""
        return self._call.service.name

    @property
    def documents(self) -> Sequence[Document]:
        """The documents that the handler is given; none, if it is given the event."""
        return self._documents

    @property
    def try_number(self) -> int:
        """1 for the first try of this round."""
        return self._call.delivery.tries + 1

    @property
    def round(self) -> int:
        return self._call.delivery.round

    @property
    def key(self) -> str:
        """An idempotency key for calls to other systems, equal in every try and round of this work."""
        return self._call.key()

    @property
    def now(self) -> float:
        """The time by the store's clock, in seconds since the epoch; in a simulation, the simulated time."""
        return self._now()

    @property
    def stopping(self) -> bool:
        """Whether the worker is stopping: a long handler may call `checkpoint`, then `wait`, and return."""
        return self._call.opened.context.draining

    @property
    def store(self) -> Reader:
        """Reads documents, also with `await`; it cannot write."""
        return _RecordingReader(self._call.opened.context.reader, self._revisions)

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
        if priority != 0 or type(priority) is not int:
            self._refuse_if(priority_problem(priority))
        if parent is HANDLED:
            parent = self._documents[0] if len(self._documents) == 1 else None
        failure = None
        if failed is not None:
            name, by = self._call.service.name, self._call.opened.context
            failure = Failure.of(failed, at=self._now(), service=name, worker=by.worker, version=by.version)
        descends = f"{parent.collection}/{parent.id}" if parent else None
        body, keys = self._body(document), document.key_values()
        self._added.append(document)
        self.adds.append(
            NewDocument(document.collection, document.id, body, source, descends, priority, keys, failure)
        )
        return document

    def added(self, kind: type[D]) -> list[D]:
        """The documents of a kind that were added so far (since the last checkpoint)."""
        return [document for document in self._added if isinstance(document, kind)]

    def replace(self, document: Document, *, keep_results: bool = False) -> None:
        """Give a document new content, if it is still as it was read.

        If it changed meanwhile, this work is dropped and the event handled again. Changed content makes
        the document `pending` and removes what descended from the old content. With `keep_results`, only content
        and keys change: status, descendants, texts and vectors stay, because they do not depend on the change.
        """
        self._must_be(Document, document, "replace")
        revision = self._revisions.get((document.collection, document.id))
        if revision is None:
            named = f"{document.collection}/{document.id}"
            problem = f"work replaces {named} without having read it; read it first with work.store.get()"
            raise WorkMisused(f"{self._call}: {problem}")
        body, keys = self._body(document), document.key_values()
        self.replaces.append(
            Replacement(document.collection, document.id, body, revision, keys, keeps_results=keep_results)
        )

    def index(
        self,
        document: Document,
        *,
        title: str = "",
        text: str = "",
        quoted: str = "",
        fields: Mapping[str, str] | None = None,
        facets: Mapping[str, str] | None = None,
        date: float | None = None,
        entry: TextEntry | None = None,
    ) -> None:
        """Index a document for full-text search, in place of what it was found by before.

        Words of the title rank higher than those of the text, words of the quoted text lower. A query can look for
        words of one of the fields. Texts are filtered and counted by facets; `language` is the facet by which the
        words are stemmed. `entry` has the terms of these texts where another process has made them.
        """
        self._must_be(Document, document, "index")
        values = {name: storable_text(value) for name, value in (facets or {}).items() if value}
        entry = entry or text_entry(title, text, quoted, fields, values.get("language", ""))
        about = json.dumps(values, ensure_ascii=False)
        self.texts.append(
            IndexedText(document.collection, document.id, title, text, quoted, *entry, date=date, facets=about)
        )
        self._grow(len(title) + len(text) + len(quoted) + len(about) + len(entry.terms))

    def place(self, document: Document, vector: bytes, *, model: str) -> None:
        """Give a document its place in a model's vector space: 32-bit floats, as bytes."""
        self._must_be(Document, document, "place")
        self.vectors.append(IndexedVector(document.collection, document.id, model, vector))
        self._grow(len(vector))

    def remove(self, document: Document) -> None:
        """Remove a document with all that descended from it."""
        self._must_be(Document, document, "remove")
        self.removes.append((document.collection, document.id))

    def emit(
        self, event: Event, *, delay: Seconds = 0.0, priority: int = 0, expires: Seconds | None = None
    ) -> None:
        """Announce a fact; its consumers get it once this work is committed, after `delay` seconds.

        No try of it begins later than `expires` seconds after the commit.
        """
        self._must_be(Event, event, "emit")
        delay_seconds, expires_in = seconds_of(delay), seconds_of(expires)
        self._refuse_if(priority_problem(priority) or delay_problem(delay_seconds))
        if expires_in is not None:
            self._refuse_if(expires_problem(expires_in, delay_seconds))
        now, due_in, trace = self._now(), max(0.0, delay_seconds), self._call.trace()
        try:
            envelopes = Envelope.of(
                event, now=now, priority=priority, due_in=due_in, trace=trace, expires_in=expires_in
            )
        except EventTooLarge as error:
            raise WorkTooLarge(f"{self._call}: {error}") from error
        except UnstorableEvent as error:
            raise WorkMisused(f"{self._call}: {error}") from error
        self.emits += envelopes
        self._grow(sum(len(envelope.data) for envelope in envelopes))

    def when_all(self, documents: Iterable[Waitable], *, then: Event, allow_failed: bool = True) -> None:
        """Publish an event when all these documents, or calls of tasks, are final.

        They need not be made by this work; one that does not exist when it is committed counts as removed. A
        field of the event that is annotated with `Joined` then says how they ended. With `allow_failed=False`,
        a document that was given up is waited for until it is processed, discarded or removed. While the
        event waits, a call with an equal event adds its documents, also from other works.
        """
        self._must_be_open("wait for documents")
        try:
            keys = member_keys(documents)
            join = new_join(keys, then, allow_failed, now=self._now(), trace=self._call.trace())
        except (PublishRefused, EventTooLarge, UnstorableEvent) as error:
            raise WorkMisused(f"{self._call}: {error}") from error
        self.joins.append(join)
        self._members += len(keys)
        self._grow(len(join.then.data))

    def wait(self, until: float | None = None, *, seconds: float | None = None) -> None:
        """Come back at a time after `work.now`, or after some seconds, instead of being finished; no failure."""
        self._must_be_open("wait")
        self._refuse_if("work.wait takes either a time or seconds" if (until is None) == (seconds is None) else "")
        given, verb = (until, "wait until") if seconds is None else (seconds, "wait for")
        self._must_be(int | float, given, verb)
        assert given is not None, "a number, as was checked"
        now = self.now
        ends = given if seconds is None else now + given
        if not math.isfinite(ends):
            # What waits until infinity, or until no time at all, would never be seen again.
            self._refuse_if(f"work cannot {verb} {given!r} s")
        if ends <= now:
            # It would be handled again at once, and again, and get nowhere.
            self._refuse_if(
                f"work cannot {verb} {given!r}: it is {now!r}, and that has passed; "
                "give a time after work.now, or work.wait(seconds=…)"
            )
        self.waits_until = float(ends)

    def fail(self, document: Document, error: BaseException) -> None:
        """One document of the batch failed; the others are finished without it."""
        self._must_be(BaseException, error, "fail a document with")
        self.failed[self._given_id(document, "fail")] = error

    def set_aside(self, document: Document, error: BaseException) -> None:
        """One document of the batch failed: it joins the failed batch of its source, to be retried later."""
        self._must_be(BaseException, error, "set a document aside with")
        self.aside[self._given_id(document, "set aside")] = error

    def checkpoint(self, cursor: Any) -> Awaitable[None]:
        """Commit the work so far; a redelivery continues from `work.cursor`.

        Await it in an `async def` handler; in a `def` handler it has happened when it returns.
        """
        self._must_be_open("checkpoint")
        try:
            json.dumps(cursor, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise WorkMisused(f"{self._call}: the cursor {cursor!r:.100} cannot be written as JSON") from error
        self._must_have_awaited()
        if self.joins and not self._documents:
            # No document keeps the event from being published before the handler has added the rest.
            self._refuse_if(
                "work.when_all before a checkpoint needs a service with finishes=: its document is waited for, "
                "too. Declare what the service finishes, or call work.when_all after the last checkpoint"
            )
        self._pending_checkpoint = self._call.checkpoint(self, cursor)
        return self._pending_checkpoint

    def computing(self) -> AbstractContextManager[None]:
        """Mark what a `def` handler only computes: it is done in turns with other computations and commits.

        Threads that compute side by side only hold each other up. Not for what waits: a call to the outside,
        a checkpoint.
        """
        return self._call.opened.context.turns.computing()

    # -- checks

    def _must_be(self, kind: Any, given: object, verb: str) -> None:
        if not self._open:
            self._must_be_open(verb)
        # Most are of a class that says so; asking isinstance() is slow where there is a metaclass.
        if kind not in type(given).__mro__ and not isinstance(given, kind):
            wanted, found = getattr(kind, "__name__", str(kind)), f"{given!r:.100} ({type(given).__name__})"
            raise WorkMisused(f"{self._call}: work can {verb} a {wanted}, not {found}")

    def _given_id(self, document: Document, verb: str) -> str:
        if document.id not in {given.id for given in self._documents}:
            named = f"{document.collection}/{document.id}"
            raise WorkMisused(f"{self._call}: work can {verb} what the handler was given, not {named}")
        return document.id

    def _refuse_if(self, problem: str) -> None:
        if problem:
            raise WorkMisused(f"{self._call}: {problem}")

    def _must_be_open(self, verb: str) -> None:
        if not self._open:
            raise WorkMisused(f"{self._call}: {verb} after the handler returned; a work ends with its handler")

    def _must_have_awaited(self) -> None:
        if self._pending_checkpoint is not None and not self._pending_checkpoint.awaited:
            raise WorkMisused(f"{self._call}: a checkpoint was not awaited; write `await work.checkpoint(...)`")

    def _body(self, document: Document) -> str:
        try:
            body = document.to_json()
        except UnserialisableDocument as error:
            raise UnserialisableDocument(f"{self._call}: {error}") from error
        if len(body) > MAX_COMMIT_BYTES:
            raise WorkTooLarge(
                f"{self._call}: document {document.collection}/{document.id} takes "
                f"{len(body):,} bytes, more than {MAX_COMMIT_BYTES:,}; keep what is so large in a file, or "
                "divide it into several documents"
            )
        self._count += 1
        self._grow(len(body))
        return body

    def _grow(self, size: int) -> None:
        self._size += size
        if max(self._count, self._members) > MAX_COMMIT_DOCUMENTS or self._size > MAX_COMMIT_BYTES:
            raise WorkTooLarge(
                f"{self._call}: a work of more than {MAX_COMMIT_DOCUMENTS:,} "
                f"documents or {MAX_COMMIT_BYTES // 1_000_000} MB; call work.checkpoint(cursor) along the way"
            )

    def close(self) -> None:
        """End the work: its handler has returned."""
        if self._pending_checkpoint is not None:
            self._must_have_awaited()
        self._open = False


class _RecordingReader(Reader):
    """Reads for a handler, and records the revisions it has read, so that a replacement can be checked."""

    def __init__(self, reader: Reader, revisions: dict[tuple[str, str], int]) -> None:
        super().__init__(reader.db)
        self._revisions = revisions

    def get_many(self, document: type[D], ids: Sequence[str]) -> list[D]:
        bodies: dict[str, str] = {}
        for id, revision, body in self.read_bodies(document.collection, ids):
            self._revisions[document.collection, id] = revision
            bodies[id] = body
        return [document.from_json(bodies[id]) for id in ids if id in bodies]


PATIENCE = 0.25  # seconds that a commit waits for a computation to end; then it goes ahead beside it
LONGEST_TURN = 10.0
"""Seconds that a computation waits for another; one that hangs must not use up the time limits of all others."""


class GilTurns:
    """Lets handlers that compute, and commits, take the interpreter one after the other.

    Threads that compute side by side gain nothing: they take the interpreter lock from each other. Worse,
    they take it from a commit at each of its statements, while that holds the lock of the whole store.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._no_commit = threading.Event()
        self._no_commit.set()

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Wait for a turn; a commit goes first."""
        self._no_commit.wait(PATIENCE)
        mine = self._turn.acquire(timeout=LONGEST_TURN)
        try:
            yield
        finally:
            if mine:
                self._turn.release()

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Keep others from beginning to compute, and wait `PATIENCE` seconds for a computation to end."""
        self._no_commit.clear()
        mine = self._turn.acquire(timeout=PATIENCE)
        try:
            yield
        finally:
            if mine:
                self._turn.release()
            self._no_commit.set()
