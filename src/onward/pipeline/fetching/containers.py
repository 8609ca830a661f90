"""Take what is in a file: itself, or, if it is a container, each of its members, however deep."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from onward import OnwardError
from onward.pipeline.fetching.archives import Member, member_path, tar_members, zip_members
from onward.pipeline.fetching.errors import NotWhatItClaims, TooLarge, UnsafeMember
from onward.pipeline.fetching.items import Item, Limits, Skipped, reason_to_skip, trouble
from onward.pipeline.fetching.kinds import CONTAINERS, HEAD, Looks, claims_tar, claims_text, inner_name, look
from onward.pipeline.fetching.location import printable
from onward.pipeline.fetching.streams import BLOCK, Budget, Readable, Stream, decompressed, telling_damage


@dataclass(slots=True)
class Found:
    """Bytes that were found, before it is known what they are."""

    path: str
    """Inside of the source."""
    name: str
    """What the file is called: the source itself has a name, but no path."""
    stream: Readable
    size: int | None = None
    media_type: str = ""
    url: str = ""
    depth: int = 0
    """How many containers it is in."""
    file: BinaryIO | None = None
    """The same as a seekable file, if it is one of its own."""

    @property
    def shown(self) -> str:
        """What to call it in a message."""
        return self.path or self.name


@dataclass(slots=True)
class Taker:
    """Yields the items in whatever was found, and remembers what it passed over."""

    limits: Limits
    scratch: Path
    skipped: Skipped = field(default_factory=Skipped)

    def take(self, found: Found, budget: Budget | None = None) -> Iterator[Item]:
        """Yield what was found as one item, or, if it is a container, as one for each member.

        Each is good until the next is asked for. What is wrong with a member is its own problem; what is wrong
        with the container comes last, as the container's.
        """
        try:
            stream = Stream(found.stream, found.shown)
            looks = look(stream.peek(HEAD), found.name, found.media_type)
            if looks.skip:
                self.skipped.add(looks.skip, found.shown)
            elif looks.kind in CONTAINERS:
                yield from self._unpack(found, stream, looks.kind, budget)
            else:
                yield self._item(found, stream, looks)
        except (OnwardError, OSError) as error:
            yield trouble(found.path, error)

    def _item(self, found: Found, stream: Stream, looks: Looks) -> Item:
        # Everything but an mbox is read as a whole.
        limit = None if looks.kind == "mbox" else self.limits.max_file_bytes
        if limit is not None and found.size is not None and found.size > limit:
            return trouble(found.path, _too_large(found, limit))
        copied = False

        def copy_to(target: BinaryIO) -> None:
            nonlocal copied
            if copied:
                raise RuntimeError(f"{found.shown!r} was copied before; it streams by only once")
            copied = True
            size = 0
            while data := stream.read(BLOCK):
                size += len(data)
                if limit is not None and size > limit:
                    raise _too_large(found, limit)
                target.write(data)

        return Item(found.path, looks.kind, copy_to, looks.media_type, looks.language, found.url)

    def _unpack(self, found: Found, stream: Stream, kind: str, budget: Budget | None) -> Iterator[Item]:
        if found.depth >= self.limits.max_depth:
            raise TooLarge(
                f"{found.shown!r} is a container within {found.depth} others, and no more than "
                f"{self.limits.max_depth} are opened: unpack it yourself"
            )
        if budget is None:
            budget = Budget(self.limits, found.shown, found.size or 0)
        if kind == "zip":
            yield from self._unzip(found, stream, budget)
        elif kind == "tar":
            yield from self._take_members(found, tar_members(stream, found.shown), budget)
        else:
            yield from self._decompress(found, stream, kind, budget)

    def _decompress(self, found: Found, stream: Stream, kind: str, budget: Budget) -> Iterator[Item]:
        unpacked = decompressed(kind, stream, found.shown, budget)
        name = inner_name(found.name)
        if (head := unpacked.peek(HEAD)) and look(head, name).kind == "tar":
            yield from self._take_members(found, tar_members(unpacked, found.shown), budget)
            _drain(unpacked)  # the checksum of the whole is at its end
        elif claims_tar(found.name):
            raise NotWhatItClaims(
                f"{found.shown!r} claims to be a tar archive, but holds none: fetch or pack it again"
            )
        else:
            taken = False
            for item in self.take(Found(found.path, name, unpacked, url=found.url, depth=found.depth + 1), budget):
                taken = True
                yield item
            if not taken and claims_text(name):
                _drain(unpacked)  # damage can look like binary data, until the checksum tells

    def _unzip(self, found: Found, stream: Stream, budget: Budget) -> Iterator[Item]:
        with tempfile.TemporaryFile(dir=self.scratch) as spool:
            file = found.file
            if file is None:
                # The table of contents of a zip is at its end, so one within a container is written out first.
                shutil.copyfileobj(stream, spool, BLOCK)
                file = cast("BinaryIO", spool)  # a wrapper with the same methods
            members = zip_members(file, found.shown, self.limits)
            # What comes out of a tar was counted when it was decompressed; of a zip, each member is compressed.
            yield from self._take_members(found, members, budget, spend=budget)

    def _take_members(
        self, found: Found, members: Iterator[Member], budget: Budget, spend: Budget | None = None
    ) -> Iterator[Item]:
        seen: set[str] = set()
        for member in members:
            budget.count_member()
            name = printable(member.name)
            # Never "": that is the source itself, and this is only a part of it.
            path = f"{found.path}/{name}" if found.path else name or "(no name)"
            try:
                name = member_path(name)
                path = f"{found.path}/{name}" if found.path else name
                if (reason := reason_to_skip(name)) is not None:
                    self.skipped.add(reason, path)
                    continue
                if member.problem is not None:
                    raise member.problem
                if name in seen:
                    raise UnsafeMember(f"there is more than one member {name!r}, and only the first is taken")
                seen.add(name)
                with telling_damage(path):
                    opened = member.open()
            except (OnwardError, OSError) as error:
                yield trouble(path, error)
                continue
            content = Stream(opened, path, spend)
            yield from self.take(Found(path, name, content, member.size, depth=found.depth + 1), budget)


def _drain(stream: Readable) -> None:
    while stream.read(BLOCK):
        pass


def _too_large(found: Found, limit: int) -> TooLarge:
    return TooLarge(f"{found.shown!r} has more than {limit:,} bytes, too many for one document: split it")
