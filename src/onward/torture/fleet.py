"""The fleet: crews of worker processes that are killed, stopped, and replaced."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals
from types import TracebackType
from typing import Self

import onward
from onward.ports import Store
from onward.runtime.machine import is_gone

ENDING_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class AtWork:
    """A worker process of a crew that has announced itself."""

    pid: int
    worker: str
    alone: bool
    """It runs one event that is suspected of killing its process."""
    last_seen: float


class Crew:
    """One supervisor and its worker processes, in a process group of their own."""

    def __init__(self, folder: Path, environ: Mapping[str, str], *, processes: int, lease: float) -> None:
        with (folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "onward.torture.crew", str(processes), str(lease)],
                cwd=folder,
                env=environ,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_up(self) -> bool:
        return self.process.poll() is None

    def members(self, store: Store) -> list[AtWork]:
        """Its worker processes, as they have announced themselves in the store."""
        here = socket.gethostname()
        return [
            AtWork(one["pid"], one["worker"], bool(one.get("alone")), one["last_seen"])
            for one in store.workers()
            if one.get("host") == here and _group_of(one["pid"]) == self.pid and not is_gone(one)
        ]

    def signal(self, number: Signals) -> None:
        """Signal the supervisor alone."""
        if self.is_up:
            self.process.send_signal(number)

    def signal_all(self, number: Signals) -> None:
        """Signal the supervisor and its worker processes."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def halt(self) -> None:
        """Stop it in the middle of whatever it does, to go on later."""
        self.signal_all(Signals.SIGSTOP)

    def go_on(self) -> None:
        self.signal_all(Signals.SIGCONT)

    def kill(self) -> None:
        """Kill all of it, as a machine that fails would."""
        self.signal_all(Signals.SIGKILL)
        self._hear_of_end()

    def kill_supervisor(self) -> None:
        """Kill the supervisor; its workers finish what they run and end."""
        self.process.kill()
        self._hear_of_end()

    def _hear_of_end(self) -> None:
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    @property
    def is_gone(self) -> bool:
        """Whether nobody of it is left."""
        if self.is_up:
            return False
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:  # the number belongs to somebody else by now
            return True
        return False


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


@dataclass
class Fleet:
    """So many crews on one store. What is killed is replaced; leaving ends them all."""

    folder: Path
    environ: Mapping[str, str]
    size: int
    processes: int
    lease: float
    crews: list[Crew] = field(default_factory=list)
    leaving: list[Crew] = field(default_factory=list)
    """Crews without a supervisor, whose workers finish what they run."""

    def fill(self) -> None:
        """Start what is missing."""
        for crew in [one for one in self.crews if not one.is_up]:
            self.crews.remove(crew)
            self.leaving.append(crew)
        self.leaving = [one for one in self.leaving if not one.is_gone]
        while len(self.crews) < self.size:
            self.crews.append(Crew(self.folder, self.environ, processes=self.processes, lease=self.lease))

    def end(self) -> bool:
        """Let everybody finish what they run; False: not all of them ended well."""
        for crew in self.crews:
            crew.go_on()
            crew.signal(Signals.SIGTERM)
        well = True
        for crew in self.crews:
            try:
                # One that was just started may not know yet what a signal means.
                well = crew.process.wait(ENDING_SECONDS) in (0, -Signals.SIGTERM) and well
            except subprocess.TimeoutExpired:
                well = False
        return well

    def __enter__(self) -> Self:
        self.fill()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for crew in [*self.crews, *self.leaving]:
            if not crew.is_gone:
                crew.kill()


def crew_environ(chosen: Mapping[str, str]) -> dict[str, str]:
    """The environment of crews: this one's, without settings that somebody made for an app of theirs."""
    from onward.settings import Settings, variable

    settings = {variable(field) for field in Settings.model_fields}
    kept = {name: value for name, value in os.environ.items() if name not in settings}
    here = str(Path(onward.__file__).parents[1])
    path = os.pathsep.join(dict.fromkeys([here, *filter(None, kept.get("PYTHONPATH", "").split(os.pathsep))]))
    return {**kept, "PYTHONPATH": path, **chosen}
