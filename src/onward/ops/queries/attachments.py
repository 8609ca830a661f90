"""The attachments of a mail: which of them search finds, why others are not read, and their bytes."""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

from onward.app import App
from onward.model.documents import Status
from onward.ops.bad_input import NotFound
from onward.pipeline.documents import Archive, Message, attachment_id
from onward.recovery.next_step import describe_error
from onward.retry.redact import redact

SEARCHABLE, WAITING, NOT_READ, FAILED = "searchable", "waiting", "not_read", "failed"
NO_NAME = "attachment"
MAX_NAME_BYTES = 150
_UNSAFE = re.compile(r'[/\\:*?"<>|;%]+')


@dataclass(frozen=True, slots=True)
class AttachmentFacts:
    """One attachment of a mail."""

    number: int  # from 1 on, in the order of the mail
    name: str
    content_type: str
    size: int
    state: str  # one of `SEARCHABLE`, `WAITING`, `NOT_READ` and `FAILED`
    reason: str = ""  # why it is not read, or failed
    archive_id: str | None = None  # its own archive, if it is read apart
    document_id: str | None = None  # the message that has its text

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def attachments_of(app: App, messages: Sequence[Message]) -> dict[str, list[AttachmentFacts]]:
    """Return the attachments of each of these messages that has some, with their states."""
    apart = {
        attachment_id(message.id, number): (message.id, number)
        for message in messages
        for number, one in enumerate(message.attachments, 1)
        if one.read_apart
    }
    states = {state.id: state for state in app.store.states_of([("archives", id) for id in apart])}
    archives = {archive.id: archive for archive in app.store.get_many(Archive, list(states))}
    found: dict[str, list[AttachmentFacts]] = {}
    for message in messages:
        for number, one in enumerate(message.attachments, 1):
            id = attachment_id(message.id, number) if one.read_apart else None
            state, reason, text = SEARCHABLE, "", None
            if id is None:
                state, reason, text = (
                    (SEARCHABLE, "", message.id) if one.indexed else (NOT_READ, one.not_read, None)
                )
            elif id not in states or id not in archives:
                state, reason = NOT_READ, "it was removed"
            elif states[id].status == Status.PENDING:
                state, reason = WAITING, describe_error(states[id].last_error)
            elif states[id].status != Status.PROCESSED:
                state, reason = FAILED, describe_error(states[id].last_error)
            elif archives[id].not_read:
                state, reason = NOT_READ, archives[id].not_read
            else:
                text = Message.make_id("message", id)
            facts = AttachmentFacts(number, one.name, one.content_type, one.size, state, redact(reason), id, text)
            found.setdefault(message.id, []).append(facts)
    return found


def attached_facts(message: Message) -> dict[str, Any] | None:
    """Return the mail that a message is attached to; who has sent it and when, the message itself says."""
    fields = {"message_id", "number", "name", "subject"}
    return None if message.attached_to is None else message.attached_to.model_dump(include=fields)


def attachment_bytes(app: App, message_id: str, number: int) -> tuple[str, bytes]:
    """Return the name of an attachment, cleaned, and its bytes, which are taken from its mail."""
    message = app.get(Message, message_id)
    if message is None or not 1 <= number <= len(message.attachments):
        raise NotFound(f"message {message_id[:40]!r} has no attachment {number}")
    name = safe_name(message.attachments[number - 1].name)
    archive = app.get(Archive, attachment_id(message.id, number))
    if archive is not None and archive.blob is not None:
        with closing(app.blobs.open(archive.blob)) as stream:
            return name, stream.read()
    return name, _from_mail(app, message, number)


def _from_mail(app: App, message: Message, number: int) -> bytes:
    from onward.pipeline.read.mail import attachment_bytes as decode
    from onward.pipeline.read.mail import read_mail
    from onward.pipeline.read.mbox import split_mbox
    from onward.pipeline.stages.parsing import find_original

    where = find_original(app, message)
    if where is None:
        raise NotFound(f"the bytes of message {message.id} are gone; ingest its source again")
    blob, offset, length = where
    with closing(app.blobs.open(blob)) as stream:
        stream.seek(offset)
        raw = stream.read(length)
    if message.kind == "mbox":
        raw = next(split_mbox(io.BytesIO(raw))).raw
    attachments = read_mail(raw).attachments
    if number > len(attachments):
        raise NotFound(f"message {message.id} has no attachment {number} any more; ingest its source again")
    return decode(raw, attachments[number - 1].place)


def safe_name(name: str) -> str:
    """Return a file name without folders, control characters and characters that some systems do not allow.

    >>> safe_name("../../etc/pass\\x00wd")
    'pass wd'
    """
    last = re.split(r"[/\\]", name)[-1]
    visible = "".join(" " if unicodedata.category(one)[0] == "C" else one for one in last)
    cleaned = " ".join(_UNSAFE.sub("_", visible).split()).strip(". ")
    stem, dot, suffix = cleaned.rpartition(".")
    if not dot or len(suffix) > 10:
        stem, dot, suffix = cleaned, "", ""
    most = MAX_NAME_BYTES - len((dot + suffix).encode())
    return stem.encode()[:most].decode("utf-8", "ignore") + dot + suffix or NO_NAME


def download_headers(name: str) -> dict[str, str]:
    """Return the headers with which a browser saves a file under this name, and never shows it."""
    ascii_name = re.sub(r"[^A-Za-z0-9._ -]", "_", name)
    return {
        "content-disposition": f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(name, safe='')}",
        "content-security-policy": "default-src 'none'; sandbox",
        "x-content-type-options": "nosniff",
    }
