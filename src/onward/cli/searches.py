"""`onward searches`: the saved searches."""

from __future__ import annotations

import click

from onward.cli.app_access import open_reading_app, open_store_app
from onward.cli.output import Output
from onward.cli.params import json_option, list_by_default, print_json
from onward.ops.text.format import one_line


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def searches(ctx: click.Context, as_json: bool) -> None:
    """List and remove saved searches.

    `onward search --save NAME WORDS…` saves a query, `onward search @NAME` runs it. What follows @NAME is added
    to the query, and dates such as after:7d are counted from the day on which it runs.

    \b
    Examples:
      onward search --save storms 'storm subject:damage after:30d'
      onward search @storms from:davy
      onward searches
      onward searches remove storms
    """
    list_by_default(ctx, list_searches, {"as_json": as_json})


@searches.command("list")
@json_option
def list_searches(as_json: bool) -> None:
    """List the saved searches by name."""
    from onward.pipeline.saved_searches import read_searches

    with open_reading_app() as app:
        found = read_searches(app)
    if as_json:
        print_json([{"name": search.name, "query": search.text} for search in found])
        return
    out = Output()
    if not found:
        out.wrapped("No search is saved. To save one: onward search --save NAME WORDS…")
        return
    width = max(len(search.name) for search in found)
    for search in found:
        out.entry((f"@{search.name:{width}}  ", "green"), one_line(search.text))


@searches.command("remove")
@click.argument("name", metavar="NAME")
def remove(name: str) -> None:
    """Remove a saved search; messages stay as they are."""
    from onward.pipeline.saved_searches import remove_search

    with open_store_app() as app:
        search = remove_search(app, name)
    click.echo(f"Removed @{search.name}: {one_line(search.text)}")
