"""`onward reembed`: embed again what has no vector of the present model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.text import Text

from onward.cli import INTERRUPTED
from onward.cli.app_access import open_pipeline, open_store_app
from onward.cli.params import json_option
from onward.cli.pipeline_run import RESUME_HINT, run
from onward.cli.render.output import console, print_json
from onward.ops.text.format import counted

if TYPE_CHECKING:
    from onward import App


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say how many chunks would be embedded.")
@click.option(
    "--processes", type=click.IntRange(1, 64), help="Worker processes; one a core, at most 4, by default."
)
@json_option
def reembed(dry_run: bool, processes: int | None, as_json: bool) -> None:
    """Embed every chunk that has no vector of the present model.

    Needed after ONWARD_EMBEDDER or its model was changed: search compares only vectors of one model.

    \b
    Examples:
      onward reembed --dry-run
      ONWARD_EMBEDDER=http://localhost:11434/v1 onward reembed
    """
    from onward.pipeline.sources import reembed as submit

    with open_store_app() as app:
        count, model = _count(app), app.embedder.model
    if dry_run or not count:
        _say(count, model, 0, stopped=False, as_json=as_json, dry_run=dry_run)
        return
    with open_pipeline() as app:
        submit(app)
        stopped = run(app, f"{counted(count, 'chunk')} for {model}", processes=processes)
        left = _count(app)
    _say(count, model, left, stopped=stopped, as_json=as_json, dry_run=False)
    raise SystemExit(INTERRUPTED if stopped else 3 if left else 0)


def _count(app: App) -> int:
    from onward.pipeline.documents import Chunk

    count, after = 0, ""
    while ids := app.store.ids_without_vector(Chunk, app.embedder.model, after=after, limit=5000):
        count, after = count + len(ids), ids[-1]
    return count


def _say(count: int, model: str, left: int, *, stopped: bool, as_json: bool, dry_run: bool) -> None:
    if as_json:
        print_json({"model": model, "dry_run": dry_run, "chunks": count, "left": count if dry_run else left})
        return
    out = console()
    if not count:
        out.print(Text(f"Every chunk has its vector of the model {model!r}."))
    elif dry_run:
        out.print(Text(f"{counted(count, 'chunk')} would be embedded with the model {model!r}."))
    else:
        out.print(Text(f"{counted(count - left, 'chunk')} embedded with the model {model!r}."))
        if left:
            out.print(Text(f"{counted(left, 'chunk')} left; see `onward status`.", "yellow"))
        if stopped:
            out.print(Text(f"Stopped. {RESUME_HINT}", "yellow"))
