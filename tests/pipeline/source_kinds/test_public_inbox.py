"""An archive of public-inbox is listed in batches of commits, of which only the last one grows."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from onward import Permanent
from onward.pipeline.read.mbox import split_mbox
from onward.pipeline.source_kinds import public_inbox
from onward.pipeline.source_kinds.public_inbox import PublicInboxes
from tests.pipeline.source_kinds.kind_runs import KindRuns
from tests.support.git_repositories import GitRepository, serve_git
from tests.support.pipeline_runs import mail


class Inbox:
    """An archive with the layout of public-inbox, version 2."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.epochs: list[GitRepository] = []
        self.next_epoch()

    def next_epoch(self) -> None:
        self.epochs.append(GitRepository(self.folder / "git" / f"{len(self.epochs)}.git", "master"))

    def add(self, *ids: int) -> None:
        for id in ids:
            epoch = self.epochs[-1]
            epoch.files = {}
            epoch.commit({"m": _mail(id)}, f"Mail {id}")

    def delete(self, id: int) -> None:
        self.epochs[-1].files = {}
        self.epochs[-1].commit({"d": _mail(id)}, "rm")


def _mail(id: int) -> str:
    return mail(str(id), f"Mail {id}.\n\nFrom here on.", subject=f"Mail {id}")


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_inbox, "BATCH_COMMITS", 4)


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path / "list")


@pytest.fixture
def source(inbox: Inbox, tmp_path: Path) -> KindRuns:
    return KindRuns(PublicInboxes(), f"publicinbox+file://{inbox.folder}/", tmp_path / "home")


def ids(source: KindRuns) -> list[int]:
    """The mails that are stored, in the order of the archive."""
    found = []
    for _, mailbox in sorted(source.stored.items()):
        for one in split_mbox(io.BytesIO(mailbox)):
            found.append(int(one.raw.partition(b"Subject: Mail ")[2].partition(b"\n")[0]))
            assert one.raw.decode() == _mail(found[-1])
    return found


def test_only_the_last_batch_is_read_again(inbox: Inbox, source: KindRuns) -> None:
    inbox.add(*range(10))
    assert source.run() == ["0/000000.mbox", "0/000001.mbox", "0/000002.mbox"]
    assert ids(source) == list(range(10))
    assert source.run() == []
    inbox.add(10, 11, 12)
    assert source.run() == ["0/000002.mbox", "0/000003.mbox"]
    assert ids(source) == list(range(13))


def test_a_deleted_mail_is_gone_whatever_batch_and_epoch_it_is_in(inbox: Inbox, source: KindRuns) -> None:
    inbox.add(*range(6))
    inbox.next_epoch()
    inbox.add(6, 7)
    source.run()
    inbox.delete(1)
    inbox.delete(7)
    assert source.run() == ["0/000000.mbox", "1/000000.mbox"]
    assert ids(source) == [0, 2, 3, 4, 5, 6]
    inbox.add(1)
    assert source.run() == ["1/000001.mbox"]
    assert ids(source) == [0, 2, 3, 4, 5, 6, 1]


def test_history_that_was_written_anew_counts_as_it_is_now(inbox: Inbox, source: KindRuns) -> None:
    inbox.add(*range(6))
    source.run()
    epoch = inbox.epochs[0]
    epoch.git("update-ref", "refs/heads/master", epoch.git("rev-parse", "master~2").strip())
    inbox.add(9)
    source.run()
    assert ids(source) == [0, 1, 2, 3, 9]


def test_an_epoch_that_cannot_be_had_removes_nothing(inbox: Inbox, source: KindRuns) -> None:
    inbox.add(1)
    inbox.next_epoch()
    inbox.add(2)
    source.run()
    shutil.move(inbox.folder / "git" / "1.git", inbox.folder / "away")
    with pytest.raises(public_inbox.MissingEpoch, match="forget the source") as missing:
        source.run()
    assert not isinstance(missing.value, Permanent)
    assert ids(source) == [1, 2]


def test_a_list_is_fetched_over_http(inbox: Inbox, source: KindRuns, tmp_path: Path) -> None:
    inbox.add(1, 2)
    (tmp_path / "served" / "list").mkdir(parents=True)
    (tmp_path / "served" / "list" / "0").symlink_to(inbox.folder / "git" / "0.git")
    with serve_git(tmp_path / "served") as server:
        source.location = "publicinbox+" + server.location("list/").removeprefix("git+")
        source.run()
        assert ids(source) == [1, 2]
        source.location += "none/"
        with pytest.raises(Permanent, match="there is no public-inbox archive at"):
            source.run()


def test_an_archive_that_public_inbox_has_written(needs_source_programs: None, tmp_path: Path) -> None:
    environment = os.environ | {"HOME": str(tmp_path), "PI_CONFIG": str(tmp_path / "config")}

    def call(*command: str, data: str = "") -> None:
        subprocess.run(command, input=data.encode(), env=environment, check=True, capture_output=True)

    def learn(how: str, *ids: int) -> None:
        for id in ids:
            # It also wants to train a spam filter, which is not installed: its exit code is no news.
            command = ("public-inbox-learn", how)
            subprocess.run(command, input=_mail(id).encode(), env=environment, check=False, capture_output=True)

    folder = tmp_path / "list"
    call("public-inbox-init", "-V2", "list", str(folder), "http://list.example/list", "list@example.org")
    learn("ham", *range(6))
    source = KindRuns(PublicInboxes(), f"publicinbox+file://{folder}", tmp_path / "home")
    source.run()
    subjects = [f"Subject: Mail {id}\n".encode() for id in range(6)]
    assert all(any(subject in mailbox for mailbox in source.stored.values()) for subject in subjects)
    learn("rm", 2)
    assert source.run() == ["0/000000.mbox"]
    assert not any(subjects[2] in mailbox for mailbox in source.stored.values())
