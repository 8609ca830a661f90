"""Measured rows and one table of their ratios; and sheets, for what is not a rate."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

COLUMNS = ("measure", "who", "per second", "ratio", "note")


@dataclass(frozen=True, slots=True)
class Row:
    """How fast one contestant was; neighbours with the same measure are compared."""

    name: str
    ours: bool
    per_second: float
    note: str = ""
    measure: str = ""
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table with columns of its own; all but the first `labels` columns are numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    labels: int = 1

    def markdown(self) -> str:
        marks = ["---"] * self.labels + ["---:"] * (len(self.columns) - self.labels)
        lines = ("| " + " | ".join(line) + " |" for line in (self.columns, marks, *self.rows))
        return f"**{self.title}**\n\n" + "\n".join(lines)


def medians(contestants: Mapping[str, Callable[[], float]], repeats: int = 9) -> dict[str, float]:
    """Let each contestant run in turn, again and again, and return the median of what each reported.

    Taking turns makes a noisy moment of the machine hit all of them alike.
    """
    results: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, run in contestants.items():
            results[name].append(run())
    return {name: statistics.median(rates) for name, rates in results.items()}


def cells(rows: list[Row]) -> list[tuple[str, ...]]:
    """Return the table's body; a ratio says how many times as fast as that peer we are."""
    body: list[tuple[str, ...]] = []
    for measure, group in groupby(rows, key=lambda row: row.measure):
        compared = list(group)
        ours = max((row.per_second for row in compared if row.ours), default=None)
        for row in compared:
            ratio = "" if row.ours or ours is None else _times(ours / row.per_second)
            body.append((measure, row.name, f"{row.per_second:,.{row.digits}f}", ratio, row.note))
    return body


def _times(ratio: float) -> str:
    return f"{ratio:.{2 if ratio < 2 else 1}f} ×"


def render_markdown(rows: list[Row], earlier: str = "") -> str:
    """Return the table as Markdown; with an earlier one, the measures that are not in this one come from there."""
    head, *body = ("| " + " | ".join(line) + " |" for line in (COLUMNS, *cells(rows)))
    measures: dict[str, list[str]] = {}
    for line in earlier.splitlines()[2:]:
        measures.setdefault(_measure(line), []).append(line)
    measures |= {measure: list(group) for measure, group in groupby(body, key=_measure)}
    lines = [head, "| --- | --- | ---: | ---: | --- |", *(line for group in measures.values() for line in group)]
    return "\n".join(lines)


def between(file: Path, begin: str, end: str) -> str:
    """Return the text of a file between two marks."""
    return file.read_text().partition(begin)[2].partition(end)[0]


def put_between(file: Path, begin: str, end: str, text: str) -> None:
    """Replace the text of a file between two marks."""
    before, mark, rest = file.read_text().partition(begin)
    _, other, after = rest.partition(end)
    if not mark or not other:
        raise ValueError(f"{file} has no {begin} … {end} to put a table into; add these two lines")
    file.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def _measure(line: str) -> str:
    return line.split(" | ", 1)[0]


def print_table(rows: list[Row]) -> None:
    """Print the table for people on a terminal, as Markdown elsewhere."""
    console = Console(highlight=False)
    if not console.is_terminal:
        print(render_markdown(rows))
        return
    table = Table(box=SIMPLE_HEAD)
    for name in COLUMNS:
        table.add_column(name, justify="right" if name in ("per second", "ratio") else "left")
    for row, cell in zip(rows, cells(rows), strict=True):
        table.add_row(*cell, style="bold" if row.ours else "")
    console.print(table)


def print_sheet(sheet: Sheet) -> None:
    """Print a sheet for people on a terminal, as Markdown elsewhere."""
    console = Console(highlight=False)
    if not console.is_terminal:
        print(sheet.markdown() + "\n")
        return
    table = Table(box=SIMPLE_HEAD, title=sheet.title, title_justify="left")
    for place, name in enumerate(sheet.columns):
        table.add_column(name, justify="left" if place < sheet.labels else "right")
    for row in sheet.rows:
        table.add_row(*row)
    console.print(table)
