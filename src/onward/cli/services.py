"""`onward services`, `workers`, `schedules`, `breakers`: what runs and when, what waits for it, what is down."""

from __future__ import annotations

import socket
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.action_run import print_result, run_action, runs_action
from onward.cli.app_access import open_reading_app, open_store_app
from onward.cli.output import Output, count_cell, events_wait
from onward.cli.params import json_option, list_by_default, print_json
from onward.ops.actions.services import CloseBreaker, OpenBreaker, RetireService
from onward.ops.lookup import worker_command
from onward.ops.queries.schedules import schedule_facts
from onward.ops.queries.services import breaker_facts, opening_facts, service_facts, worker_facts
from onward.ops.text.format import counted, duration, moment, one_line, shell_command, worker_process
from onward.ops.text.outages import limit_text, needed_by
from onward.retry.iso_time import read_time
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward.ops.actions.action import Action

_COUNT_STYLES = {
    "workers": "green",
    "waiting": "yellow",
    "claimed": "cyan",
    "dead_letters": "red",
    "set_aside": "yellow",
}
_PURGE = "onward documents purge --collection onward_schedules --status processed --confirm --title"
_STYLES = {"open": "red", "paused": "yellow", "unreached": "yellow", "recovering": "yellow", "closed": "green"}


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def services(ctx: click.Context, /, **options: Any) -> None:
    """Show services, who runs each and what waits for it; retire one that was removed.

    A service that was renamed is not retired: its new declaration takes over its events with was="old name".

    \b
    Examples:
      onward services
      onward services retire thumbnails --dry-run
      onward services retire thumbnails --confirm
    """
    list_by_default(ctx, list_services, options)


@services.command("list")
@json_option
def list_services(as_json: bool) -> None:
    """Show every service: its event, what it finishes, its workers, its events, and when it was last run."""
    with open_reading_app() as app:
        facts, worker = service_facts(app.store), worker_command(app.store)
    if as_json:
        print_json({"services": facts})
        return
    out = Output()
    if not facts:
        out.write(f"No service has been started yet. Start a worker:  {worker}")
        return
    counts = (name.replace("_", " ") for name in _COUNT_STYLES)
    rows = [(one["service"], _cells(one)) for one in facts]
    out.table(("service", "event", "finishes", *counts, "last run"), rows)
    unserved = [one for one in facts if one["state"] == "unserved"]
    if len(unserved) > 1 and not any(one["workers"] for one in facts):
        waits = events_wait(sum(one["waiting"] + one["claimed"] for one in unserved))
        out.write(f"● {waits} for {len(unserved)} services, and no worker is alive.", style="yellow")
        out.write(("    start one: ", "dim"), (worker, "bold"))
        out.write(("    one was removed: ", "dim"), ("onward services retire NAME", "bold"))
        return
    for one in unserved:
        name = one_line(one["service"])
        waits = events_wait(one["waiting"] + one["claimed"])
        out.write(f"● {waits} for {name}, and no worker runs it.", style="yellow")
        for label, typed in (
            ("start a worker", f"{worker} --services {name}"),
            ("it was renamed", f'declare its successor with was="{name}"'),
            ("it was removed", shell_command("onward services retire", one["service"])),
        ):
            out.write((f"    {label}: ", "dim"), (typed, "bold"))


def _cells(one: dict[str, Any]) -> list[Text]:
    ago = one["seconds_ago"]
    seen = "now" if one["workers"] else f"{duration(round(ago))} ago" if ago is not None else "never"
    return [
        Text(one_line(one["event"])) if one["event"] else Text("(retired)", "dim"),
        Text(one_line(one["finishes"] or "")),
        *(count_cell(one[name], style) for name, style in _COUNT_STYLES.items()),
        Text("" if one["state"] == "retired" else seen, "dim"),
    ]


@services.command("retire")
@click.argument("name")
@runs_action(final=True)
def retire(name: str) -> Action:
    """Retire a service that no worker runs: it takes no more events.

    Events that wait for it become dead letters of its failed queue, reason service_retired. Their documents stay
    pending, and documents that it set aside leave their failed batch: another service that finishes them gets
    them from the retry job. If a worker of the service starts again, so does the service.

    \b
    Examples:
      onward services retire thumbnails --dry-run
      onward services retire thumbnails --confirm
    """
    return RetireService(name)


# -- schedules


@click.command()
@json_option
def schedules(as_json: bool) -> None:
    """Show every schedule: when it ran last, and when it runs next.

    Workers publish the ticks of their app's schedules; a schedule that is late has no worker. One that was
    removed from its app stays listed until its document is purged.

    \b
    Examples:
      onward schedules
      onward schedules --json
      onward documents purge --collection onward_schedules --status processed --title report --confirm
    """
    with open_reading_app() as app:
        facts, worker = schedule_facts(app.store), worker_command(app.store)
    if as_json:
        print_json({"schedules": facts})
        return
    out = Output()
    if not facts:
        out.write("No schedule has been seen yet: a worker of an app that declares one stores it.")
        return
    columns = ("schedule", "runs", "time zone", "missed runs", "last tick", "next tick")
    out.table(columns, [(one["schedule"], _schedule_cells(one)) for one in facts])
    for one in (one for one in facts if one["late"]):
        name = one_line(one["schedule"])
        out.write(f"● {name} is late: no worker of its app runs.", style="yellow")
        for label, typed in (
            ("start a worker", worker),
            ("it was removed", shell_command(_PURGE, one["schedule"])),
        ):
            out.write((f"    {label}: ", "dim"), (typed, "bold"))


def _schedule_cells(one: dict[str, Any]) -> list[Text]:
    last, following = (moment(read_time(one[name])) for name in ("last_tick", "next_tick"))
    texts = (Text(one_line(one[name])) for name in ("runs", "timezone", "missed"))
    return [*texts, Text(last or "never", "dim"), Text(following, "yellow" if one["late"] else "")]


# -- workers


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
    print_json(facts) if as_json else _print_workers(facts)
    raise SystemExit(1 if here and not facts["workers"] else 0)


def _print_workers(facts: dict[str, Any]) -> None:
    out, alive = Output(), facts["workers"]
    if alive:
        hosts = counted(len({item["host"] for item in alive}), "machine")
        out.write(f"{counted(len(alive), 'worker')} on {hosts}", style="bold")
    else:
        out.write("No worker is alive. Start one:  ", (facts["start"], "bold"))
    for item in alive:
        process = f"{item['host']}:{item['pid']}" if item["pid"] else worker_process(item["worker"])
        about = [one_line(item["version"]), f"up {duration(round(item['up_seconds']))}" if item["since"] else ""]
        about.append(f"seen {duration(round(item['seen_seconds_ago']))} ago")
        out.print()
        out.write((one_line(process), "bold"), "  ", (", ".join(filter(None, about)), "dim"))
        names = ", ".join(one_line(name) for name in item["services"]) or "no service"
        suspects = "one suspect event of: " if item["alone"] else ""
        out.write(f"  {suspects}{names}", style="yellow" if item["alone"] else "dim")
        for each in item["working"]:
            out.write(f"  ▸ {one_line(_work_text(each))}", style="cyan")
        if not item["working"]:
            out.write("  waiting for something to do", style="dim")
    for item in facts["silent"]:
        what = ", ".join(_work_text(each) for each in item["working"])
        then = duration(round(item["given_back_in_seconds"]))
        text = f"● {worker_process(item['worker'])} is silent and has {what}: others get it within {then}"
        out.write(one_line(text), style="yellow")
    for item in facts["not_served"]:
        name = one_line(item["service"])
        start = f":  {facts['start']} --services {name}" if alive else ""
        text = f"● nobody runs {name}, and {events_wait(item['waiting'])} for it"
        out.write(text, (start, "bold"), style="yellow")
    if (versions := facts["versions"]) and len(versions) > 1:
        listed = ", ".join(f"{version or 'unknown'} ({count})" for version, count in sorted(versions.items()))
        text = f"● workers of {counted(len(versions), 'version')} run: {listed}. Replace the old ones"
        out.write(one_line(text), style="yellow")


def _work_text(item: dict[str, Any]) -> str:
    """Return the claimed events of a service, with a few of the documents."""
    text = f"{item['service']}: {counted(item['events'], 'event')}"
    if item["documents"] > item["events"]:
        text += f" of {counted(item['documents'], 'document')}"
    if item["examples"]:
        more = ", …" if item["documents"] > len(item["examples"]) else ""
        text += f" ({', '.join(item['examples'])}{more})"
    return text


# -- breakers

_history_option = click.option("--history", is_flag=True, help="Also every opening so far.")


@click.group(invoke_without_command=True)
@_history_option
@json_option
@click.pass_context
def breakers(ctx: click.Context, /, **options: Any) -> None:
    """Show dependencies that services need and whether they are down; open or close a breaker by hand.

    While a breaker is open, events of the services that need it wait, and lose neither tries nor time. So do
    events that wait for the rate or the concurrency that is declared for a dependency.

    \b
    Examples:
      onward breakers
      onward breakers --history --json
      onward breakers open embedder --reason "new model is being installed"
      onward breakers close embedder
    """
    list_by_default(ctx, list_breakers, options)


@breakers.command("list")
@_history_option
@json_option
def list_breakers(history: bool, as_json: bool) -> None:
    """Show every dependency, since when it is down, why, and what waits for it."""
    with open_reading_app() as app:
        facts = breaker_facts(app)
        openings = app.store.openings() if history else []
        now = app.store.now()
    if as_json:
        past = {"history": [opening_facts(opening) for opening in openings]} if history else {}
        print_json({"breakers": facts, **past})
        return
    out = Output()
    if not facts:
        out.write("No service needs a dependency.")
    for one in facts:
        _print_breaker(out, one)
    if history:
        out.write("History", style="bold")
        for one in openings:
            closed = one["closed_at"]
            lasted = duration(max(0.0, (now if closed is None else closed) - one["opened_at"]))
            text = f"{moment(one['opened_at'])}  {one_line(one['dependency'])}  {lasted}"
            reason = one_line(redact(one["reason"]), 300)
            out.write(f"  {text}{'' if closed else ' so far'}: {reason}")
        if not openings:
            out.write("  No breaker has ever been open.")


def _print_breaker(out: Output, one: dict[str, Any]) -> None:
    lasts, recovering = "", one["state"] == "recovering"
    if one["seconds"] is not None:
        often = f", {one['openings_in_episode']} times" if one["openings_in_episode"] > 1 else ""
        by_hand = ", by hand" if one["by_hand"] else ""
        # A dependency that recovers is not down: what lasts is its trouble.
        lasts = f"{' after trouble' if recovering else ''} for {duration(one['seconds'])}{often}{by_hand}"
    used = (f"  (for {needed_by(one)})", "dim")
    out.write((one_line(one["dependency"]), "bold"), "  ", (one["state"], _STYLES[one["state"]]), lasts, used)
    if one["waiting"]:
        out.write(f"  {counted(one['waiting'], 'event')} waiting")
    if recovering and one["limit"] is not None:
        out.write(f"  at most {counted(one['limit'], 'event')} at once, until it has proved itself")
    if limits := limit_text(one):
        out.write(f"  {limits}")
    for label in ("reason", "remedy"):
        if one[label]:
            out.write(f"  {label}: {one_line(one[label], 500)}")
    for label, name in (("asked again", "next_probe"), ("paused until", "paused_until")):
        if one[name]:
            at = datetime.fromisoformat(one[name]).astimezone()
            out.write(f"  {label}: {at:%Y-%m-%d %H:%M:%S}", style="dim")


@breakers.command("open")
@click.argument("name")
@click.option("--reason", required=True, metavar="TEXT", help="Why, for everybody who looks.")
@json_option
def open_(name: str, reason: str, as_json: bool) -> None:
    """Take a dependency out of service, for maintenance, until `breakers close`."""
    _change(OpenBreaker(name, reason), as_json)


@breakers.command("close")
@click.argument("name")
@json_option
def close(name: str, as_json: bool) -> None:
    """Let events that need a dependency go on, one at first, then more and more."""
    _change(CloseBreaker(name), as_json)


def _change(action: Action, as_json: bool) -> None:
    with open_store_app() as app:
        outcome = run_action(app, action)
    print_result(outcome.facts, outcome.sentences, as_json=as_json)
