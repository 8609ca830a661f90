"""`onward policies`: what is retried when, and until when."""

from __future__ import annotations

from dataclasses import asdict

import click

from onward.cli.params import json_option
from onward.cli.render.output import console, print_json
from onward.ops.queries.policies import describe_archive, describe_ladder
from onward.settings import load_settings


@click.command()
@json_option
def policies(as_json: bool) -> None:
    """Show what is retried when, and until when."""
    ladder = load_settings().ladder()
    rungs, sentence = describe_ladder(ladder), describe_archive(ladder)
    if as_json:
        print_json({"rungs": [asdict(rung) for rung in rungs], "archive": sentence.replace("\n", " ")})
        return
    out = console()
    for rung in rungs:
        out.print(f"[bold]{rung.rung} {rung.name:14}{rung.when}[/]")
        for label, text in (
            ("waits", rung.describe_waits()),
            ("gives up", rung.gives_up),
            ("then", rung.then),
        ):
            out.print(f"  [dim]{label:14}[/]{text}")
        out.print()
    out.print(sentence)
