"""A store for the console's bench: a hundred thousand documents as the pipeline makes them, without its models.

What a worker does is said to the store directly, many documents at a time: documents are added, an event names
them, it is claimed and settled. So tallies, histories, failure groups and dead letters are what they would be.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import Any, TypeVar

import numpy as np

from onward import App, Document
from onward.model.failures import Failure
from onward.model.ledger import (
    Charge,
    DeadLettered,
    Delivery,
    IndexedText,
    IndexedVector,
    InFailedBatch,
    NewDocument,
    Processed,
    Settlement,
    SettlementPart,
)
from onward.pipeline.documents import Archive, Chunk, Message, Report, Summary, SummaryCitation, Thread, origin_of
from onward.pipeline.events import ArchiveIngested, ChunksPrepared, JSONParsed, SummarizationRequested
from onward.pipeline.sources import submit
from onward.retry import Kind, Reason

T = TypeVar("T")

SOURCES = 8
MESSAGES = 20_000
IN_THREAD = 4
CHUNKS_OF_EACH = 4.2
DEAD_MESSAGES, DEAD_THREADS, SET_ASIDE = 3_000, 1_000, 1_000
GROUPS = 20
"""Failure groups of messages, and as many of threads."""
WORKER, VERSION = "bench:1", "1.0"
EPOCH = 1_700_000_000.0
VOCABULARY = 20_000
_SYLLABLES = "ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu".split()  # noqa: SIM905 - as words do


def word(rank: int) -> str:
    """A made-up word; the lower its rank, the more often it is used."""
    syllables = ""
    while rank or len(syllables) < 4:
        rank, which = divmod(rank, len(_SYLLABLES))
        syllables += _SYLLABLES[which]
    return syllables


def fill(app: App, *, scale: float = 1.0, failures: float | None = None) -> None:
    """Write all documents and failures; `scale` makes more or fewer of everything, `failures` of what fails."""
    _Filling(app, scale, scale if failures is None else failures).run()


class _Filling:
    def __init__(self, app: App, scale: float, failures: float) -> None:
        self.app = app
        self.store = app.store
        self.scale = scale
        self.failures = failures
        self.random = random.Random(1)
        self.model = app.embedder.model
        self.vectors = _vectors()
        self.words = [word(rank) for rank in range(VOCABULARY)]
        # As often as words are in a language: a word of twice the rank comes half as often.
        self.often = list(accumulate(1 / (rank + 3) for rank in range(VOCABULARY)))
        services = {service.name: service.on.version for service in app.registry.services.values()}
        self.store.register_worker(WORKER, {"version": VERSION, "services": services, "pid": 1})

    def run(self) -> None:
        each = max(IN_THREAD, int(MESSAGES * self.scale) // SOURCES)
        for number in range(SOURCES):
            self._fill_source(f"https://lists.example.org/list-{number}/archive.mbox", each)
        self._chunk(failed=int(DEAD_MESSAGES * self.failures))
        self._embed(set_aside=int(SET_ASIDE * self.failures))
        self._summarise(failed=int(DEAD_THREADS * self.failures))
        self.store.prune(keep_seconds=3600.0, keep_count=1000)
        self.store.pack_index(everything=True)  # as a worker does when it is idle
        self.store.unregister_worker(WORKER)

    # -- what flows

    def _fill_source(self, location: str, count: int) -> None:
        source = submit(self.app, location).source
        origin = origin_of(source, "")
        (request,) = self._claim("ingestion")
        archive = Archive(
            id=Archive.make_id("archive", source, "", "blob"),
            source=source,
            source_id=request.inputs[0].id,
            kind="mbox",
            blob="0" * 64,
            size=count * 4_000,
            origin=origin,
        )
        report = Report(
            id=Report.make_id("report", archive.source_id, 1),
            source=source,
            archive_id=archive.source_id,
            counts={"items": 1, "new": 1, "unchanged": 0, "failed": 0, "removed": 0},
        )
        self._settle(request, [_all(request)], adds=[_new(archive, source), _new(report, source)])
        self.app.publish(ArchiveIngested.of(archive), source=source)
        (delivery,) = self._claim("parsing")
        self._settle(delivery, [_all(delivery)])
        threads = [self._thread(source, number) for number in range(max(1, count // IN_THREAD))]
        self._add(threads, source)
        messages = (self._message(archive, threads[number % len(threads)], number) for number in range(count))
        for some in _batches(messages, 500):
            self._add(some, source)
            self.app.publish(JSONParsed.of(some, archive_id=archive.id), source=source)

    def _chunk(self, failed: int) -> None:
        owed = 0.0
        for delivery in self._deliveries("chunking"):
            messages = self._read(Message, delivery)
            bad, good = messages[: min(failed, 75)], messages[min(failed, 75) :]
            failed -= len(bad)
            chunks: list[Chunk] = []
            for message in good:
                owed += CHUNKS_OF_EACH
                chunks += [self._chunk_of(message, place) for place in range(int(owed))]
                owed -= int(owed)
            adds = [_new(chunk, None, parent=f"messages/{chunk.message_id}") for chunk in chunks]
            texts = [IndexedText("messages", message.id, message.subject, message.body) for message in messages]
            parts: list[SettlementPart] = [Processed([message.id for message in good])]
            parts += [self._dead(message.id, number, "chunking") for number, message in enumerate(bad)]
            self._settle(delivery, [], adds=adds[800:], texts=texts, closes=False)
            self._settle(delivery, parts, adds=adds[:800])
            for some in _batches(chunks, 500):
                self.app.publish(ChunksPrepared.of(some), source=delivery.source)

    def _embed(self, set_aside: int) -> None:
        for delivery in self._deliveries("embedding"):
            ids = [document.id for document in delivery.inputs]
            few = min(set_aside, 8)
            set_aside -= few
            vectors = [IndexedVector("chunks", id, self.model, next(self.vectors)) for id in ids[few:]]
            parts: list[SettlementPart] = [Processed(ids[few:])]
            if few:
                parts.append(
                    InFailedBatch(ids[:few], self._failure("embedding", self.random.randrange(3)), after=300.0)
                )
            self._settle(delivery, parts, vectors=vectors)

    def _summarise(self, failed: int) -> None:
        after = ""
        while states := self.store.states("threads", after=after, limit=200):
            after = states[-1].id
            # One event for each thread, as in orchestration: each failure is a dead letter of its own.
            threads = self.store.get_many(Thread, [state.id for state in states])
            self.app.publish(*(SummarizationRequested(thread_ids=[thread.id]) for thread in threads))
            sources = {thread.id: thread for thread in threads}
            settlements = []
            for number, delivery in enumerate(self._claim("summarization", 200)):
                thread = sources[delivery.inputs[0].id]
                if failed > 0 and number % 4 == 0:
                    failed -= 1
                    parts: list[SettlementPart] = [self._dead(thread.id, number // 4, "summarization")]
                    settlements.append(_settlement(delivery, parts))
                else:
                    adds = [_new(self._summary(thread), thread.source)]
                    settlements.append(_settlement(delivery, [_all(delivery)], adds=adds))
            self.store.settle(settlements)

    # -- documents

    def _thread(self, source: str, number: int) -> Thread:
        root = f"<{number}.0@example.org>"
        return Thread(
            id=Thread.make_id("thread", source, root), source=source, root=root, subject=self._text(6), messages=4
        )

    def _summary(self, thread: Thread) -> Summary:
        return Summary(
            id=thread.id,
            source=thread.source,
            thread_id=thread.id,
            subject=thread.subject,
            markdown=f"{self._text(60)} [1]\n\n## Sources\n\n1. {self._text(8)}",
            citations=[SummaryCitation(number=1, message_id="", sentence=self._text(8))],
            messages=IN_THREAD,
        )

    def _message(self, archive: Archive, thread: Thread, number: int) -> Message:
        body = "\n".join(self._text(12) for _ in range(20))
        quote = f"> {self._text(12)}\n" * 4
        return Message(
            id=Message.make_id("message", archive.source, number),
            source=archive.source,
            archive_id=archive.id,
            origin=archive.origin,
            kind="mbox",
            thread_id=thread.id,
            message_id=f"<{number}@example.org>",
            references=[thread.root],
            subject=f"Re: {thread.subject}",
            author=f"{self.words[self.random.randrange(200)].title()} <{self.random.randrange(500)}@example.org>",
            recipients=["list@example.org"],
            date=EPOCH + number * 600 + self.random.randrange(600),
            body=quote + body,
            spans=[("quote", 0, len(quote)), ("new", len(quote), len(quote) + len(body))],
            offset=number * 4_000,
            length=4_000,
        )

    def _chunk_of(self, message: Message, position: int) -> Chunk:
        text = message.body[position * 400 : position * 400 + 500]
        return Chunk(
            id=Chunk.make_id("chunk", message.id, position, text),
            message_id=message.id,
            thread_id=message.thread_id,
            position=position,
            start=position * 400,
            end=position * 400 + len(text),
            text=text,
            tokens=len(text) // 4,
        )

    def _text(self, words: int) -> str:
        return " ".join(self.random.choices(self.words, cum_weights=self.often, k=words))

    def _add(self, documents: Sequence[Document], source: str) -> None:
        self.store.add_documents([_new(document, source) for document in documents])

    def _read(self, kind: type[Message], delivery: Delivery) -> list[Message]:
        return self.store.get_many(kind, [document.id for document in delivery.inputs])

    # -- failures

    def _failure(self, service: str, number: int) -> Failure:
        kinds = (Kind.PERMANENT, Kind.TRANSIENT)
        return Failure(
            at=self.store.now(),
            error_type=("ValueError", "KeyError", "TimeoutError", "ConnectionError")[number % 4],
            message=f"the {word(number)} could not be read",
            fingerprint=Document.make_id("group", service, number),
            place=f"{service}.py:{number}",
            traceback="Traceback (most recent call last):\n" + f'  File "{service}.py", line 1, in run\n' * 20,
            kind=str(kinds[number % 2]),
            worker=WORKER,
            version=VERSION,
        )

    def _dead(self, id: str, number: int, service: str) -> DeadLettered:
        number %= GROUPS
        reason = Reason.NON_RETRYABLE if number % 2 == 0 else Reason.MAX_ATTEMPTS_EXCEEDED
        failure = self._failure(service, number)
        return DeadLettered([id], reason, failure, final=number % 2 == 0, charge=Charge.TRY)

    # -- the ledger

    def _claim(self, service: str, limit: int = 1) -> list[Delivery]:
        return self.store.claim(WORKER, service, limit=limit, lease=3600.0)

    def _deliveries(self, service: str) -> Iterator[Delivery]:
        while some := self._claim(service):
            yield from some

    def _settle(self, delivery: Delivery, parts: Sequence[SettlementPart], **more: Any) -> None:
        self.store.settle([_settlement(delivery, parts, **more)])


def _settlement(delivery: Delivery, parts: Sequence[SettlementPart], **more: Any) -> Settlement:
    read = [(document.id, document.revision) for document in delivery.inputs]
    return Settlement(
        delivery.row,
        delivery.token,
        delivery.collection,
        inputs=read,
        parts=parts,
        worker=WORKER,
        version=VERSION,
        **more,
    )


def _all(delivery: Delivery) -> Processed:
    return Processed([document.id for document in delivery.inputs])


def _new(document: Document, source: str | None, parent: str | None = None) -> NewDocument:
    return NewDocument(
        document.collection,
        document.id,
        document.to_json(),
        source=source,
        parent=parent,
        keys=document.key_values(),
    )


def _batches(many: Iterable[T], size: int) -> Iterator[list[T]]:
    left = iter(many)
    while some := list(islice(left, size)):
        yield some


def _vectors() -> Iterator[bytes]:
    """Directions in which the model's space is as full as with real chunks."""
    numbers = np.random.default_rng(1)
    while True:
        some = numbers.standard_normal((1_000, 256)).astype("<f4")
        some /= np.linalg.norm(some, axis=1, keepdims=True)
        yield from (row.tobytes() for row in some)
