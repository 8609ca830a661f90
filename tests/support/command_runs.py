"""What the tests of the command line share: mailboxes, and ways to run the command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from click.testing import CliRunner, Result

from onward.cli import main

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "sample" / "harbour-list.mbox"
ESCAPE = "\x1b"


def environment(home: Path) -> dict[str, str]:
    """Settings for one data folder, and a screen of a known width."""
    return {"ONWARD_HOME": str(home), "COLUMNS": "110", "LINES": "40", "TZ": "UTC", "TERM": "xterm-256color"}


def onward(home: Path, *args: str, more: dict[str, str] | None = None) -> Result:
    """Run a command in this process; its output is no terminal."""
    return CliRunner().invoke(main, args, env={**environment(home), **(more or {})})


def onward_process(home: Path, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user would, into pipes."""
    command = [sys.executable, "-m", "onward", *args]
    env = {**os.environ, **environment(home), **more}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)


def mail(number: int, subject: str, body: str, *, thread: int | None = None, author: str = "Ada") -> bytes:
    """One mail of a mailbox; with `thread`, an answer in the thread that this number began."""
    answer = (
        f"In-Reply-To: <{thread}@example.org>\nReferences: <{thread}@example.org>\n" if thread is not None else ""
    )
    return (
        f"From ada@example.org Mon Mar  2 09:{number % 60:02}:00 2026\n"
        f"From: {author} <{author.lower()}@example.org>\nTo: list@example.org\nSubject: {subject}\n"
        f"Date: Mon, 02 Mar 2026 09:{number % 60:02}:00 +0000\nMessage-ID: <{number}@example.org>\n{answer}"
        f"Content-Type: text/plain; charset=utf-8\n\n{body}\n\n"
    ).encode()


def write_mailbox(path: Path, mails: Sequence[bytes]) -> Path:
    path.write_bytes(b"".join(mails))
    return path
