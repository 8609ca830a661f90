"""The demo ends well, by itself or by Ctrl-C, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.prove

ROOT = Path(__file__).parents[2]


@contextmanager
def demo(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The demo in a process group of its own, as a shell would start it."""
    with subprocess.Popen(
        [sys.executable, "-m", "examples.demo"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def tally(output: str) -> dict[str, int]:
    header, values = re.findall(r"^ *│(.*)│ *$", output, re.MULTILINE)
    names = [name.strip() for name in header.split("│")]
    return dict(zip(names, (int(value) for value in values.split("│")), strict=True))


def test_all_letters_are_accounted_for(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        output, _ = process.communicate()
    assert process.returncode == 0, output
    assert "\x1b" not in output, "not on a terminal: plain lines"
    assert "Traceback" not in output
    count = tally(output)
    assert count["published"] == 301
    assert (count["waiting"], count["lost"]) == (0, 0)
    assert count["retried"] == 7
    for reason in ("non_retryable", "crash_loop", "malformed", "max_attempts_exceeded"):
        assert f"set aside: {reason}" in output
    assert "tries lost: 0" in output
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_it_at_once_and_cleanly(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "kills its worker process" in line:
                break
        os.killpg(process.pid, signal.SIGINT)
        output = process.stdout.read()
    assert process.returncode == 0, output
    assert "Traceback" not in output
    assert "Stopped early" in output
    assert tally(output)["lost"] == 0
    assert list(tmp_path.iterdir()) == []
