"""`onward models` and `onward reembed`: what is set, its speed here, and the vectors of chunks."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from onward.cli import INTERRUPTED
from onward.cli.action_run import print_result, run_action, runs_action
from onward.cli.app_access import open_pipeline, open_store_app
from onward.cli.output import Output
from onward.cli.params import json_option, list_by_default, print_json
from onward.ops.actions.models import PruneVectors
from onward.ops.actions.services import CloseBreaker, OpenBreaker
from onward.ops.lookup import store_exists
from onward.ops.queries.models import CollectionVectors, read_models, read_vectors
from onward.ops.text.format import counted
from onward.ops.text.models import model_sentence, vector_lines
from onward.settings import load_settings

if TYPE_CHECKING:
    from onward import App
    from onward.ops.actions.action import Action

FAILED, UNFINISHED = 1, 3
_PROCESSES = click.IntRange(1, 64)
_speed_option = click.option("--no-speed", is_flag=True, help="Do not measure how fast the embedders are here.")


@click.group(invoke_without_command=True)
@_speed_option
@json_option
@click.pass_context
def models(ctx: click.Context, /, **options: Any) -> None:
    """Show the models that are set, how fast they are here, and how many chunks have vectors of them.

    To measure an embedder, sample texts are embedded for about a second; a server gets 16 of them.

    A better model (ONWARD_EMBEDDER_UPGRADE) embeds all chunks in the background, while workers have nothing else
    to do. `onward models pause` stops that, for all workers, until `onward models resume`.

    \b
    Exit codes: 0 done, 1 a model cannot be used.

    \b
    Examples:
      onward models
      onward models --no-speed --json
      onward models pause
      onward models prune --dry-run
    """
    list_by_default(ctx, list_models, options)


@models.command("list")
@_speed_option
@json_option
def list_models(no_speed: bool, as_json: bool) -> None:
    """Show models, their speed here, and how many chunks have vectors of them."""
    settings = load_settings()
    vectors = CollectionVectors()
    if store_exists(settings.store):
        with open_store_app() as app:
            found = read_models(app, measure=not no_speed)
            vectors = read_vectors(app)
    else:
        from onward import App

        found = read_models(App(settings=settings), measure=not no_speed)
    if as_json:
        print_json({"models": [asdict(one) for one in found], **vectors.as_dict()})
    else:
        out = Output()
        for one in found:
            out.entry((f"{one.role:<12}", "bold"), (model_sentence(one), "red" if one.error else ""))
        out.print()
        for line in vector_lines(vectors):
            out.entry(line)
    raise SystemExit(FAILED if any(one.error for one in found) else 0)


@models.command("pause")
@json_option
def pause(as_json: bool) -> None:
    """Stop embedding with the better model, in all workers, until `onward models resume`."""
    from onward.pipeline.stages.vector_upgrade import DEPENDENCY

    _change(OpenBreaker(DEPENDENCY, "paused with onward models pause"), as_json)


@models.command("resume")
@json_option
def resume(as_json: bool) -> None:
    """Go on embedding with the better model."""
    from onward.pipeline.stages.vector_upgrade import DEPENDENCY

    _change(CloseBreaker(DEPENDENCY), as_json)


def _change(action: Action, as_json: bool) -> None:
    # The pipeline says that it has such a dependency, even if no worker has been started yet.
    with open_pipeline() as app:
        outcome = run_action(app, action)
    print_result(outcome.facts, outcome.sentences, as_json=as_json)


@models.command("prune")
@runs_action()
def prune() -> Action:
    """Remove vectors of models that are no longer set.

    \b
    Examples:
      onward models prune --dry-run
      onward models prune
    """
    return PruneVectors()


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say how many chunks would be embedded.")
@click.option("--processes", type=_PROCESSES, help="Worker processes; one a core, at most 4, by default.")
@json_option
def reembed(dry_run: bool, processes: int | None, as_json: bool) -> None:
    """Embed every chunk that has no vector of the present model, and of the better one if there is one.

    Needed after ONWARD_EMBEDDER or its model was changed: search compares only vectors of one model. Workers embed
    with the better model (ONWARD_EMBEDDER_UPGRADE) in the background; this command does it now. It shows its rate
    and the time left. Ctrl-C stops it; the next run continues from there.

    \b
    Examples:
      onward reembed --dry-run
      ONWARD_EMBEDDER=http://localhost:11434/v1 onward reembed
    """
    from onward.pipeline.sources import reembed as submit
    from onward.pipeline.vector_upgrade import begin_upgrade, read_upgrade

    with open_store_app() as app:
        before = _missing(app)
    left, stopped = before if dry_run else dict.fromkeys(before, 0), False
    count = sum(before.values())
    if count and not dry_run:
        with open_pipeline() as app:
            submit(app)
            if (upgrade := read_upgrade(app)) is not None:
                begin_upgrade(app, upgrade)
            title = f"{counted(max(before.values()), 'chunk')} for {' and '.join(before)}"
            stopped = run_pipeline(app, title, processes=processes, background=upgrade is not None)
            left = _missing(app)
    if as_json:
        (model, chunks), *better = before.items()
        facts = {"model": model, "dry_run": dry_run, "chunks": chunks, "left": left[model]}
        upgrades = [{"model": name, "chunks": number, "left": left[name]} for name, number in better]
        print_json({**facts, "upgrade": upgrades[0] if upgrades else None})
    else:
        _print_reembedded(Output(), before, left, dry_run=dry_run, stopped=stopped)
    raise SystemExit(INTERRUPTED if stopped else UNFINISHED if any(left.values()) and not dry_run else 0)


def run_pipeline(app: App, title: str, **options: Any) -> bool:
    from onward.cli.pipeline_run import run

    return run(app, title, **options)


def _print_reembedded(
    out: Output, before: dict[str, int], left: dict[str, int], *, dry_run: bool, stopped: bool
) -> None:
    for model, chunks in before.items():
        if not chunks:
            out.wrapped(f"Every chunk has its vector of the model {model!r}.")
        elif dry_run:
            out.wrapped(f"{counted(chunks, 'chunk')} would be embedded with the model {model!r}.")
        else:
            out.wrapped(f"{counted(chunks - left[model], 'chunk')} embedded with the model {model!r}.")
            if left[model]:
                out.write(f"{counted(left[model], 'chunk')} left; see `onward status`.", style="yellow")
    if stopped:
        out.wrapped(
            "Stopped. Nothing is lost: `onward reembed` or `onward worker` goes on where it stopped.", "yellow"
        )


def _missing(app: App) -> dict[str, int]:
    """Count the chunks that have no vector of each model that is set."""
    from onward.pipeline.documents import Chunk

    embedders = [app.embedder, app.embedder_upgrade]
    missing = {}
    for embedder in embedders:
        if embedder is not None:
            count, after = 0, ""
            while ids := app.store.ids_without_vector(Chunk, embedder.model, after=after, limit=5000):
                count, after = count + len(ids), ids[-1]
            missing[embedder.model] = count
    return missing
