"""`onward workers`: who is alive, what each is doing, and what nobody does."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.opening import reading, short_ids, worker_command
from onward.cli.output import console, counted, duration, iso, json_option, one_line, print_json
from onward.recovery.outlook import process_of

if TYPE_CHECKING:
    from rich.console import Console

    from onward import App
    from onward.ports.recovery import Held

EXAMPLES = 3
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
        facts = _facts(app, socket.gethostname() if here else None)
    if as_json:
        print_json(facts)
    else:
        _print(console(), facts)
    raise SystemExit(NOBODY if here and not facts["workers"] else 0)


# -- facts


def _facts(app: App, host: str | None) -> dict[str, Any]:
    store, now = app.store, app.store.now()
    everybody = store.workers()
    known = {one["worker"] for one in everybody}
    alive = [one for one in everybody if host is None or _host(one) == host]
    held: dict[str, list[Held]] = {}
    for claims in store.held(examples=EXAMPLES):
        held.setdefault(claims.worker, []).append(claims)
    short = short_ids(app, [id for those in held.values() for one in those for _, id in one.examples])
    versions: dict[str, int] = {}
    for one in alive:
        version = str(one.get("version", ""))
        versions[version] = versions.get(version, 0) + 1
    return {
        "workers": [
            _worker(one, [_held(each, short) for each in held.get(one["worker"], ())], now)
            for one in sorted(alive, key=lambda one: (_host(one), one["worker"]))
        ],
        "versions": versions,
        "silent": [
            {"worker": worker, "working": [_held(one, short) for one in those]}
            | {"given_back_in_seconds": round(max(0.0, max(one.until for one in those) - now), 3)}
            for worker, those in sorted(held.items())
            if worker not in known and (host is None or worker.partition(":")[0] == host)
        ],
        "not_served": _not_served(app, [one for one in everybody if not one.get("alone")]),
        "start": worker_command(store),
    }


def _host(about: dict[str, Any]) -> str:
    return str(about.get("host") or about["worker"].partition(":")[0])


def _worker(about: dict[str, Any], working: list[dict[str, Any]], now: float) -> dict[str, Any]:
    since = about.get("since")
    return {
        "worker": about["worker"],
        "host": _host(about),
        "pid": about.get("pid"),
        "since": iso(since),
        "up_seconds": round(max(0.0, now - since), 3) if since is not None else None,
        "last_seen": iso(about["last_seen"]),
        "seen_seconds_ago": round(max(0.0, now - about["last_seen"]), 3),
        "version": about.get("version", ""),
        "services": sorted(about.get("services", ())),
        "alone": bool(about.get("alone")),
        "working": working,
    }


def _held(one: Held, short: dict[str, str]) -> dict[str, Any]:
    return {
        "service": one.service,
        "events": one.events,
        "documents": one.documents,
        "examples": [f"{collection}/{short[id]}" for collection, id in one.examples],
    }


def _not_served(app: App, alive: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Services that no worker runs, though events wait for them; a process for suspects takes no others."""
    store, now = app.store, app.store.now()
    served = {name for one in alive for name in one.get("services", ())}
    found = []
    for service, counts in sorted(store.counts().items()):
        if service and counts.get("waiting") and service not in served:
            due = store.next_due([service], suspects=True)
            waits = max(0.0, now - due) if due is not None else 0.0
            found.append(
                {"service": service, "waiting": counts["waiting"], "oldest_waits_seconds": round(waits, 3)}
            )
    return found


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
