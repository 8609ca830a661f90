"""`onward documents export | archive | discard | purge`: take documents along, or let go of them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli import INTERRUPTED
from onward.cli.actions import Change, changing, interruptible
from onward.cli.choosing import filter_options
from onward.cli.exporting import (
    exported,
    new_file,
    output_file_option,
    output_option,
    with_descendants,
    write_lines,
)
from onward.cli.opening import reading
from onward.cli.output import console, json_option, print_json
from onward.facts.choosing import GIVEN_UP, PAGE, Filters, choose, needed_by_others, statuses_of
from onward.facts.wording import counted, number, one_line
from onward.model.documents import Status

if TYPE_CHECKING:
    from pathlib import Path

    from onward import App, DocumentState

SOME_LEFT = 3
_FAILED = (Status.FAILED, Status.FAILED_MAX_RETRIES)
_dry_run = click.option("--dry-run", is_flag=True, help="Only say what would be done.")


@click.command()
@filter_options
@output_option
def export(output: Path | None, **given: Any) -> None:
    """Export documents with their bodies, states, errors and dead letters, one JSON object a line (NDJSON).

    \b
    Examples:
      onward documents export --status failed --output failed.ndjson
      onward documents export --collection messages --source harbour-list.mbox | wc -l
    """
    filters = Filters(**given)
    with reading() as app:
        states = choose(app, filters, statuses_of(filters.status, (None,)))
        if output is None:
            write_lines(sys.stdout, exported(app, states))
            return
        with interruptible(), new_file(output) as file:
            count = write_lines(file, exported(app, states))
    console(stderr=True).print(Text(f"{counted(count, 'document')} exported to {one_line(str(output))}"))


@click.command()
@filter_options
@output_file_option
@_dry_run
@json_option
def archive(output: Path, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Export documents that were given up to a file, then remove them with all that was made from them.

    What was made from them is exported as well. Only documents that failed or were discarded are archived.
    To bring them back, ingest their source again. An archive with messages stays: see `onward forget`.

    \b
    Examples:
      onward documents archive --status failed --older-than 30d --output failed.ndjson.gz --dry-run
      onward documents archive --group 5d41402a --output group.ndjson
    """
    filters = _needed(given)
    statuses = statuses_of(filters.status, GIVEN_UP)
    if not set(statuses) <= set(GIVEN_UP):
        raise click.BadParameter(
            f"only what was given up is archived ({', '.join(GIVEN_UP)}), not what is {filters.status}",
            param_hint="'--status'",
        )
    with reading() as app:
        chosen, kept = _removable(app, choose(app, filters, statuses))
        if dry_run or not chosen:
            told = Counter(one.collection for one in with_descendants(app, chosen))
            _say("would be archived" if dry_run else "archived", told, dry_run=dry_run, as_json=as_json, kept=kept)
            return
        with interruptible(), new_file(output) as file:
            written = write_lines(file, exported(app, with_descendants(app, chosen)))
        with changing(app, "documents archive", filters.as_dict() | {"output": str(output)}) as change:
            _in_slices(app, chosen, change, app.store.remove_documents)
    sources = sorted({one.source for one in chosen if one.source})
    if as_json:
        facts = {"dry_run": False, "output": str(output), "exported": written, "removed": change.done}
        print_json(facts | {"left_alone": dict(kept), "interrupted": change.stopped})
    else:
        out = console()
        done = f"{counted(written, 'document')} exported to {one_line(str(output))}, {number(change.done)} removed"
        rest = ", then stopped. The same command with another --output goes on with the rest."
        out.print(Text(done + (rest if change.stopped else ".")), soft_wrap=True)
        if sources:
            what = "their source" if len(sources) == 1 else f"their {len(sources)} sources"
            text = f"To bring them back, ingest {what} again: onward ingest SOURCE"
            out.print(Text(text, "dim"), soft_wrap=True)
        _say_kept(kept)
    _end(change, kept)


@click.command()
@filter_options
@click.option("--confirm", is_flag=True, help="Yes, give them up for good.")
@_dry_run
@json_option
def discard(confirm: bool, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Give documents up for good: they become discarded, and are kept.

    Without --status, documents that failed. `onward retry` still brings them back.

    \b
    Examples:
      onward documents discard --collection messages --status failed --dry-run
      onward documents discard --group 5d41402a --confirm
    """
    filters = _needed(given)
    if filters.status in (Status.PROCESSED, Status.DISCARDED):
        raise click.BadParameter(
            f"what is {filters.status} is final: there is nothing to give up", param_hint="'--status'"
        )
    with reading() as app:
        chosen = list(choose(app, filters, statuses_of(filters.status, _FAILED)))
        told = Counter(one.collection for one in chosen)
        if dry_run or not chosen:
            _say("would be discarded" if dry_run else "discarded", told, dry_run=dry_run, as_json=as_json)
            return
        if not confirm:
            raise click.UsageError(
                f"this gives up {counted(len(chosen), 'document')} for good; add --confirm, "
                "or look first with --dry-run"
            )

        def step(keys: Sequence[tuple[str, str]]) -> int:
            return sum(app.store.discard(*key) for key in keys)

        with changing(app, "documents discard", filters.as_dict()) as change:
            _in_slices(app, chosen, change, step, together=True)
    _say("discarded", told, dry_run=False, as_json=as_json, change=change)
    _end(change)


@click.command()
@filter_options
@click.option("--confirm", is_flag=True, help="Yes, remove them for ever.")
@_dry_run
@json_option
def purge(confirm: bool, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Remove documents for ever, with all that was made from them.

    Without --status, only documents that failed or were discarded. `onward documents archive` keeps a copy.
    An archive with messages stays: `onward forget` removes a source with all that came from it.

    \b
    Examples:
      onward documents purge --status discarded --dry-run
      onward documents purge --status discarded --older-than 30d --confirm
    """
    filters = _needed(given)
    with reading() as app:
        chosen, kept = _removable(app, choose(app, filters, statuses_of(filters.status, GIVEN_UP)))
        told = Counter(one.collection for one in with_descendants(app, chosen))
        if dry_run or not chosen:
            _say("would be removed" if dry_run else "removed", told, dry_run=dry_run, as_json=as_json, kept=kept)
            return
        if not confirm:
            raise click.UsageError(
                f"this removes {counted(told.total(), 'document')} for ever; add --confirm, "
                "or look first with --dry-run"
            )
        with changing(app, "documents purge", filters.as_dict()) as change:
            _in_slices(app, chosen, change, app.store.remove_documents)
    _say("removed", told, dry_run=False, as_json=as_json, change=change, kept=kept)
    _end(change, kept)


def _needed(given: dict[str, Any]) -> Filters:
    filters = Filters(**given)
    if not filters.given:
        raise click.UsageError("say which documents: --status, --collection, --source, --group or --older-than")
    return filters


def _removable(app: App, found: Iterable[DocumentState]) -> tuple[list[DocumentState], Counter[str]]:
    """The documents that can go, and how many must stay, by collection; refuse if all of them must."""
    states = list(found)
    needed = needed_by_others(app, states)
    kept = Counter(collection for collection, _ in needed)
    if needed and len(needed) == len(states):
        raise click.UsageError(_why_kept(kept))
    return [one for one in states if (one.collection, one.id) not in needed], kept


def _why_kept(kept: Counter[str]) -> str:
    return (
        f"{_by_collection(kept)} cannot be removed alone: what came from there would stay behind. "
        "To remove an archive with its messages: onward forget SOURCE"
    )


def _by_collection(counts: Counter[str]) -> str:
    return ", ".join(f"{number(count)} {name}" for name, count in sorted(counts.items()))


def _in_slices(
    app: App,
    chosen: Sequence[DocumentState],
    change: Change,
    step: Callable[[Sequence[tuple[str, str]]], int],
    *,
    together: bool = False,
) -> None:
    """Change documents that still stand as they did when they were chosen; a slice `together` in a transaction."""
    for start in range(0, len(chosen), PAGE):
        if change.stopped:
            return
        some = chosen[start : start + PAGE]
        one_slice = partial(_change_unchanged, app, some, step)
        change.done += app.store.atomically(one_slice) if together else one_slice()
    change.stopped = False  # too late: all of it is done


def _change_unchanged(
    app: App, states: Sequence[DocumentState], step: Callable[[Sequence[tuple[str, str]]], int]
) -> int:
    return step(_unchanged(app, states))


def _unchanged(app: App, states: Sequence[DocumentState]) -> list[tuple[str, str]]:
    before = {(one.collection, one.id): (one.status, one.revision, one.round) for one in states}
    now = app.store.states_of(list(before))
    return [key for one in now if before[key := (one.collection, one.id)] == (one.status, one.revision, one.round)]


def _end(change: Change, kept: Counter[str] | None = None) -> None:
    if change.stopped:
        raise SystemExit(INTERRUPTED)
    if kept:
        raise SystemExit(SOME_LEFT)


def _say(
    verb: str,
    told: Counter[str],
    *,
    dry_run: bool,
    as_json: bool,
    change: Change | None = None,
    kept: Counter[str] | None = None,
) -> None:
    """Say what was done, or would be; `kept` are those that cannot go."""
    total = told.total()
    count = total if change is None else change.done
    stopped = change is not None and change.stopped
    if as_json:
        facts = {"dry_run": dry_run, "documents": count, "collections": dict(sorted(told.items()))}
        print_json(facts | {"left_alone": dict(kept or {}), "interrupted": stopped})
        return
    out = console()
    if stopped:
        done = f"{number(count)} of {counted(total, 'document')} {verb}, then stopped."
        out.print(Text(f"{done} The same command goes on with the rest."), soft_wrap=True)
    else:
        text = f"{counted(count, 'document')} {verb}: {_by_collection(told)}" if told else "No such documents."
        out.print(Text(text), soft_wrap=True)
        if count < total:
            out.print(Text(f"{counted(total - count, 'document')} changed meanwhile, and left alone", "yellow"))
    _say_kept(kept)


def _say_kept(kept: Counter[str] | None) -> None:
    if kept:
        console().print(Text(_why_kept(kept), "yellow"), soft_wrap=True)
