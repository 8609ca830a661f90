"""`onward failed requeue | purge | archive`."""

from __future__ import annotations

from typing import Any

import click

from onward.cli.action_run import carry_out, confirm_option, dry_run_option
from onward.cli.app_access import open_store_app
from onward.cli.params import (
    all_option,
    archived_option,
    canary_option,
    dead_letter_filter_options,
    json_option,
    rate_option,
)
from onward.ops.actions.dead_letters import (
    ArchiveDeadLetters,
    DeadLetterSelection,
    PurgeDeadLetters,
    RequeueDeadLetters,
    RestoreDeadLetters,
)

_queue_argument = click.argument("queue", required=False, metavar="[QUEUE]")


@click.command()
@_queue_argument
@all_option
@dead_letter_filter_options
@rate_option
@canary_option
@dry_run_option
@json_option
def requeue(rate: float | None, canary: int | None, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Put dead letters back: each original event is tried again, in a new round of its documents.

    What was put back is out of the queue, so that the same command goes on where it was stopped. What
    has recovered meanwhile is skipped.

    \b
    Examples:
      onward failed requeue parsing.failed --dry-run
      onward failed requeue embedding.generation.failed --rate 5 --canary 3
      onward failed requeue --all --error-type TimeoutError --since yesterday
    """
    with open_store_app() as app:
        action = RequeueDeadLetters(DeadLetterSelection(**given), canary=canary or 0, rate=rate)
        carry_out(app, action, as_json=as_json, dry_run=dry_run)


@click.command()
@_queue_argument
@all_option
@dead_letter_filter_options
@archived_option
@click.option("--recovered", is_flag=True, help="Only dead letters about nothing that is still unfinished.")
@confirm_option
@dry_run_option
@json_option
def purge(archived: bool, recovered: bool, confirm: bool, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Remove dead letters for ever. Their documents do not change; export first what may be wanted.

    \b
    Examples:
      onward failed purge parsing.failed --dry-run
      onward failed purge --all --archived --confirm
    """
    with open_store_app() as app:
        action = PurgeDeadLetters(DeadLetterSelection(**given), from_archive=archived, recovered=recovered)
        carry_out(app, action, as_json=as_json, dry_run=dry_run, confirm=confirm)


@click.command()
@_queue_argument
@all_option
@dead_letter_filter_options
@click.option("--restore", is_flag=True, help="Bring archived dead letters back to their queue.")
@dry_run_option
@json_option
def archive(restore: bool, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Archive dead letters: they are kept, but counted and shown no more, except with --archived.

    \b
    Examples:
      onward failed archive parsing.failed --error-type UnreadableMail
      onward failed archive parsing.failed --restore
    """
    with open_store_app() as app:
        selection = DeadLetterSelection(**given)
        action = RestoreDeadLetters(selection) if restore else ArchiveDeadLetters(selection)
        carry_out(app, action, as_json=as_json, dry_run=dry_run)
