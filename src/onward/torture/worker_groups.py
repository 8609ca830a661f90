"""Worker groups: supervisors with their worker processes, which a run kills, pauses and replaces.

`python -m onward.torture.worker_groups PROCESSES LEASE` is the supervisor process of one group.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Self

from onward.runtime.process_identity import is_gone

if TYPE_CHECKING:
    from onward.ledger.store import Store

END_SECONDS = 60.0
OTHERS_SECONDS = 2.0  # the other groups commit something within this time, unless the store is locked
LATE_COMMIT_SECONDS = 60.0  # a resumed group tries to commit what it holds within this time


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A worker process of a group, as it registered itself in the store."""

    pid: int
    worker: str
    alone: bool  # it runs one event that is suspected of killing its process


class WorkerGroup:
    """One supervisor and its worker processes, in a process group of their own."""

    def __init__(self, folder: Path, environ: Mapping[str, str], *, processes: int, lease: float) -> None:
        with (folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "onward.torture.worker_groups", str(processes), str(lease)],
                cwd=folder,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def is_up(self) -> bool:
        return self.process.poll() is None

    @property
    def is_gone(self) -> bool:
        """Whether no process of it is left."""
        return not self.is_up and not self._signal(0)

    def workers(self, store: Store) -> list[WorkerProcess]:
        """Return the worker processes that are alive and registered in the store."""
        host, found = socket.gethostname(), list[WorkerProcess]()
        for about in store.workers():
            with suppress(ProcessLookupError):
                pid = about["pid"]
                if about.get("host") == host and os.getpgid(pid) == self.process.pid and not is_gone(about):
                    found.append(WorkerProcess(pid, about["worker"], bool(about.get("alone"))))
        return found

    def _signal(self, number: int) -> bool:
        """Signal the supervisor and its worker processes; return False if there are none."""
        with suppress(ProcessLookupError, PermissionError):  # not permitted: another program has the number now
            os.killpg(self.process.pid, number)
            return True
        return False

    def pause(self) -> None:
        self._signal(Signals.SIGSTOP)

    def resume(self) -> None:
        self._signal(Signals.SIGCONT)

    def kill(self) -> None:
        """Kill all of it, as when a machine fails."""
        self._signal(Signals.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """Release the pipe to a supervisor that has ended."""
        if self.process.stdin is not None:
            self.process.stdin.close()


@dataclass
class Fleet:
    """`size` worker groups on one store. A killed group is replaced; leaving the context ends all."""

    folder: Path
    environ: Mapping[str, str]
    size: int
    processes: int
    lease: float
    groups: list[WorkerGroup] = field(default_factory=list)
    # Groups whose supervisor was killed, and whose workers finish what they run.
    without_supervisor: list[WorkerGroup] = field(default_factory=list)

    def fill(self) -> None:
        for group in [group for group in self.groups if not group.is_up]:
            self.groups.remove(group)
            self.without_supervisor.append(group)
        for group in [group for group in self.without_supervisor if group.is_gone]:
            self.without_supervisor.remove(group)
            group.close()
        while len(self.groups) < self.size:
            self.groups.append(WorkerGroup(self.folder, self.environ, processes=self.processes, lease=self.lease))

    def end(self) -> bool:
        """Let all groups finish what they run; return whether all of them ended without an error."""
        for group in self.groups:
            group.resume()
        signalled = [group for group in self.groups if group.is_up]  # the others were killed and not replaced yet
        for group in signalled:
            group.process.send_signal(Signals.SIGTERM)
        ended_well = True
        for group in signalled:
            try:
                # A process that was just started may not handle signals yet.
                ended_well &= group.process.wait(END_SECONDS) in (0, -Signals.SIGTERM)
            except subprocess.TimeoutExpired:
                ended_well = False
        return ended_well

    def __enter__(self) -> Self:
        self.fill()
        return self

    def __exit__(self, *_: object) -> None:
        for group in [*self.groups, *self.without_supervisor]:
            if not group.is_gone:
                group.kill()
            group.close()


class PauseResult(StrEnum):
    IN_VAIN = "it held nothing, nobody could take over, or it died before it tried to commit"
    REFUSED = "its late commit was refused"
    NOT_REFUSED = "its late commit was not refused"


@dataclass
class PausedGroup:
    """A paused group: its leases lapse, others take its rows over, then it is resumed.

    A group that holds rows which others have settled, and lives, must try to commit them, and must be refused.
    """

    group: WorkerGroup
    _store: Store
    _lease: float
    _refusal_log: Path
    _clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        store = self._store
        self.others_commit = False  # they cannot if this group was paused with the store locked
        self.cut_off = False  # a fault hit the store during the pause: the group may have lost what it claimed
        self.is_resumed = False
        self._workers = {process.worker: process.pid for process in self.group.workers(store)}
        self._held: set[tuple[int, int]] = set()  # process and row of what it held when it last held anything
        self._late: set[tuple[int, int]] = set()  # those of them that others have settled
        self._log_read_from = 0
        self._counts_before = store.document_counts(), store.counts()
        self._gives_up_at = self._clock() + OTHERS_SECONDS

    def check(self) -> PauseResult | None:
        """Return the result, or None while it is not known."""
        return self._check_resumed() if self.is_resumed else self._check_paused()

    def _check_paused(self) -> PauseResult | None:
        store = self._store
        if not self.others_commit and (store.document_counts(), store.counts()) != self._counts_before:
            self.others_commit = True
            self._gives_up_at = self._clock() + 7 * self._lease
        if self.others_commit:
            # At every check: a commit that was under way at the pause may still settle some rows.
            held = {(pid, claim.row) for worker, pid in self._workers.items() for claim in store.claimed(worker)}
            self._held = held or self._held
            if not self._held:
                return PauseResult.IN_VAIN
            if not held:
                states = store.row_states([row for _, row in self._held])
                self._late = {(pid, row) for pid, row in self._held if states.get(row, "done") == "done"}
            if self._late:
                self._log_read_from = self._refusal_log.stat().st_size if self._refusal_log.exists() else 0
                self._gives_up_at = self._clock() + (2 * self._lease if self.cut_off else LATE_COMMIT_SECONDS)
                self.is_resumed = True
                self.group.resume()
                return None
        return PauseResult.IN_VAIN if self._clock() > self._gives_up_at else None

    def _check_resumed(self) -> PauseResult | None:
        # In this order: a refusal that a process recorded before it died counts.
        alive = {process.pid for process in self.group.workers(self._store)}
        log = self._refusal_log.read_bytes() if self._refusal_log.exists() else b""
        lines = (line.split(b" ") for line in log[self._log_read_from :].splitlines())
        if not self._late.isdisjoint((int(pid), int(row)) for pid, row, *_ in lines):
            return PauseResult.REFUSED
        if alive.isdisjoint(pid for pid, _ in self._late):
            return PauseResult.IN_VAIN
        if self._clock() > self._gives_up_at:
            return PauseResult.IN_VAIN if self.cut_off else PauseResult.NOT_REFUSED
        return None


def _end_with_parent() -> None:
    """Kill the whole group when the run that started it is gone: it holds the other end of standard input."""
    while os.read(sys.stdin.fileno(), 1):  # not through a buffer, whose lock would block the end of the process
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    from onward.torture.workload import REFERENCE
    from onward.worker import supervise

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    supervise(REFERENCE, processes=int(sys.argv[1]), lease=float(sys.argv[2]), log_level=logging.INFO)
