"""Worker processes that start early wait to be told which worker they are, or end without a trace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from onward.cli.params import PIPELINE
from onward.early_processes import EarlyProcesses

pytestmark = pytest.mark.prove  # each process imports the pipeline


def test_a_process_that_is_not_needed_is_ended() -> None:
    early = EarlyProcesses(PIPELINE, 2)
    processes = [process for process, _ in early._waiting]
    early.close()
    # By itself as its pipe has ended, or killed.
    assert all(process.exitcode in (0, -signal.SIGKILL) for process in processes)


def test_a_process_that_has_died_is_not_used() -> None:
    with closing(EarlyProcesses(PIPELINE, 1)) as early:
        ((process, _),) = early._waiting
        process.kill()
        process.join()
        assert early.begin(0, ()) is None


def test_a_process_ends_when_its_command_is_killed() -> None:
    program = (
        "import os, signal\nfrom onward.early_processes import EarlyProcesses\n"
        f"if __name__ == '__main__':\n    early = EarlyProcesses({PIPELINE!r}, 1)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # The process that waits has inherited the output: `run` returns when both have ended.
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL


def test_a_refused_source_leaves_no_process_and_no_output(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "onward", "ingest", "--json", "missing.mbox"]
    environ = {**os.environ, "ONWARD_HOME": str(tmp_path / "home")}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr == b""
    (refused,) = json.loads(done.stdout)["refused"]
    assert "there is no file or folder" in refused["error"]
