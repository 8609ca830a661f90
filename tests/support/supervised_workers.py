"""Supervisors in processes of their own, for tests that signal and kill them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from signal import Signals
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[2]
_PROGRAM = """
import json, logging, sys
from onward.runtime import supervisor
from onward.worker import supervise
logging.basicConfig(level="INFO")
reference, options, graces = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
vars(supervisor).update(graces)
supervise(reference, log_level=logging.INFO, **options)
"""
SHORT_GRACES = {"HANG_GRACE_SECONDS": 0.5, "DRAIN_GRACE_SECONDS": 0.5}


class Supervised:
    """One supervisor and its worker processes, in a process group of their own."""

    def __init__(self, reference: str, folder: Path, environ: Mapping[str, str], **options: Any) -> None:
        self.log = folder / "log"
        arguments = [reference, json.dumps(options), json.dumps(SHORT_GRACES)]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *arguments],
                cwd=folder,
                env={**os.environ, **environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def workers(self) -> list[int]:
        """Its worker processes, those that are still starting up included."""
        return [pid for pid in children(self.pid) if b"resource_tracker" not in _cmdline(pid)]

    def signal(self, number: Signals) -> None:
        self.process.send_signal(number)

    def signal_group(self, number: Signals) -> None:
        os.killpg(self.pid, number)

    def wait(self, seconds: float = 60.0) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(seconds)

    def says(self) -> str:
        return self.log.read_text(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The group may outlive its leader; nothing that was started here may outlive the test.
        with suppress(ProcessLookupError):
            self.signal_group(Signals.SIGKILL)
        self.process.wait()


def children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def group_members(group: int) -> list[int]:
    """The processes of a process group that are alive."""
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, process_group = stat.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(process_group) == group and state != "Z":
            members.append(int(stat.parent.name))
    return members


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def until(true: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """Wait for something that other processes bring about."""
    ends = time.monotonic() + seconds
    pause = threading.Event()
    while not true():
        assert time.monotonic() < ends, f"waited in vain: {what}"
        pause.wait(0.05)
