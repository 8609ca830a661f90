"""Draw the README's pictures: run the demo, and keep what a terminal would show.

python -m examples.picture docs/images
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from examples.demo import run
from examples.display import SHOWN_NEWS, News, View, picture

WIDTH = 96
MOMENT = 5.0
"""Seconds after its beginning: the middle of the outage."""


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
    return Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")


def _save(console: Console, path: Path, title: str) -> None:
    # A picture in a README may not load fonts from elsewhere; the reader's own will do.
    frame = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    path.write_text(console.export_svg(title=title, code_format=frame, unique_id=path.stem))


def main(folder: Path) -> None:
    live, summary = _recorder(), _recorder()
    run(summary, Photographer(live))
    folder.mkdir(parents=True, exist_ok=True)
    _save(live, folder / "demo.svg", "make demo")
    _save(summary, folder / "demo-summary.svg", "make demo, at its end")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
