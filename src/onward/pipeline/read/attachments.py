"""Attachments of mails: which are read as documents of their own, and why the others are not.

An attachment that is text is indexed with its mail. A PDF, an office file or a picture becomes an archive of its
own, so that a damaged one fails alone. Everything else is listed with the reason. The bytes of an attachment stay
in its mail until the worker stores them: only its place is known here.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from onward import OnwardError
from onward.pipeline.documents import Archive, AttachedTo, MessageAttachment
from onward.pipeline.fetch.containers import check_contents_size
from onward.pipeline.fetch.fetch_errors import TooLarge
from onward.pipeline.fetch.fetched_items import FetchLimits
from onward.pipeline.fetch.file_kinds import (
    CONTAINERS,
    HEAD_BYTES,
    FileKind,
    claims_office,
    claims_text,
    detect_kind,
    is_picture,
    not_an_office_file,
)
from onward.pipeline.fetch.office_formats import KIND_OF_FORMAT, claimed_format, ole_format, zip_format
from onward.pipeline.read.mail import Attachment
from onward.pipeline.read.mail_format import EncodedPart

MAX_PER_MAIL = 100  # attachments of one mail that are read; a work may add at most 1 000 documents
MIN_PICTURE_BYTES = 500  # smaller ones are spacers and marks that count who reads a mail
NO_NAME = "attachment"
_SIGNATURES = frozenset(f"application/{name}-signature" for name in ("pgp", "pkcs7", "x-pkcs7"))
_ATTACHED_MAIL = "mail that is attached as a file is not read"
_SEPARATORS = re.compile(r"[/\\\x00-\x1f]+")


class AttachmentLimits(NamedTuple):
    """What is read of the attachments of one mail."""

    max_bytes: int = 50_000_000  # of all of them together
    pictures: bool = True  # whether text in pictures is recognised


USUAL_LIMITS = AttachmentLimits()


class AttachedFile(NamedTuple):
    """An attachment that is read as an archive of its own, without its blob, and its place in the mail."""

    archive: Archive
    place: EncodedPart


def list_attachments(
    mailbox: Archive, attachments: Sequence[Attachment], mail: AttachedTo, folder: str, limits: AttachmentLimits
) -> tuple[list[MessageAttachment], list[AttachedFile]]:
    """Return the attachments as they are stored with their mail, and those that are read apart.

    In the path of those, `folder` stands for the mail; it is for people, two mails may have the same.
    """
    listed, files = [], []
    for number, one, kind, reason in _decided(attachments, limits):
        entry = MessageAttachment(name=one.name, content_type=one.content_type, size=one.size)
        listed.append(entry)
        entry.indexed, entry.not_read = bool(one.text), reason
        if kind is not None:
            entry.read_apart = True
            files.append(AttachedFile(_archive(mailbox, mail, folder, number, one, kind), one.place))
    return listed, files


def _decided(
    attachments: Sequence[Attachment], limits: AttachmentLimits
) -> Iterator[tuple[int, Attachment, FileKind | None, str]]:
    """Yield each attachment with its number, its kind if it is read apart, or the reason why it is not read."""
    left, count = limits.max_bytes, 0
    for number, one in enumerate(attachments, 1):
        if one.text is not None:
            kind, reason = None, "" if one.text else "it has no text"
        else:
            kind, reason = _kind(one, limits)
        if kind is not None and count >= MAX_PER_MAIL:
            kind, reason = None, f"the mail has more than {MAX_PER_MAIL} attachments; the first ones are read"
        elif kind is not None and one.size > left:
            most = f"{limits.max_bytes / 1_000_000:g} MB"
            kind, reason = None, f"the attachments of a mail are read up to {most} (ONWARD_ATTACHMENTS_MAX_BYTES)"
        if kind is not None:
            left -= one.size
            count += 1
        yield number, one, kind, reason


def _kind(one: Attachment, limits: AttachmentLimits) -> tuple[FileKind | None, str]:
    if one.size == 0:
        return None, "it is empty"
    if one.content_type in _SIGNATURES:
        return None, "a digital signature has no text"
    head = one.content[:HEAD_BYTES]
    try:
        found = detect_kind(head, one.name, one.content_type)
        if found.kind in ("zip", "ole"):
            return _office_kind(one, found.kind)
    except OnwardError as error:
        # Without the name, which is listed beside it: attachments are counted by this reason.
        return None, str(error).removeprefix(f"{PurePosixPath(one.name).name.lower()!r} ")
    if found.skip is not None and found.skip.kind == "picture" and is_picture(head):
        if not limits.pictures:
            return None, "text in pictures is not read (ONWARD_OCR=off)"
        if one.size < MIN_PICTURE_BYTES:
            return None, f"a picture of less than {MIN_PICTURE_BYTES} bytes is too small for text"
        return FileKind("picture"), ""
    if found.skip is not None:
        return None, f"{found.skip.text}: no reader for it"
    if found.kind in CONTAINERS:
        return None, f"{found.kind} archive: what is packed in an attachment is not read"
    if found.kind in ("mbox", "eml", "pst"):
        return None, _ATTACHED_MAIL
    if found.kind == "text" and not claims_text(one.name):
        return None, "neither its type nor its name says that it is text"
    return found, ""


def _office_kind(one: Attachment, container: str) -> tuple[FileKind | None, str]:
    try:
        if container == "zip":
            check_contents_size(io.BytesIO(one.content), one.name, FetchLimits())
            format = zip_format(io.BytesIO(one.content))
        else:
            format = ole_format(one.content)
    except TooLarge:
        raise
    except Exception:  # on damaged data, zipfile raises errors of many types, also of its decompressors
        format = claimed_format(one.name, one.content_type)  # its reader says what is damaged
    if format == "encrypted":
        return None, "it needs a password; save a copy without one and ingest that"
    if format in KIND_OF_FORMAT:
        return FileKind(KIND_OF_FORMAT[format]), ""
    if format == "msg":
        return None, _ATTACHED_MAIL
    if claims_office(one.name):
        other = "a zip archive of other files" if container == "zip" else "another OLE file"
        raise not_an_office_file(one.name.lower(), other)
    if container == "zip":
        return None, "zip archive: what is packed in an attachment is not read"
    return None, "an OLE file of another format: no reader for it"


def _archive(
    mailbox: Archive, mail: AttachedTo, folder: str, number: int, one: Attachment, kind: FileKind
) -> Archive:
    name = _SEPARATORS.sub("_", one.name).strip() or f"{NO_NAME}-{number}"
    path = "/".join(filter(None, (mailbox.path, _SEPARATORS.sub("_", folder), name)))
    attached_to = mail.model_copy(update={"number": number, "name": name})
    about = {"kind": kind.kind, "size": one.size, "name": name, "language": kind.language}
    return Archive.of_attachment(mailbox, attached_to, path, **about)
