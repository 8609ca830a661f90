"""`onward summaries`: what the threads are about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.text import Text

from onward.cli.opening import reading
from onward.cli.output import console, json_option, print_json
from onward.facts.finding import EMPTY, NotFound, known, resolve, short_ids
from onward.facts.searching import first_lines, read_summaries, summary_facts
from onward.facts.wording import counted, moment, one_line

if TYPE_CHECKING:
    from onward import App
    from onward.pipeline.documents import Summary


@click.command()
@click.option("--source", metavar="SOURCE", help="Only of this source; the end of its name will do.")
@click.option("--thread", metavar="ID", help="The whole summary of one thread; the beginning of its id will do.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many.")
@json_option
def summaries(source: str | None, thread: str | None, limit: int, as_json: bool) -> None:
    """List the summarised threads, the one with the newest message first.

    \b
    Examples:
      onward summaries
      onward summaries --source harbour-list.mbox --limit 5
      onward summaries --thread 02ba096c
    """
    with reading() as app:
        if thread is not None:
            _print_one(app, thread, as_json)
            return
        chosen = known(app, source) if source else None
        found = sorted(read_summaries(app, chosen), key=lambda one: (-(one[1] or 0.0), one[0].id))
        if as_json:
            print_json(
                {"total": len(found), "summaries": [summary_facts(one, latest) for one, latest in found[:limit]]}
            )
            return
        if not found:
            click.echo("There are no summaries yet; see `onward status`." if app.store.sources() else EMPTY)
            return
        _print_list(app, found, limit)


def _print_list(app: App, found: list[tuple[Summary, float | None]], limit: int) -> None:
    out = console()
    shown = found[:limit]
    ids = short_ids(app, [one.id for one, _ in shown])
    for one, latest in shown:
        subject = one_line(one.subject) or "(no subject)"
        about = " · ".join(part for part in (counted(one.messages, "message"), moment(latest)) if part)
        out.print(
            Text.assemble((ids[one.id], "green"), "  ", (subject, "bold"), (f"  {about}", "dim")), soft_wrap=True
        )
        width = max(20, min(out.width, 110) - 10)
        for line in Text(first_lines(one.markdown)).wrap(out, width):
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
