"""Orchestration: find the threads that are complete and have changed, and ask for their summaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from onward import DocumentState, Event, Reader, Status, Work
from onward.pipeline.documents import Archive, Chunk, Message, Summary, Thread, in_order
from onward.pipeline.events import (
    ChunkingFailed,
    EmbeddingGenerationFailed,
    EmbeddingsGenerated,
    ParsingFailed,
    SummarizationRequested,
)
from onward.pipeline.services.parsing import thread_of

THREADS_AT_ONCE = 200
MAX_CONTEXT = 200
"""Messages of a thread that a summary is made from: its beginning, and what came last."""


def orchestrate(event: EmbeddingsGenerated, work: Work) -> None:
    """Look at the threads an event is about, a bounded number at a time."""
    ids = list(event.thread_ids)
    if event.origin:
        related = work.store.related(Message, "origin", [event.origin], "thread_id")
        ids += [str(thread) for _, thread in related]
    ids = sorted(id for id in set(ids) if id > (work.cursor or ""))
    for start in range(0, len(ids), THREADS_AT_ONCE):
        some = ids[start : start + THREADS_AT_ONCE]
        _look_at(some, work)
        if some[-1] != ids[-1]:
            work.checkpoint(some[-1])


def after_failed_archives(event: ParsingFailed, work: Work) -> None:
    """An archive that will not be read to its end holds up the threads of what was read no longer."""
    for archive in work.store.get_many(Archive, [event.archive_id]):
        work.emit(EmbeddingsGenerated(origin=archive.origin))


def after_failed_messages(event: ChunkingFailed, work: Work) -> None:
    """A message that will never be chunked holds up its thread no longer."""
    messages = work.store.get_many(Message, event.message_doc_ids)
    _again((message.thread_id for message in messages), work)


def after_failed_chunks(event: EmbeddingGenerationFailed, work: Work) -> None:
    """A chunk that is given up or set aside holds up its thread no longer."""
    chunks = work.store.get_many(Chunk, event.chunk_ids)
    _again((chunk.thread_id for chunk in chunks), work)


def _again(threads: Iterable[str], work: Work) -> None:
    if found := sorted(set(threads)):
        work.emit(EmbeddingsGenerated(thread_ids=found))


def requeue(states: Sequence[DocumentState], store: Reader) -> Iterator[Event]:
    """Summarise threads again that are complete; the others are asked for when they are."""
    standing = _standing([one.id for one in states], store)
    whole = [id for id, one in standing.items() if not one.waits]
    asked = [one.id for one in store.get_many(Thread, whole) if one.covers == standing[one.id].digest()]
    if asked:
        yield SummarizationRequested(thread_ids=asked)
    # Complete, and yet nobody has asked for a summary: whoever does has to look again.
    if others := sorted(set(whole) - set(asked)):
        yield EmbeddingsGenerated(thread_ids=others)


@dataclass(slots=True)
class _Standing:
    """How a thread stands: its messages and what is missing of them."""

    messages: list[tuple[str, int, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    waits: bool = False

    def digest(self) -> str:
        return Thread.make_id("covers", sorted(self.messages), sorted(self.missing))


def _look_at(ids: Sequence[str], work: Work) -> None:
    standing = _standing(ids, work.store)
    whole = [id for id, one in standing.items() if one.messages and not one.waits]
    empty = [id for id, one in standing.items() if not one.messages and not one.waits]
    requested = [
        _chosen(thread, standing[thread.id], work)
        for thread in work.store.get_many(Thread, whole)
        if thread.covers != standing[thread.id].digest()
    ]
    for thread in requested:
        work.replace(thread)
    lost = [_chosen(thread, standing[thread.id], work) for thread in _lost(whole, standing, work)]
    requested += [work.add(thread, parent=None) for thread in lost]
    if requested:
        work.emit(SummarizationRequested.of(requested))
    for thread in work.store.get_many(Thread, empty):
        work.remove(thread)
    for summary in work.store.get_many(Summary, empty):
        work.remove(summary)


def _lost(whole: Sequence[str], standing: dict[str, _Standing], work: Work) -> list[Thread]:
    """Threads that were removed because they were empty, just as a message came."""
    gone = set(whole) - work.store.statuses(Thread, whole).keys()
    # A message that could not be read has no thread.
    read = [[id for id, _, status in standing[one].messages if status == Status.PROCESSED] for one in sorted(gone)]
    return [thread_of(message) for message in work.store.get_many(Message, [ids[0] for ids in read if ids])]


def _standing(ids: Sequence[str], store: Reader) -> dict[str, _Standing]:
    """Who waits for what; what is still being read needs no further look."""
    standing = {id: _Standing() for id in ids}
    origins = store.related(Message, "thread_id", ids, "origin")
    archives = store.find(Archive, "origin", sorted({str(origin) for _, origin in origins}))
    unread = {one.value for one in archives if one.status == Status.PENDING}
    for thread, origin in origins:
        if origin in unread:
            standing[str(thread)].waits = True
    read = [id for id, one in standing.items() if not one.waits]
    for id in store.unfinished(Message, "thread_id", read, children=Chunk):
        standing[str(id)].waits = True
    whole = [id for id, one in standing.items() if not one.waits]
    of_message: dict[str, _Standing] = {}
    for one in store.find(Message, "thread_id", whole):
        of = of_message[one.id] = standing[str(one.value)]
        of.messages.append((one.id, one.revision, one.status))
    for chunk in store.children(Chunk, Message, list(of_message), unlike=Status.PROCESSED):
        of_message[str(chunk.value)].missing.append(chunk.id)
    return standing


def _chosen(thread: Thread, standing: _Standing, work: Work) -> Thread:
    """Pick the context of a summary: all messages, or the beginning and the end of a very long thread."""
    ids = sorted(id for id, _, status in standing.messages if status == Status.PROCESSED)
    if len(ids) > MAX_CONTEXT:
        ordered = in_order(work.store.get_many(Message, ids))
        first = MAX_CONTEXT // 4
        ids = [message.id for message in ordered[:first] + ordered[first - MAX_CONTEXT :]]
    return thread.model_copy(
        update={
            "message_ids": ids,
            "messages": len(standing.messages),
            "missing": len(standing.missing),
            "covers": standing.digest(),
        }
    )
