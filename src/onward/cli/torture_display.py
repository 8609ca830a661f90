"""The display of `onward torture` while it runs."""

from __future__ import annotations

from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from onward.cli.render.output import console
from onward.cli.render.progress_display import PLAIN_SECONDS
from onward.ops.text.format import counted, number, one_line
from onward.torture.torture_run import TortureProgress


class Display(Protocol):
    """Shows how far a run is."""

    def show(self, progress: TortureProgress) -> None: ...
    def end(self) -> None: ...


def open_display(title: str) -> Display:
    """Return a display for a terminal, or for a file."""
    out = console(stderr=True)
    return LiveDisplay(out, title) if out.is_terminal else PlainDisplay(out)


class LiveDisplay:
    """Bars that are redrawn in place, and removed at the end."""

    def __init__(self, out: Console, title: str) -> None:
        columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
        self._bars = Progress(SpinnerColumn(), *columns, TimeElapsedColumn(), console=out, transient=True)
        self._bars.start()
        self._title = self._bars.add_task(one_line(title, 100), total=None)
        self._documents, self._kills = (self._bars.add_task(name) for name in ("documents", "kills"))
        self._facts = self._bars.add_task("", total=None)

    def show(self, progress: TortureProgress) -> None:
        self._bars.update(self._documents, completed=progress.finished, total=progress.documents)
        self._bars.update(self._kills, completed=progress.counts.kills, total=progress.kills_wanted)
        self._bars.update(self._facts, description=", ".join(_facts(progress)))

    def end(self) -> None:
        self._bars.stop()


class PlainDisplay:
    """A line at intervals."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._next = PLAIN_SECONDS / 2

    def show(self, progress: TortureProgress) -> None:
        if progress.elapsed >= self._next:
            self._next = progress.elapsed + PLAIN_SECONDS
            finished = f"{number(progress.finished)} of {counted(progress.documents, 'document')} finished"
            line = ", ".join([finished, *_facts(progress)])
            self._out.print(Text(f"{progress.elapsed:6.1f} s  {line}"), soft_wrap=True)

    def end(self) -> None:
        pass


def _facts(progress: TortureProgress) -> list[str]:
    counts, note = progress.counts, one_line(progress.note, 200)
    again = f"{counted(counts.sent_again, 'event')} sent again"
    facts = [counted(counts.kills, "kill"), f"{number(counts.paused)} paused and resumed", again]
    return [*facts, note] if note else facts
