"""`onward serve` starts, says where, refuses what cannot be, and ends at once and cleanly."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

from onward.ledger.sqlite.dialect import MAX_READERS
from onward.pipeline.app import build
from onward.settings import load_settings
from tests.support.command_runs import environment, onward, onward_process


class Served:
    """A console in a process of its own, and what it says."""

    def __init__(self, process: subprocess.Popen[str], url: str, errors: list[str]) -> None:
        self.process = process
        self.url = url
        self.errors = errors
        self.ended = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.errors += list(self.process.stderr)
        self.ended.set()

    def stop(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join(60)
        return code


@contextmanager
def served(home: Path, *args: str, **more: str) -> Iterator[Served]:
    """Serve on a free port until the test ends."""
    command = [sys.executable, "-m", "onward", "serve", "--address", "127.0.0.1:0", *args]
    env = {**os.environ, **environment(home), "ONWARD_METRICS_ADDRESS": "off", **more}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            errors = []
            for line in process.stderr:
                errors.append(line)
                if found := re.search(r"The console is at (http://\S+/)", line):
                    yield Served(process, found[1], errors)
                    break
            else:
                raise AssertionError("".join(errors))
        finally:
            if process.poll() is None:
                process.kill()


def test_it_says_where_it_is_and_how_to_stop_it(home: Path) -> None:
    with served(home) as console:
        assert "onward worker" in console.errors[-1]
        assert "Ctrl-C" in console.errors[-1]
        assert httpx2.get(f"{console.url}healthz", timeout=60.0).status_code in (200, 503)
        assert "<h1>Overview</h1>" in httpx2.get(console.url, timeout=60.0).text


@pytest.mark.prove
def test_a_hundred_and_fifty_requests_at_once_share_a_few_descriptors(home: Path) -> None:
    # A connection for each request: the server may end an idle one in the moment in which it is used again.
    at_once = httpx2.Limits(max_connections=150, max_keepalive_connections=0)
    with (
        served(home, ONWARD_SERVE_REQUESTS_PER_SECOND="10000") as console,
        httpx2.Client(base_url=console.url, timeout=120.0, limits=at_once) as client,
        ThreadPoolExecutor(150) as threads,
    ):
        for path in ("/", "/v3/documents", "/failures"):
            answers = threads.map(client.get, [path] * 150)
            assert [one.status_code for one in answers] == [200] * 150
        store = [one for one in open_files(console.process.pid) if one.startswith(str(home))]
        # The writer, the readers (each with the file and its log), and the index of the log.
        assert 0 < len(store) <= 2 + 2 * MAX_READERS + 1


def open_files(pid: int) -> list[str]:
    """Where the descriptors of a process lead to."""
    found = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.append(str(descriptor.readlink()))
    return found


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM))
def test_it_ends_cleanly_while_pages_are_watched(number: signal.Signals, home: Path) -> None:
    with served(home) as console, httpx2.Client(timeout=60.0) as client:
        with client.stream("GET", f"{console.url}live/overview") as stream:
            lines = stream.iter_lines()
            assert next(line for line in lines if line.startswith("data:"))
            assert console.stop(number) == 0
            assert [line for line in lines if line.startswith("data:")] == [], "the stream was ended, not cut off"
        assert "Traceback" not in "".join(console.errors)
        assert len(console.errors) == 1, "nothing else was worth a line"


@pytest.mark.parametrize(
    "address", ("8321", "localhost", "127.0.0.1:", ":8321", "127.0.0.1:http", "127.0.0.1:70000")
)
def test_an_address_that_is_none_is_refused(address: str, home: Path) -> None:
    result = onward(home, "serve", "--address", address)
    assert result.exit_code == 2
    assert "give a host and a port, such as 127.0.0.1:8321" in result.output
    assert not home.exists(), "before anything was made"


def test_a_port_that_is_taken_is_refused_with_another_one(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = onward(home, "serve", "--address", f"127.0.0.1:{port}")
    assert result.exit_code == 1
    assert f"127.0.0.1:{port} cannot be used" in result.output
    assert "--address 127.0.0.1:" in result.output
    assert "Traceback" not in result.output


@pytest.mark.prove
def test_an_address_of_another_machine_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONWARD_TOKEN", "a token of some length")
    result = onward_process(home, "serve", "--address", "192.0.2.1:0")
    assert result.returncode == 1
    assert "192.0.2.1:0 cannot be used" in result.stderr
    result = onward_process(home, "serve", "--address", "no-such-host.invalid:0")
    assert result.returncode == 1
    assert "there is no address 'no-such-host.invalid'" in result.stderr


def test_other_machines_need_a_token(home: Path) -> None:
    result = onward_process(home, "serve", "--address", "0.0.0.0:0")
    assert result.returncode == 1
    assert "set ONWARD_TOKEN to a long random text" in result.stderr


@pytest.mark.prove
def test_with_a_worker_what_is_submitted_is_worked_at_and_both_end_together(home: Path) -> None:
    with served(home, "--work") as console:
        submit_and_wait(console)
        pids = workers_of(home)
        assert pids
        assert console.stop(signal.SIGINT) == 0
        assert not [pid for pid in pids if is_alive(pid)]
        assert "Traceback" not in "".join(console.errors)


@pytest.mark.prove
def test_a_worker_does_not_outlive_a_console_that_is_killed(home: Path) -> None:
    with served(home, "--work") as console:
        submit_and_wait(console)
        pids = workers_of(home)
        console.stop(signal.SIGKILL)
        # The worker writes to the standard error of the console, which ends with the last of them.
        assert console.ended.wait(60)
        assert not [pid for pid in pids if is_alive(pid)]


def submit_and_wait(console: Served) -> None:
    """Submit a text, and wait until a worker is through with it."""
    with httpx2.Client(base_url=console.url, timeout=100.0) as client:
        text = {"content": "The tide gauge is vented.", "type": "text", "title": "gauge.txt"}
        submitted = client.post("/v3/documents", json=text)
        assert submitted.status_code == 202, submitted.text
        with client.stream("GET", f"/v3/documents/{submitted.json()['id']}/events") as stream:
            lines = list(stream.iter_lines())
        assert any("done" in line for line in lines), lines


def workers_of(home: Path) -> set[int]:
    app = build(load_settings(environment(home)))
    try:
        return {int(one["pid"]) for one in app.store.workers()}
    finally:
        app.close()


def is_alive(pid: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_a_worker_that_cannot_start_ends_the_console_with_an_error(home: Path) -> None:
    with served(home, "--work", ONWARD_GATEWAY="amqps://guest@127.0.0.1:1/?cafile=/nowhere.pem") as console:
        assert console.process.wait(60) == 1
        assert console.ended.wait(60)
        assert "the worker has ended (exit code 1), and the console with it" in "".join(console.errors)


def test_its_help_tells_a_newcomer_what_to_type(home: Path) -> None:
    output = onward(home, "serve", "--help").output
    for part in ("onward serve --work", "ONWARD_TOKEN", "--address HOST:PORT", "ONWARD_SERVE_HOSTS", "8321"):
        assert part in output
