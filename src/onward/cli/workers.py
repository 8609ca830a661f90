"""`onward workers`: the live workers, what each runs, and services without a worker."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.app_access import open_store_app
from onward.cli.params import json_option
from onward.cli.render.output import console, print_json
from onward.ops.queries.workers import worker_facts
from onward.ops.text.format import counted, duration, one_line, worker_process

if TYPE_CHECKING:
    from rich.console import Console


NOBODY = 1


@click.command()
@click.option("--here", is_flag=True, help="Only workers of this machine; exit code 1 if there is none.")
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
    with open_store_app() as app:
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
        hosts = len({item["host"] for item in facts["workers"]})
        at = f" on {counted(hosts, 'machine')}"
        out.print(Text(f"{counted(len(facts['workers']), 'worker')}{at}", "bold"))
    for item in facts["workers"]:
        _print_worker(out, item)
    for item in facts["silent"]:
        what = ", ".join(_work_text(each) for each in item["working"])
        then = duration(round(item["given_back_in_seconds"]))
        text = f"● {worker_process(item['worker'])} is silent and has {what}: others get it within {then}"
        out.print(Text(one_line(text), "yellow"), soft_wrap=True)
    for item in facts["not_served"]:
        waits = f"{counted(item['waiting'], 'event')} {'waits' if item['waiting'] == 1 else 'wait'}"
        line = Text(f"● nobody runs {one_line(item['service'])}, and {waits} for it", "yellow")
        if facts["workers"]:
            line.append(f":  {facts['start']} --services {one_line(item['service'])}", "bold")
        out.print(line, soft_wrap=True)
    if len(facts["versions"]) > 1:
        versions = ", ".join(
            f"{version or 'unknown'} ({count})" for version, count in sorted(facts["versions"].items())
        )
        text = f"● workers of {counted(len(facts['versions']), 'version')} run: {versions}. Replace the old ones"
        out.print(Text(one_line(text), "yellow"), soft_wrap=True)


def _print_worker(out: Console, item: dict[str, Any]) -> None:
    process = f"{item['host']}:{item['pid']}" if item["pid"] else worker_process(item["worker"])
    about = [one_line(item["version"]), f"up {duration(round(item['up_seconds']))}" if item["since"] else ""]
    about.append(f"seen {duration(round(item['seen_seconds_ago']))} ago")
    out.print()
    line = Text.assemble((one_line(process), "bold"), "  ", (", ".join(part for part in about if part), "dim"))
    out.print(line, soft_wrap=True)
    services = ", ".join(one_line(name) for name in item["services"]) or "no service"
    suspects = "one suspect event of: " if item["alone"] else ""
    out.print(Text(f"  {suspects}{services}", "yellow" if item["alone"] else "dim"), soft_wrap=True)
    for each in item["working"]:
        out.print(Text(f"  ▸ {one_line(_work_text(each))}", "cyan"), soft_wrap=True)
    if not item["working"]:
        out.print(Text("  waiting for something to do", "dim"))


def _work_text(item: dict[str, Any]) -> str:
    """Return the claimed events of a service, with a few of the documents."""
    text = f"{item['service']}: {counted(item['events'], 'event')}"
    if item["documents"] > item["events"]:
        text += f" of {counted(item['documents'], 'document')}"
    if item["examples"]:
        more = ", …" if item["documents"] > len(item["examples"]) else ""
        text += f" ({', '.join(item['examples'])}{more})"
    return text
