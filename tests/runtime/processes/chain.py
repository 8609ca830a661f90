"""An app for worker processes that are killed: a chain of services whose every effect can be counted.

An archive fans out into messages (with checkpoints), each message into chunks, each batch of chunks into
vectors (with a call to the outside), and each vector counts once on the tally of its message.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from onward.app import App
from onward.model.documents import Document
from onward.model.events import Event, names
from onward.runtime.work import Work
from onward.settings import Settings

STORE, OUTSIDE = "CHAIN_STORE", "CHAIN_OUTSIDE"
"""Environment variables: the store's URL, and the file that stands for the world outside."""
MESSAGES, A_CHECKPOINT, CHUNKS = 12, 4, 3


class Archive(Document):
    pass


class Message(Document):
    pass


class Chunk(Document):
    number: int


class Vector(Document):
    pass


class Tally(Document):
    count: int = 0


class ArchiveFound(Event):
    archive_ids: list[str] = names(Archive)


class MessagesParsed(Event):
    message_ids: list[str] = names(Message)


class ChunksPrepared(Event):
    chunk_ids: list[str] = names(Chunk)


class ChunkIndexed(Event):
    chunk_id: str


app = App(
    store=os.environ.get(STORE, "sqlite://:memory:"),
    settings=Settings(retry_backoff_seconds=0.05, keep_completed_count=1_000_000),
)


@app.service("parsing", on=ArchiveFound, finishes=Archive)
def parse(archive: Archive, work: Work) -> None:
    for start in range(work.cursor or 0, MESSAGES, A_CHECKPOINT):
        for n in range(start, start + A_CHECKPOINT):
            work.add(Message(id=f"{archive.id}.{n}"))
        work.emit(MessagesParsed.of(work.added(Message)))
        work.checkpoint(start + A_CHECKPOINT)


@app.service("chunking", on=MessagesParsed, finishes=Message)
async def chunk(message: Message, work: Work) -> None:
    for n in range(CHUNKS):
        work.add(Chunk(id=f"{message.id}.{n}", number=n))
    work.emit(ChunksPrepared.of(work.added(Chunk)))


@app.service("embedding", on=ChunksPrepared, finishes=Chunk, batch=16)
def embed(chunks: Sequence[Chunk], work: Work) -> None:
    with Path(os.environ[OUTSIDE]).open("a") as outside:
        outside.write(f"{work.key}\n")
    for one in chunks:
        work.add(Vector(id=one.id))
        work.emit(ChunkIndexed(chunk_id=one.id))


@app.service("counting", on=ChunkIndexed)
async def count(indexed: ChunkIndexed, work: Work) -> None:
    tally = work.store.get(Tally, indexed.chunk_id.rpartition(".")[0])
    assert tally is not None, "the tallies of an archive come with it"
    work.replace(Tally(id=tally.id, count=tally.count + 1))


def publish(app: App, archive_id: str) -> None:
    """Send an archive down the chain."""
    archive = Archive(id=archive_id)
    tallies = [Tally(id=id) for id in messages_of(archive_id)]
    app.publish(ArchiveFound.of(archive), documents=[archive, *tallies])


def messages_of(archive_id: str) -> list[str]:
    return [f"{archive_id}.{n}" for n in range(MESSAGES)]


def chunks_of(archive_id: str) -> list[str]:
    """The chunks that must come of an archive."""
    return [f"{message_id}.{n}" for message_id in messages_of(archive_id) for n in range(CHUNKS)]
