"""What the demo shows: a calm picture on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

STYLES = {"good": "green", "wait": "yellow", "bad": "red", "plain": "dim"}
SHOWN_NEWS = 9


@dataclass(frozen=True, slots=True)
class News:
    """Something worth telling, and when it happened since the start."""

    at: float
    text: str
    mood: str = "plain"


@dataclass(slots=True)
class ServiceView:
    """The number of events of a service by state."""

    name: str
    done: int = 0
    waiting: int = 0
    under_way: int = 0
    retried: int = 0
    set_aside: int = 0


@dataclass(slots=True)
class View:
    """Everything that is shown at one moment."""

    total: int
    services: list[ServiceView]
    began: float = field(default_factory=time.time)
    weather: str = "answers"
    """How the interpreter is, in words."""
    outage: bool = False

    def service(self, name: str) -> ServiceView:
        return next(service for service in self.services if service.name == name)

    @property
    def elapsed(self) -> float:
        return time.time() - self.began


class Display(Protocol):
    """Shows a view and the latest news."""

    def show(self, view: View) -> None: ...
    def tell(self, news: News) -> None: ...
    def end(self) -> None: ...


class LiveDisplay:
    """One picture that is redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._news: deque[News] = deque(maxlen=SHOWN_NEWS)
        self._live = Live(console=console, auto_refresh=False)
        self._live.start()

    def show(self, view: View) -> None:
        self._live.update(picture(view, list(self._news)), refresh=True)

    def tell(self, news: News) -> None:
        self._news.append(news)

    def end(self) -> None:
        self._live.stop()


class PlainDisplay:
    """Lines, one after the other: the news, and now and then how far it is."""

    EVERY = 2.0

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0

    def show(self, view: View) -> None:
        if view.elapsed < self._next:
            return
        self._next = view.elapsed + self.EVERY
        filed = view.services[-1].done
        waiting = sum(service.waiting for service in view.services)
        retried = sum(service.retried for service in view.services)
        aside = sum(service.set_aside for service in view.services)
        text = f"{filed} filed, {waiting} waiting, {retried} retried, {aside} set aside"
        self.tell(News(view.elapsed, text))

    def tell(self, news: News) -> None:
        self._console.print(f"{news.at:5.1f} s  {news.text}", soft_wrap=True)

    def end(self) -> None:
        pass


def picture(view: View, news: list[News]) -> RenderableType:
    """Draw a view with its latest news."""
    head = Table.grid(expand=True)
    head.add_column()
    head.add_column(justify="right")
    head.add_row(f"[bold]Onward[/]  [dim]a mail room of {view.total} letters[/]", f"{view.elapsed:4.1f} s")
    return Padding(Group(head, "", _services(view), "", _weather(view), "", _news(news)), (1, 2))


def _services(view: View) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False, header_style="dim", border_style="dim")
    table.add_column("service", width=12)
    table.add_column("", ratio=1)
    for name in ("done", "under way", "waiting", "retried", "set aside"):
        table.add_column(name, justify="right", min_width=5, no_wrap=True)
    for service in view.services:
        bar = ProgressBar(
            total=view.total,
            completed=service.done,
            complete_style="green",
            finished_style="green",
            style="grey23",
        )
        table.add_row(
            service.name,
            bar,
            _number(service.done, "green"),
            _number(service.under_way, "cyan"),
            _number(service.waiting, "yellow"),
            _number(service.retried, "magenta"),
            _number(service.set_aside, "red"),
        )
    return table


def _number(value: int, style: str) -> Text:
    return Text(str(value), style=style) if value else Text("·", style="dim")


def _weather(view: View) -> Text:
    style = "yellow" if view.outage else "green"
    return Text.assemble(
        ("● ", style), ("interpreter  ", "default"), (view.weather, style if view.outage else "dim")
    )


def _news(news: list[News]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="dim", width=6)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for item in news:
        table.add_row(f"{item.at:.1f} s", Text(item.text, style=STYLES[item.mood]))
    for _ in range(SHOWN_NEWS - len(news)):
        table.add_row("", "")
    return table
