"""The items of a file: the file itself, or the members of a container, at any depth."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, BinaryIO, cast

from onward import OnwardError
from onward.pipeline.fetch import containers, file_kinds, office_formats, outlook_message, outlook_store
from onward.pipeline.fetch.containers import BLOCK_BYTES, Member, PeekStream, Readable, UnpackBudget
from onward.pipeline.fetch.fetch_errors import Broken, Encrypted, NotWhatItClaims, TooLarge, UnsafeMember
from onward.pipeline.fetch.fetched_items import (
    FetchedItem,
    FetchLimits,
    SkippedFiles,
    SkipReason,
    problem_item,
    reason_to_skip,
)
from onward.pipeline.fetch.location import printable


@dataclass(slots=True)
class FoundFile:
    """A file or a member of a container, before its kind is known."""

    path: str  # relative to the source; "" for the source itself
    name: str
    stream: Readable
    size: int | None = None
    media_type: str = ""
    url: str = ""
    depth: int = 0  # how many containers it is in
    file: BinaryIO | None = None  # the same as a seekable file, if there is one

    @property
    def shown(self) -> str:
        return self.path or self.name


@dataclass(slots=True)
class Unpacker:
    """Yields the items of files, and counts what it skips."""

    limits: FetchLimits
    scratch: Path
    skipped: SkippedFiles

    def items(self, found: FoundFile, budget: UnpackBudget | None = None) -> Iterator[FetchedItem]:
        """Yield a file, or each member of a container; the last item may be a problem of the container."""
        try:
            stream = PeekStream(found.stream, found.shown)
            kind = file_kinds.detect_kind(stream.peek(file_kinds.HEAD_BYTES), found.name, found.media_type)
            if kind.skip is not None and kind.skip.kind == "picture":
                yield from self._picture(found, stream, kind.skip)
            elif kind.skip is not None:
                self.skipped.add(kind.skip, found.shown)
            elif kind.kind == "ole":
                yield from self._ole_file(found, stream)
            elif kind.kind == "pst":
                yield from self._outlook_store(found, stream)
            elif kind.kind in file_kinds.CONTAINERS:
                yield from self._unpack(found, stream, kind.kind, budget)
            else:
                yield self._item(found, stream, kind)
        except (OnwardError, OSError) as error:
            yield problem_item(found.path, error)

    def _item(self, found: FoundFile, stream: PeekStream, kind: file_kinds.FileKind) -> FetchedItem:
        # Everything but an mbox is read as a whole.
        limit = None if kind.kind == "mbox" else self.limits.max_file_bytes
        if limit is not None and found.size is not None and found.size > limit:
            return problem_item(found.path, _too_large(found, limit))
        copied = False

        def copy_to(target: BinaryIO) -> None:
            nonlocal copied
            if copied:
                raise RuntimeError(f"{found.shown!r} was copied before; a stream can be read only once")
            copied = True
            size = 0
            while data := stream.read(BLOCK_BYTES):
                size += len(data)
                if limit is not None and size > limit:
                    raise _too_large(found, limit)
                target.write(data)

        return FetchedItem(found.path, kind.kind, copy_to, kind.media_type, kind.language, found.url, found.name)

    def _picture(self, found: FoundFile, stream: PeekStream, reason: SkipReason) -> Iterator[FetchedItem]:
        if self.limits.pictures and file_kinds.is_picture(stream.peek(file_kinds.HEAD_BYTES)):
            yield self._item(found, stream, file_kinds.FileKind("picture"))
        else:
            why = "; ".join(filter(None, (reason.text, self.limits.no_pictures)))
            self.skipped.add(SkipReason(reason.kind, why), found.shown)

    def _office_item(self, found: FoundFile, file: BinaryIO) -> FetchedItem | None:
        """Return the item of a zip that is an office file or an e-book; None if it is a container."""
        containers.check_contents_size(file, found.shown, self.limits)
        with containers.naming_damage(found.shown):
            format = office_formats.zip_format(file)
        if format not in office_formats.KIND_OF_FORMAT:
            if file_kinds.claims_office(found.name):
                raise file_kinds.not_an_office_file(found.name, "a zip archive of other files")
            return None
        file.seek(0)
        kind = file_kinds.FileKind(office_formats.KIND_OF_FORMAT[format])
        return self._item(found, PeekStream(file, found.shown), kind)

    def _ole_file(self, found: FoundFile, stream: PeekStream) -> Iterator[FetchedItem]:
        """Yield a legacy office file or a mail of Outlook, or skip it if its format is not read."""
        limit = self.limits.max_file_bytes
        data = bytearray()
        while len(data) <= limit and (block := stream.read(BLOCK_BYTES)):
            data += block
        if len(data) > limit:
            raise _too_large(found, limit)
        format = office_formats.ole_format(data)
        if format == "msg":
            mail = outlook_message.outlook_mail(data, found.shown)
            kind = file_kinds.FileKind("eml", "message/rfc822")
            yield self._item(replace(found, size=len(mail)), PeekStream(io.BytesIO(mail), found.shown), kind)
        elif format == "encrypted":
            raise Encrypted(f"{found.shown!r} needs a password; save a copy without one and ingest that")
        elif format in office_formats.KIND_OF_FORMAT:
            kind = file_kinds.FileKind(office_formats.KIND_OF_FORMAT[format])
            yield self._item(found, PeekStream(io.BytesIO(data), found.shown), kind)
        elif file_kinds.claims_office(found.name):
            if office_formats.ole_is_cut_off(data):
                missing = "its table of contents is missing"
                raise Broken(f"{found.shown!r} is damaged or cut off ({missing}): fetch or save it again")
            raise file_kinds.not_an_office_file(found.name, "another OLE file")
        else:
            reason = file_kinds.skipped_by_suffix(found.name)
            self.skipped.add(reason or SkipReason("office", "an OLE file of another format"), found.shown)

    def _outlook_store(self, found: FoundFile, stream: PeekStream) -> Iterator[FetchedItem]:
        """Yield a data file of Outlook as a mailbox."""
        outlook_store.check_reader(found.shown)
        with tempfile.TemporaryFile(dir=self.scratch) as spool:
            file: IO[bytes] | None = found.file
            if file is None:
                shutil.copyfileobj(stream, spool, BLOCK_BYTES)
                file = spool
            size = file.seek(0, io.SEEK_END)
            spent = UnpackBudget(self.limits, found.shown, size)

            def copy_to(target: BinaryIO) -> None:
                file.seek(0)
                outlook_store.copy_mails(file, target, found.shown, spent, self.skipped)

            yield FetchedItem(found.path, "mbox", copy_to, "application/mbox", url=found.url, name=found.name)

    def _unpack(
        self, found: FoundFile, stream: PeekStream, kind: str, budget: UnpackBudget | None
    ) -> Iterator[FetchedItem]:
        if kind != "zip":
            self._check_depth(found)
        if budget is None:
            budget = UnpackBudget(self.limits, found.shown, found.size or 0)
        if kind == "tar":
            yield from self._members(found, containers.tar_members(stream, found.shown), budget)
        elif kind == "zip":
            with tempfile.TemporaryFile(dir=self.scratch) as spool:
                file = found.file
                if file is None:
                    # The table of contents of a zip is at its end, so a zip in a container is written out first.
                    shutil.copyfileobj(stream, spool, BLOCK_BYTES)
                    file = cast("BinaryIO", spool)  # a wrapper with the same methods
                if (office := self._office_item(found, file)) is not None:
                    yield office
                    return
                self._check_depth(found)
                members = containers.zip_members(file, found.shown, self.limits)
                # The bytes of a tar are counted when it is decompressed, those of a zip member when it is read.
                yield from self._members(found, members, budget, spend=budget)
        else:
            # The decompressors only read, though their types require a whole file.
            unpacked = containers.DECOMPRESSORS[kind](cast("IO[bytes]", stream))
            yield from self._decompressed(found, PeekStream(unpacked, found.shown, budget), budget)

    def _check_depth(self, found: FoundFile) -> None:
        if found.depth >= self.limits.max_depth:
            raise TooLarge(
                f"{found.shown!r} is a container within {found.depth} others, and no more than "
                f"{self.limits.max_depth} are opened: unpack it yourself"
            )

    def _decompressed(self, found: FoundFile, unpacked: PeekStream, budget: UnpackBudget) -> Iterator[FetchedItem]:
        name = file_kinds.inner_name(found.name)
        if (head := unpacked.peek(file_kinds.HEAD_BYTES)) and file_kinds.detect_kind(head, name).kind == "tar":
            yield from self._members(found, containers.tar_members(unpacked, found.shown), budget)
            _drain(unpacked)  # the checksum is at the end
        elif file_kinds.claims_tar(found.name):
            raise NotWhatItClaims(
                f"{found.shown!r} claims to be a tar archive, but holds none: fetch or pack it again"
            )
        else:
            inner = FoundFile(found.path, name, unpacked, url=found.url, depth=found.depth + 1)
            taken = False
            for item in self.items(inner, budget):
                taken = True
                yield item
            if not taken and file_kinds.claims_text(name):
                _drain(unpacked)  # damaged text can look like binary data; only the checksum shows it

    def _members(
        self, found: FoundFile, members: Iterator[Member], budget: UnpackBudget, spend: UnpackBudget | None = None
    ) -> Iterator[FetchedItem]:
        seen: set[str] = set()
        empty = True
        for member in members:
            empty = False
            budget.count_member()
            name = printable(member.name)
            # Never "", which is the path of the source itself.
            path = f"{found.path}/{name}" if found.path else name or "(no name)"
            try:
                name = containers.member_path(name)
                path = f"{found.path}/{name}" if found.path else name
                if (reason := reason_to_skip(name)) is not None:
                    self.skipped.add(reason, path)
                    continue
                if member.problem is not None:
                    raise member.problem
                if name in seen:
                    raise UnsafeMember(f"there is more than one member {name!r}, and only the first is taken")
                seen.add(name)
                with containers.naming_damage(path):
                    opened = member.open()
            except (OnwardError, OSError) as error:
                yield problem_item(path, error)
                continue
            content = PeekStream(opened, path, spend)
            yield from self.items(FoundFile(path, name, content, member.size, depth=found.depth + 1), budget)
        if empty:
            self.skipped.add(SkipReason("empty", "an archive with nothing in it"), found.shown)


def _drain(stream: Readable) -> None:
    while stream.read(BLOCK_BYTES):
        pass


def _too_large(found: FoundFile, limit: int) -> TooLarge:
    return TooLarge(f"{found.shown!r} has more than {limit:,} bytes, too many for one document: split it")
