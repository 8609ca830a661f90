"""The pipeline's documents: archives, messages, threads, chunks, summaries."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field, WithJsonSchema

from onward import Document, Reader
from onward.pipeline import uploads
from onward.pipeline.mail_threads import ThreadMail, thread_mail

Kind = Literal[
    "source", "mbox", "eml", "html", "text", "markdown", "rst", "code", "pdf", "word", "spreadsheet", "slides",
    "ebook", "notebook", "calendar", "contacts", "latex", "man", "subtitles",
    "picture",
]  # fmt: skip
# Stored in seconds since the epoch, written as ISO 8601 for other programs.
PointInTime = Annotated[float, WithJsonSchema({"type": "string", "format": "date-time"})]
MAIL = frozenset({"mbox", "eml"})
OFFICE = ("slides", "spreadsheet", "word")
MAX_PARTS = 8  # of a path that are keys of its archive
MAX_TITLE_CHARACTERS = 300
MAX_REASONS, MAX_REASON_CHARACTERS = 20, 200  # why attachments of a mail are not read
OTHER_REASONS = "other reasons"
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


class AttachedTo(BaseModel):
    """The mail that has a document as an attachment."""

    message_id: str  # the id of its document
    thread_id: str
    number: int  # the place in the attachments of the mail, from 1 on
    name: str = ""  # of the attached file
    subject: str = ""
    author: str = ""
    date: PointInTime | None = None


class Archive(Document, collection="archives", keys=("source_id", "origin", "blob")):
    """The content of one place of a source, or an attachment of a mail; without a blob, a request to fetch it."""

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
    retries_failed: bool = True  # of a request: whether what failed is read again, as it is if a person asks
    rereads: int = 0  # how often it was read again because a message in it was removed with another archive
    origin: str = ""
    attached_to: AttachedTo | None = None
    not_read: str = ""  # why no text was looked for in it, or none was found, although nothing failed
    wants_ocr: bool = False  # no program for recognising its text is installed; a later submission tries again

    @classmethod
    def of_attachment(cls, mailbox: Archive, attached_to: AttachedTo, path: str, **fields: Any) -> Archive:
        """Return the archive of an attachment. Its origin is its own: no other archive ever takes its place."""
        id = attachment_id(attached_to.message_id, attached_to.number)
        return cls(
            id=id,
            source=mailbox.source,
            source_id=mailbox.source_id,
            submission=mailbox.submission,
            path=path,
            origin=Document.make_id("origin", id),
            attached_to=attached_to,
            **fields,
        )

    @property
    def title(self) -> str:
        return self.path or self.name or self.source.rstrip("/").rsplit("/", 1)[-1]

    def key_values(self) -> list[tuple[str, str | float]]:
        """Return its keys; its path from each of its parts on, so that it is found by the beginning of one.

        Its origin is also its `place`, a key that no message has; see `find_archives`. The request of an upload
        also has its blob, so that the blob is not collected. An attachment is in no listing of its source: it has
        no key `source_id`, but those of its mail and its thread, and `attachment`.
        """
        pairs = super().key_values()
        if self.attached_to is not None:
            pairs = [pair for pair in pairs if pair[0] != "source_id"]
            pairs += [("mail", self.attached_to.message_id), ("attached_thread", self.attached_to.thread_id)]
            pairs.append(("attachment", self.source_id))
        if self.not_read:
            about = self.source_id
            pairs += unread_keys(about, [self.not_read]) if self.attached_to else [("not_read", about)]
        if self.wants_ocr:
            pairs.append(("wants_ocr", self.source_id))
        pairs += [("place", self.origin)] if self.origin else []
        pairs += [("title", title) for title in place_titles(self.path or self.source)]
        if self.blob is None and (upload := uploads.read_location(self.source)) is not None:
            pairs.append(("blob", upload.digest))
        return pairs


def unread_keys(source_id: str, reasons: Iterable[str]) -> list[tuple[str, str | float]]:
    """Return the keys by which attachments that are not read are counted: one for each reason, with its number."""
    counts = Counter(" ".join(reason.split())[:MAX_REASON_CHARACTERS] for reason in reasons).most_common()
    if len(counts) > MAX_REASONS:
        counts[MAX_REASONS:] = [(OTHER_REASONS, sum(count for _, count in counts[MAX_REASONS:]))]
    found = [("unread_reason", f"{count} {reason}") for reason, count in counts]
    return [("attached_not_read", source_id), *found] if found else []


def attachment_id(message_id: str, number: int) -> str:
    """Return the id of the archive of an attachment of a mail."""
    return Document.make_id("archive", "attachment", message_id, number)


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
    indexed: bool = False  # whether its text is searchable as a part of its mail
    read_apart: bool = False  # whether it is read as an archive of its own; see `attachment_id`
    not_read: str = ""  # why its text is not read


class SummaryCitation(BaseModel):
    """A sentence that a summary cites."""

    number: int
    message_id: str
    sentence: str


class Message(Document, collection="messages", keys=("thread_id", "origin", "author", "date", "blob")):
    """One mail, page or file; or the text of an attachment of a mail."""

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
    # Mails that it refers to and that no mail of its source named before: its thread is found by them, too.
    placeholders: list[str] = Field(default_factory=list)
    attached_to: AttachedTo | None = None

    @classmethod
    def from_archive(cls, archive: Archive, id: str, **fields: Any) -> Message:
        return cls(
            id=id,
            source=archive.source,
            archive_id=archive.id,
            origin=archive.origin,
            kind=archive.kind,
            path=archive.path,
            attached_to=archive.attached_to,
            **fields,
        )

    def new_text(self) -> str:
        """Return its text without quotes and signature; if that is blank, all of its text."""
        new = self._text_of(new=True)
        return new if new.strip() else self.body

    def quoted_text(self) -> str:
        """Return the text that is not in `new_text`: quotes and signature."""
        return self._text_of(new=False) if self._text_of(new=True).strip() else ""

    def thread_mail(self) -> ThreadMail | None:
        """Return what decides its thread; None if it is no mail, or could not be read."""
        if self.kind not in MAIL or self.blob is not None:
            return None
        author = self.author.rpartition("<")[2].rstrip(">")
        return thread_mail(
            id=self.id,
            source=self.source,
            message_id=self.message_id,
            references=self.references,
            subject=self.subject,
            date=self.date,
            addresses=(author, *self.recipients),
        )

    def _text_of(self, *, new: bool) -> str:
        spans = self.spans or [("new", 0, len(self.body))]
        return "".join(self.body[start:end] for kind, start, end in spans if (kind == "new") == new)

    def key_values(self) -> list[tuple[str, str | float]]:
        """Return its keys; `file` if it is no mail, `without_text` if it was read and has no text to chunk, and
        `damaged` if it has defects.

        A mail has those by which its thread is found, see `ThreadIndex`. An attachment is counted apart from the
        messages of its thread and source: it has the keys `attached_thread` and `attachment` instead of
        `thread_id` and `file`.
        """
        pairs = super().key_values()
        if self.defects:
            pairs.append(("damaged", source_id(self.source)))
        if self.attached_to is not None:
            pairs = [("attached_thread" if name == "thread_id" else name, value) for name, value in pairs]
            return [*pairs, ("attachment", source_id(self.source))]
        if (mail := self.thread_mail()) is not None:
            pairs += mail.key_values(self.placeholders)
        pairs += unread_keys(source_id(self.source), [one.not_read for one in self.attachments if one.not_read])
        if self.kind not in MAIL:
            pairs.append(("file", source_id(self.source)))
        if self.blob is None and not self.body.strip():
            pairs.append(("without_text", source_id(self.source)))
        return pairs


def in_order(messages: Iterable[Message]) -> list[Message]:
    """Return messages by date, those without a date first; an attachment behind all mails of its date."""
    return sorted(messages, key=lambda it: (it.date or 0.0, it.attached_to is not None, it.offset, it.id))


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


class Source(Document, collection="sources"):
    """The settings of a source: its options, and when it is ingested again. A source may have none."""

    location: str  # canonical
    options: dict[str, str] = Field(default_factory=dict)
    every: float | None = None  # seconds between two runs; None: it is ingested only when somebody asks for it
    on_vanished: Literal["forget", "keep"] = "forget"  # what becomes of documents whose entry is no longer listed
    paused: bool = False
    next_run: PointInTime | None = None

    @property
    def watched(self) -> bool:
        return self.every is not None and not self.paused

    def key_values(self) -> list[tuple[str, str | float]]:
        return [("watched", "yes")] if self.watched else []


class VersionPart(Document, collection="versions"):
    """Versions of entries of a source, with the archives that they made; later parts replace earlier ones."""

    source: str
    source_id: str
    number: int  # its place in the order of the parts
    merged: bool = False
    data: str  # compressed; see `stored_versions`

    def key_values(self) -> list[tuple[str, str | float]]:
        return [("versions_of", self.source_id)]


class RefusedLogin(Document, collection="logins"):
    """The mark of a password that a server has refused: it is not sent there again."""

    dependency: str
    mark: str  # see `mark_of`: no password can be found by it


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
    problems: list[SkippedItem] = Field(default_factory=list)  # the first entries that could not be fetched now
    index: str | None = None  # the blob with the offsets of messages, if some were read from an older archive
    ignored: dict[str, int] = Field(default_factory=dict)  # skipped as hidden, ignored by git, or of tools

    def key_values(self) -> list[tuple[str, str | float]]:
        """Return the blob of the index, so that it is not collected."""
        return [("blob", self.index)] if self.index else []


def report_id(about: Archive | Task) -> str:
    """Return the id of the report on an archive, or on one fetch of a source."""
    archive = about.source_id if isinstance(about, Task) else about.id
    return Document.make_id("report", archive, about.submission)
