"""What commands print: text for people, JSON for programs."""

from __future__ import annotations

import json

import click
from rich.console import Console

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_json(facts: object) -> None:
    """Print facts as JSON."""
    click.echo(json.dumps(facts, ensure_ascii=False, indent=2))


def console() -> Console:
    """Return where text for people goes: coloured on a terminal, without control codes elsewhere."""
    return Console(highlight=False, emoji=False)
