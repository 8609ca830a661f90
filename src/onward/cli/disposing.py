"""`onward documents export | archive | discard | purge`: take documents along, or let go of them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.actions import log_action
from onward.cli.choosing import GIVEN_UP, PAGE, Filters, choose, filter_options, statuses_of
from onward.cli.exporting import exported, new_file, with_descendants, write_lines
from onward.cli.opening import reading
from onward.cli.output import console, counted, json_option, number, one_line, print_json
from onward.model.documents import Status

if TYPE_CHECKING:
    from onward import App, DocumentState

_FAILED = (Status.FAILED, Status.FAILED_MAX_RETRIES)
_dry_run = click.option("--dry-run", is_flag=True, help="Only say what would be done.")


@click.command()
@filter_options
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A new file, packed if its name ends in .gz; standard output by default.",
)
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
        with new_file(output) as file:
            count = write_lines(file, exported(app, states))
    console(stderr=True).print(Text(f"{counted(count, 'document')} exported to {one_line(str(output))}"))


@click.command()
@filter_options
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    required=True,
    help="A new file, such as failed.ndjson.gz; packed if its name ends in .gz.",
)
@_dry_run
@json_option
def archive(output: Path, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Export documents that were given up to a file, then remove them with all that was made from them.

    What was made from them is exported as well. Only documents that failed or were discarded are archived.
    To bring them back, ingest their source again.

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
        chosen = list(choose(app, filters, statuses))
        if dry_run or not chosen:
            told = Counter(one.collection for one in with_descendants(app, chosen))
            _say("would be archived" if dry_run else "archived", told, dry_run=dry_run, as_json=as_json)
            return
        with new_file(output) as file:
            written = write_lines(file, exported(app, with_descendants(app, chosen)))
        removed = _remove(app, chosen)
        log_action(app, "documents archive", filters.as_dict() | {"output": str(output)}, removed)
    sources = sorted({one.source for one in chosen if one.source})
    if as_json:
        print_json({"dry_run": False, "output": str(output), "exported": written, "removed": removed})
        return
    out = console()
    done = f"{counted(written, 'document')} exported to {one_line(str(output))}, {number(removed)} removed."
    out.print(Text(done), soft_wrap=True)
    if sources:
        what = "their source" if len(sources) == 1 else f"their {len(sources)} sources"
        out.print(Text(f"To bring them back, ingest {what} again: onward ingest SOURCE", "dim"), soft_wrap=True)


@click.command()
@filter_options
@_dry_run
@json_option
def discard(dry_run: bool, as_json: bool, **given: Any) -> None:
    """Give documents up for good: they become discarded, and are kept.

    Without --status, documents that failed. `onward retry` still brings them back.

    \b
    Examples:
      onward documents discard --collection messages --status failed --dry-run
      onward documents discard --group 5d41402a
    """
    filters = _needed(given)
    if filters.status in (Status.PROCESSED, Status.DISCARDED):
        raise click.BadParameter(
            f"what is {filters.status} is final: there is nothing to give up", param_hint="'--status'"
        )
    with reading() as app:
        chosen = list(choose(app, filters, statuses_of(filters.status, _FAILED)))
        if not dry_run and chosen:
            for some in _slices(chosen):
                with app.store.transaction():
                    for one in some:
                        app.store.discard(one.collection, one.id)
            log_action(app, "documents discard", filters.as_dict(), len(chosen))
    told = Counter(one.collection for one in chosen)
    _say("would be discarded" if dry_run else "discarded", told, dry_run=dry_run, as_json=as_json)


@click.command()
@filter_options
@click.option("--confirm", is_flag=True, help="Yes, remove them for ever.")
@_dry_run
@json_option
def purge(confirm: bool, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Remove documents for ever, with all that was made from them.

    Without --status, only documents that failed or were discarded. `onward documents archive` keeps a copy.

    \b
    Examples:
      onward documents purge --status discarded --dry-run
      onward documents purge --status discarded --older-than 30d --confirm
    """
    filters = _needed(given)
    changed = 0
    with reading() as app:
        chosen = list(choose(app, filters, statuses_of(filters.status, GIVEN_UP)))
        told = Counter(one.collection for one in with_descendants(app, chosen))
        if not dry_run and chosen:
            if not confirm:
                raise click.UsageError(
                    f"this removes {counted(told.total(), 'document')} for ever; add --confirm, "
                    "or look first with --dry-run"
                )
            removed = _remove(app, chosen)
            log_action(app, "documents purge", filters.as_dict(), removed)
            changed = told.total() - removed
    _say("would be removed" if dry_run else "removed", told, dry_run=dry_run, as_json=as_json, changed=changed)


def _needed(given: dict[str, Any]) -> Filters:
    filters = Filters(**given)
    if not filters.given:
        raise click.UsageError("say which documents: --status, --collection, --source, --group or --older-than")
    return filters


def _remove(app: App, chosen: Sequence[DocumentState]) -> int:
    """Remove documents that still stand as they did when they were chosen."""
    removed = 0
    for some in _slices(chosen):
        now = {(one.collection, one.id): one for one in app.store.states_of([(s.collection, s.id) for s in some])}
        same = [key for one in some if _unchanged(one, now.get(key := (one.collection, one.id)))]
        removed += app.store.remove_documents(same)
    return removed


def _unchanged(before: DocumentState, now: DocumentState | None) -> bool:
    return now is not None and (before.status, before.revision, before.round) == (
        now.status,
        now.revision,
        now.round,
    )


def _slices(chosen: Sequence[DocumentState]) -> list[Sequence[DocumentState]]:
    return [chosen[start : start + PAGE] for start in range(0, len(chosen), PAGE)]


def _say(verb: str, told: Counter[str], *, dry_run: bool, as_json: bool, changed: int = 0) -> None:
    """Say what was done; `changed` are those left alone, as somebody else has changed them meanwhile."""
    count = told.total() - changed
    if as_json:
        print_json({"dry_run": dry_run, "documents": count, "collections": dict(sorted(told.items()))})
        return
    parts = ", ".join(f"{number(count)} {name}" for name, count in sorted(told.items()))
    text = f"{counted(count, 'document')} {verb}: {parts}" if told else "No such documents."
    out = console()
    out.print(Text(text), soft_wrap=True)
    if changed > 0:
        out.print(Text(f"{counted(changed, 'document')} changed meanwhile, and left alone", "yellow"))
