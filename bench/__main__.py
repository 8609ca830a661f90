"""`python -m bench [PART…]`: run the parts and print one table of ratios; search and growth have their own."""

from __future__ import annotations

import importlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from bench.table import Row, Sheet, between, print_sheet, print_table, put_between, render_markdown
from tests.support.servers import ServerError

PARTS = (
    "policy",
    "ledger",
    "postgres",
    "transactional_publish",
    "keys",
    "tasks",
    "rate_limits",
    "rabbitmq",
    "retry_job",
    "observing",
    "console",
    "pipeline",
)
SHEET_PARTS = (
    "quality",
    "formats",
    "scale",
    "cells",
    "growth",
    "capacity",
    "endurance",
)  # only if named: they take long, and compare no rates
BEGIN, END = "<!-- bench -->", "<!-- /bench -->"
CELLS_BEGIN, CELLS_END = "<!-- cells -->", "<!-- /cells -->"
CELLS_TITLES = ("Chaos", "Pressure")


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice([*PARTS, *SHEET_PARTS]))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--archive",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A mailing-list archive (mbox, .gz) for pipeline, quality, scale and growth; a sample by default.",
)
@click.option(
    "--cranfield",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder with cran.all, cran.qry and cran.rel, for quality.",
)
@click.option("--chart", type=click.Path(path_type=Path, dir_okay=False), help="Draw growth into this SVG file.")
@click.option("--figures", type=click.Path(path_type=Path, dir_okay=False), help="Write those of capacity here.")
@click.option(
    "--into", type=click.Path(path_type=Path, exists=True), help="Put the rows into the table of this file."
)
@click.option("--only", multiple=True, help="Only this cell, for cells; can be repeated.")
@click.option("--peers", multiple=True, help="Only this queue, for cells; can be repeated.")
@click.option("--seconds", type=click.FloatRange(min=1), help="How long a disturbance lasts, for cells.")
def main(
    parts: tuple[str, ...],
    as_json: bool,
    archive: Path | None,
    cranfield: Path | None,
    chart: Path | None,
    figures: Path | None,
    into: Path | None,
    only: tuple[str, ...],
    peers: tuple[str, ...],
    seconds: float | None,
) -> None:
    """Compare with other libraries, in one run on this machine.

    `quality` and `scale` measure search, `formats` the readers of files, `growth` pages, commands and an ingest as
    the store grows; `cells` disturbs queues in PostgreSQL; `capacity` measures what events and messages cost,
    `endurance` what millions of events leave behind.
    """
    rows: list[Row] = []
    sheets: list[Sheet] = []
    options: dict[str, dict[str, Any]] = {
        "pipeline": {"archive": archive},
        "quality": {"archive": archive, "cranfield": cranfield},
        "scale": {"archive": archive},
        "cells": {"only": only, "peers": peers, "seconds": seconds},
        "growth": {"archive": archive, "chart": chart},
        "capacity": {"archive": archive, "figures": figures},
    }
    for part in parts or PARTS:
        click.echo(f"measuring {part} …", err=True)
        module = importlib.import_module(f"bench.{part}")
        try:
            (sheets if part in SHEET_PARTS else rows).extend(module.run(**options.get(part, {})))
        except ServerError as error:
            if parts:
                raise click.ClickException(str(error)) from None
            click.secho(f"{part} is left out: {error}", err=True, fg="red")
    if into is not None and rows:
        given = ' ARGS="--archive ARCHIVE"' if archive else ""
        made = f"Made by `make bench{given}`, on 2 shared cores; compare ratios, not rates."
        shown = between(into, BEGIN, END)
        if parts:  # what was not measured again stays as it is
            made, _, shown = shown.strip().partition("\n\n")
        put_between(into, BEGIN, END, f"{made}\n\n{render_markdown(rows, shown if parts else '')}")
    if into is not None and "cells" in parts:
        given = "".join(f" --only {name}" for name in only) + "".join(f" --peers {name}" for name in peers)
        given += f" --seconds {seconds:g}" if seconds else ""
        made = f'Made by `make bench ARGS="cells{given}"`, on 2 shared cores; compare the rows of a cell.'
        tables = [sheet.markdown() for sheet in sheets if sheet.title in CELLS_TITLES]
        put_between(into, CELLS_BEGIN, CELLS_END, "\n\n".join([made, *tables]))
    if as_json:
        click.echo(json.dumps([*map(asdict, rows), *map(asdict, sheets)], indent=2))
        return
    if rows:
        print_table(rows)
    for sheet in sheets:
        print_sheet(sheet)


if __name__ == "__main__":
    main()
