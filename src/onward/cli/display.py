"""What is seen of a run while it goes on: one calm picture on a terminal, plain lines elsewhere."""

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

from onward.facts.wording import clock_time, counted, duration, number, one_line

if TYPE_CHECKING:
    from onward.pipeline.progress import Outage, Stage, View

PLAIN_EVERY = 10.0
_PROBLEM = re.compile(r"^[\d-]+ [\d:,.]+ (INFO|WARNING|ERROR) +(.*?(?:failed|given up|set aside|died|hangs).*)$")
_IDS = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{24}\b((?:, [0-9a-f]{32})*)")
_READ_AT_ONCE = 64_000


class Display(Protocol):
    """Shows how a run goes."""

    def show(self, view: View, problem: str, stopping: int) -> None: ...
    def end(self) -> None: ...


def open_display(title: str) -> Display:
    """The display that suits where standard error goes."""
    from onward.cli.output import console

    out = console(stderr=True)
    return LiveDisplay(out, title) if out.is_terminal else PlainDisplay(out)


class LiveDisplay:
    """One picture that is redrawn in place, and gone when the run is over."""

    def __init__(self, out: Console, title: str) -> None:
        self._title = title
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(console=out, auto_refresh=False, transient=True)
        self._live.start()
        self._live.update(Padding(Text(f"{one_line(title, 60)}: starting …", "dim"), (1, 2)), refresh=True)

    def show(self, view: View, problem: str, stopping: int) -> None:
        self._live.update(picture(view, self._title, problem, stopping, self._spinner), refresh=True)

    def end(self) -> None:
        self._live.stop()


class PlainDisplay:
    """A line now and then, and whenever something goes wrong."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._next = PLAIN_EVERY / 2
        self._problems: set[str] = set()
        """One of each kind is told."""
        self._stopping = 0
        self._down: set[str] = set()

    def show(self, view: View, problem: str, stopping: int) -> None:
        if problem and (kind := re.sub(r"\w*\d\w*| and others", "", problem)) not in self._problems:
            self._problems.add(kind)
            self._say(view, f"problem: {one_line(problem, 400)}")
        if stopping > self._stopping:
            self._stopping = stopping
            self._say(view, _stopping(stopping))
        down = {one.dependency for one in view.outages}
        for one in view.outages:
            if one.dependency not in self._down:
                self._say(view, _outage(one))
        for name in sorted(self._down - down):
            self._say(view, f"{name} answers again")
        self._down = down
        if view.elapsed >= self._next:
            self._next = view.elapsed + PLAIN_EVERY
            self._say(view, _line(view))

    def end(self) -> None:
        pass

    def _say(self, view: View, text: str) -> None:
        self._out.print(Text(f"{view.elapsed:6.1f} s  {text}"), soft_wrap=True)


def _line(view: View) -> str:
    done = [f"{one.name} {counted(one.done, one.unit)}" for one in view.stages if one.unit != "event"]
    left = f"; {_left(view.left)}" if view.left else ""
    return ", ".join(done) + left


def _left(seconds: float) -> str:
    return f"about {duration(math.ceil(seconds))} left"


def _stopping(times: int) -> str:
    if times == 1:
        return "stopping: what runs is finished first; Ctrl-C again gives it back at once"
    return "stopping: what runs is given back"


def _outage(one: Outage) -> str:
    since = f" since {clock_time(one.since)}" if one.since is not None else ""
    wait = "waits and loses" if one.waiting == 1 else "wait and lose"
    text = f"{one.dependency} is down{since}: {counted(one.waiting, 'event')} {wait} no tries"
    asked = f"; asked again at {clock_time(one.until)}" if one.until else ""
    reason = f" ({one_line(one.reason, 160)})" if one.reason else ""
    remedy = f". {one_line(one.remedy, 200)}" if one.remedy else ""
    return f"{text}{asked}{reason}{remedy}"


def picture(view: View, title: str, problem: str, stopping: int, spinner: RenderableType = "") -> RenderableType:
    """Draw a view."""
    head = Table.grid(expand=True)
    head.add_column(width=2)
    head.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    head.add_column(justify="right")
    left = f"{_left(view.left)} · " if view.left else ""
    head.add_row(spinner, Text(one_line(title), "bold"), Text(f"{left}{duration(view.elapsed)}", "dim"))
    parts: list[RenderableType] = [head, _stages(view.stages)]
    parts += [Text.assemble(("● ", "yellow"), (_outage(one), "yellow")) for one in view.outages]
    if problem:
        parts.append(Text.assemble(("last problem  ", "dim"), (one_line(problem, 240), "red")))
    if stopping:
        parts.append(Text(_stopping(stopping), "bold yellow"))
    return Padding(Group(*parts), (1, 2))


def _stages(stages: list[Stage]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False, header_style="dim", border_style="dim")
    table.add_column("stage", width=13)
    table.add_column("", ratio=1, min_width=8)
    for name, width in (("done", 16), ("waiting", 12), ("failed", 6), ("a second", 8)):
        table.add_column(name, justify="right", width=width, no_wrap=True)
    for one in stages:
        waiting = counted(one.waiting, one.waiting_unit) if one.waiting_unit else number(one.waiting)
        table.add_row(
            Text(one.name, "bold" if one.working else ""),
            _bar(one),
            Text(counted(one.done, one.unit), "green") if one.done else Text("·", "dim"),
            Text(waiting, "yellow") if one.waiting else Text("·", "dim"),
            Text(number(one.failed), "red") if one.failed else Text("·", "dim"),
            Text(number(one.rate), "dim") if one.rate and one.rate >= 0.5 else Text("", "dim"),
        )
    return table


def _bar(one: Stage) -> RenderableType:
    if one.share is None:
        return Text("at work" if one.working else "", "dim")
    return ProgressBar(
        total=1.0,
        completed=min(1.0, one.share),
        complete_style="cyan",
        finished_style="green",
        style="grey23",
    )


class Problems:
    """The last thing that went wrong, as the workers' log tells it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._at = file.stat().st_size if file.exists() else 0
        self.last = ""

    def look(self) -> str:
        """Read on where the last look ended."""
        try:
            with self._file.open("rb") as log:
                log.seek(self._at)
                data = log.read(_READ_AT_ONCE)
        except OSError:
            return self.last
        end = data.rfind(b"\n") + 1
        self._at += end or (len(data) if len(data) == _READ_AT_ONCE else 0)
        for line in data[:end].decode("utf-8", "replace").splitlines():
            if found := _PROBLEM.match(line):
                self.last = _IDS.sub(lambda ids: ids[1] + (" and others" if ids[2] else ""), found[2])
        return self.last
