"""The progress of a run: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from onward.ops.text.format import clock_time, counted, duration, number, one_line

if TYPE_CHECKING:
    from onward.pipeline.progress import OutageProgress, RunProgress, StageProgress

PLAIN_SECONDS = 10.0
_PROBLEM = re.compile(r"^[\d-]+ [\d:,.]+ (INFO|WARNING|ERROR) +(.*?(?:failed|given up|set aside|died|hangs).*)$")
_IDS = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{24}\b((?:, [0-9a-f]{32})*)")
_READ_BYTES = 64_000


class Display(Protocol):
    """Shows the progress of a run."""

    def show(self, view: RunProgress, problem: str, stopping: int) -> None: ...
    def end(self) -> None: ...


def open_display(title: str) -> Display:
    """Return the display for standard error: a terminal, or a file."""
    from onward.cli.render.output import console

    out = console(stderr=True)
    return LiveDisplay(out, title) if out.is_terminal else PlainDisplay(out)


class LiveDisplay:
    """A table that is redrawn in place and removed at the end."""

    def __init__(self, out: Console, title: str) -> None:
        self._title = title
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(console=out, auto_refresh=False, transient=True)
        self._live.start()
        self._live.update(Padding(Text(f"{one_line(title, 60)}: starting …", "dim"), (1, 2)), refresh=True)

    def show(self, view: RunProgress, problem: str, stopping: int) -> None:
        self._live.update(picture(view, self._title, problem, stopping, self._spinner), refresh=True)

    def end(self) -> None:
        self._live.stop()


class PlainDisplay:
    """Prints a line every `PLAIN_SECONDS`, and at each new problem."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._next = PLAIN_SECONDS / 2
        self._problems: set[str] = set()
        """The kinds of problems that were printed."""
        self._stopping = 0
        self._down: set[str] = set()

    def show(self, view: RunProgress, problem: str, stopping: int) -> None:
        if problem and (kind := re.sub(r"\w*\d\w*| and others", "", problem)) not in self._problems:
            self._problems.add(kind)
            self._print(view, f"problem: {one_line(problem, 400)}")
        if stopping > self._stopping:
            self._stopping = stopping
            self._print(view, _stopping(stopping))
        down = {outage.dependency for outage in view.outages}
        for outage in view.outages:
            if outage.dependency not in self._down:
                self._print(view, _outage(outage))
        for name in sorted(self._down - down):
            self._print(view, f"{name} is available again")
        self._down = down
        if view.elapsed >= self._next:
            self._next = view.elapsed + PLAIN_SECONDS
            self._print(view, _line(view))

    def end(self) -> None:
        pass

    def _print(self, view: RunProgress, text: str) -> None:
        self._out.print(Text(f"{view.elapsed:6.1f} s  {text}"), soft_wrap=True)


def _line(view: RunProgress) -> str:
    done = [f"{stage.name} {counted(stage.done, stage.unit)}" for stage in view.stages if stage.unit != "event"]
    left = f"; {_left(view.left)}" if view.left else ""
    return ", ".join(done) + left


def _left(seconds: float) -> str:
    return f"about {duration(math.ceil(seconds))} left"


def _stopping(times: int) -> str:
    if times == 1:
        return "stopping: running handlers are finished first; Ctrl-C again ends at once"
    return "stopping at once; what runs is retried later"


def _outage(outage: OutageProgress) -> str:
    since = f" since {clock_time(outage.since)}" if outage.since is not None else ""
    wait = "waits and loses" if outage.waiting == 1 else "wait and lose"
    text = f"{outage.dependency} is down{since}: {counted(outage.waiting, 'event')} {wait} no tries"
    asked = f"; asked again at {clock_time(outage.until)}" if outage.until else ""
    reason = f" ({one_line(outage.reason, 160)})" if outage.reason else ""
    remedy = f". {one_line(outage.remedy, 200)}" if outage.remedy else ""
    return f"{text}{asked}{reason}{remedy}"


def picture(
    view: RunProgress, title: str, problem: str, stopping: int, spinner: RenderableType = ""
) -> RenderableType:
    """Return the table of a view."""
    head = Table.grid(expand=True)
    head.add_column(width=2)
    head.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    head.add_column(justify="right")
    left = f"{_left(view.left)} · " if view.left else ""
    head.add_row(spinner, Text(one_line(title), "bold"), Text(f"{left}{duration(view.elapsed)}", "dim"))
    parts: list[RenderableType] = [head, _stages(view.stages)]
    parts += [Text.assemble(("● ", "yellow"), (_outage(outage), "yellow")) for outage in view.outages]
    if problem:
        parts.append(Text.assemble(("last problem  ", "dim"), (one_line(problem, 240), "red")))
    if stopping:
        parts.append(Text(_stopping(stopping), "bold yellow"))
    return Padding(Group(*parts), (1, 2))


def _stages(stages: list[StageProgress]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False, header_style="dim", border_style="dim")
    table.add_column("stage", width=13)
    table.add_column("", ratio=1, min_width=8)
    for name, width in (("done", 16), ("waiting", 12), ("failed", 6), ("a second", 8)):
        table.add_column(name, justify="right", width=width, no_wrap=True)
    for stage in stages:
        waiting = counted(stage.waiting, stage.waiting_unit) if stage.waiting_unit else number(stage.waiting)
        table.add_row(
            Text(stage.name, "bold" if stage.working else ""),
            _bar(stage),
            Text(counted(stage.done, stage.unit), "green") if stage.done else Text("·", "dim"),
            Text(waiting, "yellow") if stage.waiting else Text("·", "dim"),
            Text(number(stage.failed), "red") if stage.failed else Text("·", "dim"),
            Text(number(stage.rate), "dim") if stage.rate and stage.rate >= 0.5 else Text("", "dim"),
        )
    return table


def _bar(stage: StageProgress) -> RenderableType:
    if stage.share is None:
        return Text("at work" if stage.working else "", "dim")
    return ProgressBar(
        total=1.0,
        completed=min(1.0, stage.share),
        complete_style="cyan",
        finished_style="green",
        style="grey23",
    )


class Problems:
    """Finds the last problem in the log of the workers."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._at = file.stat().st_size if file.exists() else 0
        self.last = ""

    def read(self) -> str:
        """Read the log from where the last call ended, and return the last problem."""
        try:
            with self._file.open("rb") as log:
                log.seek(self._at)
                data = log.read(_READ_BYTES)
        except OSError:
            return self.last
        end = data.rfind(b"\n") + 1
        self._at += end or (len(data) if len(data) == _READ_BYTES else 0)
        for line in data[:end].decode("utf-8", "replace").splitlines():
            if found := _PROBLEM.match(line):
                self.last = _IDS.sub(lambda ids: ids[1] + (" and others" if ids[2] else ""), found[2])
        return self.last
