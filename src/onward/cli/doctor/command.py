"""`onward doctor`: check the installation, and say what to repair."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.text import Text

from onward.cli.doctor.checks import Check, Level, check_everything
from onward.cli.output import Output
from onward.cli.params import json_option, print_json
from onward.ops.text.format import counted, one_line

_MARKS = {Level.OK: ("ok", "green"), Level.WARNING: ("look", "yellow"), Level.WRONG: ("wrong", "bold red")}
_NAME = 16


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Check settings, folders, store, disk, clock, bus, models and workers, and say what to repair.

    For servers (PostgreSQL, RabbitMQ) it also checks rights, latency, clocks, connections and queues.
    It changes nothing.

    \b
    Exit codes: 0 nothing is wrong, 1 something is.

    \b
    Examples:
      onward doctor
      onward doctor --json
      ONWARD_STORE=postgresql://onward@db/onward onward doctor
    """
    checks = check_everything()
    wrong = sum(check.level is Level.WRONG for check in checks)
    if as_json:
        print_json({"healthy": not wrong, "checks": [asdict(check) for check in checks]})
    else:
        out = Output()
        for check in checks:
            _print(out, check)
        out.print()
        looks = sum(check.level is Level.WARNING for check in checks)
        also = f"; {counted(looks, 'thing')} worth a look" if looks else ""
        if wrong:
            out.print(Text(f"{counted(wrong, 'thing')} wrong{also}.", "bold red"))
        else:
            out.print(Text(f"Nothing is wrong{also}.", "green"))
    raise SystemExit(1 if wrong else 0)


def _print(out: Output, check: Check) -> None:
    mark, style = _MARKS[check.level]
    head = Text.assemble((f"{mark:6}", style), (f"{check.name:{_NAME}}", "dim"))
    for text, bold in ((check.text, ""), (check.remedy, "bold")):
        if not text:
            continue
        out.hanging(head, Text(one_line(text, 400), bold))
        head = Text(" " * len(head.plain))
