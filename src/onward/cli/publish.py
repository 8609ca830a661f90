"""`onward publish`: put the events of files on the ledger."""

from __future__ import annotations

import shlex
from contextlib import closing

import click

from onward.cli import INTERRUPTED, WRONG_USAGE
from onward.cli.action_run import PARTIAL, print_result, run_action
from onward.cli.app_access import open_pipeline
from onward.cli.params import PIPELINE, STDOUT, dry_run_option, json_option
from onward.cli.processes import app_option, refuse_other_store
from onward.ops.actions.publish import PublishEvents


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="FILE…")
@app_option
@click.option("--keep", is_flag=True, help="Keep what cannot be read as a dead letter, and publish the rest.")
@dry_run_option
@json_option
def publish(files: tuple[str, ...], reference: str, keep: bool, dry_run: bool, as_json: bool) -> None:
    """Put events on the ledger, as if another program had sent them.

    A FILE holds an event as JSON (event_type, data and, to publish it once, event_id), an array of events, or
    one on each line; - is standard input. If an event cannot be read, nothing of its file is published.

    \b
    Exit codes: 0 done, 2 an event cannot be read, 3 with --keep: some were kept as dead letters.

    \b
    Examples:
      onward publish event.json
      onward publish events.ndjson --dry-run
      jq -c '.[]' export.json | onward publish - --app shop.orders:app
      onward publish events.ndjson --keep --json
    """
    from onward.app import load_app

    if reference == PIPELINE:
        refuse_other_store()
    worker = "" if reference == PIPELINE else f"onward worker --app {shlex.quote(reference)}"
    action = PublishEvents([_read(file) for file in files], keep, worker)
    with open_pipeline() if reference == PIPELINE else closing(load_app(reference)) as app:
        result = action.plan(app) if dry_run else run_action(app, action)
        print_result({"dry_run": dry_run, **result.facts}, result.sentences, as_json=as_json)
    if getattr(result, "stopped", False):
        raise SystemExit(INTERRUPTED)
    if any(event["error"] for event in result.facts["events"]):
        raise SystemExit(PARTIAL if keep else WRONG_USAGE)


def _read(name: str) -> tuple[str, bytes]:
    try:
        with click.open_file(name, "rb") as file:
            return "standard input" if name == STDOUT else name, file.read()
    except OSError as error:
        raise click.UsageError(f"{name} cannot be read: {error.strerror}") from error
