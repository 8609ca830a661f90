"""Where a server is not installed, that is said, with what to do about it; and nothing outlives its program."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.servers import PostgresServer, ServerError, missing, postgres, rabbitmq
from tests.support.servers.private import is_alive

ROOT = Path(__file__).parents[2]


def test_what_is_missing_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "find_binaries", lambda: None)
    monkeypatch.setattr(rabbitmq, "find_script", lambda: None)
    reasons = "\n".join(missing())
    assert "apt-get install postgresql" in reasons
    assert "apt-get install rabbitmq-server" in reasons
    with pytest.raises(ServerError, match="apt-get install postgresql"):
        PostgresServer()


@pytest.mark.usefixtures("needs_postgres")
def test_a_server_does_not_outlive_a_program_that_is_killed() -> None:
    program = """if True:
        import sys
        from tests.support.servers import PostgresServer
        server = PostgresServer(fsync=False).start()
        print(server.pid, server.folder, flush=True)
        sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as child:
        assert child.stdout is not None
        pid, folder = child.stdout.readline().split()
        assert is_alive(int(pid))
        os.kill(child.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while is_alive(int(pid)) and time.monotonic() < deadline:
        time.sleep(0.01)
    shutil.rmtree(folder)
    assert not is_alive(int(pid))
