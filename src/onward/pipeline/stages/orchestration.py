"""Orchestration: find threads that are complete and have changed, and request their summaries."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from onward import DocumentState, Event, Reader, Status, Work
from onward.pipeline.documents import Archive, Chunk, Message, Summary, Thread, find_archives
from onward.pipeline.events import (
    ChunkingFailed,
    EmbeddingGenerationFailed,
    EmbeddingsGenerated,
    ParsingFailed,
    SummarizationRequested,
)
from onward.pipeline.stages.parsing import thread_of

THREAD_PAGE = 200
MAX_CONTEXT = 200  # messages of a thread that are summarised: the first `EARLIEST`, and the last ones
EARLIEST = MAX_CONTEXT // 4
MAX_ATTACHMENTS = 20  # attachments of a thread that are summarised, in the order of their ids
MESSAGE_PAGE = 2_000  # messages of several threads that are listed at once


def orchestrate(event: EmbeddingsGenerated, work: Work) -> None:
    """Check the threads of an event, `THREAD_PAGE` at a time."""
    ids = list(event.thread_ids)
    if event.origin:
        related = work.store.related(Message, "origin", [event.origin], "thread_id")
        ids += [str(thread) for _, thread in related]
    ids = sorted(id for id in set(ids) if id > (work.cursor or ""))
    for start in range(0, len(ids), THREAD_PAGE):
        page = ids[start : start + THREAD_PAGE]
        _request_summaries(page, work)
        if page[-1] != ids[-1]:
            work.checkpoint(page[-1])


def after_failed_archives(event: ParsingFailed, work: Work) -> None:
    """Check the threads of an archive that was given up: they wait for it no longer."""
    for archive in work.store.get_many(Archive, [event.archive_id]):
        # An attachment that could not be read has no message by which its thread is found.
        threads = [archive.attached_to.thread_id] if archive.attached_to else []
        work.emit(EmbeddingsGenerated(origin=archive.origin, thread_ids=threads))


def after_failed_messages(event: ChunkingFailed, work: Work) -> None:
    _check_threads(work.store.get_many(Message, event.message_doc_ids), work)


def after_failed_chunks(event: EmbeddingGenerationFailed, work: Work) -> None:
    _check_threads(work.store.get_many(Chunk, event.chunk_ids), work)


def _check_threads(documents: Sequence[Message | Chunk], work: Work) -> None:
    if found := sorted({document.thread_id for document in documents}):
        work.emit(EmbeddingsGenerated(thread_ids=found))


def requeue(states: Sequence[DocumentState], store: Reader) -> Iterator[Event]:
    """Yield the events that summarise complete threads again; the others are requested when they are complete."""
    contents = _thread_contents([state.id for state in states], store)
    whole = [id for id, content in contents.items() if not content.waits]
    threads = store.get_many(Thread, whole)
    requested = [thread.id for thread in threads if thread.covers == contents[thread.id].digest()]
    if requested:
        yield SummarizationRequested(thread_ids=requested)
    # Complete, but without a request: the threads are checked again.
    if others := sorted(set(whole) - set(requested)):
        yield EmbeddingsGenerated(thread_ids=others)


@dataclass(slots=True)
class _ThreadContent:
    """A digest of the messages and missing chunks of a thread, and at most `MAX_CONTEXT` messages."""

    messages: int = 0
    missing: int = 0
    processed: int = 0
    waits: bool = False
    _covered: int = 0
    absent: int = 0  # the sum of the numbers of missing chunks
    _attachments: list[str] = field(default_factory=list)
    _earliest: list[tuple[float, int, str]] = field(default_factory=list)
    """A heap with the latest first; times and places are negative."""
    _latest: list[tuple[float, int, str]] = field(default_factory=list)  # a heap with the earliest first

    def add_message(self, id: str, revision: int, status: str, date: float) -> None:
        """Add a message; messages with the same date keep the order in which they are added."""
        self._covered += _number(id, revision, status)
        self.messages += 1
        if status != Status.PROCESSED:
            return
        self.processed += 1
        entry = (date, self.messages, id)
        if len(self._latest) < MAX_CONTEXT - EARLIEST:
            heapq.heappush(self._latest, entry)
            return
        at, place, id = heapq.heappushpop(self._latest, entry)
        push = heapq.heappush if len(self._earliest) < EARLIEST else heapq.heappushpop
        push(self._earliest, (-at, -place, id))

    def add_attachment(self, id: str, revision: int, status: str) -> None:
        """Add the text of an attachment. It is no message of the thread, but the summary covers it."""
        self._covered += _number(id, revision, status)
        if status == Status.PROCESSED:
            self._attachments.append(id)

    def digest(self) -> str:
        """Return a digest of the messages and missing chunks, independent of their order."""
        return Thread.make_id("covers", self.messages, str(self._covered), self.missing, str(self.absent))

    def context(self) -> list[str]:
        """Return the messages to summarise: all, or the first and the last ones of a long thread."""
        attachments = sorted(self._attachments)[:MAX_ATTACHMENTS]
        if self.processed <= MAX_CONTEXT:
            return sorted(id for _, _, id in self._earliest + self._latest) + attachments
        return [id for _, _, id in sorted(self._earliest, reverse=True) + sorted(self._latest)] + attachments


def _number(*parts: object) -> int:
    """Return a hash as a number; the sum of such numbers is independent of their order."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest())


def _request_summaries(ids: Sequence[str], work: Work) -> None:
    contents = _thread_contents(ids, work.store)
    whole = [id for id, content in contents.items() if content.messages and not content.waits]
    empty = [id for id, content in contents.items() if not content.messages and not content.waits]
    threads = work.store.get_many(Thread, whole)
    changed = [thread for thread in threads if thread.covers != contents[thread.id].digest()]
    requested = [_with_content(thread, contents[thread.id]) for thread in changed]
    for thread in requested:
        work.replace(thread)
    # Threads that were removed as empty while a message of theirs was added. One that could not be read has none.
    gone = sorted(set(whole) - {thread.id for thread in threads})
    read = [context[0] for id in gone if (context := contents[id].context())]
    for message in work.store.get_many(Message, read):
        thread = _with_content(thread_of(message), contents[message.thread_id])
        requested.append(work.add(thread, parent=None))
    if requested:
        work.emit(SummarizationRequested.of(requested))
    for document in (*work.store.get_many(Thread, empty), *work.store.get_many(Summary, empty)):
        work.remove(document)


def _thread_contents(ids: Sequence[str], store: Reader) -> dict[str, _ThreadContent]:
    """Return the content of each thread; of a thread that waits for a document, only that it waits."""
    contents = {id: _ThreadContent() for id in ids}
    origins = store.related(Message, "thread_id", ids, "origin")
    archives = find_archives(store, sorted({str(origin) for _, origin in origins}))
    unread = {archive.origin for archive in archives if archive.status == Status.PENDING}
    for thread, origin in origins:
        if origin in unread:
            contents[str(thread)].waits = True
    read = [id for id, content in contents.items() if not content.waits]
    for id in store.unfinished(Message, "thread_id", read, children=Chunk):
        contents[str(id)].waits = True
    for attachment in store.find(Archive, "attached_thread", read):
        if attachment.status == Status.PENDING:
            contents[str(attachment.value)].waits = True
    for id in store.unfinished(Message, "attached_thread", read, children=Chunk):
        contents[str(id)].waits = True
    for page in _message_pages([id for id, content in contents.items() if not content.waits], store):
        of_message = {id: contents[thread] for thread, id, *_ in page}
        for _, id, revision, status, date in page:
            of_message[id].add_message(id, revision, status, date)
        for chunk in store.children(Chunk, Message, list(of_message), unlike=Status.PROCESSED):
            content = of_message[str(chunk.value)]
            content.absent += _number(chunk.id)
            content.missing += 1
    _add_attachments(contents, store)
    return contents


def _add_attachments(contents: Mapping[str, _ThreadContent], store: Reader) -> None:
    whole = [id for id, content in contents.items() if not content.waits]
    of_attachment: dict[str, _ThreadContent] = {}
    for one in store.find(Message, "attached_thread", whole):
        of_attachment[one.id] = contents[str(one.value)]
        of_attachment[one.id].add_attachment(one.id, one.revision, one.status)
    for chunk in store.children(Chunk, Message, list(of_attachment), unlike=Status.PROCESSED):
        of_attachment[str(chunk.value)].absent += _number(chunk.id)
        of_attachment[str(chunk.value)].missing += 1


def _message_pages(threads: Sequence[str], store: Reader) -> Iterator[list[tuple[str, str, int, str, float]]]:
    """Yield thread, id, revision, status and date of messages; the date only in long threads, else 0."""
    counts = store.value_counts(Message, "thread_id", threads)
    pages: list[list[str]] = [[]]
    messages = 0
    for thread in threads:
        size = sum(counts.get(thread, {}).values())
        if size > MAX_CONTEXT:
            for found in store.find_pages(Message, "thread_id", thread, beside="date"):
                yield [(thread, row.id, row.revision, row.status, float(date or 0)) for row, date in found]
            continue
        if messages + size > MESSAGE_PAGE:
            pages.append([])
            messages = 0
        pages[-1].append(thread)
        messages += size
    for page in pages:
        rows = store.find(Message, "thread_id", page)
        yield [(str(row.value), row.id, row.revision, row.status, 0.0) for row in rows]


def _with_content(thread: Thread, content: _ThreadContent) -> Thread:
    counts = {"messages": content.messages, "missing": content.missing}
    return thread.model_copy(update={"message_ids": content.context(), "covers": content.digest(), **counts})
