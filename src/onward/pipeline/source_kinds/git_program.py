"""Runs git so that no repository or URL makes it execute anything, and nobody is asked for a password."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, BinaryIO

from onward import OnwardError
from onward.pipeline.fetch.fetch_errors import UnusableSource

OLDEST_VERSION = (2, 37)  # the first with http.curloptResolve, which pins the addresses of a host
_BLOCK_BYTES = 1 << 16
_MAX_FIELD_BYTES = 1 << 20  # of a path with its metadata: in a hostile tree it may be of any length
# Each overrides what the user's or the system's configuration says.
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.bigFileThreshold=16m",  # larger objects are streamed, never held in memory
    "core.deltaBaseCacheLimit=32m",
    "credential.interactive=false",
    "diff.external=",
    "fetch.uriProtocols=",  # no packs from other hosts
    "fetch.unpackLimit=1",
    "fetch.writeCommitGraph=false",
    "gc.autoDetach=false",
    "gc.pruneExpire=now",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
    "log.showSignature=false",  # it would run gpg
    "maintenance.auto=false",
    "pack.threads=1",
    "submodule.recurse=false",
    "transfer.bundleURI=false",
)  # fmt: skip
# Variables that would lead git to another repository, or make it run or write something.
_REMOVED = re.compile(
    r"GIT_(?:DIR|WORK_TREE|IMPLICIT_WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|ALTERNATE_OBJECT_DIRECTORIES|COMMON_DIR"
    r"|NAMESPACE|PREFIX|SHALLOW_FILE|GRAFT_FILE|CONFIG|CONFIG_PARAMETERS|EXTERNAL_DIFF|QUARANTINE_PATH|TRACE.*"
    r"|REPLACE_REF_BASE|INTERNAL_SUPER_PREFIX|ALLOW_PROTOCOL|PROTOCOL_FROM_USER)|SSH_ASKPASS.*|DISPLAY"
)


class GitFailed(OnwardError):
    """Git has failed, and a retry may succeed."""


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git in one bare repository."""

    folder: Path
    transport: str = "none"  # the only way in which it may reach another repository

    def command(self, *arguments: str, settings: Sequence[str] = ()) -> list[str]:
        given = [part for setting in (*_SETTINGS, *settings) for part in ("-c", setting)]
        return [git_path(), f"--git-dir={self.folder}", "--literal-pathspecs", *given, *arguments]

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not _REMOVED.fullmatch(name)}
        # Without a terminal ssh fails where it would ask. A command of the user's own stays.
        ssh = {"GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=30"} if "GIT_SSH" not in kept else {}
        fixed = {
            "GIT_ALLOW_PROTOCOL": self.transport,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GCM_INTERACTIVE": "never",
            "LC_ALL": "C",
        }
        return ssh | kept | fixed

    @contextmanager
    def started(
        self, *arguments: str, settings: Sequence[str] = (), stderr: int | IO[bytes] = subprocess.DEVNULL,
        feeds: bool = False, keeps_open: Sequence[int] = (),
    ) -> Iterator[subprocess.Popen[bytes]]:  # fmt: skip
        """Run git until the block ends; then it is killed with everything that it has started."""
        process = subprocess.Popen(
            self.command(*arguments, settings=settings),
            stdin=subprocess.PIPE if feeds else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=self.environment(),
            start_new_session=True,  # no terminal to ask on, and a group that can be killed
            pass_fds=keeps_open,
        )
        try:
            yield process
        finally:
            if process.returncode is None:  # otherwise its id may belong to another process by now
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(BrokenPipeError):
                        stream.close()
            process.wait()

    def fields(self, *arguments: str, settings: Sequence[str] = (), separator: bytes = b"\0") -> Iterator[bytes]:
        """Yield what git prints, field by field; raise `GitFailed` if it fails."""
        with self.started(*arguments, settings=settings) as process:
            assert process.stdout is not None
            yield from _split(process.stdout, separator)
            if process.wait() != 0:
                raise GitFailed(
                    f"git {arguments[0]} failed with code {process.returncode} in {str(self.folder)!r}"
                )

    def line(self, *arguments: str) -> str | None:
        """Return the line that git prints; None if it fails."""
        with self.started(*arguments) as process:
            found, _ = process.communicate()
            return None if process.returncode else found.decode("utf-8", "surrogateescape").rstrip("\n")


class ObjectReader:
    """Reads objects of a repository, by one git process for all of them."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._requests: IO[bytes] = process.stdin
        self._answers: IO[bytes] = process.stdout
        self._unread = 0
        self.reads = 0

    def open(self, name: str) -> int:
        """Ask for an object; return its size. Raise `DamagedCopy` if it is not there."""
        self._discard()
        self.reads += 1
        self._requests.write(name.encode() + b"\n")
        self._requests.flush()
        header = self._answers.readline()
        parts = header.split()
        if not header or len(parts) != 3:
            raise DamagedCopy(f"git has no object {name}: {header.decode(errors='replace').strip() or 'it ended'}")
        self._unread = int(parts[2]) + 1  # a newline follows
        return self._unread - 1

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes of the object that was asked for."""
        while self._unread > 1:
            data = self._answers.read(min(self._unread - 1, _BLOCK_BYTES))
            if not data:
                raise DamagedCopy("git ended in the middle of an object")
            self._unread -= len(data)
            yield data

    def read(self, name: str) -> bytes:
        self.open(name)
        return b"".join(self.blocks())

    def copy(self, name: str, target: BinaryIO) -> None:
        self.open(name)
        for data in self.blocks():  # noqa: FURB122 (a target has this method only)
            target.write(data)

    def _discard(self) -> None:
        for _ in self.blocks():
            pass
        if self._unread:
            self._answers.read(1)
            self._unread = 0


class DamagedCopy(GitFailed):
    """The copy of a repository lacks something: the next try fetches all of it anew."""


@contextmanager
def reading_objects(git: Git) -> Iterator[ObjectReader]:
    with git.started("cat-file", "--batch", feeds=True) as process:
        yield ObjectReader(process)


@cache
def git_path() -> str:
    """Return where git is installed; raise if it is not, or too old."""
    path = shutil.which("git")
    if path is None:
        raise UnusableSource("git is not installed, and git repositories are read with it: apt-get install git")
    said = subprocess.run(
        [path, "version"], capture_output=True, check=False, env=os.environ | {"LC_ALL": "C"}
    ).stdout
    numbers = re.search(rb"(\d+)\.(\d+)", said)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST_VERSION:
        raise UnusableSource(
            f"{path} is {said.decode(errors='replace').strip() or 'no git'}: install git "
            f"{'.'.join(map(str, OLDEST_VERSION))} or newer"
        )
    return path


def _split(stream: IO[bytes], separator: bytes) -> Iterator[bytes]:
    rest = b""
    while data := stream.read(_BLOCK_BYTES):
        *whole, rest = (rest + data).split(separator)
        yield from whole
        if len(rest) > _MAX_FIELD_BYTES:
            raise UnusableSource("the repository has a path of more than a million bytes: it is not read")
    if rest:
        yield rest
