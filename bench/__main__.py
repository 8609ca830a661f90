"""`python -m bench [PART…]`: run the parts and print one table of ratios; search has tables of its own."""

from __future__ import annotations

import importlib
import json
from dataclasses import asdict
from pathlib import Path

import click

from bench.table import Row, Sheet, print_sheet, print_table, render_markdown
from tests.support.servers import ServerError

PARTS = ("policy", "ledger", "postgres", "rabbitmq", "retry_job", "observing", "console", "pipeline")
SEARCH_PARTS = ("quality", "scale")  # run if they are named: they take long, and compare no rates
BEGIN, END = "<!-- bench -->", "<!-- /bench -->"


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice([*PARTS, *SEARCH_PARTS]))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--archive",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A mailing-list archive (mbox, .gz) for pipeline, quality and scale; the shipped sample by default.",
)
@click.option(
    "--cranfield",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder with cran.all, cran.qry and cran.rel, for quality.",
)
@click.option(
    "--into", type=click.Path(path_type=Path, exists=True), help="Put the rows into the table of this file."
)
def main(
    parts: tuple[str, ...], as_json: bool, archive: Path | None, cranfield: Path | None, into: Path | None
) -> None:
    """Compare with other libraries, in one run on this machine; `quality` and `scale` measure search."""
    rows: list[Row] = []
    sheets: list[Sheet] = []
    options = {
        "pipeline": {"archive": archive},
        "quality": {"archive": archive, "cranfield": cranfield},
        "scale": {"archive": archive},
    }
    for part in parts or PARTS:
        click.echo(f"measuring {part} …", err=True)
        module = importlib.import_module(f"bench.{part}")
        try:
            (sheets if part in SEARCH_PARTS else rows).extend(module.run(**options.get(part, {})))
        except ServerError as error:
            if parts:
                raise click.ClickException(str(error)) from None
            click.secho(f"{part} is left out: {error}", err=True, fg="red")
    if into is not None and rows:
        given = ' ARGS="--archive ARCHIVE"' if archive else ""
        made = f"Made by `make bench{given}`, on 2 shared cores; compare ratios, not rates."
        before, _, rest = into.read_text().partition(BEGIN)
        shown, _, after = rest.partition(END)
        if parts:  # what was not measured again stays as it is
            made, _, shown = shown.strip().partition("\n\n")
        table = f"{made}\n\n{render_markdown(rows, shown if parts else '')}"
        into.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")
    if as_json:
        click.echo(json.dumps([*map(asdict, rows), *map(asdict, sheets)], indent=2))
        return
    if rows:
        print_table(rows)
    for sheet in sheets:
        print_sheet(sheet)


main()
