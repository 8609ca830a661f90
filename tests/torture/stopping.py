"""A run of `onward torture` in a process of its own, to be stopped or killed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path


def environment(folder: Path) -> dict[str, str]:
    """Temporary files go into the folder, where a test can look for what was left behind."""
    return {**os.environ, "TMPDIR": str(folder), "COLUMNS": "110"}


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    """Start a run, and return once its supervisors are at work."""
    process = subprocess.Popen(
        [sys.executable, "-m", "onward", "torture", *options],
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        start_new_session=True,
    )
    until(lambda: all(workers(one) for one in crews(process.pid) or [0]), "every supervisor has a worker")
    return process


def crews(pid: int) -> list[int]:
    """The supervisors that a run has started."""
    return [one for one in _children(pid) if b"onward.torture.worker_groups" in _command(one)]


def workers(pid: int) -> list[int]:
    return [one for one in _children(pid) if b"resource_tracker" not in _command(one)]


def _children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(true: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """Wait for something that other processes bring about."""
    ends = time.monotonic() + seconds
    pause = threading.Event()
    while not true():
        assert time.monotonic() < ends, f"waited in vain: {what}"
        pause.wait(0.05)
