"""`onward breakers`: which dependencies are down, and taking one out of service by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.action_run import print_sentences, run_action
from onward.cli.app_access import open_store_app
from onward.cli.params import json_option
from onward.cli.render.output import console, print_json
from onward.ops.actions.action import Action
from onward.ops.actions.services import CloseBreaker, OpenBreaker
from onward.ops.queries.workers import breaker_facts, opening_facts
from onward.ops.text.format import counted, duration, moment, one_line
from onward.retry.redact import redact

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {"open": "red", "paused": "yellow", "unreached": "yellow", "recovering": "yellow", "closed": "green"}
_history_option = click.option("--history", is_flag=True, help="Also every opening so far.")


@click.group(invoke_without_command=True)
@_history_option
@json_option
@click.pass_context
def breakers(ctx: click.Context, history: bool, as_json: bool) -> None:
    """Show dependencies that services need and whether they are down; open or close a breaker by hand.

    While a breaker is open, events of the services that need it wait, and lose neither tries nor time.

    \b
    Examples:
      onward breakers
      onward breakers --history --json
      onward breakers open embedder --reason "new model is being installed"
      onward breakers close embedder
    """
    if ctx.invoked_subcommand is None:
        _list(history=history, as_json=as_json)
    elif history or as_json:
        raise click.UsageError(f"give options behind `{ctx.invoked_subcommand}`")


@breakers.command("list")
@_history_option
@json_option
def list_(history: bool, as_json: bool) -> None:
    """Show every dependency, since when it is down, why, and what waits for it."""
    _list(history=history, as_json=as_json)


@breakers.command("open")
@click.argument("name")
@click.option("--reason", required=True, metavar="TEXT", help="Why, for everybody who looks.")
@json_option
def open_(name: str, reason: str, as_json: bool) -> None:
    """Take a dependency out of service, for maintenance, until `breakers close`."""
    _change(OpenBreaker(name, reason), as_json=as_json)


@breakers.command("close")
@click.argument("name")
@json_option
def close(name: str, as_json: bool) -> None:
    """Let events that need a dependency go on, one at first, then more and more."""
    _change(CloseBreaker(name), as_json=as_json)


def _change(action: Action, *, as_json: bool) -> None:
    with open_store_app() as app:
        outcome = run_action(app, action)
    print_json(outcome.facts) if as_json else print_sentences(outcome.sentences)


def _list(*, history: bool, as_json: bool) -> None:
    with open_store_app() as app:
        facts = breaker_facts(app)
        openings = app.store.openings() if history else []
        now = app.store.now()
    if as_json:
        output: dict[str, Any] = {"breakers": facts}
        if history:
            output["history"] = [opening_facts(opening) for opening in openings]
        print_json(output)
        return
    out = console()
    if not facts:
        out.print(Text("No service needs a dependency."))
    for one in facts:
        _print(out, one)
    if history:
        out.print(Text("History", "bold"))
        for one in openings:
            _print_opening(out, one, now)
        if not openings:
            out.print(Text("  No breaker has ever been open."))


def _print(out: Console, one: dict[str, Any]) -> None:
    line = Text.assemble((one_line(one["dependency"]), "bold"), "  ", (one["state"], _STYLES[one["state"]]))
    if one["seconds"] is not None:
        often = f", {one['openings_in_episode']} times" if one["openings_in_episode"] > 1 else ""
        by_hand = ", by hand" if one["by_hand"] else ""
        # A dependency that recovers is not down: what lasts is its trouble.
        what = " after trouble" if one["state"] == "recovering" else ""
        line.append(f"{what} for {duration(one['seconds'])}{often}{by_hand}")
    line.append(f"  (for {', '.join(one['services']) or 'no service'})", "dim")
    out.print(line, soft_wrap=True)
    if one["waiting"]:
        out.print(Text(f"  {counted(one['waiting'], 'event')} waiting"), soft_wrap=True)
    if one["state"] == "recovering" and one["limit"] is not None:
        out.print(Text(f"  at most {counted(one['limit'], 'event')} at once, until it has proved itself"))
    for label in ("reason", "remedy"):
        if one[label]:
            out.print(Text(f"  {label}: {one_line(one[label], 500)}"), soft_wrap=True)
    for label, name in (("asked again", "next_probe"), ("paused until", "paused_until")):
        if one[name]:
            out.print(Text(f"  {label}: {_local(one[name])}", "dim"), soft_wrap=True)


def _local(at: str) -> str:
    from datetime import datetime

    return datetime.fromisoformat(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _print_opening(out: Console, one: dict[str, Any], now: float) -> None:
    closed = one["closed_at"]
    lasted = duration(max(0.0, (now if closed is None else closed) - one["opened_at"]))
    text = f"  {moment(one['opened_at'])}  {one_line(one['dependency'])}  {lasted}{'' if closed else ' so far'}"
    out.print(Text(f"{text}: {one_line(redact(one['reason']), 300)}"), soft_wrap=True)
