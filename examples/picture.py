"""Draw the README's pictures: run the demo, and keep what a terminal would show.

python -m examples.picture docs/images
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from rich.console import Console

from examples.demo import run
from examples.display import SHOWN_NEWS, News, View, picture

WIDTH = 96
MOMENT = 6.0
"""Seconds left until the breaker's probe: the middle of the outage."""


class Photographer:
    """A display that keeps one picture, taken in the middle of the outage."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._news: list[News] = []
        self._outage_began: float | None = None
        self._taken = False

    def show(self, view: View) -> None:
        if view.outage and self._outage_began is None:
            self._outage_began = view.elapsed
        if not self._taken and self._outage_began is not None and view.elapsed > self._outage_began + MOMENT:
            self._taken = True
            self._console.print(picture(view, self._news[-SHOWN_NEWS:]))

    def tell(self, news: News) -> None:
        self._news.append(news)

    def end(self) -> None:
        pass


def _recorder() -> Console:
    return Console(
        record=True,
        width=WIDTH,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
    )


def main(folder: Path) -> None:
    live, summary = _recorder(), _recorder()
    run(summary, Photographer(live))
    folder.mkdir(parents=True, exist_ok=True)
    live.save_svg(str(folder / "demo.svg"), title="make demo")
    summary.save_svg(str(folder / "demo-summary.svg"), title="make demo, 20 seconds later")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
