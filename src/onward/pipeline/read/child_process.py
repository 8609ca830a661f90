"""Start processes that read files for a worker, and that end with it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread

END_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1  # a parameter of Linux's prctl

_lock = Lock()
_starter: ThreadPoolExecutor | None = None


def start_process(module: str, *, quiet: bool = False) -> tuple[subprocess.Popen[bytes], Connection]:
    """Start a module as a process, with a pipe whose descriptor is its argument.

    Linux kills the process when the *thread* ends that has started it, and a handler's thread may end before its
    worker. So one thread that lives as long as the worker starts them all.
    """
    global _starter  # noqa: PLW0603 - made at first use: most commands start no process
    with _lock:
        if _starter is None:
            _starter = ThreadPoolExecutor(1, thread_name_prefix="start-readers")
    return _starter.submit(_start, module, quiet).result()


def _start(module: str, quiet: bool) -> tuple[subprocess.Popen[bytes], Connection]:
    ours, theirs = Pipe()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if quiet else None,
            stderr=subprocess.DEVNULL if quiet else None,
            pass_fds=[theirs.fileno()],
        )
    return process, ours


def end_process(process: subprocess.Popen[bytes], pipe: Connection) -> int | None:
    """Kill a process, and return its exit code."""
    pipe.close()
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        return process.wait(END_SECONDS)
    return None


# -- in the process itself


def end_with_parent() -> None:
    """Let this process ignore Ctrl-C, which its parent handles, and die with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A file that hangs this process must not keep it alive longer than the worker.
    with suppress(OSError, AttributeError):  # Linux only
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def received_from(pipe: Connection) -> SimpleQueue[bytes]:
    """Return a queue of what arrives; this process ends when its parent closes the pipe.

    A thread receives while another one reads: otherwise both sides might wait until the other one receives.
    """
    queue: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_receive, args=(pipe, queue.put), daemon=True).start()
    return queue


def _receive(pipe: Connection, put: Callable[[bytes], None]) -> None:
    with suppress(EOFError, OSError, MemoryError):
        while True:
            put(pipe.recv_bytes())
    os._exit(0)


def limit_process(seconds: float | None, memory_bytes: int | None) -> None:
    """Limit what this process may use from now on; the memory that it has now is not counted."""
    with suppress(ImportError, OSError, ValueError):  # none of this on Windows, a part of it on macOS
        import resource

        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        for limit, most in (
            (resource.RLIMIT_CPU, None if seconds is None else int(used + seconds + 1)),
            (resource.RLIMIT_AS, None if memory_bytes is None else _address_space() + memory_bytes),
        ):
            hard = resource.getrlimit(limit)[1]
            soft = hard if most is None or most > hard > 0 else most
            resource.setrlimit(limit, (soft, hard))
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
