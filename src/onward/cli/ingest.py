"""`onward ingest` and `onward forget`: process sources, or remove them."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import click

from onward.cli.params import PIPELINE, default_processes, dry_run_option, json_option
from onward.early_processes import EarlyProcesses

if TYPE_CHECKING:
    from onward.ops.actions.action import ActionOutcome, ActionPlan

_PROCESSES = click.IntRange(1, 64)


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE…")
@click.option("--no-wait", is_flag=True, help="Only submit; a worker processes them.")
@click.option("--processes", type=_PROCESSES, help="Worker processes; by default one for each core, at most 4.")
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of these sources; it is kept.",
)
@json_option
def ingest(
    sources: tuple[str, ...], no_wait: bool, processes: int | None, options: tuple[str, ...], as_json: bool
) -> None:
    """Ingest mailboxes, folders and URLs: fetch, parse, chunk, embed and summarise them.

    It ends when nothing is due within a minute. Ctrl-C finishes running handlers and ends; a second Ctrl-C
    ends at once. The next run continues from there. Ingesting a source again adds what is new.
    The logs of workers go to onward.log in the data folder (ONWARD_HOME).

    Exit codes: 0 done, 1 failed, 3 done but some documents failed or still wait, 130 stopped.

    \b
    Examples:
      onward ingest archive.mbox
      onward ingest docs/ https://example.org/list.mbox.gz
      onward ingest imaps://ada@mail.example.org/ crawl+https://example.org/docs/
      onward ingest git+https://example.org/repo.git --option ref=main
      onward ingest --no-wait big.mbox && onward worker
    """
    began = time.monotonic()
    from onward.cli.ingest_run import ingest_sources

    count = 0 if no_wait else processes or default_processes()
    with closing(EarlyProcesses(PIPELINE, count)) as early:  # before anything is opened
        code = ingest_sources(
            sources, began, early, no_wait=no_wait, processes=processes, as_json=as_json, options=options
        )
    raise SystemExit(code)


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
    from onward.cli.action_run import print_result, run_action
    from onward.cli.app_access import open_pipeline, open_store_app
    from onward.ops.actions.sources import ForgetSource
    from onward.ops.lookup import resolve_source

    with open_store_app() as app:
        # All of them are looked up before any is removed.
        actions = [ForgetSource(source) for source in dict.fromkeys(resolve_source(app, name) for name in sources)]
        results: list[ActionPlan | ActionOutcome] = [action.plan(app) for action in actions]
    if not dry_run:
        with open_pipeline() as app:
            results = [run_action(app, action) for action in actions]
    facts = {"dry_run": dry_run, "forgotten": [result.facts for result in results]}
    print_result(facts, [result.sentences[0] for result in results], as_json=as_json)
