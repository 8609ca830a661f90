"""`python -m bench [PART…]`: run the parts and print one table of ratios."""

from __future__ import annotations

import importlib
import json
from dataclasses import asdict

import click

from bench.table import Row, print_table

PARTS = ("policy", "ledger")


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(PARTS))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(parts: tuple[str, ...], as_json: bool) -> None:
    """Compare with other libraries, in one run on this machine."""
    rows: list[Row] = []
    for part in parts or PARTS:
        click.echo(f"measuring {part} …", err=True)
        rows += importlib.import_module(f"bench.{part}").run()
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print_table(rows)


main()
