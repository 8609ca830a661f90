"""`onward operations`: actions that were begun from the console or the API, and continuing them."""

from __future__ import annotations

import signal

import click

from onward.cli import INTERRUPTED
from onward.cli.action_run import on_signals, print_result
from onward.cli.app_access import open_reading_app, open_store_app
from onward.cli.output import Output
from onward.cli.params import COUNT, json_option, list_by_default, print_json
from onward.model.operations import Operation
from onward.ops.actions.action import Actor
from onward.ops.operation_run import continue_operation, find_operation
from onward.ops.queries.operations import STATUSES, list_operations, operation_about, operation_facts
from onward.ops.text.format import moment, number, one_line
from onward.retry.redact import redact
from onward.runtime.process_identity import user_name

_STYLES = {"running": "cyan", "interrupted": "yellow", "stopped": "yellow", "failed": "red", "done": "green"}
LISTED = 20
_status_option = click.option("--status", type=click.Choice(STATUSES), help="Only operations with this status.")
_limit_option = click.option("--limit", type=COUNT, help=f"List at most this many; {LISTED} by default.")


@click.group(invoke_without_command=True)
@_status_option
@_limit_option
@json_option
@click.pass_context
def operations(ctx: click.Context, status: str | None, limit: int | None, as_json: bool) -> None:
    """List operations: actions that people have begun from the console or the API, the latest first.

    An operation whose process has ended is interrupted: what was done is kept, and `continue` does the rest.

    \b
    Examples:
      onward operations
      onward operations --status interrupted
      onward operations continue 019a93f2c4b1
    """
    list_by_default(ctx, list_them, {"status": status, "limit": limit, "as_json": as_json})


@operations.command("list")
@_status_option
@_limit_option
@json_option
def list_them(status: str | None, limit: int | None, as_json: bool) -> None:
    """List operations, the latest first."""
    with open_reading_app() as app:
        found = list_operations(app, status=status, limit=limit or LISTED)
    if as_json:
        print_json([operation_facts(one) for one in found])
        return
    out = Output()
    if not found:
        out.write("No such operation." if status else "Nothing was begun in the last 30 days.")
    for one in found:
        _print(out, one)


@operations.command()
@click.argument("id", metavar="ID")
@json_option
def show(id: str, as_json: bool) -> None:
    """Show one operation: what it is about, how far it has come, and its result."""
    with open_reading_app() as app:
        found = find_operation(app, id)
        about = operation_about(app, found)
    if as_json:
        print_json(operation_facts(found))
        return
    out = Output()
    _print(out, found)
    for name, value in about:
        out.write(f"  {name}: {one_line(value, 300)}", style="dim")
    if found.can_continue:
        out.hint("To go on: ", f"onward operations continue {found.id}")


@operations.command()
@click.argument("id", metavar="ID")
def stop(id: str) -> None:
    """Stop an operation where it is, in whichever process it runs; completed changes are kept."""
    with open_store_app() as app:
        found = find_operation(app, id)
        asked = app.store.stop_operation(found.id)
    click.echo("It is asked to stop." if asked else f"It is {found.status}: there is nothing to stop.")


@operations.command("continue")
@click.argument("id", metavar="ID")
@json_option
def continue_it(id: str, as_json: bool) -> None:
    """Continue an operation that was interrupted, was stopped or has failed: what is done is skipped.

    It runs in this command; Ctrl-C stops it after its present step.
    """
    with open_store_app() as app:
        run = continue_operation(app, id)
        with on_signals(lambda: run.stop(interrupted=True), signal.SIGINT, signal.SIGTERM):
            outcome = run.execute(Actor(user_name(), "cli"))
        if as_json:
            print_json(operation_facts(find_operation(app, id)))
        else:
            print_result({}, outcome.sentences, as_json=False)
        if outcome.error is not None:
            raise outcome.error
        if outcome.stopped:
            raise SystemExit(INTERRUPTED)


def _print(out: Output, one: Operation) -> None:
    far = f"  {number(one.done)} of {number(one.total)}" if one.total else ""
    out.entry(
        (f"{one.id}  ", "dim"),
        f"{moment(one.began_at)}  {one_line(one.who, 20):12}  ",
        (f"{one.status:11}", _STYLES.get(one.status, "")),
        f"  {one_line(redact(one.title), 100)}{far}",
    )
    if text := one_line(one.problem or one.text, 300):
        out.write(f"  {text}", style="red" if one.problem else "dim")
