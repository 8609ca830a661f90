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
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Self

import onward
from onward.runtime.process_identity import is_gone

if TYPE_CHECKING:
    from onward.ledger.store import Store

END_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A worker process of a group, as it registered itself in the store."""

    pid: int
    worker: str
    alone: bool
    """It runs one event that is suspected of killing its process."""


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
        """Whether the supervisor runs."""
        return self.process.poll() is None

    def workers(self, store: Store) -> list[WorkerProcess]:
        """Return the worker processes that are alive and registered in the store."""
        host = socket.gethostname()
        return [
            WorkerProcess(about["pid"], about["worker"], bool(about.get("alone")))
            for about in store.workers()
            if about.get("host") == host and _group_of(about["pid"]) == self.process.pid and not is_gone(about)
        ]

    def signal_all(self, number: Signals) -> None:
        """Signal the supervisor and its worker processes."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def pause(self) -> None:
        self.signal_all(Signals.SIGSTOP)

    def resume(self) -> None:
        self.signal_all(Signals.SIGCONT)

    def kill(self) -> None:
        """Kill all of it, as when a machine fails."""
        self.signal_all(Signals.SIGKILL)
        self.process.wait()

    def kill_supervisor(self) -> None:
        """Kill the supervisor; its workers finish what they run and end."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Release the pipe to a supervisor that has ended."""
        if self.process.stdin is not None:
            self.process.stdin.close()

    @property
    def is_gone(self) -> bool:
        """Whether no process of it is left."""
        if self.is_up:
            return False
        try:
            os.killpg(self.process.pid, 0)
        except (ProcessLookupError, PermissionError):  # not permitted: the number belongs to another program now
            return True
        return False


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


@dataclass
class Fleet:
    """`size` worker groups on one store. A killed group is replaced; leaving the context ends all."""

    folder: Path
    environ: Mapping[str, str]
    size: int
    processes: int
    lease: float
    groups: list[WorkerGroup] = field(default_factory=list)
    without_supervisor: list[WorkerGroup] = field(default_factory=list)
    """Groups whose supervisor was killed, and whose workers finish what they run."""

    def fill(self) -> None:
        """Start the groups that are missing."""
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
            if group.is_up:
                group.process.send_signal(Signals.SIGTERM)
        ended_well = True
        for group in self.groups:
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


def group_environ(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of groups: this process's, without settings that are meant for other apps."""
    from onward.settings import Settings, variable

    settings = {variable(field) for field in Settings.model_fields}
    kept = {name: value for name, value in os.environ.items() if name not in settings}
    here = str(Path(onward.__file__).parents[1])
    path = os.pathsep.join(dict.fromkeys([here, *filter(None, kept.get("PYTHONPATH", "").split(os.pathsep))]))
    return {**kept, "PYTHONPATH": path, **chosen}


def _end_with_parent() -> None:
    """Kill the whole group when the run that started it is gone: it holds the other end of standard input."""
    while os.read(sys.stdin.fileno(), 1):  # not through a buffer, whose lock would block the end of the process
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> None:
    """Supervise until a signal; the arguments are the number of processes and the lease in seconds."""
    from onward.torture.workload import REFERENCE
    from onward.worker import supervise

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    supervise(REFERENCE, processes=int(sys.argv[1]), lease=float(sys.argv[2]), log_level=logging.INFO)


if __name__ == "__main__":
    main()
