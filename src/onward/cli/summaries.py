"""`onward summaries`: what the threads are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.text import Text

from onward.cli.app_access import open_store_app
from onward.cli.params import json_option
from onward.cli.render.output import console, print_json
from onward.ops.bad_input import NotFound
from onward.ops.lookup import EMPTY, resolve, resolve_source, short_ids
from onward.ops.queries.threads import first_lines, read_summaries, summary_facts
from onward.ops.text.format import counted, moment, one_line

if TYPE_CHECKING:
    from onward import App
    from onward.pipeline.documents import Summary


@click.command()
@click.option("--source", metavar="SOURCE", help="Only threads of this source (its name, or the end of it).")
@click.option("--thread", metavar="ID", help="The whole summary of one thread (its id, or the start of it).")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="The most threads to list.")
@json_option
def summaries(source: str | None, thread: str | None, limit: int, as_json: bool) -> None:
    """List the summarised threads, by their newest message.

    \b
    Examples:
      onward summaries
      onward summaries --source harbour-list.mbox --limit 5
      onward summaries --thread 02ba096c
    """
    with open_store_app() as app:
        if thread is not None:
            _print_one(app, thread, as_json)
            return
        chosen = resolve_source(app, source) if source else None
        found = sorted(read_summaries(app, chosen), key=lambda item: (-(item[1] or 0.0), item[0].id))
        if as_json:
            print_json(
                {"total": len(found), "summaries": [summary_facts(item, latest) for item, latest in found[:limit]]}
            )
            return
        if not found:
            click.echo("There are no summaries yet; see `onward status`." if app.store.sources() else EMPTY)
            return
        _print_list(app, found, limit)


def _print_list(app: App, found: list[tuple[Summary, float | None]], limit: int) -> None:
    out = console()
    shown = found[:limit]
    ids = short_ids(app, [item.id for item, _ in shown])
    for item, latest in shown:
        subject = one_line(item.subject) or "(no subject)"
        about = " · ".join(part for part in (counted(item.messages, "message"), moment(latest)) if part)
        out.print(
            Text.assemble((ids[item.id], "green"), "  ", (subject, "bold"), (f"  {about}", "dim")), soft_wrap=True
        )
        width = max(20, min(out.width, 110) - 10)
        for line in Text(first_lines(item.markdown)).wrap(out, width):
            line.rstrip()
            out.print(Text.assemble(" " * 10, line), soft_wrap=True)
        out.print()
    rest = f", the newest {len(shown)} of them here; --limit shows more" if len(found) > len(shown) else ""
    out.print(Text(f"{counted(len(found), 'thread')}{rest}.", "dim"))
    out.print(Text.assemble(("To read one: ", "dim"), f"onward summaries --thread {ids[shown[0][0].id]}"))


def _print_one(app: App, thread: str, as_json: bool) -> None:
    from onward.cli.show import print_summary
    from onward.pipeline.documents import Summary

    _, id = resolve(app, thread, ("summaries", "threads"))
    summary = app.get(Summary, id)
    if summary is None:
        raise NotFound(f"the thread {id} has no summary yet; `onward show {id}` says how it stands")
    if as_json:
        print_json(summary.model_dump(mode="json"))
        return
    print_summary(console(), summary)
