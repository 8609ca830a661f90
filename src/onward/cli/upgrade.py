"""`onward upgrade`: creates or upgrades the tables of the store before workers start."""

from __future__ import annotations

import click

from onward.cli.params import json_option, print_json
from onward.ops.actions.schema import SchemaUpgrade, upgrade_schema
from onward.ops.text.format import one_line
from onward.retry.redact import redact
from onward.settings import load_settings


@click.command()
@json_option
def upgrade(as_json: bool) -> None:
    """Create the tables of the store, or upgrade them to this version of Onward.

    A worker does the same when it starts. This command is for a step before that: for a user of the database
    who may change tables when workers may not, or for a job that runs once for each release. It is safe to repeat,
    and while workers run; the changelog names the versions that need all workers stopped first.

    \b
    Examples:
      onward upgrade
      onward upgrade --json
      ONWARD_STORE=postgresql://owner@db/onward onward upgrade
    """
    store = load_settings().store
    done = upgrade_schema(store)
    if as_json:
        facts = {"before": done.before, "after": done.after, "changed": done.changed}
        print_json({"store": redact(store), **facts})
        return
    click.echo(one_line(f"{redact(store)}: {_describe(done)}"))


def _describe(done: SchemaUpgrade) -> str:
    if not done.changed:
        return f"the tables have schema version {done.after} already"
    if not done.before:
        return f"the tables were created, schema version {done.after}"
    return f"the tables were upgraded from schema version {done.before} to schema version {done.after}"
