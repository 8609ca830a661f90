"""A bare copy of a repository in the data folder, which is fetched incrementally."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from onward import OnwardError
from onward.pipeline.fetch.fetch_errors import SourceMissing, TooLarge, UnusableSource
from onward.pipeline.source_kinds.git_errors import fetch_error
from onward.pipeline.source_kinds.git_program import DamagedCopy, Git
from onward.pipeline.source_kinds.git_remote import GitRemote, is_commit_id
from onward.pipeline.source_kinds.source_kind import SourceRun

WHOLE_DEPTH = 2_147_483_647  # what git takes for "all"
_POLL_SECONDS = 0.1
_LEFTOVERS = ("*.lock", "refs/**/*.lock", "objects/info/**/*.lock", "objects/pack/tmp_*", "objects/pack/.tmp-*")
_FETCHED = "refs/onward/fetched"
_OTHER_IDS = re.compile(rb"mismatched algorithms: client \w+; server (sha1|sha256)\b")


class RunStopped(OnwardError):
    """The worker stops: what was fetched so far is dropped."""


@dataclass(frozen=True, slots=True)
class GitMirror:
    """The copy of one repository.

    One process fetches at a time (`fetch.lock`), also for as long as its git outlives it. Others may read
    meanwhile: objects are only added, and collected when nobody else reads (`read.lock`).
    """

    remote: GitRemote
    run: SourceRun
    name: str = "repository"

    @property
    def folder(self) -> Path:
        return self.run.cache / f"{self.name}.git"

    @property
    def git(self) -> Git:
        return Git(self.folder)

    @contextmanager
    def fetched(self, ref: str, *, history: bool) -> Iterator[str]:
        """Fetch a ref, with its history or without; return its commit, which can be read in the block."""
        if self.remote.transport == "file":
            _check_local(self.remote.folder)
        proxies = self.run.limits.environment_proxies
        settings = self.remote.network_settings(self.run.guard, environment_proxies=proxies)
        self.run.cache.mkdir(parents=True, exist_ok=True)
        with self._lock("read.lock", fcntl.LOCK_SH):
            try:
                with self._lock("fetch.lock", fcntl.LOCK_EX) as lock:
                    commit = self._fetch(ref, WHOLE_DEPTH if history else 1, settings, lock)
                yield commit
            except DamagedCopy:
                shutil.rmtree(self.folder, ignore_errors=True)
                raise
        self._collect_garbage()

    def _fetch(self, ref: str, depth: int, settings: tuple[str, ...], lock: int) -> str:
        git = Git(self.folder, self.remote.transport)
        for pattern in _LEFTOVERS:
            for left in self.folder.glob(pattern):
                left.unlink(missing_ok=True)  # of a killed git: nobody else may fetch now
        sha256 = len(ref) > 40 and is_commit_id(ref) and not self.folder.exists()
        self._init(*(["--object-format=sha256"] if sha256 else []))
        before = self._bytes("*.pack")
        arguments = (
            "fetch", "--quiet", "--no-tags", "--force", "--no-write-fetch-head", "--no-recurse-submodules",
            "--no-auto-maintenance", f"--depth={depth}", "--end-of-options", self.remote.url, f"+{ref}:{_FETCHED}",
        )  # fmt: skip
        said = self._failure(git, arguments, settings, lock)
        if other := _OTHER_IDS.search(said):
            shutil.rmtree(self.folder)  # it is of no use for a repository whose ids are made by SHA-256, or SHA-1
            self._init(f"--object-format={other[1].decode()}")
            said = self._failure(git, arguments, settings, lock)
        if said:
            raise fetch_error(self.remote, ref, said)
        self._check_size(before)
        commit = git.line("rev-parse", "--verify", "--quiet", "--end-of-options", _FETCHED + "^{commit}")
        if commit is None:
            raise UnusableSource(f"{ref!r} of {self.remote.url} is no commit: give a branch, a tag or a commit")
        return commit

    def _init(self, *options: str) -> None:
        """Make the copy, if it is not there."""
        if self.git.line("init", "--bare", "--quiet", "--template=", *options) is None:
            raise OSError(
                f"git cannot make a repository in {str(self.folder)!r}: check the disk and its permissions"
            )

    def _failure(self, git: Git, arguments: Sequence[str], settings: Sequence[str], lock: int) -> bytes:
        """Run git; return what it says if it fails, else nothing."""
        with (
            tempfile.TemporaryFile(dir=self.run.cache) as said,
            git.started(*arguments, settings=settings, stderr=said, keeps_open=(lock,)) as process,
        ):
            self._wait(lambda: process.poll() is not None)
            said.seek(0)
            return (said.read(1 << 20) or b"git said nothing") if process.returncode else b""

    def _wait(self, ended: Callable[[], bool]) -> None:
        """Wait for git, or a lock; raise if it takes too long, gets too much, or the worker stops."""
        limits, deadline = self.run.limits, time.monotonic() + self.run.limits.seconds
        pause = 0.005
        while not ended():
            if self.run.stopped():
                raise RunStopped(f"the fetch of {self.remote.url} was stopped")
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{self.remote.url} was not fetched within {limits.seconds:g} s: raise ONWARD_FETCH_SECONDS "
                    "if it needs longer"
                )
            self._check_size()
            time.sleep(pause)
            pause = min(pause * 2, _POLL_SECONDS)

    def _check_size(self, before: int | None = None) -> None:
        """Raise if more bytes are coming than allowed, or have come since there were `before`."""
        if before is not None and self._bytes("*.pack") - before > self.run.limits.max_bytes:
            shutil.rmtree(self.folder)  # a small fetch is over before it is looked at
        elif self._bytes("tmp_*") <= self.run.limits.max_bytes:
            return
        raise TooLarge(
            f"{self.remote.url} sends more than {self.run.limits.max_bytes:,} bytes: raise "
            "ONWARD_FETCH_MAX_BYTES, or clone it yourself and ingest the folder"
        )

    def _bytes(self, pattern: str) -> int:
        sizes = []
        for path in self.folder.glob(f"objects/pack/{pattern}"):
            with suppress(FileNotFoundError):  # it was renamed or removed just now
                sizes.append(path.stat().st_size)
        return sum(sizes)

    @contextmanager
    def _lock(self, name: str, kind: int) -> Iterator[int]:
        """Hold a lock; a process that inherits the number holds it, too."""
        file = os.open(self.run.cache / f"{self.name}.{name}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._wait(lambda: _try_lock(file, kind))
            yield file
        finally:
            os.close(file)

    def _collect_garbage(self) -> None:
        """Let git pack what many fetches have left, if nobody else uses the copy."""
        file = os.open(self.run.cache / f"{self.name}.read.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if _try_lock(file, fcntl.LOCK_EX):
                # All is read: what takes too long, or too much space, is left to the next run.
                with (
                    suppress(RunStopped, TimeoutError, TooLarge),
                    self.git.started("gc", "--auto", "--quiet") as process,
                ):
                    self._wait(lambda: process.poll() is not None)
        finally:
            os.close(file)


def _try_lock(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _check_local(folder: Path) -> None:
    """Refuse a folder that is missing, and a repository whose git would fetch, by any program, when it is read."""
    if not folder.is_dir():
        raise SourceMissing(f"there is no folder {str(folder)!r}: check its name")
    # As git looks for it. It reads the configuration itself, which of a worktree is elsewhere.
    places = (Git(Path(f"{folder}{end}")) for end in ("/.git", "", ".git/.git", ".git"))
    git = next((git for git in places if git.line("rev-parse", "--git-dir") is not None), Git(folder))
    partial = git.line(
        "config", "--includes", "--name-only", "--get-regexp", r"^(extensions\.partialclone|remote\..*\.promisor)$"
    )
    if partial:
        raise UnusableSource(
            f"{str(folder)!r} is a partial clone, which lacks some of its files: give the URL it was cloned from"
        )
