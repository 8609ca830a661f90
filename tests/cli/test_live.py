"""On a terminal the progress of a run is drawn live; Ctrl-C stops it cleanly, and the next run continues."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onward.pipeline.app import build
from onward.settings import load_settings
from tests.support.command_runs import environment, mail, onward_process, write_mailbox

pytestmark = pytest.mark.prove

MAILS, THREADS = 600, 20
WORDS = "the lamp was lit and the tide came in over the slip while Davy read the gauge "


@pytest.fixture
def mailbox(tmp_path: Path) -> Path:
    mails = [
        mail(one, f"Round {one % THREADS}", f"Letter {one}. {WORDS * 4}", thread=one % THREADS)
        for one in range(MAILS)
    ]
    return write_mailbox(tmp_path / "big.mbox", mails)


class Terminal:
    """A process whose standard error is a terminal; its output is read as it is written."""

    def __init__(self, home: Path, *args: str) -> None:
        self._ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "onward", *args]
        env = {**os.environ, **environment(home)}
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=theirs, text=True)
        os.close(theirs)
        self.seen = ""

    def read_until(self, pattern: str) -> None:
        """Wait until the screen has shown this."""
        while not re.search(pattern, self.seen):
            self.seen += self._read()

    def _read(self) -> str:
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # the process has closed its side
            data = b""
        assert data, f"the process ended before that; it showed: {self.seen[-2000:]}"
        return data.decode("utf-8", "replace")

    def end(self) -> tuple[int, str]:
        """Read to the end; the exit code and what was printed."""
        while True:
            try:
                if not os.read(self._ours, 65_536):
                    break
            except OSError:
                break
        os.close(self._ours)
        output, _ = self.process.communicate(timeout=60)
        return self.process.returncode, output


def test_a_stopped_run_is_continued(home: Path, mailbox: Path) -> None:
    app = build(load_settings({"ONWARD_HOME": str(home)}))
    app.store.open_breaker(
        "summarizer", "closed for the night", by_hand=True
    )  # so that the run cannot end by itself
    terminal = Terminal(home, "ingest", str(mailbox), "--processes", "1")
    terminal.read_until(r"parsing[^\n]* messages")
    assert "summarizer is down" in terminal.seen
    assert "\x1b[" in terminal.seen
    terminal.process.send_signal(signal.SIGINT)
    terminal.read_until("stopping")
    code, output = terminal.end()
    assert code == 130
    assert "Stopped." in output
    assert "`onward ingest`" in output

    app.store.close_breaker("summarizer")
    app.close()
    rest = onward_process(home, "ingest", str(mailbox), "--json", "--processes", "2")
    (source,) = json.loads(rest.stdout)["sources"]
    assert source["messages"]["messages"] == source["messages"]["parsed"] == MAILS
    assert source["documents"]["messages"] == {"processed": MAILS}
    assert source["documents"]["summaries"] == {"processed": THREADS}
    assert (rest.returncode, source["status"]) == (0, "completed")
    assert "\x1b" not in rest.stderr
