"""`onward failures`: what fails for the same reason, why that probably is, and what to do about it."""

from __future__ import annotations

import click
from rich.text import Text

from onward.cli.action_run import carry_out, confirm_option, dry_run_option
from onward.cli.app_access import open_store_app
from onward.cli.params import Date, canary_option, json_option, rate_option
from onward.cli.render.diagnosis import print_group, print_group_entry
from onward.cli.render.output import console, print_json
from onward.ops.actions.failure_groups import DiscardFailureGroup, RetryFailureGroup
from onward.ops.lookup import check_service, find_group
from onward.ops.queries.failure_groups import evidence_facts, group_facts
from onward.ops.queries.failure_groups import list_groups as find_groups
from onward.ops.text.format import counted, number
from onward.recovery.diagnosis import diagnose, evidence_of

LISTED = 50


@click.group()
def failures() -> None:
    """Look at failures that have the same cause, and put them back or give them up together.

    \b
    Examples:
      onward failures list
      onward failures show 5d41402a
      onward failures retry 5d41402a --canary 3
    """


@failures.command("list")
@click.option("--service", metavar="NAME", help="Only failures of this service.")
@click.option("--since", type=Date(), metavar="WHEN", help="Only what failed since then: 2026-03-09, today, …")
@click.option("--all", "show_all", is_flag=True, help="Also what affects nothing any more.")
@click.option("--limit", type=click.IntRange(1), help=f"At most this many; {LISTED} by default, all with --json.")
@json_option
def list_groups(
    service: str | None, since: float | None, show_all: bool, limit: int | None, as_json: bool
) -> None:
    """List failure groups: what affects most documents first.

    \b
    Examples:
      onward failures list
      onward failures list --service embedding --since today
      onward failures list --all --json
    """
    with open_store_app() as app:
        if service is not None:
            check_service(app, service)
        most = limit or (None if as_json else LISTED)
        found = find_groups(app, service=service, since=since, everything=show_all, limit=most)
        if as_json:
            print_json([group_facts(one, diagnose(one)) for one in found.page])
            return
        now = app.store.now()
    out = console()
    if not found.total and not found.hidden:
        out.print(Text("Nothing has failed." if service is None and since is None else "No such failures."))
        return
    for evidence in found.page:
        print_group_entry(out, found.short[evidence.group.fingerprint], evidence, diagnose(evidence), now)
    if more := found.total - len(found.page):
        out.print(Text(f"… and {number(more)} more; --limit {found.total} shows them.", "dim"))
    if hidden := found.hidden:
        verb = "affects" if hidden == 1 else "affect"
        out.print(Text(f"{counted(hidden, 'group')} {verb} nothing any more; --all shows them.", "dim"))
    if found.page:
        first = found.short[found.page[0].group.fingerprint]
        out.print(Text.assemble(("To look at one: ", "dim"), f"onward failures show {first}"))


@failures.command("show")
@click.argument("group")
@json_option
def show_group(group: str, as_json: bool) -> None:
    """Show what is probably wrong with a failure group, why, and what to type next.

    The beginning of its fingerprint will do.

    \b
    Examples:
      onward failures show 5d41402a
    """
    with open_store_app() as app:
        found = find_group(app, group)
        evidence = evidence_of(app.store, found)
        verdict = diagnose(evidence)
        if as_json:
            print_json(group_facts(evidence, verdict) | evidence_facts(app, evidence))
            return
        print_group(app, evidence, verdict)


@failures.command("retry")
@click.argument("group")
@canary_option
@rate_option
@dry_run_option
@json_option
def retry_group(group: str, canary: int | None, rate: float | None, dry_run: bool, as_json: bool) -> None:
    """Put everything that a failure group affects back: dead letters and documents.

    With --canary it waits for the first ones, and leaves the rest where it is if one of them fails again.

    \b
    Examples:
      onward failures retry 5d41402a --dry-run
      onward failures retry 5d41402a --canary 3
      onward failures retry 5d41402a --rate 2
    """
    with open_store_app() as app:
        action = RetryFailureGroup(group, canary=canary or 0, rate=rate)
        carry_out(app, action, as_json=as_json, dry_run=dry_run)


@failures.command("discard")
@click.argument("group")
@confirm_option
@dry_run_option
@json_option
def discard_group(group: str, confirm: bool, dry_run: bool, as_json: bool) -> None:
    """Give up everything that a failure group affects: its documents become `discarded`.

    They are kept, but not tried again; `onward retry ID --reset` takes one back.

    \b
    Examples:
      onward failures discard 5d41402a --dry-run
      onward failures discard 5d41402a --confirm
    """
    with open_store_app() as app:
        carry_out(app, DiscardFailureGroup(group), as_json=as_json, dry_run=dry_run, confirm=confirm)
