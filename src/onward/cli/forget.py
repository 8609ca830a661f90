"""`onward forget`: remove sources and everything that came from them."""

from __future__ import annotations

import click

from onward.cli.action_run import dry_run_option, print_sentences, run_action
from onward.cli.app_access import open_pipeline, open_store_app
from onward.cli.params import json_option
from onward.cli.render.output import print_json
from onward.ops.actions.action import ActionOutcome, ActionPlan
from onward.ops.actions.sources import ForgetSource
from onward.ops.lookup import resolve_source


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE…")
@dry_run_option
@json_option
def forget(sources: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Remove sources and everything that came from them: documents, vectors, summaries and blobs.

    The files and pages themselves are not touched. The end of a source's name is enough. While something else is
    ingested, blobs that it may need stay; any Onward process removes them after about a day.

    \b
    Examples:
      onward forget --dry-run harbour-list.mbox
      onward forget harbour-list.mbox https://example.org/list.mbox.gz
    """
    with open_store_app() as app:
        # All of them are looked up before any is removed.
        actions = [ForgetSource(source) for source in dict.fromkeys(resolve_source(app, name) for name in sources)]
        results: list[ActionPlan | ActionOutcome] = [action.plan(app) for action in actions]
    if not dry_run:
        with open_pipeline() as app:
            results = [run_action(app, action) for action in actions]
    if as_json:
        print_json({"dry_run": dry_run, "forgotten": [result.facts for result in results]})
        return
    for result in results:
        print_sentences(result.sentences[:1])
