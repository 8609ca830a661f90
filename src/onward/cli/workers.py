"""`onward workers`: who is alive, what each is doing, and what nobody does."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.opening import reading
from onward.cli.output import console, json_option, print_json
from onward.facts.wording import counted, duration, one_line
from onward.facts.workers import worker_facts
from onward.recovery.outlook import process_of

if TYPE_CHECKING:
    from rich.console import Console


NOBODY = 1


@click.command()
@click.option("--here", is_flag=True, help="Only those of this machine; exit code 1 if there is none.")
@json_option
def workers(here: bool, as_json: bool) -> None:
    """Show the workers that are alive, on which machine, and what each is doing now.

    It also says which services nobody runs though events wait for them, and when workers of different
    versions run side by side. A worker is alive if it was heard of within the last minute and a half.

    \b
    Exit codes: 0 done, 1 with --here: no worker of this machine is alive.

    \b
    Examples:
      onward workers
      onward workers --json
      onward workers --here         (the health check of a container)
    """
    with reading() as app:
        facts = worker_facts(app, socket.gethostname() if here else None)
    if as_json:
        print_json(facts)
    else:
        _print(console(), facts)
    raise SystemExit(NOBODY if here and not facts["workers"] else 0)


# -- looks


def _print(out: Console, facts: dict[str, Any]) -> None:
    if not facts["workers"]:
        out.print(Text.assemble("No worker is alive. Start one:  ", (facts["start"], "bold")), soft_wrap=True)
    else:
        hosts = len({one["host"] for one in facts["workers"]})
        at = f" on {counted(hosts, 'machine')}"
        out.print(Text(f"{counted(len(facts['workers']), 'worker')}{at}", "bold"))
    for one in facts["workers"]:
        _print_worker(out, one)
    for one in facts["silent"]:
        what = ", ".join(_said(each) for each in one["working"])
        then = duration(round(one["given_back_in_seconds"]))
        text = f"● {process_of(one['worker'])} is silent and has {what}: others get it within {then}"
        out.print(Text(one_line(text), "yellow"), soft_wrap=True)
    for one in facts["not_served"]:
        waits = f"{counted(one['waiting'], 'event')} {'waits' if one['waiting'] == 1 else 'wait'}"
        line = Text(f"● nobody runs {one_line(one['service'])}, and {waits} for it", "yellow")
        if facts["workers"]:
            line.append(f":  {facts['start']} --services {one_line(one['service'])}", "bold")
        out.print(line, soft_wrap=True)
    if len(facts["versions"]) > 1:
        told = ", ".join(
            f"{version or 'unknown'} ({count})" for version, count in sorted(facts["versions"].items())
        )
        text = f"● workers of {counted(len(facts['versions']), 'version')} run: {told}. Replace the old ones"
        out.print(Text(one_line(text), "yellow"), soft_wrap=True)


def _print_worker(out: Console, one: dict[str, Any]) -> None:
    process = f"{one['host']}:{one['pid']}" if one["pid"] else process_of(one["worker"])
    about = [one_line(one["version"]), f"up {duration(round(one['up_seconds']))}" if one["since"] else ""]
    about.append(f"seen {duration(round(one['seen_seconds_ago']))} ago")
    out.print()
    line = Text.assemble((one_line(process), "bold"), "  ", (", ".join(part for part in about if part), "dim"))
    out.print(line, soft_wrap=True)
    services = ", ".join(one_line(name) for name in one["services"]) or "no service"
    suspects = "one suspect event of: " if one["alone"] else ""
    out.print(Text(f"  {suspects}{services}", "yellow" if one["alone"] else "dim"), soft_wrap=True)
    for each in one["working"]:
        out.print(Text(f"  ▸ {one_line(_said(each))}", "cyan"), soft_wrap=True)
    if not one["working"]:
        out.print(Text("  waiting for something to do", "dim"))


def _said(one: dict[str, Any]) -> str:
    """What is claimed of one service, with a few of the documents."""
    text = f"{one['service']}: {counted(one['events'], 'event')}"
    if one["documents"] > one["events"]:
        text += f" of {counted(one['documents'], 'document')}"
    if one["examples"]:
        more = ", …" if one["documents"] > len(one["examples"]) else ""
        text += f" ({', '.join(one['examples'])}{more})"
    return text
