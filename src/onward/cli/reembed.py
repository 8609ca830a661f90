"""`onward reembed`: embed again what has no vector of the present model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.text import Text

from onward.cli import INTERRUPTED
from onward.cli.opening import pipeline, reading
from onward.cli.output import console, json_option, print_json
from onward.cli.running import GO_ON, run
from onward.facts.wording import counted

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

    with reading() as app:
        count, model = _count(app), app.embedder.model
    if dry_run or not count:
        _say(count, model, 0, stopped=False, as_json=as_json, dry_run=dry_run)
        return
    with pipeline() as app:
        submit(app)
        stopped = run(app, f"{counted(count, 'chunk')} for {model}", processes=processes)
        left = _count(app)
    _say(count, model, left, stopped=stopped, as_json=as_json, dry_run=False)
    raise SystemExit(INTERRUPTED if stopped else 3 if left else 0)


def _count(app: App) -> int:
    from onward.pipeline.documents import Chunk

    count, after = 0, ""
    while ids := app.store.not_placed(Chunk, app.embedder.model, after=after, limit=5000):
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
            out.print(Text(f"Stopped. {GO_ON}", "yellow"))
