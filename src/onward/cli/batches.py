"""`onward batches`: documents that were set aside to be retried together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.text import Text

from onward.cli.action_run import carry_out, confirm_option, dry_run_option
from onward.cli.app_access import open_store_app
from onward.cli.params import json_option
from onward.cli.render.output import console, print_entry, print_json
from onward.model.ledger import FailedBatch
from onward.ops.actions.failed_batches import DiscardFailedBatches, RetryFailedBatches
from onward.ops.lookup import short_ids
from onward.ops.queries.batches import (
    batch_facts,
    files_of,
    find_batch,
    is_persistent,
    item_errors,
)
from onward.ops.text.format import SHORT_ID, clock_time, counted, moment, number, one_line, source_name
from onward.retry.redact import redact

if TYPE_CHECKING:
    from rich.console import Console

    from onward import App

SHOWN_ITEMS = 20


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def batches(ctx: click.Context, as_json: bool) -> None:
    """Show failed batches: documents that failed while the rest of their source went on.

    A batch is retried after 1, 5, 10, 20 and 40 minutes, then every hour. From the 10th retry on it is
    called persistent: somebody should look at it.

    \b
    Examples:
      onward batches
      onward batches show 5d41402a
      onward batches retry --all
      onward batches discard 5d41402a --confirm
    """
    if ctx.invoked_subcommand is None:
        _list(as_json=as_json)
    elif as_json:
        raise click.UsageError(f"give options behind `{ctx.invoked_subcommand}`")


@batches.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List failed batches: how many documents, how often retried, when next, and the last error."""
    _list(as_json=as_json)


@batches.command()
@click.argument("id")
@json_option
def show(id: str, as_json: bool) -> None:
    """Show one failed batch with the error of each of its documents."""
    with open_store_app() as app:
        batch = find_batch(app, id)
        if as_json:
            print_json(batch_facts(app, batch) | {"item_errors": dict(item_errors(app, batch.items))})
        else:
            _print(app, batch)


@batches.command()
@click.argument("ids", nargs=-1, metavar="[ID]…")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@dry_run_option
@json_option
def retry(ids: tuple[str, ...], everything: bool, dry_run: bool, as_json: bool) -> None:
    """Retry failed batches now; this is not counted as a retry."""
    with open_store_app() as app:
        carry_out(app, RetryFailedBatches(ids, everything), as_json=as_json, dry_run=dry_run)


@batches.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@confirm_option
@dry_run_option
@json_option
def discard(ids: tuple[str, ...], confirm: bool, dry_run: bool, as_json: bool) -> None:
    """Give up all documents of failed batches: they become discarded, and are kept."""
    with open_store_app() as app:
        carry_out(app, DiscardFailedBatches(ids), as_json=as_json, dry_run=dry_run, confirm=confirm)


# -- text output


def _list(*, as_json: bool) -> None:
    with open_store_app() as app:
        found = sorted(app.store.failed_batches(), key=lambda batch: batch.retry_after)
        if as_json:
            print_json([batch_facts(app, one) for one in found])
            return
        out = console()
        if not found:
            out.print(Text("There are no failed batches.", "green"))
            return
        for one in found:
            print_entry(out, _line(app, one))
            if error := _last_error(one):
                out.print(Text(f"          {one_line(redact(error), 300)}", "red"), soft_wrap=True)
        out.print(Text.assemble(("To look at one: ", "dim"), f"onward batches show {found[0].id[:SHORT_ID]}"))


def _line(app: App, one: FailedBatch) -> Text:
    line = Text.assemble((f"{one.id[:SHORT_ID]}  ", "green"), f"{counted(len(one.items), 'document')} of ")
    line.append(source_name(one.source or "no source")).append(f" ({one.service})", "dim")
    line.append(f"  {_retries(one.retry_count)}, {_next(app, one)}")
    if is_persistent(app, one):
        line.append("  persistent", "bold red")
    return line


def _retries(count: int) -> str:
    return f"{number(count)} {'retry' if count == 1 else 'retries'}"


def _next(app: App, one: FailedBatch) -> str:
    return "due now" if one.retry_after <= app.store.now() else f"next at {clock_time(one.retry_after)}"


def _last_error(one: FailedBatch) -> str:
    return str(one.errors[-1].get("error", "")) if one.errors else ""


def _print(app: App, batch: FailedBatch) -> None:
    out = console()
    out.print(_line(app, batch), soft_wrap=True)
    out.print(Text(f"id          {batch.id}"), soft_wrap=True)
    out.print(Text(f"set aside   {moment(batch.created_at)}"))
    for one in files_of(app, batch)[:SHOWN_ITEMS]:
        out.print(Text(f"from        {one_line(one)}"), soft_wrap=True)
    out.print(Text("Errors of the batch", "bold"))
    for error in batch.errors[-SHOWN_ITEMS:]:
        text = one_line(redact(str(error.get("error", ""))), 300)
        out.print(Text(f"  {moment(error.get('timestamp'))}  {text}"), soft_wrap=True)
    _print_items(app, out, batch)
    out.print(Text.assemble(("To retry it now: ", "dim"), f"onward batches retry {batch.id[:SHORT_ID]}"))


def _print_items(app: App, out: Console, batch: FailedBatch) -> None:
    out.print(Text("Documents", "bold"))
    shown = batch.items[:SHOWN_ITEMS]
    ids = short_ids(app, [id for _, id in shown])
    errors = dict(item_errors(app, shown))
    for name, id in shown:
        line = Text.assemble((f"  {one_line(ids[id]):8}", "green"), f"  {name:10}")
        out.print(line.append(one_line(errors.get(id, ""), 300), "red"), soft_wrap=True)
    if len(batch.items) > len(shown):
        out.print(Text(f"  … and {number(len(batch.items) - len(shown))} more; all of them with --json", "dim"))
