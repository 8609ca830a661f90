"""Git repositories: the files of a ref, and its history."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from onward.pipeline.fetch.fetch_errors import NothingToIngest, TooLarge
from onward.pipeline.fetch.fetched_items import SkipReason, reason_to_skip
from onward.pipeline.fetch.file_kinds import is_read_whole
from onward.pipeline.fetch.location import printable
from onward.pipeline.source_kinds.git_history import history_entries
from onward.pipeline.source_kinds.git_mirror import GitMirror, RunStopped
from onward.pipeline.source_kinds.git_program import ObjectReader, reading_objects
from onward.pipeline.source_kinds.git_remote import (
    SCHEMES,
    canonical_remote,
    parse_folder,
    parse_ref,
    parse_remote,
)
from onward.pipeline.source_kinds.source_kind import Entry, SourceOption, SourceRun

MAX_FILES = 1_000_000  # a hostile tree of a few kilobytes can have any number
_LFS_START = b"version https://git-lfs.github.com/spec/"
_MAX_LFS_BYTES = 1024  # the size of a pointer, by its specification
_LINK = SkipReason("link", "a symbolic link")
_SUBMODULE = SkipReason("submodule", "another repository: ingest it as a source of its own")
_LFS = SkipReason("lfs", "a pointer to a file in Git LFS, which is not fetched: ingest it from a checkout")
_UNSAFE = SkipReason("unsafe", "a path that leads out of the repository, as no program makes one")
_EMPTY = SkipReason("empty", "empty")
_HISTORY = ("off", "on", "only")


def parse_history(text: str) -> str:
    """Check the option `history`."""
    if text.lower() not in _HISTORY:
        raise ValueError("give off, on or only")
    return text.lower()


class GitRepositories:
    """A repository, from a server or from a folder."""

    name = "git repository"
    schemes = SCHEMES
    options = (
        SourceOption("ref", "HEAD", "branch, tag or whole commit id", parse_ref),
        SourceOption("path", "", "only this folder of it", parse_folder),
        SourceOption("history", "off", "commits as messages: off, on, or only (no files)", parse_history),
    )

    def canonical(self, location: str) -> str:
        return canonical_remote(location)

    def entries(self, run: SourceRun) -> Iterator[Entry]:
        given = {
            option.name: option.parse(run.options.get(option.name, option.default)) for option in self.options
        }
        ref, folder, history = str(given["ref"]), str(given["path"]), given["history"]
        mirror = GitMirror(parse_remote(run.location), run)
        with suppress(RunStopped), mirror.fetched(ref, history=history != "off") as commit:
            if folder and mirror.git.line("cat-file", "-t", f"{commit}:{folder}") is None:
                raise NothingToIngest(
                    f"there is no {folder!r} in {ref!r} of {mirror.remote.url}: check the option path"
                )
            if history != "only":
                with reading_objects(mirror.git) as objects:
                    yield from _Tree(mirror, run, objects, commit).entries(folder)
            if history != "off":
                yield from history_entries(mirror.git, commit, folder)


@dataclass(frozen=True, slots=True)
class _Tree:
    mirror: GitMirror
    run: SourceRun
    objects: ObjectReader
    commit: str

    def entries(self, folder: str) -> Iterator[Entry]:
        """Yield the files of a tree; count the others as skipped."""
        listing = self.mirror.git.fields(
            "ls-tree", "-r", "-l", "-z", "--full-tree", "--", self.commit, *filter(None, [folder])
        )
        for count, line in enumerate(listing):
            if count >= MAX_FILES:
                raise TooLarge(
                    f"{self.mirror.remote.url} has more than {MAX_FILES:,} files: "
                    "choose a folder with --option path=…"
                )
            about, _, raw_path = line.partition(b"\t")
            mode, _, blob, size = about.decode().split()
            path = printable(raw_path.decode("utf-8", "surrogateescape"))
            entry = self._entry(path, mode, blob, size)
            if isinstance(entry, SkipReason):
                self.run.skipped.add(entry, path)
            else:
                yield entry

    def _entry(self, path: str, mode: str, blob: str, size_text: str) -> Entry | SkipReason:
        if mode == "160000":
            return _SUBMODULE
        if mode == "120000":
            return _LINK
        if any(part in ("", ".", "..", ".git") for part in path.split("/")):
            return _UNSAFE
        if (reason := reason_to_skip(path)) is not None:
            return reason
        size = int(size_text)
        if size == 0:
            return _EMPTY
        limit = self.run.limits.max_file_bytes
        if size > limit and is_read_whole(path):
            return SkipReason("large", f"larger than {limit:,} bytes")
        entry = Entry(path, blob, size=size, url=self.mirror.remote.link(self.commit, path))
        content = None
        if size <= _MAX_LFS_BYTES and not self.run.is_known(entry):
            content = self.objects.read(blob)
            if content.startswith(_LFS_START):
                return _LFS

        def fetch(target: BinaryIO) -> None:
            if content is None:
                self.objects.copy(blob, target)
            else:
                target.write(content)

        return Entry(path, blob, fetch, url=entry.url, size=size)
