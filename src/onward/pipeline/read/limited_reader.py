"""Read files whose readers may crash, hang or take all memory, in processes with limits.

A process is kept for the next file, so that its start is paid once. It is killed at its limit and replaced after a
crash, which are the permanent failure of the file: the worker goes on.
"""

from __future__ import annotations

import atexit
import pickle
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass

from onward import OnwardError, Permanent, Settings
from onward.pipeline.read.child_process import END_SECONDS, end_process, start_process
from onward.pipeline.read.file_readers import FileToRead
from onward.pipeline.read.limited_process import READY, Outcome
from onward.pipeline.read.page_text import PageText, UnreadableFile

MAX_PROCESSES = 2  # of one worker process
MAX_FILES = 1_000  # of one process: then a new one replaces it, with whatever memory it has lost
WAIT_FACTOR = 5  # the limit of waiting, as a multiple of the processor time: other programs run, too
START_SECONDS = 60.0
_PROCESS = "onward.pipeline.read.limited_process"


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """The limits for reading one file."""

    seconds: float = 60.0  # of processor time; of waiting, `WAIT_FACTOR` times as much
    memory_bytes: int = 2_000_000_000  # in addition to what the process itself has
    ocr_seconds: float = 0.0  # of waiting for text recognition, in addition

    @property
    def wait_seconds(self) -> float:
        return self.seconds * WAIT_FACTOR + self.ocr_seconds


def reader_limits(settings: Settings) -> ReaderLimits:
    ocr_seconds = 0.0 if settings.ocr == "off" else settings.ocr_seconds
    return ReaderLimits(settings.read_seconds, settings.read_max_memory_bytes, ocr_seconds)


class ReaderLimitReached(UnreadableFile):
    """Reading the file takes more time or memory than allowed."""


class ReaderCrashed(UnreadableFile):
    """The process that read the file crashed, or reached a limit."""


class NoReaderProcess(OnwardError):
    """No process can be started to read the file; a later try may succeed."""


class _Died(Exception):
    """The process has ended before it sent an outcome."""


def read_limited(file: FileToRead, data: bytes, limits: ReaderLimits | None = None) -> PageText:
    """Return the text of a file, read in a process of its own within limits."""
    outcome = _read(file, data, limits or ReaderLimits())
    if isinstance(outcome, PageText):
        return outcome
    raise outcome


def close_processes() -> None:
    """End the processes that wait for files."""
    while _idle:
        with suppress(IndexError):
            _idle.pop().close()


atexit.register(close_processes)
_idle: list[_Process] = []
_free = threading.BoundedSemaphore(MAX_PROCESSES)


def _read(file: FileToRead, data: bytes, limits: ReaderLimits) -> PageText | Permanent:
    with _free:
        for last in (False, True):
            # The second try is in a new process: several may have ended while they were idle.
            process = _Process() if last else _idle_process() or _Process()
            try:
                outcome = process.read(file, data, limits)
            except _Died:
                code = process.exit_code()
                if code == -signal.SIGXCPU:
                    return _limit_reached(f"{limits.seconds:g} s of processor time", "READ_SECONDS")
                # Perhaps it was idle for too long, or the system had no memory: only two deaths count
                if last:
                    return _crash(code, limits)
                continue
            except TimeoutError:
                process.close()
                return _limit_reached(f"{limits.wait_seconds:g} s", "READ_SECONDS")
            if isinstance(outcome, str):  # `OUT_OF_MEMORY`
                process.close()
                return _limit_reached(f"{limits.memory_bytes:,} bytes of memory", "READ_MAX_MEMORY_BYTES")
            if process.files < MAX_FILES:
                _idle.append(process)
            else:
                process.close()
            return outcome
    raise AssertionError("the second try returns")


def _idle_process() -> _Process | None:
    with suppress(IndexError):
        return _idle.pop()
    return None


def _limit_reached(most: str, setting: str) -> ReaderLimitReached:
    return ReaderLimitReached(
        f"reading it takes more than {most}: it may be damaged or made to do harm; if you trust it, raise "
        f"ONWARD_{setting} and retry it, or save it in a simpler format"
    )


def _crash(code: int | None, limits: ReaderLimits) -> ReaderCrashed:
    ended = f"exit code {code}"
    if code is not None and code < 0:
        with suppress(ValueError):
            ended = signal.Signals(-code).name
    return ReaderCrashed(
        f"reading it ended the reader process twice ({ended}): the file is damaged, or needs more than "
        f"{limits.memory_bytes:,} bytes of memory (ONWARD_READ_MAX_MEMORY_BYTES); open it with the program that "
        "made it, save it again, and ingest that"
    )


class _Process:
    """The worker's connection to one reader process."""

    def __init__(self) -> None:
        self.files = 0
        try:
            self._process, self._pipe = start_process(_PROCESS, quiet=True)
        except OSError as error:
            raise NoReaderProcess(f"no process can be started to read files: {error}") from error
        try:
            started = self._pipe.poll(START_SECONDS) and self._pipe.recv_bytes() == READY
        except (EOFError, OSError):
            started = False
        if not started:
            code = self.exit_code()
            raise NoReaderProcess(f"a process to read files has ended at its start, with exit code {code}")

    def read(self, file: FileToRead, data: bytes, limits: ReaderLimits) -> Outcome:
        self.files += 1
        try:
            self._pipe.send_bytes(pickle.dumps((file, limits.seconds, limits.memory_bytes)))
            self._pipe.send_bytes(data)
            if not self._pipe.poll(limits.wait_seconds):
                raise TimeoutError
            outcome: Outcome = pickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise _Died from error
        return outcome

    def exit_code(self) -> int | None:
        """Return the exit code of a process that has ended; it follows the end of the pipe at once."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        return self.close()

    def close(self) -> int | None:
        """End the process, and return its exit code."""
        return end_process(self._process, self._pipe)
