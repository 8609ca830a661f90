"""A git repository is listed by its tree: a blob that is known is not read again."""

from __future__ import annotations

import io
from email.header import Header
from pathlib import Path

import pytest

from onward import Permanent
from onward.pipeline.fetch.fetched_items import FetchLimits
from onward.pipeline.read.mbox import split_mbox
from onward.pipeline.source_kinds import git_history
from onward.pipeline.source_kinds.git_program import ObjectReader
from onward.pipeline.source_kinds.git_repository import GitRepositories
from tests.pipeline.source_kinds.kind_runs import KindRuns
from tests.support.git_repositories import MONTH, GitRepository

LFS_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "a" * 64 + "\nsize 12345\n"


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return GitRepository(tmp_path / "repo.git")


@pytest.fixture
def source(repository: GitRepository, tmp_path: Path) -> KindRuns:
    return KindRuns(GitRepositories(), repository.location, tmp_path / "home")


def test_one_commit_later_only_changed_files_are_read(
    repository: GitRepository, source: KindRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    real = ObjectReader.open

    def counting(reader: ObjectReader, name: str) -> int:
        reads.append(name)
        return real(reader, name)

    monkeypatch.setattr(ObjectReader, "open", counting)
    repository.commit({f"src/d{i % 100}/f{i}.txt": f"file {i}\n" for i in range(10_000)})
    assert len(source.run()) == 10_000
    assert source.stored == repository.files
    reads.clear()
    assert source.run() == []
    assert reads == []
    repository.commit({"src/d1/f1.txt": "changed\n", "new.txt": "new\n"})
    assert source.run() == ["new.txt", "src/d1/f1.txt"]
    assert len(reads) == 2
    assert source.stored == repository.files


def test_a_renamed_file_is_another_and_a_deleted_one_is_gone(repository: GitRepository, source: KindRuns) -> None:
    repository.commit({"a.txt": "one", "b.txt": "two", "c.txt": "three"})
    source.run()
    repository.commit({"a.txt": None, "renamed.txt": "one", "b.txt": None})
    assert source.run() == ["renamed.txt"]
    assert source.stored == {"renamed.txt": b"one", "c.txt": b"three"}


def test_a_ref_that_was_pushed_by_force_counts_as_it_is_now(repository: GitRepository, source: KindRuns) -> None:
    repository.commit({"a.txt": "one"})
    repository.commit({"b.txt": "two"})
    source.run(history="on")
    repository.files.pop("b.txt")
    repository.commit({"c.txt": "three"}, amend=True)
    repository.git("reflog", "expire", "--all", "--expire=now")
    repository.git("gc", "--quiet", "--prune=now")
    source.run(history="on")
    mailbox = source.stored.pop(":history/2026-03.mbox")
    assert len(list(split_mbox(io.BytesIO(mailbox)))) == 2
    assert b"b.txt" not in mailbox
    assert source.stored == {"a.txt": b"one", "c.txt": b"three"}


def test_a_branch_a_tag_and_a_commit_can_be_chosen(repository: GitRepository, source: KindRuns) -> None:
    first = repository.commit({"a.txt": "first"})
    repository.git("tag", "-a", "v1", "-m", "Version 1", first)
    repository.commit({"a.txt": "second"})
    repository.commit({"a.txt": "on a branch"}, branch="topic/x")
    for ref, content in {
        "v1": "first", first: "first", "HEAD": "second", "main": "second", "refs/heads/main": "second",
        "topic/x": "on a branch",
    }.items():  # fmt: skip
        source.run(ref=ref)
        assert source.stored == {"a.txt": content.encode()}, ref


@pytest.mark.parametrize(
    ("options", "said"),
    (
        ({"ref": "no-such"}, "no ref 'no-such'"),
        ({"ref": "1" * 40}, "no ref '1111"),
        ({"path": "nowhere"}, "no 'nowhere' in 'HEAD'"),
    ),
)
def test_what_is_not_there_is_named_for_good(
    repository: GitRepository, source: KindRuns, options: dict[str, str], said: str
) -> None:
    repository.commit({"a.txt": "one"})
    with pytest.raises(Permanent, match=said):
        source.run(**options)


def test_an_empty_repository_says_so(source: KindRuns, repository: GitRepository) -> None:
    with pytest.raises(Permanent, match="it is empty, or has no default branch"):
        source.run()


@pytest.mark.parametrize(
    "ref", ("--upload-pack=touch x", "-x", "a..b", "a b", "x@{1}", "a~1", "a:b", "x.lock", "")
)
def test_an_expression_is_no_ref(source: KindRuns, repository: GitRepository, ref: str) -> None:
    repository.commit({"a.txt": "one"})
    with pytest.raises(ValueError, match="the name of a branch or tag"):
        source.run(ref=ref)


def test_one_folder_can_be_chosen(repository: GitRepository, source: KindRuns) -> None:
    repository.commit({"docs/a.md": "a", "docs/sub/b.md": "b", "docs2/c.md": "c", "-x/d.md": "d", "*/e.md": "e"})
    assert source.run(path="/docs/") == ["docs/a.md", "docs/sub/b.md"]
    assert source.run(path="-x") == ["-x/d.md"]
    assert source.run(path="*") == ["*/e.md"]
    with pytest.raises(ValueError, match="from the top of the repository"):
        source.run(path="../etc")


def test_what_is_not_ingested_is_counted_and_not_read(repository: GitRepository, source: KindRuns) -> None:
    files = {
        "a.txt": "text", "link.txt": "a.txt", "module": "1" * 40, "lfs.bin": LFS_POINTER, "empty.txt": "",
        ".github/x.yml": "x", "node_modules/y.js": "y", "large.txt": "x" * 2000, "large.mbox": "y" * 2000,
    }  # fmt: skip
    repository.commit(files, modes={"link.txt": "120000", "module": "160000"})
    source.limits = FetchLimits(max_file_bytes=1000)
    assert source.run() == ["a.txt", "large.mbox"]
    assert source.skipped.counts == {
        "link": 1, "submodule": 1, "lfs": 1, "empty": 1, "hidden": 1, "tools": 1, "large": 1
    }  # fmt: skip


def test_names_in_any_encoding_are_kept_apart(repository: GitRepository, source: KindRuns) -> None:
    names = {b"caf\xc3\xa9.txt": b"1", b"caf\xe9.txt": b"2", b'tab\tand "quotes".txt': b"3"}
    tree = b"".join(
        b"100644 blob "
        + repository.git("hash-object", "-w", "--stdin", data=data).strip().encode()
        + b"\t"
        + name
        + b"\0"
        for name, data in names.items()
    )
    _commit_tree(repository, repository.git("mktree", "-z", data=tree).strip())
    source.run()
    assert source.stored == {"café.txt": b"1", "caf\\xe9.txt": b"2", 'tab\tand "quotes".txt': b"3"}


def test_paths_that_lead_elsewhere_are_not_taken(repository: GitRepository, source: KindRuns) -> None:
    blob = repository.git("hash-object", "-w", "--stdin", data=b"evil").strip()
    raw = b"100644 .git\0" + bytes.fromhex(blob) + b"100644 ok.txt\0" + bytes.fromhex(blob)
    inner = repository.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", data=raw).strip()
    raw = b"40000 ..\0" + bytes.fromhex(inner) + b"100644 fine.txt\0" + bytes.fromhex(blob)
    tree = repository.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", data=raw).strip()
    _commit_tree(repository, tree)
    assert source.run() == ["fine.txt"]
    assert source.skipped.counts == {"unsafe": 2}


def test_commits_are_mails_of_their_month(repository: GitRepository, source: KindRuns) -> None:
    repository.commit({"a.txt": "one\n"}, "Add a file\n\nIt is needed.\nFrom here on.\n")
    repository.seconds += MONTH
    repository.commit({"a.txt": "two\n", "b.txt": "b\n"}, "Change é", author='Grace "H" <g@example.org>')
    assert source.run(history="only") == [":history/2026-03.mbox", ":history/2026-04.mbox"]
    march = source.stored[":history/2026-03.mbox"].decode()
    for part in (
        "From: Ada <ada@example.org>",
        "Subject: Add a file",
        "It is needed.\n>From here on.",
        " a.txt | 1 +",
        "+one",
    ):
        assert part in march
    april = source.stored[":history/2026-04.mbox"].decode()
    for part in (
        "<g@example.org>",
        f"Subject: {Header('Change é', 'utf-8').encode()}",
        " b.txt | 1 +",
        "-one\n+two",
    ):
        assert part in april
    repository.commit({"c.txt": "c"}, "A third")
    assert source.run(history="on") == [":history/2026-04.mbox", "a.txt", "b.txt", "c.txt"]
    assert source.run(history="on", path="b.txt") == [":history/2026-04.mbox"]
    assert source.stored[":history/2026-04.mbox"].count(b"\nSubject: ") == 1


def test_a_commit_cannot_pretend_to_be_another(repository: GitRepository, source: KindRuns) -> None:
    body = "\n\nFrom eve Mon Mar  2 10:00:00 2026\nFrom: eve\nSubject: forged\n\nbody"
    repository.commit({"a.txt": body}, "Innocent" + body, author="Eve\rX-Header: x <e@example.org>")
    repository.commit({"b.txt": "\0"}, "")
    repository.commit({}, "\x1b[31mred\n")
    source.run(history="only")
    mails = list(split_mbox(io.BytesIO(source.stored[":history/2026-03.mbox"])))
    assert len(mails) == 3
    assert all(mail.raw.partition(b"\n\n")[0].count(b"\nSubject: ") == 1 for mail in mails)
    assert not any(b"X-Header" in line[:8] for mail in mails for line in mail.raw.splitlines())


@pytest.mark.parametrize(("seconds", "month"), (("0", "1970-01"), ("99999999999999", "9999-12"), ("x", "1970-01")))
def test_a_commit_of_any_time_has_a_month(
    repository: GitRepository, source: KindRuns, seconds: str, month: str
) -> None:
    repository.commit({"a.txt": "one"}, "Add a file")
    text = repository.git("cat-file", "commit", "main").replace(f" {repository.seconds} ", f" {seconds} ")
    commit = repository.git("hash-object", "-t", "commit", "-w", "--literally", "--stdin", data=text.encode())
    repository.git("update-ref", "refs/heads/main", commit.strip())
    assert source.run(history="only") == [f":history/{month}.mbox"]
    assert b"\nSubject: Add a file\n" in source.stored[f":history/{month}.mbox"]


def test_a_long_diff_is_cut_and_says_so(
    repository: GitRepository, source: KindRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_history, "MAX_DIFF_BYTES", 1000)
    repository.commit({"a.txt": "x\n" * 10_000, "b.txt": "y" * 100_000})
    source.run(history="only")
    mail = source.stored[":history/2026-03.mbox"]
    assert len(mail) < 2500
    assert b"more bytes of the diff]" in mail


def _commit_tree(repository: GitRepository, tree: str) -> None:
    commit = repository.git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit-tree", tree, "-m", "x")
    repository.git("update-ref", "refs/heads/main", commit.strip())
