"""What is seen of `onward torture` while it runs."""

from __future__ import annotations

from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from onward.cli.display import PLAIN_EVERY
from onward.cli.output import console
from onward.facts.wording import counted, duration, number, one_line
from onward.torture.run import Seen

DRAWN_EVERY = 0.25


class Display(Protocol):
    """Shows how a run goes."""

    def show(self, seen: Seen) -> None: ...
    def end(self) -> None: ...


def open_display(title: str) -> Display:
    """The display that suits where standard error goes."""
    out = console(stderr=True)
    return LiveDisplay(out, title) if out.is_terminal else PlainDisplay(out)


class LiveDisplay:
    """One picture that is redrawn in place, and gone when the run is over."""

    def __init__(self, out: Console, title: str) -> None:
        self._title = title
        self._spinner = Spinner("dots", style="cyan")
        self._drawn = 0.0
        self._live = Live(console=out, auto_refresh=False, transient=True)
        self._live.start()
        self._live.update(Padding(Text(f"{one_line(title, 100)}: starting …", "dim"), (1, 2)), refresh=True)

    def show(self, seen: Seen) -> None:
        if seen.elapsed - self._drawn >= DRAWN_EVERY:
            self._drawn = seen.elapsed
            self._live.update(picture(seen, self._title, self._spinner), refresh=True)

    def end(self) -> None:
        self._live.stop()


class PlainDisplay:
    """A line now and then."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._next = PLAIN_EVERY / 2

    def show(self, seen: Seen) -> None:
        if seen.elapsed >= self._next:
            self._next = seen.elapsed + PLAIN_EVERY
            facts = [f"{number(seen.finished)} of {counted(seen.documents, 'document')} finished", *_facts(seen)]
            note = [one_line(seen.note, 200)] if seen.note else []
            self._out.print(Text(f"{seen.elapsed:6.1f} s  {', '.join([*facts, *note])}"), soft_wrap=True)

    def end(self) -> None:
        pass


def picture(seen: Seen, title: str, spinner: RenderableType = "") -> RenderableType:
    """Draw how a run goes."""
    head = Table.grid(expand=True)
    head.add_column(width=2)
    head.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    head.add_column(justify="right")
    head.add_row(spinner, Text(one_line(title), "bold"), Text(duration(seen.elapsed), "dim"))
    bars = Table.grid(expand=True, padding=(0, 1))
    bars.add_column(width=10)
    bars.add_column(ratio=1)
    bars.add_column(justify="right", width=18, no_wrap=True)
    for name, done, of in (("documents", seen.finished, seen.documents), ("kills", seen.kills, seen.asked_kills)):
        bar = ProgressBar(total=max(1, of), completed=done, complete_style="cyan", finished_style="green")
        bars.add_row(Text(name), bar, Text(f"{number(done)} of {number(of)}"))
    parts: list[RenderableType] = [head, Text(), bars, Text(), Text(", ".join(_facts(seen)), "dim")]
    if seen.note:
        parts.append(Text(one_line(seen.note, 240), "yellow"))
    return Padding(Group(*parts), (1, 2))


def _facts(seen: Seen) -> list[str]:
    done = seen.done
    facts = [counted(done.kills, "kill")]
    if done.servers_killed:
        facts.append(f"{counted(done.servers_killed, 'kill')} of servers")
    return [*facts, f"{number(done.stopped)} stopped and woken", f"{counted(done.sent_again, 'event')} sent again"]
