"""Chunking: split messages into chunks that fit into the context of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onward import App, DocumentState, Permanent, Reader, Work
from onward.pipeline.chunker import split
from onward.pipeline.documents import Chunk, Message
from onward.pipeline.events import ChunksPrepared, EmbeddingsGenerated, JSONParsed
from onward.pipeline.stages.parsing import read_again

CHECKPOINT_CHUNKS = 400


def requeue(states: Sequence[DocumentState], store: Reader) -> Iterator[JSONParsed]:
    by_archive: dict[str, list[str]] = {}
    for state in states:
        # One at a time: a single message may be large.
        if (message := store.get(Message, state.id)) is not None:
            by_archive.setdefault(message.archive_id, []).append(message.id)
    for archive, ids in by_archive.items():
        yield JSONParsed(archive_id=archive, message_doc_ids=ids)


def chunk(app: App, messages: Sequence[Message], work: Work) -> None:
    """Chunk the new text of each message; quotes are found by full text only."""
    readable: list[Message] = []
    for message in messages:
        # Messages that could not be read before are read again.
        read = message if message.blob is None else read_again(app, message, work)
        if isinstance(read, Permanent):
            work.fail(message, read)
        else:
            readable.append(read)
    tokens, overlap = app.settings.chunk_tokens, app.settings.chunk_overlap
    with work.computing():
        found = [split(it.new_text(), kind=it.kind, max_tokens=tokens, overlap=overlap) for it in readable]
    split_up = list(zip(readable, found, strict=True))
    threads = {message.thread_id for message, pieces in split_up if not pieces}
    all_pieces = [(message, *placed) for message, pieces in split_up for placed in enumerate(pieces)]
    done = int(work.cursor or 0)
    made: list[Chunk] = []
    for number, (message, position, piece) in enumerate(all_pieces):
        if number < done:
            continue  # committed by an earlier try
        chunk = Chunk(
            id=Chunk.make_id("chunk", message.id, position, piece.text),
            message_id=message.id,
            thread_id=message.thread_id,
            position=position,
            **piece._asdict(),
        )
        made.append(work.add(chunk, parent=message))
        app.metrics.increment("chunks_created_total")
        app.metrics.observe("chunk_size_tokens", piece.tokens)
        if len(made) >= CHECKPOINT_CHUNKS:
            work.emit(ChunksPrepared.of(made))
            work.checkpoint(number + 1)
            made, done = [], number + 1
    if done:
        # The chunks of a checkpoint may already be embedded; then their threads wait only for these messages.
        threads |= {message.thread_id for message in readable}
    if made:
        # So may the chunks of an earlier try without a usable cursor: its batch was halved, or reset.
        known = work.store.statuses(Chunk, [chunk.id for chunk in made])
        threads |= {chunk.thread_id for chunk in made if chunk.id in known}
        work.emit(ChunksPrepared.of(made))
    if threads:
        work.emit(EmbeddingsGenerated(thread_ids=sorted(threads)))
