"""No URL and no repository makes git run something, reach elsewhere, or give away credentials."""

from __future__ import annotations

import os
import random
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from onward import Permanent
from onward.pipeline.fetch.fetch_errors import HTTPAnswerError, PrivateAddress, Refused, SourceMissing, TooLarge
from onward.pipeline.fetch.fetched_items import FetchLimits
from onward.pipeline.fetch.location import AddressGuard
from onward.pipeline.source_kinds.git_program import Git
from onward.pipeline.source_kinds.git_repository import GitRepositories
from tests.pipeline.source_kinds.kind_runs import KindRuns
from tests.support.git_repositories import GitRepository, GitServer, serve_git

HOST = "code.example"
"""A host that no resolver knows: only an address that was pinned leads to it."""


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    repository = GitRepository(tmp_path / "served" / "repo.git")
    repository.commit({"a.txt": "one"})
    return repository


@pytest.fixture
def server(repository: GitRepository) -> Iterator[GitServer]:
    with serve_git(repository.folder.parent) as server:
        yield server


@pytest.fixture
def source(server: GitServer, tmp_path: Path) -> KindRuns:
    """The repository over HTTP, from a host that the guard permits."""
    guard = AddressGuard(resolve=lambda host, port: ["127.0.0.1"], permit=lambda address: True)
    return KindRuns(GitRepositories(), server.location("repo.git", HOST), tmp_path / "home", guard=guard)


@pytest.mark.parametrize(
    "location",
    (
        "git+ext://sh -c touch% /tmp/x",
        "git+ext::sh",
        "git+git://host/repo.git",
        "git+ftp://host/repo.git",
        "git+ssh://-oProxyCommand=touch/x",
        "git+ssh://-oProxyCommand=x@host/x",
        "git+ssh://host/%0a--upload-pack=x",
        "git+https://host/a%0ahost=evil",
        "git+https://host/a b",
        "git+https://host/repo.git?x=y",
        "git+https://host/repo.git#main",
        "git+https://host",
        "git+https:///repo.git",
        "git+https://host:99999/repo.git",
        "git+file://elsewhere/repo",
        "git+file://",
    ),
)
def test_other_locations_are_refused(location: str) -> None:
    with pytest.raises(Permanent, match=r"git\+https|--option|leave them out"):
        GitRepositories().canonical(location)


@pytest.mark.parametrize("user", ("me:s3cret", "s3cret", ":s3cret", "me%3As3cret"))
@pytest.mark.parametrize("transport", ("https", "ssh"))
def test_credentials_in_a_url_are_refused_with_the_remedy(user: str, transport: str) -> None:
    if (user, transport) == ("s3cret", "ssh"):
        return  # the user of ssh is no secret
    with pytest.raises(Permanent, match=r"leave them out") as refused:
        GitRepositories().canonical(f"git+{transport}://{user}@host.example/repo.git")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "canonical"),
    (
        ("GIT+HTTPS://Code.Example:443/O/R.git/", "git+https://code.example/O/R.git"),
        ("git+ssh://git@Code.Example:22/o/r", "git+ssh://git@code.example/o/r"),
        ("git+ssh://code.example:2222/~me/r", "git+ssh://code.example:2222/~me/r"),
    ),
)
def test_a_location_has_one_form(given: str, canonical: str) -> None:
    assert GitRepositories().canonical(given) == canonical


def test_only_the_addresses_of_the_guard_are_connected_to(source: KindRuns, repository: GitRepository) -> None:
    source.run(history="on")
    assert source.stored["a.txt"] == b"one"
    repository.commit({"b.txt": "two"})
    assert source.run() == ["b.txt"]


def test_a_proxy_counts_only_if_the_settings_allow_it(source: KindRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    source.run()
    source.limits = FetchLimits(environment_proxies=True)
    with pytest.raises(ConnectionError):
        source.run()


def test_a_private_address_is_refused(source: KindRuns, server: GitServer) -> None:
    source.guard = AddressGuard(resolve=lambda host, port: ["127.0.0.1"])
    with pytest.raises(PrivateAddress, match="ONWARD_FETCH_ALLOW_PRIVATE"):
        source.run()
    assert server.requests == []


@pytest.mark.parametrize("private", (True, False))
def test_a_redirect_to_elsewhere_is_not_followed(
    source: KindRuns, server: GitServer, tmp_path: Path, private: bool
) -> None:
    if private:
        source.location, source.guard = server.location("repo.git", "127.0.0.1"), AddressGuard(allow_private=True)
    with serve_git(tmp_path / "served") as other:
        server.redirects_to = f"http://127.0.0.1:{other.port}"
        with pytest.raises(Permanent, match="redirects, which is not followed"):
            source.run()
        assert other.requests == []


@pytest.mark.parametrize("status", (500, 503, 429))
def test_a_server_that_fails_for_a_while_is_tried_again(source: KindRuns, server: GitServer, status: int) -> None:
    server.fails_with = status
    with pytest.raises(HTTPAnswerError) as failed:
        source.run()
    assert not isinstance(failed.value, Permanent)


def test_a_refused_connection_is_tried_again(source: KindRuns) -> None:
    source.location = f"git+http://{HOST}:1/repo.git"
    with pytest.raises(ConnectionError):
        source.run()


@pytest.mark.parametrize("status", (403, 404, 410))
def test_no_access_and_no_repository_are_for_good(source: KindRuns, server: GitServer, status: int) -> None:
    server.fails_with = status
    with pytest.raises(Permanent):
        source.run()


def test_credentials_come_from_netrc_and_are_not_stored(
    source: KindRuns, server: GitServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.user = "me:s3cret"
    home = tmp_path / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    with pytest.raises(Refused, match=r"~/\.netrc"):
        source.run()
    (home / ".netrc").write_text(f"machine {HOST} login me password s3cret\n")
    assert source.run() == ["a.txt"]
    kept = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert b"s3cret" not in kept


def test_a_folder_without_a_repository_is_named(tmp_path: Path) -> None:
    for folder in (tmp_path / "none", tmp_path):
        source = KindRuns(GitRepositories(), f"git+file://{folder}", tmp_path / "home")
        with pytest.raises(SourceMissing, match="check its name"):
            source.run()


def test_a_hostile_repository_runs_nothing(repository: GitRepository, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    repository.commit({".gitattributes": "* filter=x diff=x\n", "b.txt": "two"})
    script = repository.folder / "evil"
    script.write_text(f'#!/bin/sh\ntouch {ran}\nexec git-upload-pack "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    for hook in ("post-checkout", "reference-transaction", "post-update", "pre-receive", "fsmonitor-watchman"):
        target = repository.folder / "hooks" / hook
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(script.read_bytes())
        target.chmod(0o755)
    for name, value in {
        "core.fsmonitor": script, "uploadpack.packObjectsHook": script, "core.sshCommand": script,
        "gpg.program": script, "log.showSignature": "true", "diff.external": script, "filter.x.smudge": script,
        "diff.x.textconv": script, "credential.helper": script, "core.alternateRefsCommand": script,
    }.items():  # fmt: skip
        repository.git("config", name, str(value))
    source = KindRuns(GitRepositories(), repository.location, tmp_path / "home")
    assert source.run(history="on") == [":history/2026-03.mbox", "a.txt", "b.txt"]
    assert not ran.exists()
    # A repository that lacks objects would make its own git fetch them, by any program.
    repository.git("config", "remote.origin.url", "file:///nowhere")
    repository.git("config", "remote.origin.uploadpack", str(script))
    repository.git("config", "remote.origin.promisor", "true")
    repository.git("config", "extensions.partialClone", "origin")
    with pytest.raises(Permanent, match="partial clone"):
        source.run()
    assert not ran.exists()


@pytest.mark.parametrize("given", ("clone", "clone/.git", "tree", "bare", "nothing"))
def test_a_partial_clone_is_refused_wherever_git_finds_it(
    repository: GitRepository, tmp_path: Path, given: str
) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True, capture_output=True)

    repository.git("config", "uploadpack.allowFilter", "true")
    partial = ("clone", "--filter=blob:none", f"file://{repository.folder}")
    git(*partial, "clone")
    git("-C", "clone", "worktree", "add", "../tree")
    git(*partial, "--bare", "bare")
    git(*partial, "--bare", "nothing.git")
    (tmp_path / "nothing").mkdir()  # git takes "nothing.git" for it
    source = KindRuns(GitRepositories(), f"git+file://{tmp_path / given}", tmp_path / "home")
    with pytest.raises(Permanent, match="partial clone"):
        source.run()


def test_a_worktree_is_read_like_its_repository(repository: GitRepository, tmp_path: Path) -> None:
    repository.git("worktree", "add", str(tmp_path / "tree"))
    assert KindRuns(GitRepositories(), f"git+file://{tmp_path / 'tree'}", tmp_path / "home").run() == ["a.txt"]


@pytest.mark.parametrize("transport", ("none", "file"))
def test_an_old_git_that_lacks_an_object_runs_no_program_to_get_it(
    repository: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    ran = tmp_path / "ran"
    for name, value in {
        "remote.origin.url": f"ext::touch {ran}", "remote.origin.promisor": "true", "protocol.ext.allow": "always",
        "extensions.partialClone": "origin", "core.repositoryFormatVersion": "1",
    }.items():  # fmt: skip
        repository.git("config", name, value)
    git = Git(repository.folder, transport)
    old = git.environment()
    del old["GIT_NO_LAZY_FETCH"]  # git before 2.45 does not know it
    monkeypatch.setattr(Git, "environment", lambda _: old)
    assert git.line("cat-file", "-p", "0" * 39 + "1") is None
    assert not ran.exists()
    monkeypatch.setattr(Git, "environment", lambda _: old | {"GIT_ALLOW_PROTOCOL": "ext"})
    git.line("cat-file", "-p", "0" * 39 + "1")
    assert ran.exists(), "it would run without the limit on protocols"


@pytest.mark.parametrize(
    "elsewhere", ("ext::touch {}", "file://{}", "git://127.0.0.1:1/x", "http://127.0.0.1:1/x")
)
def test_git_reaches_other_repositories_in_one_way_only(
    elsewhere: str, repository: GitRepository, tmp_path: Path
) -> None:
    """Whatever a repository or the configuration of the user says: `insteadOf`, submodules, alternates."""
    ran = tmp_path / "ran"
    git = Git(repository.folder, "https")
    url = elsewhere.format(ran if elsewhere.startswith("ext") else repository.folder)
    with (
        tempfile.TemporaryFile() as said,
        git.started("fetch", "--end-of-options", url, "HEAD", stderr=said) as process,
    ):
        assert process.wait() != 0
        said.seek(0)
        assert b"not allowed" in said.read()
    assert not ran.exists()


def test_variables_of_the_caller_lead_git_nowhere_else(
    repository: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = GitRepository(tmp_path / "other.git")
    other.commit({"secret.txt": "s3cret"})
    before = sorted(other.folder.rglob("*"))
    monkeypatch.setenv("GIT_DIR", str(other.folder))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other.folder / "objects"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    source = KindRuns(GitRepositories(), repository.location, tmp_path / "home")
    source.run(history="on")
    assert source.stored["a.txt"] == b"one"
    assert sorted(other.folder.rglob("*")) == before


def test_a_repository_larger_than_allowed_is_not_kept(repository: GitRepository, tmp_path: Path) -> None:
    repository.commit({"noise.bin": random.Random(0).randbytes(300_000)})
    limits = FetchLimits(max_bytes=100_000)
    source = KindRuns(GitRepositories(), repository.location, tmp_path / "home", limits)
    with pytest.raises(TooLarge, match="ONWARD_FETCH_MAX_BYTES"):
        source.run()
    source.limits = FetchLimits()
    source.run()
    kept = sum(path.stat().st_size for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert kept < 400_000, "nothing is left of the fetch that was stopped"


def test_a_repository_is_fetched_by_ssh_without_asking_anybody(
    repository: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program `ssh` is replaced by one that writes down how it is called, and runs the command here."""
    asked = tmp_path / "asked"
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {asked}\nfor last; do :; done\nexec sh -c "$last"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    source = KindRuns(GitRepositories(), f"git+ssh://git@{HOST}:2222{repository.folder}", tmp_path / "home")
    assert source.run() == ["a.txt"]
    assert "-oBatchMode=yes" in asked.read_text()
    assert f"-p 2222 git@{HOST} git-upload-pack '{repository.folder}'" in asked.read_text()
    asked.unlink()
    source.guard = AddressGuard(resolve=lambda host, port: ["10.0.0.1"])
    with pytest.raises(PrivateAddress):
        source.run()
    assert not asked.exists()
