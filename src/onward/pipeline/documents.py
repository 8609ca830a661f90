"""The pipeline's documents: archives, messages, threads, chunks, summaries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field, WithJsonSchema

from onward import Document, Reader
from onward.pipeline import uploads

Kind = Literal["source", "mbox", "eml", "html", "text", "markdown", "rst", "code", "pdf"]
# Stored in seconds since the epoch, written as ISO 8601 for other programs.
PointInTime = Annotated[float, WithJsonSchema({"type": "string", "format": "date-time"})]
MAIL = frozenset({"mbox", "eml"})
MAX_PARTS = 8  # of a path that are keys of its archive
MAX_TITLE_CHARACTERS = 300
_BEFORE_PATH = re.compile(r"^[a-z][a-z0-9+.-]*://(?:[^/@]*@)?")  # the scheme, and the name and password of a user


def source_id(source: str) -> str:
    """Return the id of the archive that requests a source as a whole."""
    return Document.make_id("source", source)


def origin_of(source: str, path: str) -> str:
    """Return the id of a place inside a source, independent of its content."""
    return Document.make_id("origin", source, path)


def place_titles(place: str) -> list[str]:
    """Return a path or URL in lower case, whole and from each of its last `MAX_PARTS` parts on.

    >>> place_titles("https://tide.example/docs/March.html?page=2")
    ['tide.example/docs/march.html', 'docs/march.html', 'march.html']
    """
    parts = _BEFORE_PATH.sub("", place.casefold()).partition("?")[0].strip("/").split("/")
    tails = {"/".join(parts[start:])[:MAX_TITLE_CHARACTERS]: None for start in (0, *range(1, len(parts)))}
    return [tail for tail in list(tails)[:1] + list(tails)[1:][-MAX_PARTS:] if tail]


class Archive(Document, collection="archives", keys=("source_id", "origin", "blob")):
    """The content of one place of a source; without a blob, the request to fetch it."""

    source: str
    source_id: str
    path: str = ""  # relative to the source; empty for the source itself
    kind: Kind = "source"
    blob: str | None = None
    size: int = 0
    url: str = ""
    name: str = ""  # the name of the file on the server, if it was downloaded
    charset: str = ""  # from the server
    language: str = ""
    submission: int = 1  # the number of the submission of its source; a later one replaces an earlier one
    rereads: int = 0  # how often it was read again because a message in it was removed with another archive
    origin: str = ""

    @property
    def title(self) -> str:
        return self.path or self.name or self.source.rstrip("/").rsplit("/", 1)[-1]

    def key_values(self) -> list[tuple[str, str | float]]:
        """Return its keys; its path from each of its parts on, so that it is found by the beginning of one.

        Its origin is also its `place`, a key that no message has; see `find_archives`. The request of an upload
        also has its blob, so that the blob is not collected.
        """
        pairs = super().key_values()
        pairs += [("place", self.origin)] if self.origin else []
        pairs += [("title", title) for title in place_titles(self.path or self.source)]
        if self.blob is None and (upload := uploads.read_location(self.source)) is not None:
            pairs.append(("blob", upload.digest))
        return pairs


class ArchiveOfPlace(NamedTuple):
    """An archive that was found by its place."""

    origin: str
    id: str
    status: str


def find_archives(store: Reader, origins: Sequence[str]) -> list[ArchiveOfPlace]:
    """Return the archives of these places.

    Not by the key `origin`: each message of a place has it, too, and all of them would be read. Only an archive
    that an older Onward has written beside this one has no other key.
    """
    found = store.find(Archive, "place", origins)
    if missing := sorted(set(origins) - {str(one.value) for one in found}):
        found += store.find(Archive, "origin", missing)
    return [ArchiveOfPlace(str(one.value), one.id, one.status) for one in found]


class MessageAttachment(BaseModel):
    """An attachment of a message."""

    name: str
    content_type: str
    size: int
    indexed: bool = False  # whether its text is searchable


class SummaryCitation(BaseModel):
    """A sentence that a summary cites."""

    number: int
    message_id: str
    sentence: str


_SUBJECT_PREFIXES = re.compile(
    r"\s*(?:(?:re|fwd?|aw|wg|sv|antw|tr)\s*(?:\[\d+\])?\s*[:：]|\[[^\]]{0,60}\])", re.IGNORECASE
)


def plain_subject(subject: str) -> str:
    """Return a subject without the prefixes of replies and the tags of lists."""
    place = 0
    while (found := _SUBJECT_PREFIXES.match(subject, place)) is not None:
        place = found.end()
    return subject[place:].strip() or subject.strip()


class Message(Document, collection="messages", keys=("thread_id", "origin", "author", "date", "blob")):
    """One mail, page or file."""

    source: str
    archive_id: str
    origin: str  # the place of its source that it was read from; see `origin_of`
    kind: Kind
    thread_id: str
    path: str = ""  # of its archive, relative to the source; empty for the source itself
    message_id: str = ""  # the Message-ID of a mail, the path of a file, the URL of a page
    references: list[str] = Field(default_factory=list)
    subject: str = ""
    author: str = ""
    recipients: list[str] = Field(default_factory=list)
    date: PointInTime | None = None
    body: str = ""
    # The parts of the body: `new`, `quote` or `signature`, start and end. Empty: all of it is new.
    spans: list[tuple[str, int, int]] = Field(default_factory=list)
    attachments: list[MessageAttachment] = Field(default_factory=list)
    defects: list[str] = Field(default_factory=list)  # what was damaged or unusual
    language: str = ""  # of its text (`en`), or of code (`python`); empty if it is not known
    offset: int = 0
    length: int = 0  # its bytes in the blob of its archive
    blob: str | None = None  # its bytes, if it could not be read

    @classmethod
    def from_archive(cls, archive: Archive, id: str, **fields: Any) -> Message:
        source, origin, kind, path = archive.source, archive.origin, archive.kind, archive.path
        return cls(id=id, source=source, archive_id=archive.id, origin=origin, kind=kind, path=path, **fields)

    def new_text(self) -> str:
        """Return its text without quotes and signature; if that is blank, all of its text."""
        new = self._text_of(new=True)
        return new if new.strip() else self.body

    def quoted_text(self) -> str:
        """Return the text that is not in `new_text`: quotes and signature."""
        return self._text_of(new=False) if self._text_of(new=True).strip() else ""

    def _text_of(self, *, new: bool) -> str:
        spans = self.spans or [("new", 0, len(self.body))]
        return "".join(self.body[start:end] for kind, start, end in spans if (kind == "new") == new)

    def key_values(self) -> list[tuple[str, str | float]]:
        """Return its keys; `file` if it is no mail, `without_text` if it was read and has no text to chunk."""
        pairs = super().key_values()
        if self.kind not in MAIL:
            pairs.append(("file", source_id(self.source)))
        if self.blob is None and not self.body.strip():
            pairs.append(("without_text", source_id(self.source)))
        return pairs


def in_order(messages: Iterable[Message]) -> list[Message]:
    """Return messages by date, those without a date first."""
    return sorted(messages, key=lambda message: (message.date or 0.0, message.offset, message.id))


class Thread(Document, collection="threads"):
    """Messages that belong together; finished when its summary is written."""

    source: str
    root: str  # the Message-ID of its first message, even if that message is missing
    subject: str = ""
    message_ids: list[str] = Field(default_factory=list)  # summarised; chosen when the thread is complete
    messages: int = 0
    missing: int = 0  # chunks that could not be embedded; the messages are summarised nevertheless
    covers: str = ""  # a digest of what its last summary was requested for; "" requests a new one


class Chunk(Document, collection="chunks"):
    """A part of a message that fits into the context of a model."""

    message_id: str
    thread_id: str
    subject: str = ""  # of its message, without "Re:" and tags, for the embedder

    def titled_text(self, title_repeats: int) -> str:
        """Return the text that is embedded, after its title."""
        return f"{self.subject}\n" * title_repeats + self.text

    position: int
    start: int
    end: int
    text: str
    tokens: int


class Summary(Document, collection="summaries"):
    """The summary of a thread, with citations; it has the id of the thread."""

    source: str
    thread_id: str
    subject: str
    markdown: str
    citations: list[SummaryCitation] = Field(default_factory=list)
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
    submitted_at: PointInTime


class SavedSearch(Document, collection="searches"):
    """A query, or the filters of a list of the console, that somebody saved under a name."""

    name: str
    text: str  # a query as it was typed; the address of a list with its filters
    page: str = "search"  # which list it belongs to


class SkippedItem(BaseModel):
    """A file of a source that was skipped."""

    path: str
    kind: str
    reason: str


class Report(Document, collection="reports"):
    """Counts of the items of a source, or of the messages of an archive."""

    source: str
    archive_id: str
    counts: dict[str, int]
    passed_over: dict[str, int] = Field(default_factory=dict)  # skipped items by kind
    passed_over_items: list[SkippedItem] = Field(default_factory=list)  # the first skipped items of each kind
    index: str | None = None  # the blob with the offsets of messages, if some were read from an older archive
    ignored: dict[str, int] = Field(default_factory=dict)  # skipped as hidden, ignored by git, or of tools

    def key_values(self) -> list[tuple[str, str | float]]:
        """Return the blob of the index, so that it is not collected."""
        return [("blob", self.index)] if self.index else []


def report_id(about: Archive | Task) -> str:
    """Return the id of the report on an archive, or on one fetch of a source."""
    archive = about.source_id if isinstance(about, Task) else about.id
    return Document.make_id("report", archive, about.submission)
