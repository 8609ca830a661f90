"""`onward retry`: try documents again, now or at a time."""

from __future__ import annotations

import click

from onward.cli.action_run import carry_out, dry_run_option
from onward.cli.app_access import open_store_app
from onward.cli.params import Span, When, json_option
from onward.model.documents import Status
from onward.ops.actions.action import Action
from onward.ops.actions.retry_documents import CancelScheduledRetry, RetryDocuments
from onward.ops.queries.documents import DocumentFilter

_MAX_PRIORITY = 1000


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]…")
@click.option("--group", metavar="FINGERPRINT", help="All unfinished documents of this failure group.")
@click.option("--collection", metavar="NAME", help="What failed or is stuck of this collection.")
@click.option("--source", metavar="SOURCE", help="What failed or is stuck of this source; its end is enough.")
@click.option(
    "--status",
    type=click.Choice([status.value for status in Status]),
    help="Documents with this status, instead of what failed or is stuck.",
)
@click.option("--at", type=When(), metavar="WHEN", help="At this time: 18:30, tomorrow, 2026-03-09T14:30.")
@click.option("--in", "after", type=Span(), metavar="SPAN", help="After this time: 90s, 10m, 2h, 1d.")
@click.option("--reset", is_flag=True, help="Begin with the first round, even what is processed or under way.")
@click.option(
    "--priority",
    type=click.IntRange(-_MAX_PRIORITY, _MAX_PRIORITY),
    help="The highest goes first; 0 is usual.",
)
@click.option("--cancel", is_flag=True, help="Take back the time that was set, as far as it has not come.")
@dry_run_option
@json_option
def retry(
    ids: tuple[str, ...],
    group: str | None,
    collection: str | None,
    source: str | None,
    status: str | None,
    at: float | None,
    after: float | None,
    reset: bool,
    priority: int | None,
    cancel: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Try documents again: now, or at a time.

    Name them by their ids (the beginning of one is enough), or choose them by failure group, collection or
    source. Of a collection or source, what failed is meant, and what is pending with nothing under way;
    --status chooses others.

    \b
    Examples:
      onward retry a0e78889
      onward retry --group 5d41402a --at 18:30
      onward retry --collection chunks --status failed --in 10m --dry-run
      onward retry --source harbour-list.mbox --cancel
    """
    filters = DocumentFilter(status=status, collection=collection, source=source, group=group)
    if cancel and (at is not None or after is not None or reset or priority is not None):
        raise click.UsageError("--cancel goes without --at, --in, --reset and --priority")
    action: Action = RetryDocuments(ids, filters=filters, at=at, after=after, reset=reset, priority=priority)
    if cancel:
        action = CancelScheduledRetry(ids, filters=filters)
    with open_store_app() as app:
        carry_out(app, action, as_json=as_json, dry_run=dry_run)
