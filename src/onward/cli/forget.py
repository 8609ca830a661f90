"""`onward forget`: remove sources and all that came from them."""

from __future__ import annotations

import click
from rich.text import Text

from onward.cli.opening import pipeline, reading
from onward.cli.output import console, json_option, print_json
from onward.facts.finding import known
from onward.facts.wording import counted, source_name


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE…")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@json_option
def forget(sources: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Remove sources and all that came from them: documents, vectors, summaries and blobs.

    The files and pages themselves are not touched. The end of a source's name will do.

    \b
    Examples:
      onward forget --dry-run harbour-list.mbox
      onward forget harbour-list.mbox https://example.org/list.mbox.gz
    """
    from onward.facts.accounting import totals
    from onward.pipeline.sources import forget as remove

    with reading() as look:
        meant = list(dict.fromkeys(known(look, one) for one in sources))  # all of them, before any is removed
        counts = {source: sum(totals(look, source).values()) for source in meant}
    removed = counts
    if not dry_run:
        with pipeline() as app:
            removed = {source: remove(app, source) for source in meant}
    if as_json:
        found = [{"source": source_name(source), "documents": count} for source, count in removed.items()]
        print_json({"dry_run": dry_run, "forgotten": found})
        return
    out = console()
    for source, count in removed.items():
        what = "would be removed" if dry_run else "removed"
        out.print(Text(f"{source_name(source)}: {counted(count, 'document')} {what}"), soft_wrap=True)
