"""The copy of a repository survives kills, damage and two processes at once, and does not grow for ever."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from onward.pipeline.source_kinds import git_program
from onward.pipeline.source_kinds.git_program import GitFailed, git_path
from onward.pipeline.source_kinds.git_repository import GitRepositories
from tests.pipeline.source_kinds.kind_runs import KindRuns
from tests.support.git_repositories import GitRepository, serve_git


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    repository = GitRepository(tmp_path / "repo.git")
    repository.commit({f"f{i}.txt": f"file {i}" for i in range(300)})
    return repository


@pytest.fixture
def source(repository: GitRepository, tmp_path: Path) -> KindRuns:
    return KindRuns(GitRepositories(), repository.location, tmp_path / "home")


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return tmp_path / "home" / "cache" / "repository.git"


def fetching(repository: GitRepository, folder: Path) -> list[str]:
    """Return the command that fetches a repository in a process of its own, into the copy in this folder."""
    module = "tests.pipeline.source_kinds.git_process"
    return [sys.executable, "-m", module, repository.location, str(folder / "home")]


def test_a_lost_copy_is_made_again_and_nothing_is_read_again(
    repository: GitRepository, source: KindRuns, mirror: Path
) -> None:
    source.run()
    shutil.rmtree(mirror)
    assert source.run() == []


def test_what_a_killed_git_has_left_is_in_nobodys_way(
    repository: GitRepository, source: KindRuns, mirror: Path
) -> None:
    source.run()
    for name in ("shallow.lock", "config.lock", "packed-refs.lock", "HEAD.lock", "refs/onward/fetched.lock"):
        (mirror / name).touch()
    (mirror / "objects/pack/tmp_pack_x").write_bytes(b"half")
    repository.commit({"new.txt": "new"})
    assert source.run() == ["new.txt"]
    assert not list(mirror.glob("objects/pack/tmp_*"))


@pytest.mark.parametrize("damage", ("cut off", "removed", "no copy at all"))
def test_a_damaged_copy_is_fetched_anew(
    repository: GitRepository, source: KindRuns, mirror: Path, damage: str
) -> None:
    source.run()
    [pack] = mirror.glob("objects/pack/*.pack")
    pack.chmod(0o600)
    if damage == "cut off":
        pack.write_bytes(pack.read_bytes()[:200])
    elif damage == "removed":
        pack.unlink()
    else:
        shutil.rmtree(mirror / "objects")
    repository.commit({"new.txt": "new"})
    with suppress(GitFailed):  # the damage may be found when a file is read: then the next try repairs it
        source.run()
    source.run()
    assert source.stored == repository.files


def test_files_that_are_damaged_in_the_copy_are_fetched_anew(
    repository: GitRepository, source: KindRuns, mirror: Path
) -> None:
    """git sees nothing to fetch: only reading shows it, and the next try repairs it."""
    source.run()
    [pack] = mirror.glob("objects/pack/*.pack")
    pack.chmod(0o600)
    content = bytearray(pack.read_bytes())
    content[-200:-100] = bytes(100)
    pack.write_bytes(content)
    source.versions.clear()
    with pytest.raises(GitFailed):
        source.run()
    source.run()
    assert source.stored == repository.files


def test_a_repository_whose_ids_are_made_by_sha_256_is_read(repository: GitRepository, source: KindRuns) -> None:
    source.run()
    shutil.rmtree(repository.folder)
    other = GitRepository(repository.folder, "main", "--object-format=sha256")
    first = other.commit({"a.txt": "one"})
    assert source.run() == ["a.txt"]
    with serve_git(repository.folder.parent) as server:
        source.location = server.location(repository.folder.name, "127.0.0.1")
        assert source.run(history="on") == [":history/2026-03.mbox"]
        other.commit({"a.txt": "two"})
        assert source.run() == ["a.txt"]
        shutil.rmtree(source.folder / "cache")
        assert source.run(ref=first) == ["a.txt"]


def test_history_can_be_had_later_and_given_up_again(repository: GitRepository, source: KindRuns) -> None:
    repository.commit({"new.txt": "new"}, "A second commit")
    for history, commits in (("off", 0), ("only", 2), ("off", 0), ("on", 2)):
        source.run(history=history)
        assert sum(content.count(b"\nMessage-ID: ") for content in source.stored.values()) == commits


@pytest.mark.prove
def test_a_copy_does_not_grow_with_every_fetch(repository: GitRepository, source: KindRuns, mirror: Path) -> None:
    for number in range(60):
        repository.commit({"f0.txt": f"state {number}"})
        source.run()
    assert len(list(mirror.glob("objects/pack/*.pack"))) < 55
    assert source.stored == repository.files


@pytest.mark.parametrize("limit", ("stopped", "seconds"))
def test_packing_that_takes_long_ends_with_the_run(
    repository: GitRepository, source: KindRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    started, program = tmp_path / "started", tmp_path / "git"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *" gc "*) echo $$ > {started}.new; mv {started}.new {started}; exec sleep 600;; '
        f'esac\nexec {git_path()} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(git_program, "git_path", lambda: str(program))
    if limit == "stopped":
        source.stopped = started.exists
    else:
        clock = count(time.monotonic(), source.limits.seconds / 3)
        real = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: next(clock) if started.exists() else real())
    assert len(source.run()) == 300
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


def test_what_packing_that_was_killed_has_left_is_removed(
    repository: GitRepository, source: KindRuns, mirror: Path
) -> None:
    source.run()
    left = [mirror / "objects" / name for name in ("info/commit-graph.lock", "pack/.tmp-1-pack-x.pack")]
    for path in left:
        path.touch()
    source.run()
    assert not any(path.exists() for path in left)


@pytest.mark.prove
def test_two_processes_fetch_the_same_repository_at_once(
    repository: GitRepository, source: KindRuns, tmp_path: Path
) -> None:
    command = fetching(repository, tmp_path)
    for number in range(5):
        repository.commit({"f0.txt": f"state {number}"})
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
        listings = [process.communicate()[0] for process in processes]
        assert [process.returncode for process in processes] == [0, 0, 0]
        assert len(set(listings)) == 1
    source.run()
    assert source.stored == repository.files


@pytest.mark.prove
def test_a_process_that_is_killed_at_any_moment_does_no_harm(
    repository: GitRepository, source: KindRuns, tmp_path: Path
) -> None:
    command = fetching(repository, tmp_path)
    whole = subprocess.run(command, capture_output=True, check=True).stdout.count(b"\n")
    assert whole == 300
    killed = 0
    for number in range(25):
        repository.commit({f"f{number}.txt": f"state {number}" * 1000})
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        timer = threading.Timer(0.3 + number * 0.02, os.kill, (process.pid, signal.SIGKILL))
        timer.start()
        process.communicate()
        timer.cancel()
        killed += process.returncode == -signal.SIGKILL
    assert killed > 5
    source.run()
    assert source.stored == repository.files
