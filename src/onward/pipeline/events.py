"""The pipeline's events, with the field names of the event design they follow."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, Field

from onward import Event, names
from onward.pipeline.documents import Archive, Chunk, Message, Thread

EPOCH = datetime.fromtimestamp(0, UTC)


def _in_utc(at: datetime) -> datetime:
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)


UTCTime = Annotated[datetime, AfterValidator(_in_utc)]
"""A point in time. As JSON it is ISO 8601; seconds since the epoch, as in older notices, are read as well."""


class SourceSubmitted(Event):
    """A source was submitted; its archive has no blob yet."""

    archive_id: str = names(Archive)
    source: str


class ArchiveIngested(Event):
    """An archive was fetched and can be parsed."""

    archive_id: str = names(Archive)


class JSONParsed(Event):
    """Messages were read from an archive."""

    archive_id: str
    message_doc_ids: list[str] = names(Message)


class ChunksPrepared(Event):
    """Messages were split into chunks."""

    chunk_ids: list[str] = names(Chunk)


class EmbeddingsGenerated(Event):
    """Chunks were embedded; the threads, or all threads of an origin, may be complete."""

    chunk_ids: list[str] = names(Chunk, default=[])
    thread_ids: list[str] = names(Thread, default=[])
    origin: str = ""  # all threads with a message from this place: its archive has been parsed to the end


class ThreadsDiverged(Event):
    """Threads of a source may be wrong: mails were added that join them, or mails of them were removed."""

    source: str
    thread_ids: list[str] = names(Thread)


class VectorUpgradeRequested(Event):
    """The chunks of a lane after an id are to get a vector of a better model, those that have none."""

    model: str
    lane: str  # the first digit of their ids
    after: str


class SummarizationRequested(Event):
    """Threads are complete and have changed since their last summary."""

    thread_ids: list[str] = names(Thread)


class SummaryComplete(Event, notice=True):
    """Summaries were written."""

    thread_ids: list[str] = names(Thread)


class _GivenUp(Event, notice=True):
    """A round was given up; the dead letter has the details."""

    error_message: str = ""
    error_type: str = ""
    retry_count: int = 0
    failed_at: UTCTime = EPOCH


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
