"""The base of private servers: a folder, a port, a process with its descendants."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from onward.retry import OnwardError

HOST = "127.0.0.1"
START_SECONDS = 90.0
"""A broker takes 10 s on an idle machine; a busy one gets time."""
STOP_SECONDS = 30.0
POLL = 0.02
_PROC = Path("/proc")
_LOG_TAIL = 2_000


class ServerError(OnwardError):
    """A private server cannot be started, stopped or queried."""


class PrivateServer(ABC):
    """A server on loopback that can be started, killed and started again any number of times.

    It keeps its port and its data over `stop()`, `kill()` and `start()`. `close()` ends it and
    removes its folder, if it made the folder itself. It ends with the program that started it, however that ends.
    """

    title: ClassVar[str]

    def __init__(self, folder: Path | None, port: int) -> None:
        self._made_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="onward-server-", dir=_open_to_all()))
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._made_folder:
            self.folder.chmod(0o711)  # the server may have to run as another user
        self._held_ports: list[socket.socket] = []
        self.port = port or self._hold_port()
        self.log = self.folder / "server.log"
        self._logged_before = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: KillGuard | None = None

    @property
    def pid(self) -> int:
        """The process to signal; raises if the server is not running."""
        return self._running_process().pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, seconds: float = START_SECONDS) -> Self:
        """Start it with its existing data, and return once it accepts connections."""
        if self.running:
            return self
        self._clear_process()
        self.log.touch()
        try:
            self._logged_before = self.log.stat().st_size
            self._prepare()
            self._logged_before = self.log.stat().st_size
            self._process = self._spawn()
            self._guard = KillGuard(self._processes_to_kill(self._process.pid))
            wait_until(self._answers_or_ended, seconds, f"{self.title} did not answer on port {self.port}")
            if not self.running:
                raise ServerError(f"{self.title} ended before it took connections; {self._log_tail()}")
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Stop it as an administrator would: clients are disconnected, data is written."""
        if self.running:
            family = descendants(self._running_process().pid)
            self._request_stop()
            try:
                self._running_process().wait(seconds)
                wait_until(lambda: not any(map(is_alive, family)), seconds, f"{self.title} left processes behind")
            except (subprocess.TimeoutExpired, ServerError):
                self.kill()
                raise ServerError(f"{self.title} did not stop in {seconds:g} s; {self._log_tail()}") from None
        self._clear_process()

    def kill(self) -> None:
        """Kill every process of it with SIGKILL, as when its machine loses power; `start()` recovers."""
        if self._process is not None:
            kill_family(self._process)
        self._clear_process()

    def close(self) -> None:
        """End it, and remove its folder if it made it."""
        try:
            if not self._made_folder:
                self.stop()
                return
            self.kill()  # its data is removed, so no clean stop is needed
            shutil.rmtree(self.folder, ignore_errors=True)
        finally:
            for held in self._held_ports:
                held.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def _prepare(self) -> None:
        """Make what the server needs before its first start."""

    @abstractmethod
    def _spawn(self) -> subprocess.Popen[bytes]: ...

    @abstractmethod
    def _answers(self) -> bool:
        """Return whether it accepts connections now."""

    @abstractmethod
    def _request_stop(self) -> None: ...

    def _processes_to_kill(self, started: int) -> Sequence[int]:
        """Return the processes that must end with this program; a negative number is a process group.

        The one that was started may have ended by now.
        """
        return [started]

    def _hold_port(self) -> int:
        """Return a port that stays this server's until it is closed, also while it is down."""
        held = hold_port()
        self._held_ports.append(held)
        return port_of(held)

    def _clear_process(self) -> None:
        """Clear the state of a process that has ended."""
        if self._guard is not None:
            self._guard.dismiss()
        self._guard = self._process = None

    def _running_process(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise ServerError(f"{self.title} on port {self.port} is not running; start() it first")
        return self._process

    def _answers_or_ended(self) -> bool:
        return not self.running or self._answers()

    def _log_tail(self) -> str:
        text = self.log.read_bytes()[self._logged_before :].decode(errors="replace").strip()
        return f"its log ends with:\n{text[-_LOG_TAIL:]}" if text else "it logged nothing"

    def _run_logged(
        self,
        command: Sequence[str | Path],
        environ: Mapping[str, str],
        *,
        user: str | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        """Start a process whose output goes to the log; Ctrl-C in this terminal does not reach it."""
        with self.log.open("ab") as output:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env=environ,
                stdin=stdin,
                stdout=output,
                stderr=output,
                start_new_session=True,
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )


class KillGuard:
    """A small process that kills others when this program ends without doing so itself."""

    # `read` fails when the pipe closes, which the system does for a program that is gone.
    _PROGRAM = 'read -r _ || kill -s KILL -- "$@"'

    def __init__(self, targets: Sequence[int]) -> None:
        self._process = subprocess.Popen(
            ["sh", "-c", self._PROGRAM, "guard", *map(str, targets)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def dismiss(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(b"\n")


def free_port() -> int:
    """Return a port that is free now."""
    with hold_port() as held:
        return port_of(held)


def hold_port() -> socket.socket:
    """Return a socket that holds a free port: others find it taken, and a server can listen on it all the same.

    A server that is down would otherwise lose its port to the next one that looks for one. `SO_REUSEADDR` lets two
    sockets have one port while no more than one of them listens; all our servers set it.
    """
    for _ in range(200):
        port = 15_000 + secrets.randbelow(17_000)  # systems hand out ports from 32768 up
        held = socket.socket()
        try:
            held.bind((HOST, port))  # fails if anyone has it, as it is without SO_REUSEADDR
        except OSError:
            held.close()
        else:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            return held
    raise ServerError(f"found no free port on {HOST} between 15000 and 32000; close some servers")


def port_of(held: socket.socket) -> int:
    return int(held.getsockname()[1])


def accepts(port: int) -> bool:
    """Return whether something listens on a port."""
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float, otherwise: str) -> None:
    """Return once the condition holds; raise a ServerError with the text `otherwise` if it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ServerError(f"{otherwise} within {seconds:g} s")
        time.sleep(POLL)


def kill_family(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all its descendants, and return once they are gone."""
    if process.poll() is None:
        process.send_signal(signal.SIGSTOP)  # so that it starts no more of them
        family = descendants(process.pid)
        process.kill()
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        wait_until(lambda: not any(map(is_alive, family)), STOP_SECONDS, f"processes {family} survived SIGKILL")


def descendants(pid: int) -> list[int]:
    """Return the children of a process, their children, and so on."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found = list(children.get(pid, []))
    for child in found:  # grows while it is walked
        found += children.get(child, [])
    return found


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie process does not."""
    if _PROC.is_dir():
        fields = _stat(pid)
        return bool(fields) and fields[0] not in "ZX"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _parents() -> list[tuple[int, int]]:
    """Return each process of this machine with its parent."""
    if _PROC.is_dir():
        pids = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]
        return [(pid, int(fields[1])) for pid in pids if (fields := _stat(pid))]
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return [(int(pid), int(parent)) for pid, parent in (line.split() for line in listing.splitlines())]


def _stat(pid: int) -> list[str]:
    """Return the fields of a process from its state on; empty if there is no process."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _open_to_all() -> Path:
    """Return a folder for temporary files that every user of the machine can enter."""
    usual = Path(tempfile.gettempdir())
    return usual if can_enter(usual) else Path("/tmp")


def can_enter(folder: Path) -> bool:
    """Return whether every user of this machine can enter a folder."""
    there = folder.resolve()
    return all(place.stat().st_mode & 0o001 for place in (there, *there.parents) if place.exists())
