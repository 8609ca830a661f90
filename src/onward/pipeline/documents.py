"""The pipeline's documents: archives, messages, threads, chunks, summaries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, Field

from onward import Document
from onward.pipeline import uploads

Kind = Literal["source", "mbox", "eml", "html", "text", "markdown", "rst", "code", "pdf"]
MAIL = frozenset({"mbox", "eml"})


def source_id(source: str) -> str:
    """The id of the archive that stands for a source as a whole."""
    return Document.make_id("source", source)


def origin_of(source: str, path: str) -> str:
    """Names a place inside a source, whatever it holds just now."""
    return Document.make_id("origin", source, path)


class Archive(Document, collection="archives", keys=("source_id", "origin", "blob")):
    """What was fetched from one place of a source; without a blob, the request to fetch it."""

    source: str
    source_id: str
    path: str = ""
    """Where it lies inside the source; empty for the source itself."""
    kind: Kind = "source"
    blob: str | None = None
    size: int = 0
    url: str = ""
    charset: str = ""
    """As a server declared it."""
    language: str = ""
    submission: int = 1
    """Of which submission of its source it is; a later one replaces an earlier one."""
    rereads: int = 0
    """How often it had to be read again, because a message it shares with another archive was removed."""
    origin: str = ""

    @property
    def title(self) -> str:
        """What a person calls it."""
        return self.path or self.source.rstrip("/").rsplit("/", 1)[-1]

    def key_values(self) -> list[tuple[str, str | float]]:
        """As of any document; who asks for an upload names its blob, too, or it would be collected."""
        pairs = super().key_values()
        if self.blob is None and (upload := uploads.read_location(self.source)) is not None:
            pairs.append(("blob", upload.digest))
        return pairs


class Attached(BaseModel):
    """Something that came with a message."""

    name: str
    content_type: str
    size: int
    indexed: bool = False
    """Its text is found by search."""


class Cited(BaseModel):
    """A sentence that a summary rests on."""

    number: int
    message_id: str
    sentence: str


class Message(Document, collection="messages", keys=("thread_id", "origin", "author", "date", "blob")):
    """One mail, page or file: what is read, chunked and found."""

    source: str
    archive_id: str
    origin: str
    """The place of its source that it was read from."""
    kind: Kind
    thread_id: str
    message_id: str = ""
    """The Message-ID of a mail, the path of a file, the URL of a page."""
    references: list[str] = Field(default_factory=list)
    subject: str = ""
    author: str = ""
    recipients: list[str] = Field(default_factory=list)
    date: float | None = None
    body: str = ""
    spans: list[tuple[str, int, int]] = Field(default_factory=list)
    """What each part of the body is: new, quote or signature. Empty: all of it is new."""
    attachments: list[Attached] = Field(default_factory=list)
    defects: list[str] = Field(default_factory=list)
    """What was odd about it, and how it was read all the same."""
    language: str = ""
    offset: int = 0
    length: int = 0
    """Where its bytes lie in the blob of its archive."""
    blob: str | None = None
    """Its own bytes, where it could not be read."""

    def new_text(self) -> str:
        """What its author wrote, without quotes and signature."""
        if not self.spans:
            return self.body
        return "".join(self.body[start:end] for kind, start, end in self.spans if kind == "new")


def in_order(messages: Iterable[Message]) -> list[Message]:
    """Messages as they were written, those without a date first."""
    return sorted(messages, key=lambda message: (message.date or 0.0, message.offset, message.id))


class Thread(Document, collection="threads"):
    """Messages that belong together; finished when its summary is written."""

    source: str
    root: str
    """The Message-ID that began it, even if that message is missing."""
    subject: str = ""
    message_ids: list[str] = Field(default_factory=list)
    """What a summary is made from; chosen when the thread is complete."""
    messages: int = 0
    missing: int = 0
    """Chunks that could not be embedded."""
    covers: str = ""
    """A digest of what was complete when its summary was last asked for."""

    def to_be_asked_for(self) -> Thread:
        """The same thread, of which a summary has to be asked for again, whatever it holds by then."""
        return self.model_copy(update={"covers": ""})


class Chunk(Document, collection="chunks"):
    """A piece of a message that a model can take whole."""

    message_id: str
    thread_id: str
    position: int
    start: int
    end: int
    text: str
    tokens: int


class Summary(Document, collection="summaries"):
    """What a thread is about, with citations. It has its thread's id."""

    source: str
    thread_id: str
    subject: str
    markdown: str
    citations: list[Cited] = Field(default_factory=list)
    model: str = ""
    messages: int = 0
    missing: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float = 0.0


class Task(Document, collection="tasks"):
    """One ingestion of one source."""

    source: str
    source_id: str
    submission: int
    submitted_at: float


class Report(Document, collection="reports"):
    """What became of a source's items, or of an archive's messages: every one is accounted for."""

    source: str
    archive_id: str
    counts: dict[str, int]
