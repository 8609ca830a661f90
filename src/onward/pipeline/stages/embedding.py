"""Embedding: compute the vector of each chunk."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from onward import App, Work
from onward.pipeline.documents import Chunk
from onward.pipeline.events import EmbeddingsGenerated


def embed(app: App, chunks: Sequence[Chunk], work: Work) -> None:
    """Embed a batch of chunks; a batch that fails is halved until the bad chunk is alone."""
    embedder = app.embedder
    with nullcontext() if embedder.remote else work.computing():
        vectors = embedder.embed([chunk.text for chunk in chunks], key=work.key).astype("<f4")
    for chunk, vector in zip(chunks, vectors, strict=True):
        work.place(chunk, vector.tobytes(), model=embedder.model)
    threads = sorted({chunk.thread_id for chunk in chunks})
    work.emit(EmbeddingsGenerated(chunk_ids=[chunk.id for chunk in chunks], thread_ids=threads))
