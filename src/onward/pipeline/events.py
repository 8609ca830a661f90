"""The pipeline's events, with the field names of the event design they follow."""

from __future__ import annotations

from pydantic import Field

from onward import Event, names
from onward.pipeline.documents import Archive, Chunk, Message, Thread


class SourceSubmitted(Event):
    """Somebody wants a source ingested; its archive has no blob yet."""

    archive_id: str = names(Archive)
    source: str


class ArchiveIngested(Event):
    """An archive is fetched and can be read."""

    archive_id: str = names(Archive)


class JSONParsed(Event):
    """Messages were read from an archive."""

    archive_id: str
    message_doc_ids: list[str] = names(Message)


class ChunksPrepared(Event):
    """Messages were split into chunks."""

    chunk_ids: list[str] = names(Chunk)


class EmbeddingsGenerated(Event):
    """Nothing is left to embed of these threads' chunks just now, or of a whole archive."""

    chunk_ids: list[str] = names(Chunk, default=[])
    thread_ids: list[str] = names(Thread, default=[])
    origin: str = ""
    """An archive has been read to its end: all threads with a message from this place."""


class SummarizationRequested(Event):
    """Threads are complete and have changed since they were last summarised."""

    thread_ids: list[str] = names(Thread)


class SummaryComplete(Event, notice=True):
    """Summaries were written."""

    thread_ids: list[str] = names(Thread)


class _GivenUp(Event, notice=True):
    """A round was given up; the dead letter has the whole story."""

    error_message: str = ""
    error_type: str = ""
    retry_count: int = 0
    failed_at: float = 0.0


class ArchiveIngestionFailed(_GivenUp, notice=True, routing_key="archive.ingestion.failed.notice"):
    archive_id: str = names(Archive, default="")


class ParsingFailed(_GivenUp, notice=True, routing_key="parsing.failed.notice"):
    archive_id: str = names(Archive, default="")


class ChunkingFailed(_GivenUp, notice=True, routing_key="chunking.failed.notice"):
    message_doc_ids: list[str] = names(Message, default=[])


class EmbeddingGenerationFailed(_GivenUp, notice=True, routing_key="embedding.generation.failed.notice"):
    chunk_ids: list[str] = names(Chunk, default=[])


class OrchestrationFailed(_GivenUp, notice=True, routing_key="orchestration.failed.notice"):
    thread_ids: list[str] = Field(default_factory=list)


class SummarizationFailed(_GivenUp, notice=True, routing_key="summarization.failed.notice"):
    thread_ids: list[str] = names(Thread, default=[])
