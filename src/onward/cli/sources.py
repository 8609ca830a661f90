"""`onward watch` and `onward sources`: sources that are ingested at intervals."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.action_run import print_result, run_action, runs_action
from onward.cli.app_access import open_pipeline, open_reading_app, open_store_app
from onward.cli.output import Output
from onward.cli.params import PIPELINE, SPAN, all_of, dry_run_option, json_option, list_by_default, print_json
from onward.ops.text.format import interval, moment, number, one_line, source_name
from onward.pipeline.dates import read_time

if TYPE_CHECKING:
    from onward.ops.actions.action import Action

_STYLES = {"completed": "green", "failed": "red", "retrying": "yellow", "running": "cyan"}
_every_option = click.option("--every", type=SPAN, metavar="SPAN", help="How often it is ingested: 15m, 2h, 1d.")
_watch_options = all_of(
    click.argument("sources", nargs=-1, required=True, metavar="SOURCE…"),
    _every_option,
    click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="A setting of these sources."),
    click.option("--keep/--forget", default=None, help="Keep what is no longer listed, or remove it."),
)


@click.command()
@_watch_options
@click.option("--no-worker", is_flag=True, help="Only store it; another worker does the runs.")
def watch(
    sources: tuple[str, ...], every: float | None, options: tuple[str, ...], keep: bool | None, no_worker: bool
) -> None:
    """Ingest sources now and at intervals, and run a worker until Ctrl-C.

    A run fetches only what is new or changed. Watched sources are stored: every later `onward worker` and
    `onward ingest` does the runs that are due, and of several workers one does each. What is not given stays as
    it was. `onward sources` lists them.

    \b
    Examples:
      onward watch notes/ --every 15m
      onward watch https://example.org/list.mbox.gz --every 1d --keep
      onward watch notes/ --every 15m --no-worker
    """
    _watch(sources, every, options, keep, needs_worker=no_worker)
    if not no_worker:
        from onward.cli.processes import worker

        click.get_current_context().invoke(worker, reference=PIPELINE, processes=1)


def _watch(
    names: tuple[str, ...],
    every: float | None,
    options: tuple[str, ...],
    keep: bool | None,
    *,
    as_json: bool = False,
    dry_run: bool = False,
    needs_worker: bool = True,
) -> None:
    from onward.ops.actions.action import worker_hint
    from onward.ops.actions.watching import WatchSource, watched_source
    from onward.ops.bad_input import BadInput
    from onward.ops.lookup import PIPELINE_WORKER
    from onward.pipeline.fetch.location import is_path
    from onward.pipeline.source_settings import WrongOption, check_options, read_options

    with open_pipeline() as app:
        sources = list(dict.fromkeys(watched_source(app, name) for name in names))
        for source in sources:
            if is_path(source) and not os.path.lexists(source):
                raise BadInput(f"there is no file or folder '{one_line(source)}': check its name")
        try:
            given = read_options(options)
            for source in sources:
                check_options(source, given)
        except WrongOption as error:
            raise click.UsageError(str(error)) from error
        on_vanished = None if keep is None else "keep" if keep else "forget"
        actions: list[Action] = [WatchSource(source, every, given, on_vanished) for source in sources]
        results = [action.plan(app) if dry_run else run_action(app, action) for action in actions]
        hint = worker_hint(app, command=PIPELINE_WORKER) if needs_worker and not dry_run else ()
    facts = {"dry_run": dry_run, "watched": [result.facts["source"] for result in results]}
    sentences = [sentence for result in results for sentence in result.sentences]
    print_result(facts, [*sentences, *hint], as_json=as_json)


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def sources(ctx: click.Context, as_json: bool) -> None:
    """List the sources, and say which are ingested again, and when.

    `remove` ends the runs of a watched source; what was ingested stays. `onward forget` removes that, too.

    \b
    Examples:
      onward sources
      onward sources add notes/ --every 15m
      onward sources pause notes
      onward sources run notes
    """
    list_by_default(ctx, list_sources, {"as_json": as_json})


@sources.command("list")
@json_option
def list_sources(as_json: bool) -> None:
    """List all sources with their last result and their next run."""
    from onward.ops.queries.sources import source_facts

    with open_reading_app() as app:
        facts = source_facts(app)
    if as_json:
        print_json({"sources": facts})
        return
    out = Output()
    if not facts:
        out.write("There is no source yet. Begin with:\n  onward ingest SOURCE…")
        return
    heads = ("source", "every", "next run", "last run", "result", "settings")
    out.table(heads, [(one["source"], _cells(one)) for one in facts])
    for one in facts:
        if one["error"] and one["result"] != "completed":
            out.wrapped(f"{one['source']}: {one['error']}", style="red")
        if one["problems"]:
            first, rest = one["problems"][0], len(one["problems"]) - 1
            more = f" and {number(rest)} more" if rest else ""
            problem = f"{one_line(first['path'])}: {one_line(first['reason'], 200)}"
            out.wrapped(f"{one['source']}: {problem}{more}", style="yellow")


def _cells(one: dict[str, Any]) -> list[Text]:
    from onward.ops.queries.sources import settings_text

    last, following = (None if one[name] is None else read_time(one[name]) for name in ("last_run", "next_run"))
    every = "" if one["every_seconds"] is None else interval(one["every_seconds"])
    next_text = "paused" if one["paused"] else moment(following)
    shown = [name for name in ("new", "failed", "removed") if one["counts"].get(name)]
    counts = [f"{number(one['counts'][name])} {name}" for name in shown]
    result = ", ".join([one["result"], *counts])
    return [
        Text(every),
        Text(next_text, "yellow" if one["paused"] else ""),
        Text(moment(last) or "never", "dim"),
        Text(result, _STYLES.get(one["result"], "")),
        Text(one_line(settings_text(one), 200)),
    ]


@sources.command("add")
@_watch_options
@dry_run_option
@json_option
def add(
    sources: tuple[str, ...],
    every: float | None,
    options: tuple[str, ...],
    keep: bool | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Watch sources, or change how they are watched; a worker does the runs."""
    _watch(sources, every, options, keep, as_json=as_json, dry_run=dry_run)


def _change(change: str, names: tuple[str, ...]) -> Action:
    from onward.ops.actions.watching import ChangeWatches
    from onward.ops.lookup import resolve_source

    with open_store_app() as app:
        return ChangeWatches(change, tuple(dict.fromkeys(resolve_source(app, name) for name in names)))


_sources_argument = click.argument("names", nargs=-1, required=True, metavar="SOURCE…")


@sources.command("pause")
@_sources_argument
@runs_action()
def pause(names: tuple[str, ...]) -> Action:
    """Begin no further run of watched sources; one that is under way is finished."""
    return _change("pause", names)


@sources.command("resume")
@_sources_argument
@runs_action()
def resume(names: tuple[str, ...]) -> Action:
    """Go on with paused sources: their next run begins now."""
    return _change("resume", names)


@sources.command("remove")
@_sources_argument
@runs_action()
def remove(names: tuple[str, ...]) -> Action:
    """Watch sources no longer; their documents and options stay."""
    return _change("remove", names)


@sources.command("run")
@_sources_argument
@dry_run_option
@json_option
def run(names: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Ingest known sources once more now; a worker does it."""
    from onward.ops.actions.sources import IngestAgain
    from onward.ops.lookup import resolve_source

    with open_pipeline() as app:
        actions = [IngestAgain(source) for source in dict.fromkeys(resolve_source(app, name) for name in names)]
        results = [action.plan(app) if dry_run else run_action(app, action) for action in actions]
    facts = {"dry_run": dry_run, "sources": [source_name(action.source) for action in actions]}
    print_result(facts, [sentence for result in results for sentence in result.sentences], as_json=as_json)
