"""Chunking: split messages into pieces that a model can take whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onward import App, DocumentState, Permanent, Reader, Work
from onward.pipeline.documents import Chunk, Message
from onward.pipeline.events import ChunksPrepared, EmbeddingsGenerated, JSONParsed
from onward.pipeline.splitting import Piece, split

CHECKPOINT_CHUNKS = 400


class NeverRead(Permanent):
    """A message that could not be read has no text to split, however often it is put back."""

    def __init__(self, id: str) -> None:
        super().__init__(
            f"{id} could not be read from its archive, only its bytes are kept; after a fix, forget its source "
            "and ingest it again"
        )


def requeue(states: Sequence[DocumentState], store: Reader) -> Iterator[JSONParsed]:
    """Split messages again."""
    by_archive: dict[str, list[str]] = {}
    for state in states:
        # One at a time: a single message may be large.
        if (message := store.get(Message, state.id)) is not None:
            by_archive.setdefault(message.archive_id, []).append(message.id)
    for archive, ids in by_archive.items():
        yield JSONParsed(archive_id=archive, message_doc_ids=ids)


def chunk(app: App, messages: Sequence[Message], work: Work) -> None:
    """Split what is new in each message; quotes and signatures are somebody else's, or nobody's."""
    for message in messages:
        if message.blob is not None:
            work.fail(message, NeverRead(message.id))
    messages = [message for message in messages if message.blob is None]
    done = int(work.cursor or 0)
    made: list[Chunk] = []
    threads: set[str] = set()
    for number, (message, position, piece) in enumerate(_pieces(app, messages, work, threads)):
        if number < done:
            continue  # committed by an earlier try
        made.append(
            work.add(
                Chunk(
                    id=Chunk.make_id("chunk", message.id, position, piece.text),
                    message_id=message.id,
                    thread_id=message.thread_id,
                    position=position,
                    start=piece.start,
                    end=piece.end,
                    text=piece.text,
                    tokens=piece.tokens,
                ),
                parent=message,
            )
        )
        app.metrics.increment("chunks_created_total")
        app.metrics.observe("chunk_size_tokens", piece.tokens)
        if len(made) >= CHECKPOINT_CHUNKS:
            work.emit(ChunksPrepared.of(made))
            work.checkpoint(number + 1)
            made, done = [], number + 1
    if done:
        # Chunks of a checkpoint may all be embedded by now, and their threads waited only for these messages.
        threads |= {message.thread_id for message in messages}
    if made:
        # So may chunks of an earlier try whose cursor is of no use here: its batch was halved, or reset.
        known = work.store.statuses(Chunk, [one.id for one in made])
        threads |= {one.thread_id for one in made if one.id in known}
        work.emit(ChunksPrepared.of(made))
    if threads:
        work.emit(EmbeddingsGenerated(thread_ids=sorted(threads)))


def _pieces(
    app: App, messages: Sequence[Message], work: Work, without: set[str]
) -> Iterator[tuple[Message, int, Piece]]:
    settings = app.settings
    with work.computing():
        split_up = [
            split(
                message.new_text(),
                kind=message.kind,
                max_tokens=settings.chunk_tokens,
                overlap=settings.chunk_overlap,
            )
            for message in messages
        ]
    for message, pieces in zip(messages, split_up, strict=True):
        if not pieces:
            without.add(message.thread_id)
        for position, piece in enumerate(pieces):
            yield message, position, piece
