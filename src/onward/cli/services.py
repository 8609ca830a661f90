"""`onward services`: who consumes what, and retiring a service that was removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.action_run import carry_out, confirm_option, dry_run_option
from onward.cli.app_access import open_store_app
from onward.cli.params import json_option
from onward.cli.render.output import console, print_json
from onward.cli.render.tables import count_cell, print_table
from onward.ops.actions.services import RetireService
from onward.ops.lookup import worker_command
from onward.ops.queries.workers import service_facts
from onward.ops.text.format import counted, duration, one_line, shell_command

if TYPE_CHECKING:
    from rich.console import Console


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def services(ctx: click.Context, as_json: bool) -> None:
    """Show services, who runs each and what waits for it; retire one that was removed.

    A service that was renamed is not retired: its new declaration takes over its events with was="old name".

    \b
    Examples:
      onward services
      onward services retire thumbnails --dry-run
      onward services retire thumbnails --confirm
    """
    if ctx.invoked_subcommand is None:
        _list(as_json=as_json)
    elif as_json:
        raise click.UsageError(f"give options behind `{ctx.invoked_subcommand}`")


@services.command("list")
@json_option
def list_(as_json: bool) -> None:
    """Show every service: its event, what it finishes, its workers, its events, and when it was last run."""
    _list(as_json=as_json)


@services.command("retire")
@click.argument("name")
@confirm_option
@dry_run_option
@json_option
def retire(name: str, confirm: bool, dry_run: bool, as_json: bool) -> None:
    """Retire a service that no worker runs: it takes no more events.

    Events that wait for it become dead letters of its failed queue, reason service_retired. Their documents stay
    pending, and documents that it set aside leave their failed batch: another service that finishes them gets
    them from the retry job. If a worker of the service starts again, so does the service.

    \b
    Examples:
      onward services retire thumbnails --dry-run
      onward services retire thumbnails --confirm
    """
    with open_store_app() as app:
        carry_out(app, RetireService(name), as_json=as_json, dry_run=dry_run, confirm=confirm)


# -- the list


def _list(*, as_json: bool) -> None:
    with open_store_app() as app:
        facts, worker = service_facts(app.store), worker_command(app.store)
    if as_json:
        print_json({"services": facts})
        return
    out = console()
    if not facts:
        out.print(Text(f"No service has been started yet. Start a worker:  {worker}"), soft_wrap=True)
        return
    counts = ("workers", "waiting", "claimed", "dead letters", "set aside")
    rows = [(one["service"], _cells(one)) for one in facts]
    print_table(out, ("service", "event", "finishes", *counts, "last run"), rows)
    for one in facts:
        if one["state"] == "unserved":
            _print_unserved(out, one, worker)


def _cells(one: dict[str, Any]) -> list[Text]:
    ago = one["seconds_ago"]
    seen = "now" if one["workers"] else f"{duration(round(ago))} ago" if ago is not None else "never"
    seen = "" if one["state"] == "retired" else seen
    return [
        Text(one_line(one["event"]) if one["event"] else "(retired)", "" if one["event"] else "dim"),
        Text(one_line(one["finishes"] or "")),
        count_cell(one["workers"], "green"),
        count_cell(one["waiting"], "yellow"),
        count_cell(one["claimed"], "cyan"),
        count_cell(one["dead_letters"], "red"),
        count_cell(one["set_aside"], "yellow"),
        Text(seen, "dim"),
    ]


def _print_unserved(out: Console, one: dict[str, Any], worker: str) -> None:
    name = one_line(one["service"])
    many = one["waiting"] + one["claimed"]
    wait = "waits" if many == 1 else "wait"
    out.print(
        Text(f"● {counted(many, 'event')} {wait} for {name}, and no worker runs it.", "yellow"), soft_wrap=True
    )
    for label, typed in (
        ("start a worker", f"{worker} --services {name}"),
        ("it was renamed", f'declare its successor with was="{name}"'),
        ("it was removed", shell_command("onward services retire", one["service"])),
    ):
        out.print(Text.assemble((f"    {label}: ", "dim"), (typed, "bold")), soft_wrap=True)
