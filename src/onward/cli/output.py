"""Prints text for people: lines, fields and tables, with control characters of documents escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from onward.ops.text.format import counted, harmless, number, one_line

NAME_WIDTH = 12  # of the names of fields, and the least width of the names in a table
STATUS_STYLES = {"processed": "green", "pending": "yellow", "discarded": "dim"}  # the others are red
_MARKED = re.compile(r"\x02(.*?)\x03", re.DOTALL)
_NONE = "·"
Part = str | Text | tuple[str, str]  # text, or text and its style


class Output(Console):
    """The console for text: coloured on a terminal, without control codes elsewhere."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(highlight=False, emoji=False, stderr=stderr)

    def write(self, *parts: Part, style: str = "") -> None:
        """Print a line, however long it is."""
        self.print(Text.assemble(*parts, style=style), soft_wrap=True)

    def entry(self, *parts: Part, style: str = "") -> None:
        """Print a line of a list; on a terminal it is cut at the edge."""
        if self.is_terminal:
            self.print(Text.assemble(*parts, style=style), no_wrap=True, overflow="ellipsis")
        else:
            self.write(*parts, style=style)

    def wrapped(self, text: str, style: str = "") -> None:
        """Print a text in lines of the console's width."""
        self.print(Text(text, style))

    def hint(self, text: str, command: str) -> None:
        """Print a command that somebody may type next."""
        self.print(Text.assemble((text, "dim"), command))

    def field(self, name: str, value: str, style: str = "") -> None:
        """Print a value after its name, unless it is empty."""
        if value:
            self.write((f"{name:{NAME_WIDTH - 1}} ", "dim"), (one_line(value), style))

    def hanging(self, head: Text, text: Text) -> None:
        """Print a text after its head; on a terminal its lines stay in their column."""
        width = len(head.plain)
        if not self.is_terminal or self.width < 2 * width:
            self.write(head, text)
            return
        for line in text.wrap(self, self.width - width):
            line.rstrip()
            self.print(Text.assemble(head, line))
            head = Text(" " * width)

    def indented(self, indent: int, text: Text, head: str = "") -> None:
        """Print a text in lines of at most 110 characters, each after some blanks; the first after its head."""
        for line in text.wrap(self, max(20, min(self.width, 110) - indent)):
            line.rstrip()
            self.write((f"{head:{indent}}", "cyan"), line)
            head = ""

    def table(self, heads: Sequence[str], rows: Sequence[tuple[str, list[Text]]]) -> None:
        """Print a table, or one line a row where the table does not fit."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", border_style="dim")
        table.add_column(heads[0], overflow="fold", min_width=max(len(heads[0]), NAME_WIDTH))
        for position, head in enumerate(heads[1:]):
            # Without it, a cell of several words would count as wide as its longest one.
            width = max([len(head), *(cells[position].cell_len for _, cells in rows)])
            table.add_column(head, justify="right", no_wrap=True, min_width=width)
        for name, cells in rows:
            table.add_row(Text(one_line(name)), *cells)
        if Measurement.get(self, self.options.update(max_width=1000), table).minimum <= self.width:
            self.print(table)
            return
        self.print()
        for name, cells in rows:
            named = [
                Text.assemble(f"{head} ", cell)
                for head, cell in zip(heads[1:], cells, strict=True)
                if cell.plain not in ("", _NONE)
            ]
            about = Text(", ").join(named) if named else Text("nothing", "dim")
            self.print(Text.assemble(f"{one_line(name)}: ", about))
        self.print()


def marked(text: str, *, terminal: bool) -> Text:
    """Return an excerpt with its matching words marked: by style on a terminal, by `*` elsewhere."""
    shown = Text()
    # Every second part is a match. Each is put on one line, with the blanks at its ends.
    for position, part in enumerate(re.sub(r"\s+", " ", harmless(one)) for one in _MARKED.split(text)):
        if not position % 2:
            shown.append(part)
        else:
            shown.append(part, "bold yellow") if terminal else shown.append(f"*{part}*")
    return shown


def events_wait(count: int) -> str:
    """Return the beginning of a sentence: 1 event waits, 3 events wait."""
    return f"{counted(count, 'event')} {'waits' if count == 1 else 'wait'}"


def count_cell(count: int, style: str = "") -> Text:
    """Return a number for a table, or a dot for 0."""
    return Text(number(count), style) if count else Text(_NONE, "dim")
