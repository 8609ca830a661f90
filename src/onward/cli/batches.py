"""`onward batches`: documents that failed while the rest of their source went on, and are retried together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.action_run import runs_action
from onward.cli.app_access import open_reading_app
from onward.cli.output import Output
from onward.cli.params import json_option, list_by_default, print_json
from onward.ops.actions import failure_groups as actions
from onward.ops.lookup import short_ids
from onward.ops.queries import failure_groups as groups
from onward.ops.text.format import SHORT_ID, clock_time, counted, moment, number, one_line, source_name
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App
    from onward.model.ledger import FailedBatch
    from onward.ops.actions.action import Action

_SHOWN_ITEMS = 20


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def batches(ctx: click.Context, /, **options: Any) -> None:
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
    list_by_default(ctx, list_batches, options)


@batches.command("list")
@json_option
def list_batches(as_json: bool) -> None:
    """List failed batches: how many documents, how often retried, when next, and the last error."""
    with open_reading_app() as app:
        found = sorted(app.store.failed_batches(), key=lambda batch: batch.retry_after)
        if as_json:
            print_json([groups.batch_facts(app, one) for one in found])
            return
        out = Output()
        for one in found:
            out.entry(_batch_line(app, one))
            if error := one.errors[-1].get("error") if one.errors else "":
                out.write(f"          {one_line(redact(str(error)), 300)}", style="red")
    if found:
        out.hint("To look at one: ", f"onward batches show {found[0].id[:SHORT_ID]}")
    else:
        out.write("There are no failed batches.", style="green")


def _batch_line(app: App, one: FailedBatch) -> Text:
    due = one.retry_after <= app.store.now()
    return Text.assemble(
        (f"{one.id[:SHORT_ID]}  ", "green"),
        f"{counted(len(one.items), 'document')} of {source_name(one.source or 'no source')}",
        (f" ({one.service})", "dim"),
        f"  {counted(one.retry_count, 'retry')}, ",
        "due now" if due else f"next at {clock_time(one.retry_after)}",
        ("  persistent" if groups.is_persistent(app, one) else "", "bold red"),
    )


@batches.command("show")
@click.argument("id")
@json_option
def show_batch(id: str, as_json: bool) -> None:
    """Show one failed batch with the error of each of its documents."""
    with open_reading_app() as app:
        batch = groups.find_batch(app, id)
        if as_json:
            errors = dict(groups.item_errors(app, batch.items))
            print_json(groups.batch_facts(app, batch) | {"item_errors": errors})
            return
        out = Output()
        out.write(_batch_line(app, batch))
        out.write(f"id          {batch.id}")
        out.write(f"set aside   {moment(batch.created_at)}")
        for file in groups.files_of(app, batch)[:_SHOWN_ITEMS]:
            out.write(f"from        {one_line(file)}")
        out.write("Errors of the batch", style="bold")
        for error in batch.errors[-_SHOWN_ITEMS:]:
            text = one_line(redact(str(error.get("error", ""))), 300)
            out.write(f"  {moment(error.get('timestamp'))}  {text}")
        out.write("Documents", style="bold")
        shown = batch.items[:_SHOWN_ITEMS]
        ids = short_ids(app, [id for _, id in shown])
        errors = dict(groups.item_errors(app, shown))
        for name, item in shown:
            error_line = one_line(errors.get(item, ""), 300)
            out.write((f"  {one_line(ids[item]):8}", "green"), f"  {name:10}", (error_line, "red"))
        if more := len(batch.items) - len(shown):
            out.write(f"  … and {number(more)} more; all of them with --json", style="dim")
        out.hint("To retry it now: ", f"onward batches retry {batch.id[:SHORT_ID]}")


@batches.command("retry")
@click.argument("ids", nargs=-1, metavar="[ID]…")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@runs_action()
def retry_batches(ids: tuple[str, ...], everything: bool) -> Action:
    """Retry failed batches now; this is not counted as a retry."""
    return actions.RetryFailedBatches(ids, everything)


@batches.command("discard")
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@runs_action(final=True)
def discard_batches(ids: tuple[str, ...]) -> Action:
    """Give up all documents of failed batches: they become discarded, and are kept."""
    return actions.DiscardFailedBatches(ids)
