"""What every private server has in common: a folder, ports, a process family, and an end."""

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
    """A private server cannot be started, stopped or asked."""


class PrivateServer(ABC):
    """A server of one's own on loopback: started, killed and started again as often as one likes.

    It keeps its port and its data over `stop()`, `kill()` and `start()`. `close()` is the end; what it kept in a
    folder that it made itself is removed then. It does not outlive the program that started it, however that ends.
    """

    title: ClassVar[str]

    def __init__(self, folder: Path | None, port: int) -> None:
        self._made_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="onward-server-", dir=_open_to_all()))
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._made_folder:
            self.folder.chmod(0o711)  # the server may have to run as another user
        self.port = port or free_port()
        self.log = self.folder / "server.log"
        self._logged_before = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: Guard | None = None

    @property
    def pid(self) -> int:
        """The process to signal; a server that is not running has none."""
        return self._running_process().pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, seconds: float = START_SECONDS) -> Self:
        """Starts it, on what it kept from last time, and returns once it takes connections."""
        if self.running:
            return self
        self._bury()
        self.log.touch()
        try:
            self._logged_before = self.log.stat().st_size
            self._prepare()
            self._logged_before = self.log.stat().st_size
            self._process = self._spawn()
            self._guard = Guard(self._guarded())
            wait_until(self._answers_or_ended, seconds, f"{self.title} did not answer on port {self.port}")
            if not self.running:
                raise ServerError(f"{self.title} ended before it took connections; {self._last_words()}")
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Ends it as an administrator would: clients are cut off, data is written."""
        if self.running:
            family = descendants(self._running_process().pid)
            self._ask_to_stop()
            try:
                self._running_process().wait(seconds)
                wait_until(lambda: not any(map(is_alive, family)), seconds, f"{self.title} left processes behind")
            except (subprocess.TimeoutExpired, ServerError):
                self.kill()
                raise ServerError(f"{self.title} did not stop in {seconds:g} s; {self._last_words()}") from None
        self._bury()

    def kill(self) -> None:
        """Ends every process of it at once with SIGKILL, as when its machine loses power; `start()` recovers."""
        if self._process is not None:
            kill_family(self._process)
        self._bury()

    def close(self) -> None:
        """Ends it for good."""
        if not self._made_folder:
            self.stop()
            return
        self.kill()  # nothing that is thrown away needs a clean end
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def _prepare(self) -> None:
        """Makes what the server needs before it can start, if it is not there yet."""

    @abstractmethod
    def _spawn(self) -> subprocess.Popen[bytes]: ...

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it takes connections now."""

    @abstractmethod
    def _ask_to_stop(self) -> None: ...

    def _guarded(self) -> Sequence[int]:
        """What has to end when this program does; a negative number is a process group."""
        return [self._running_process().pid]

    def _bury(self) -> None:
        """Forgets a process that has ended, and what only made sense while it ran."""
        if self._guard is not None:
            self._guard.dismiss()
        self._guard = self._process = None

    def _running_process(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise ServerError(f"{self.title} on port {self.port} is not running; start() it first")
        return self._process

    def _answers_or_ended(self) -> bool:
        return not self.running or self._answers()

    def _last_words(self) -> str:
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
        """Starts a process whose output goes to the log, and that Ctrl-C in this terminal does not reach."""
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


class Guard:
    """A tiny process that kills others when this program ends without doing so itself."""

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
    """A port that nobody uses, and that no outgoing connection will take while its server is down."""
    for _ in range(200):
        port = 15_000 + secrets.randbelow(17_000)  # systems hand out ports from 32768 up
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                return port
    raise ServerError(f"found no free port on {HOST} between 15000 and 32000; close some servers")


def accepts(port: int) -> bool:
    """Whether something listens there."""
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float, otherwise: str) -> None:
    """Returns once the condition holds; raises a ServerError that says `otherwise` if it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise ServerError(f"{otherwise} within {seconds:g} s")
        time.sleep(POLL)


def kill_family(process: subprocess.Popen[bytes]) -> None:
    """Kills a child and all that it started, and returns once they are gone."""
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
    """Every process that this one started, and those they started."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found = list(children.get(pid, []))
    for child in found:  # grows while it is walked
        found += children.get(child, [])
    return found


def is_alive(pid: int) -> bool:
    """Whether a process still runs; one that only waits for its parent to hear of its end does not."""
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
    """Each process of this machine with its parent."""
    if _PROC.is_dir():
        pids = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]
        return [(pid, int(fields[1])) for pid in pids if (fields := _stat(pid))]
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return [(int(pid), int(parent)) for pid, parent in (line.split() for line in listing.splitlines())]


def _stat(pid: int) -> list[str]:
    """State, parent and so on of a process; empty: there is none."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _open_to_all() -> Path:
    """A folder for temporary files that every user of the machine can enter."""
    usual = Path(tempfile.gettempdir())
    return usual if can_enter(usual) else Path("/tmp")


def can_enter(folder: Path) -> bool:
    """Whether any user of this machine can get to a folder, though perhaps not read it."""
    there = folder.resolve()
    return all(place.stat().st_mode & 0o001 for place in (there, *there.parents) if place.exists())
