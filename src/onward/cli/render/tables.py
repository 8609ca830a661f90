"""Tables of counts, for terminals of any width."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from onward.ops.text.format import number, one_line

MIN_NAME_WIDTH = 12
"""The least width of the column of names, in characters."""
_NONE = "·"


def print_table(out: Console, heads: Sequence[str], rows: Sequence[tuple[str, list[Text]]]) -> None:
    """Print a table, or one line a row where the table does not fit."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", border_style="dim")
    table.add_column(heads[0], overflow="fold", min_width=max(len(heads[0]), MIN_NAME_WIDTH))
    for head in heads[1:]:
        table.add_column(head, justify="right", no_wrap=True)
    for name, cells in rows:
        table.add_row(Text(one_line(name)), *cells)
    if Measurement.get(out, out.options.update(max_width=1000), table).minimum <= out.width:
        out.print(table)
        return
    out.print()
    for name, cells in rows:
        named = [
            (head, cell) for head, cell in zip(heads[1:], cells, strict=True) if cell.plain not in ("", _NONE)
        ]
        cells_text = Text(", ").join(Text.assemble(f"{head} ", cell) for head, cell in named)
        out.print(Text.assemble(f"{one_line(name)}: ", cells_text if named else Text("nothing", "dim")))
    out.print()


def count_cell(count: int, style: str = "") -> Text:
    """Return a number for a table, or a dot for 0."""
    return Text(number(count), style) if count else Text(_NONE, "dim")
