"""An app in which all that is measured happens: retries, dead letters, duplicates, an outage, failed batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onward import App, Document, DocumentState, Event, Permanent, Reader, Unavailable, Work, names

FINE, SHAKY, HOPELESS, BROKEN, ODD = range(5)
"""What becomes of a message, by its number: modulo 5."""


class Message(Document):
    number: int


class Chunk(Document):
    lost: bool


class MessageFound(Event):
    message_id: str = names(Message)


class ChunksPrepared(Event):
    chunk_ids: list[str] = names(Chunk)


class Reminder(Event):
    text: str


def publish(app: App, first: int, count: int) -> None:
    """Publish messages, each of a source of its own: so each has a failed batch of its own."""
    for number in range(first, first + count):
        message = Message(id=f"message-{number}", number=number)
        app.publish(MessageFound.of(message), documents=[message], source=f"source-{number}")


def hurry_batches(app: App) -> None:
    """Let failed batches be retried now, where that helps."""
    for batch in app.store.failed_batches():
        if int((batch.source or "").rpartition("-")[2]) % 2 == 0:
            app.store.reschedule_batch(batch.id, app.store.now())


app = App()
app.dependency("kettle", health=lambda: False)


def put_back(states: Sequence[DocumentState], store: Reader) -> Iterator[MessageFound]:
    for message in store.get_many(Message, [state.id for state in states]):
        if message.number % 5 == ODD:
            raise ValueError(f"nobody knows how to put back {message.id}")
        yield MessageFound(message_id=message.id)


@app.service("reading", on=MessageFound, finishes=Message, requeue=put_back)
def read(message: Message, work: Work) -> None:
    kind = message.number % 5
    if kind in (HOPELESS, ODD) or (kind == SHAKY and work.try_number == 1):
        raise ConnectionError("nobody answers")
    if kind == BROKEN:
        raise Permanent("it cannot be read")
    chunk = work.add(Chunk(id=message.id, lost=message.number % 2 == 1))
    app.metrics.increment("chunks_created_total")
    app.metrics.observe("chunk_size_tokens", 100 + message.number % 200)
    work.emit(ChunksPrepared(chunk_ids=[chunk.id]))
    # The same each time: while it waits for the kettle, another one is a duplicate.
    work.emit(Reminder(text="tea"))


@app.service("embedding", on=ChunksPrepared, finishes=Chunk, sets_aside=True)
def embed(chunk: Chunk, work: Work) -> None:
    if chunk.lost or work.round == 1:
        raise TimeoutError("the model is slow")


@app.service("reminding", on=Reminder, needs="kettle")
def remind(reminder: Reminder, work: Work) -> None:
    raise Unavailable("kettle", "it is cold")
