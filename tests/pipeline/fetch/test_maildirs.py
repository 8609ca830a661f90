"""A Maildir is one mailbox, and stays the same while its mails are read and flagged."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from onward.pipeline.fetch import FetchLimits, fetch
from onward.pipeline.fetch.fetch_errors import NothingToIngest
from onward.pipeline.read.mbox import looks_like_mbox, split_mbox
from tests.pipeline.fetch.mails import MAIL
from tests.pipeline.fetch.taking import take


@pytest.fixture
def maildir(tmp_path: Path) -> Path:
    root = tmp_path / "Mail"
    for part in ("cur", "new", "tmp"):
        (root / part).mkdir(parents=True)
    (root / "new" / "1577836802.M2.host").write_bytes(MAIL)
    (root / "cur" / "1577836801.M1.host:2,S").write_bytes(b"Subject: no end of line")
    (root / "cur" / "1577836803.M3.host:2,").write_bytes(
        b"Subject: quoted\n\n>From before\n>>From long ago\nFrom me\n"
    )
    (root / "tmp" / "1577836804.M4.host").write_bytes(b"Subject: half writ")
    return root


def test_its_mails_come_out_as_they_went_in(maildir: Path, scratch: Path) -> None:
    taken = take(maildir, scratch)
    assert taken.kinds == {"": "mbox"}
    assert looks_like_mbox(taken.data[""][:8192])
    mails = [message.raw.strip() for message in split_mbox(io.BytesIO(taken.data[""]))]
    assert mails == [
        b"Subject: no end of line",
        MAIL.strip(),
        b"Subject: quoted\n\n>From before\n>>From long ago\nFrom me",
    ]
    assert taken.data[""].startswith(b"From MAILER-DAEMON Wed Jan  1 00:00:01 2020\n")


def test_reading_a_mail_changes_nothing(maildir: Path, scratch: Path) -> None:
    before = take(maildir, scratch).data
    (maildir / "new" / "1577836802.M2.host").rename(maildir / "cur" / "1577836802.M2.host:2,RS")
    (maildir / "cur" / "1577836801.M1.host:2,S").rename(maildir / "cur" / "1577836801.M1.host:2,FS")
    assert take(maildir, scratch).data == before


def test_a_mail_may_move_or_vanish_while_it_is_copied(maildir: Path, scratch: Path) -> None:
    items = fetch(str(maildir), FetchLimits(), scratch)
    item = next(items)
    (maildir / "new" / "1577836802.M2.host").rename(maildir / "cur" / "1577836802.M2.host:2,S")
    (maildir / "cur" / "1577836801.M1.host:2,S").unlink()
    copy = io.BytesIO()
    item.copy_to(copy)
    assert copy.getvalue().count(b"MAILER-DAEMON") == 2
    assert b"Subject: Hello" in copy.getvalue()
    assert list(items) == []


def test_the_folders_in_a_maildir_are_mailboxes_too(maildir: Path, scratch: Path) -> None:
    for part in ("cur", "new", "tmp"):
        (maildir / ".Sent" / part).mkdir(parents=True)
    (maildir / ".Sent" / "cur" / "1.a:2,S").write_bytes(MAIL)
    (maildir / "dovecot.index.log").write_text("not mail")
    assert take(maildir, scratch).kinds == {"": "mbox", ".Sent": "mbox"}
    assert take(maildir.parent, scratch).kinds == {"Mail": "mbox", "Mail/.Sent": "mbox"}


def test_a_very_long_line_is_quoted_only_where_it_begins(maildir: Path, scratch: Path) -> None:
    line = b"x" * 65_531 + b"From here on" + b"y" * 100_000
    (maildir / "new" / "1577836805.M5.host").write_bytes(b"Subject: long\n\n" + line + b"\n")
    assert line in take(maildir, scratch).data[""]


def test_an_empty_maildir_is_nothing_to_ingest(tmp_path: Path, scratch: Path) -> None:
    for part in ("cur", "new", "tmp"):
        (tmp_path / part).mkdir()
    with pytest.raises(NothingToIngest):
        take(tmp_path, scratch)
