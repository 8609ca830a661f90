"""`onward actions`: what people have changed by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.text import Text

from onward.cli.app_access import open_store_app
from onward.cli.params import Count, json_option
from onward.cli.render.output import console, print_entry, print_json
from onward.ops.actions.action import action_facts
from onward.ops.text.format import moment, number, one_line
from onward.retry.redact import redact

if TYPE_CHECKING:
    pass

LISTED = 50


@click.command()
@click.option("--limit", type=Count(), default=LISTED, show_default=True, help="List at most this many.")
@click.option("--before", type=Count(), metavar="NUMBER", help="Go on behind the action of this number.")
@json_option
def actions(limit: int, before: int | None, as_json: bool) -> None:
    """Show what people have changed by hand, the latest first: who, when, what, and how much of it.

    \b
    Examples:
      onward actions
      onward actions --limit 10 --json
    """
    with open_store_app() as app:
        found = app.store.actions(limit=limit + 1, before=before)
    shown = found[:limit]
    if as_json:
        print_json([action_facts(one) for one in shown])
        return
    out = console()
    if not shown:
        out.print(Text("Nothing has been changed by hand." if before is None else "There are no earlier ones."))
        return
    for one in shown:
        about = one_line(redact(" ".join(f"{name}={_brief(value)}" for name, value in one.about.items())), 200)
        line = Text.assemble(
            (f"{one.id:>5}  ", "dim"),
            f"{moment(one.at)}  {one_line(one.who, 20):12}  ",
            (f"{one_line(one.action, 40):18}", "bold"),
            f"  {number(one.touched):>6}  ",
            (about, "dim"),
        )
        print_entry(out, line)
    if len(found) > limit:
        out.print(Text.assemble(("Earlier ones: ", "dim"), f"onward actions --before {shown[-1].id}"))


def _brief(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(one) for one in value[:3]) + (f",… ({len(value)})" if len(value) > 3 else "")
    return str(value).lower() if isinstance(value, bool) else str(value)
