"""`onward joins`: events that wait until documents are final."""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

from onward.cli.app_access import open_reading_app
from onward.cli.output import Output, count_cell
from onward.cli.params import COUNT, json_option, print_json
from onward.ops.queries.joins import join_facts
from onward.ops.text.format import duration, number, one_line


@click.command()
@click.option("--limit", type=COUNT, default=50, show_default=True, help="List at most this many.")
@click.option("--after", type=COUNT, metavar="NUMBER", help="Go on behind the event of this number.")
@json_option
def joins(limit: int, after: int | None, as_json: bool) -> None:
    """Show the events that wait until all of their documents are final, the oldest first.

    They are published by themselves when the last document is processed, given up or removed. An event that
    allows no failed document also waits until each one that failed is processed, discarded or removed.

    \b
    Examples:
      onward joins
      onward joins --limit 10 --json
    """
    with open_reading_app() as app:
        found = join_facts(app, limit=limit + 1, after=after or 0)
    shown = found[:limit]
    if as_json:
        print_json({"joins": shown})
        return
    out = Output()
    if not shown:
        out.write("No event waits for documents.")
        return
    out.table(("event", "number", "open", "of", "failed", "waits"), [(one["event"], _cells(one)) for one in shown])
    for one in shown:
        more = f" and {number(rest)} more" if (rest := one["open"] - len(one["open_documents"])) > 0 else ""
        strict = "" if one["allow_failed"] else ", and none may fail"
        waits = ", ".join(one_line(name, 100) for name in one["open_documents"]) or "more, which are being added"
        out.write(f"{one_line(one['event'])} {one['join']} waits for {waits}{more}{strict}", style="dim")
        if one["next"]:
            out.write(f"  {one_line(one['next']['document'], 100)}: {one_line(one['next']['text'])}", style="dim")
    if len(found) > limit:
        out.hint("More: ", f"onward joins --after {shown[-1]['join']}")


def _cells(one: dict[str, Any]) -> list[Text]:
    return [
        Text(str(one["join"]), "dim"),
        count_cell(one["open"], "yellow"),
        count_cell(one["total"]),
        count_cell(one["failed"], "red"),
        Text(duration(round(one["waits_seconds"])), "dim"),
    ]
