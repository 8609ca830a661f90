"""Draw the README's pictures: run the demos, and keep what a terminal would show.

python -m examples.picture docs/images
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from examples import demo, display
from examples.day import Day
from examples.tour import QUESTION, ROOT, SAMPLE
from onward.cli.pipeline_run import picture
from onward.pipeline.app import build
from onward.pipeline.progress import ProgressMeter, RunProgress
from onward.pipeline.search import Query, search
from onward.pipeline.sources import submit
from onward.settings import load_settings
from onward.worker import supervise

WIDTH = 96
MOMENT = 5.0
"""Seconds after its beginning: the middle of the outage."""
IDLE = 5.0


def _recorder() -> Console:
    return Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")


def _save(console: Console, path: Path, title: str) -> None:
    # A picture in a README may not load fonts from elsewhere; the reader's own will do.
    frame = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    path.write_text(console.export_svg(title=title, code_format=frame, unique_id=path.stem))


# -- the mail room


class Photographer:
    """A display that keeps one picture, taken in the middle of the outage."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._news: list[display.News] = []
        self._outage_began: float | None = None
        self._taken = False

    def show(self, view: display.View) -> None:
        if view.outage and self._outage_began is None:
            self._outage_began = view.elapsed
        if not self._taken and self._outage_began is not None and view.elapsed > self._outage_began + MOMENT:
            self._taken = True
            self._console.print(display.picture(view, self._news[-display.SHOWN_NEWS :]))

    def tell(self, news: display.News) -> None:
        self._news.append(news)

    def end(self) -> None:
        pass


def draw_mailroom(folder: Path) -> None:
    live, summary = _recorder(), _recorder()
    demo.run(summary, Photographer(live))
    _save(live, folder / "mailroom.svg", "make mailroom")
    _save(summary, folder / "mailroom-summary.svg", "make mailroom, at its end")


# -- the day in the life


def draw_day(folder: Path, home: Path) -> None:
    """Draw the status at the worst moment."""
    home.mkdir()
    with Day(_recorder(), home) as day:
        day.begin()
        day.break_things()
        draw_command(folder, "day-status", home, "status")


# -- the pipeline


def _liveliness(view: RunProgress) -> int:
    return sum(0 < (stage.share or 0) < 1 for stage in view.stages)


def draw_ingest(folder: Path, home: Path) -> None:
    """The liveliest moment of a run over the sample, this documentation and this code."""
    os.environ["ONWARD_HOME"] = str(home)  # the worker processes read it
    with closing(build(load_settings())) as app:
        sources = [submit(app, str(ROOT / path)).source for path in (SAMPLE, "docs", "src")]
        progress = ProgressMeter(app, sources)
        views = [progress.measure()]
        supervise(
            "onward.pipeline.app:app",
            processes=2,
            idle_within=IDLE,
            on_poll=lambda _: views.append(progress.measure()),
        )
    best = max(views, key=lambda view: (_liveliness(view), view.elapsed))
    live = _recorder()
    live.print(picture(best, f"{SAMPLE.name} and 2 other sources", "", 0, Text("⠼", "cyan")))
    _save(live, folder / "ingest.svg", f"onward ingest {SAMPLE.name} docs/ src/")


def draw_command(folder: Path, name: str, home: Path, *args: str) -> None:
    """What a command prints on a terminal."""
    terminal = {"FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    ran = subprocess.run(
        [sys.executable, "-m", "onward", *args],
        env={**os.environ, **terminal, "ONWARD_HOME": str(home), "TZ": "UTC"},
        capture_output=True,
        text=True,
        check=True,
    )
    console = _recorder()
    # The usual data folder, not a temporary one.
    console.print(Text.from_ansi(ran.stdout.rstrip("\n").replace(f"{home}/", "onward-data/")))
    _save(console, folder / f"{name}.svg", f"onward {' '.join(args)}")


def draw_commands(folder: Path, home: Path) -> None:
    """A search in the sample alone, as in the tour, and the summary of the thread that it finds."""
    with closing(build(load_settings({"ONWARD_HOME": str(home)}))) as app:
        submit(app, str(ROOT / SAMPLE))
        app.work_until_idle()
        (found,) = search(app, Query(QUESTION), limit=1).hits
    draw_command(folder, "search", home, "search", "--limit", "3", *QUESTION.split())
    draw_command(folder, "summary", home, "summaries", "--thread", found.message.thread_id[:8])


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="onward-picture-") as scratch:
        draw_commands(folder, Path(scratch, "commands"))
        draw_ingest(folder, Path(scratch, "ingest"))
        draw_day(folder, Path(scratch, "day"))
    draw_mailroom(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
