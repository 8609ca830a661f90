"""`onward doctor`: check everything that Onward stands on, and say what to do where it is wrong."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.text import Text

from onward.cli.checks import Check, Level, check_everything
from onward.cli.life import print_hanging
from onward.cli.output import console, json_option, print_json
from onward.facts.wording import counted, one_line

if TYPE_CHECKING:
    from rich.console import Console

_MARKS = {Level.OK: ("ok", "green"), Level.WARNING: ("look", "yellow"), Level.WRONG: ("wrong", "bold red")}
_NAME = 16


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Check settings, folders, store, disk, clock, bus, models and workers; say what to do where one is wrong.

    Of servers (PostgreSQL, RabbitMQ) it also checks rights, latency, clocks, connections and queues.
    It changes nothing. What is worth a look does no harm yet.

    \b
    Exit codes: 0 nothing is wrong, 1 something is.

    \b
    Examples:
      onward doctor
      onward doctor --json
      ONWARD_STORE=postgresql://onward@db/onward onward doctor
    """
    checks = check_everything()
    wrong = sum(one.level is Level.WRONG for one in checks)
    if as_json:
        print_json({"healthy": not wrong, "checks": [asdict(one) for one in checks]})
    else:
        out = console()
        for one in checks:
            _print(out, one)
        out.print()
        looks = sum(one.level is Level.WARNING for one in checks)
        also = f"; {counted(looks, 'thing')} worth a look" if looks else ""
        if wrong:
            out.print(Text(f"{counted(wrong, 'thing')} wrong{also}.", "bold red"))
        else:
            out.print(Text(f"Nothing is wrong{also}.", "green"))
    raise SystemExit(1 if wrong else 0)


def _print(out: Console, one: Check) -> None:
    mark, style = _MARKS[one.level]
    head = Text.assemble((f"{mark:6}", style), (f"{one.name:{_NAME}}", "dim"))
    for text, bold in ((one.text, ""), (one.remedy, "bold")):
        if not text:
            continue
        print_hanging(out, head, Text(one_line(text, 400), bold))
        head = Text(" " * len(head.plain))
