"""Vector upgrade: give chunks a vector of a better model, a few at a time, in the background.

The chunks are divided into `LANES`, which are worked on side by side. An event of a lane embeds some chunks and is
followed by the next event, in one transaction: a crash repeats at most one event of each lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from onward import App, Kind, Work, classify
from onward.pipeline.documents import Chunk
from onward.pipeline.events import VectorUpgradeRequested

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from onward.models.protocol import Embedder

SERVICE, DEPENDENCY = "embedding.upgrade", "embedder_upgrade"
LANES = "0123456789abcdef"  # the first digit of a chunk's id


def upgrade(app: App, event: VectorUpgradeRequested, work: Work) -> None:
    """Embed the next chunks of a lane that have no vector of the better model, and request those after them."""
    embedder = app.embedder_upgrade
    if embedder is None or embedder.model != event.model:
        return  # the settings name another model, or none, by now
    ids = app.store.ids_without_vector(Chunk, event.model, after=event.after, limit=embedder.batch_texts)
    ids = [id for id in ids if id.startswith(event.lane)]
    if not ids:
        return
    chunks = work.store.get_many(Chunk, ids)
    for chunk, vector in zip(chunks, _embed(app, embedder, chunks, work), strict=True):
        work.place(chunk, vector.astype("<f4").tobytes(), model=event.model)
    work.emit(event.model_copy(update={"after": ids[-1]}))


def _embed(app: App, embedder: Embedder, chunks: Sequence[Chunk], work: Work) -> list[NDArray[np.float32]]:
    texts = [chunk.titled_text(embedder.title_repeats) for chunk in chunks]
    try:
        return list(embedder.embed(texts, key=work.key))
    except Exception as error:
        judged = classify(error)
        # What may pass is tried again first; an outage is never the fault of a text.
        last_try = work.try_number >= app.settings.max_retries
        if judged.unavailable or not (judged.kind is Kind.PERMANENT or last_try):
            raise
    found = list(_embed_apart(embedder, texts, work.key))
    if all(isinstance(one, Exception) for one in found):
        embedder.embed(["."])  # raises if it is not the fault of the texts
    vectors = []
    for chunk, one in zip(chunks, found, strict=True):
        if isinstance(one, Exception):
            app.report_error(one, context={"chunk": chunk.id}, service=SERVICE)
            # The vector of a blank text: without any, the chunk would be tried again for ever.
            vectors.append(embedder.embed([""])[0])
        else:
            vectors.append(one)
    return vectors


def _embed_apart(embedder: Embedder, texts: Sequence[str], key: str) -> Iterator[NDArray[np.float32] | Exception]:
    """Yield the vector of each text, or the error of a text that fails alone; a batch that fails is halved."""
    try:
        yield from embedder.embed(texts, key=f"{key}-{len(texts)}")
    except Exception as error:
        if classify(error).unavailable:
            raise
        if len(texts) == 1:
            yield error
            return
        middle = len(texts) // 2
        yield from _embed_apart(embedder, texts[:middle], f"{key}-a")
        yield from _embed_apart(embedder, texts[middle:], f"{key}-b")
