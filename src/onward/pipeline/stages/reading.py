"""Read one message or file of an archive, and index it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from onward import App, Permanent, Settings, Work
from onward.pipeline.documents import MAIL, Archive
from onward.pipeline.read.attachments import AttachmentLimits
from onward.pipeline.read.file_readers import needs_limits
from onward.pipeline.read.limited_reader import NoReaderProcess, reader_limits
from onward.pipeline.read.mbox import RawMessage
from onward.pipeline.read.message_reader import ReadMessage, index_texts, read_file, read_message
from onward.pipeline.read.ocr import ocr_options
from onward.search.postings import TextEntry

LARGE_BYTES = 1_000_000  # the JSON of a smaller message is never too large
MAX_JSON_BYTES = 5_000_000  # the size of a message as JSON, without its indexed text


class UnreadableMessage(Permanent):
    """A message of an archive cannot be read; its bytes are kept."""


def attachment_limits(settings: Settings) -> AttachmentLimits:
    return AttachmentLimits(settings.attachments_max_bytes, settings.ocr != "off")


def computing(archive: Archive, work: Work) -> AbstractContextManager[None]:
    """Take turns with other computations, unless another process reads the archive and this one only waits."""
    return nullcontext() if needs_limits(archive.kind, archive.size) else work.computing()


def try_reading(app: App, archive: Archive, id: str, raw: RawMessage) -> ReadMessage | Permanent:
    """Return the message, or the error if its bytes cannot be read."""
    place = f"the message at byte {raw.offset:,} of {archive.title}"
    if raw.problem:
        return UnreadableMessage(f"{place}: {raw.problem}")
    try:
        if archive.kind in MAIL:
            read = read_message(archive, id, raw, attachment_limits(app.settings))
        else:
            read = read_file(archive, id, raw.raw, reader_limits(app.settings), ocr_options(app.settings))
        size = len(read.message.to_json())
    except NoReaderProcess:
        raise  # a failure of this machine, and not of the file
    except Permanent as error:
        return error
    except Exception as error:  # a reader has no other input, so any error is about these bytes
        unreadable = UnreadableMessage(f"{place} cannot be read: {type(error).__name__}: {error}")
        unreadable.__cause__ = error
        return unreadable
    if len(raw.raw) > LARGE_BYTES and size > MAX_JSON_BYTES:
        return UnreadableMessage(
            f"{place} is hardly text: it would take {size:,} bytes to store, more than {MAX_JSON_BYTES:,}"
        )
    return read


def index_message(work: Work, read: ReadMessage, entry: TextEntry | None = None) -> None:
    """Index a message by its texts, names and path, and by what search filters and counts."""
    message = read.message
    facets = {
        "author": message.author,
        "thread": message.thread_id,
        "kind": message.kind,
        "language": message.language,
        "attachment": "yes" if message.attachments or message.attached_to else "",
    }
    work.index(message, **index_texts(read)._asdict(), facets=facets, date=message.date, entry=entry)
