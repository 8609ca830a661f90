"""`onward batches`: what was set aside to be retried together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.accounting import error_of
from onward.cli.actions import log_action
from onward.cli.opening import NotFound, reading, short_ids, worker_command
from onward.cli.output import (
    SHORT_ID,
    clock_time,
    console,
    counted,
    iso,
    json_option,
    moment,
    number,
    one_line,
    print_entry,
    print_json,
    source_name,
)
from onward.model.documents import Document
from onward.model.ledger import MAX_COMMIT_DOCUMENTS, FailedBatch
from onward.recovery.groups import discard_all
from onward.retry.redact import redact

if TYPE_CHECKING:
    from rich.console import Console

    from onward import App

Key = tuple[str, str]
SHOWN_ITEMS = 20
_MOST_LEVELS = 10
"""So far a document's ancestors are looked for."""


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def batches(ctx: click.Context, as_json: bool) -> None:
    """Show failed batches: documents that failed while the rest of their source went on.

    A batch is retried after 1, 5, 10, 20 and 40 minutes, then every hour. From the 10th retry on it is
    called persistent: somebody should look at it.

    \b
    Examples:
      onward batches
      onward batches show 5d41402a
      onward batches retry --all
      onward batches discard 5d41402a --confirm
    """
    if ctx.invoked_subcommand is None:
        _list(as_json=as_json)
    elif as_json:
        raise click.UsageError(f"give options behind `{ctx.invoked_subcommand}`")


@batches.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List failed batches: how many documents, how often retried, when next, and the last error."""
    _list(as_json=as_json)


@batches.command()
@click.argument("id")
@json_option
def show(id: str, as_json: bool) -> None:
    """Show one failed batch with the error of each of its documents."""
    with reading() as app:
        batch = _find(app, id)
        if as_json:
            print_json(_facts(app, batch) | {"item_errors": dict(_item_errors(app, batch.items))})
        else:
            _print(app, batch)


@batches.command()
@click.argument("ids", nargs=-1, metavar="[ID]…")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--dry-run", is_flag=True, help="Only say what would be retried.")
@json_option
def retry(ids: tuple[str, ...], everything: bool, dry_run: bool, as_json: bool) -> None:
    """Retry failed batches now; this is not counted as a retry."""
    if bool(ids) == everything:
        raise click.UsageError("give either the ids of batches, or --all")
    with reading() as app:
        chosen = app.store.failed_batches() if everything else _find_all(app, ids)
        if not dry_run:
            now = app.store.now()
            # One that is gone by now has recovered.
            chosen = [one for one in chosen if app.store.hurry_batch(one.id, now)]
            if chosen:
                log_action(app, "batches retry", {"batches": [one.id for one in chosen]}, _documents(chosen))
        workers, start = len(app.store.workers()), worker_command(app.store)
    if as_json:
        print_json({"dry_run": dry_run, "batches": [one.id for one in chosen], "documents": _documents(chosen)})
        return
    out = console()
    verb = "would be retried" if dry_run else "will be retried now"
    what = f"{_counted(len(chosen))} with {counted(_documents(chosen), 'document')}"
    out.print(Text(f"{what} {verb}." if chosen else "There are no failed batches."))
    if chosen and not dry_run:
        alive = "A worker takes it within seconds." if workers else f"No worker is alive; start one: {start}"
        out.print(Text(alive, "dim" if workers else "yellow"))


@batches.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@click.option("--confirm", is_flag=True, help="Yes, give these documents up for good.")
@click.option("--dry-run", is_flag=True, help="Only say what would be discarded.")
@json_option
def discard(ids: tuple[str, ...], confirm: bool, dry_run: bool, as_json: bool) -> None:
    """Give up all documents of failed batches: they become discarded, and are kept."""
    with reading() as app:
        chosen = _find_all(app, ids)
        count = _documents(chosen)
        if not dry_run and not confirm:
            raise click.UsageError(
                f"this gives up {counted(count, 'document')} for good; add --confirm, or look first with --dry-run"
            )
        if not dry_run:
            count = sum(_discard(app, one.items) for one in chosen)
            log_action(app, "batches discard", {"batches": [one.id for one in chosen]}, count)
    if as_json:
        print_json({"dry_run": dry_run, "batches": [one.id for one in chosen], "documents": count})
        return
    verb = "would be discarded" if dry_run else "discarded"
    console().print(Text(f"{counted(count, 'document')} of {_counted(len(chosen))} {verb}."))


def _discard(app: App, items: Sequence[Key]) -> int:
    count = 0
    for start in range(0, len(items), MAX_COMMIT_DOCUMENTS):
        count += discard_all(app.store, items[start : start + MAX_COMMIT_DOCUMENTS])
    return count


# -- finding


def _find_all(app: App, ids: Sequence[str]) -> list[FailedBatch]:
    return list({one.id: one for one in (_find(app, id) for id in ids)}.values())


def _find(app: App, id: str) -> FailedBatch:
    found = [one for one in app.store.failed_batches() if id.strip() and one.id.startswith(id.strip())]
    if not found:
        raise NotFound(f"no failed batch has an id that begins with {one_line(id)!r}; see `onward batches`")
    if len(found) > 1:
        listed = "\n".join(f"  {one.id}" for one in found[:10])
        raise NotFound(f"{one_line(id)!r} begins the ids of {_counted(len(found))}; give more of one:\n{listed}")
    return found[0]


def _documents(chosen: Sequence[FailedBatch]) -> int:
    return sum(len(one.items) for one in chosen)


def _counted(count: int) -> str:
    return f"{number(count)} failed batch{'' if count == 1 else 'es'}"


# -- for programs


def _facts(app: App, batch: FailedBatch) -> dict[str, Any]:
    task, project = _task(app, batch.source)
    return {
        "id": batch.id,
        "service": batch.service,
        "task_id": task,
        "project_id": project,
        "project_path": redact(batch.source) if batch.source else None,
        "failed_files": _files(app, batch),
        "items": [id for _, id in batch.items],
        "errors": [
            {"timestamp": iso(one.get("timestamp")), "error": redact(str(one.get("error", "")))}
            for one in batch.errors
        ],
        "retry_count": batch.retry_count,
        "retry_after": iso(batch.retry_after),
        "created_at": iso(batch.created_at),
        "persistent": _persistent(app, batch),
    }


def _persistent(app: App, batch: FailedBatch) -> bool:
    return app.settings.ladder().failed_batch.persistent(batch.retry_count)


def _task(app: App, source: str | None) -> tuple[str | None, str | None]:
    """The last task of a source, and the source's own id."""
    if source is None:
        return None, None
    from onward.pipeline.documents import Archive, source_id

    id = source_id(source)
    request = app.get(Archive, id)
    return (Document.make_id("task", id, request.submission), id) if request else (None, None)


def _files(app: App, batch: FailedBatch) -> list[str]:
    """The places of the source that the items came from: what their oldest ancestors call themselves."""
    keys = list(batch.items)
    roots: set[Key] = set()
    for _ in range(_MOST_LEVELS):
        above: set[Key] = set()
        for state in app.store.states_of(keys):
            if state.parent:
                name, _, id = state.parent.partition("/")
                above.add((name, id))
            else:
                roots.add((state.collection, state.id))
        if not above:
            break
        keys = sorted(above)
    found: set[str] = set()
    for collection in {name for name, _ in roots}:
        for _, _, text in app.store.read_bodies(collection, [id for name, id in roots if name == collection]):
            body = json.loads(text)
            found.add(redact(str(body.get("path") or body.get("source") or "")))
    return sorted(found - {""})


def _item_errors(app: App, items: Sequence[Key]) -> Iterator[tuple[str, str]]:
    for state in app.store.states_of(items):
        yield state.id, redact(error_of(state))


# -- for people


def _list(*, as_json: bool) -> None:
    with reading() as app:
        found = sorted(app.store.failed_batches(), key=lambda one: one.retry_after)
        if as_json:
            print_json([_facts(app, one) for one in found])
            return
        out = console()
        if not found:
            out.print(Text("There are no failed batches.", "green"))
            return
        for one in found:
            print_entry(out, _line(app, one))
            if error := _last_error(one):
                out.print(Text(f"          {one_line(redact(error), 300)}", "red"), soft_wrap=True)
        out.print(Text.assemble(("To look at one: ", "dim"), f"onward batches show {found[0].id[:SHORT_ID]}"))


def _line(app: App, one: FailedBatch) -> Text:
    line = Text.assemble((f"{one.id[:SHORT_ID]}  ", "green"), f"{counted(len(one.items), 'document')} of ")
    line.append(source_name(one.source or "no source")).append(f" ({one.service})", "dim")
    line.append(f"  {_retries(one.retry_count)}, {_next(app, one)}")
    if _persistent(app, one):
        line.append("  persistent", "bold red")
    return line


def _retries(count: int) -> str:
    return f"{number(count)} {'retry' if count == 1 else 'retries'}"


def _next(app: App, one: FailedBatch) -> str:
    return "due now" if one.retry_after <= app.store.now() else f"next at {clock_time(one.retry_after)}"


def _last_error(one: FailedBatch) -> str:
    return str(one.errors[-1].get("error", "")) if one.errors else ""


def _print(app: App, batch: FailedBatch) -> None:
    out = console()
    out.print(_line(app, batch), soft_wrap=True)
    out.print(Text(f"id          {batch.id}"), soft_wrap=True)
    out.print(Text(f"set aside   {moment(batch.created_at)}"))
    for one in _files(app, batch)[:SHOWN_ITEMS]:
        out.print(Text(f"from        {one_line(one)}"), soft_wrap=True)
    out.print(Text("Errors of the batch", "bold"))
    for error in batch.errors[-SHOWN_ITEMS:]:
        text = one_line(redact(str(error.get("error", ""))), 300)
        out.print(Text(f"  {moment(error.get('timestamp'))}  {text}"), soft_wrap=True)
    _print_items(app, out, batch)
    out.print(Text.assemble(("To retry it now: ", "dim"), f"onward batches retry {batch.id[:SHORT_ID]}"))


def _print_items(app: App, out: Console, batch: FailedBatch) -> None:
    out.print(Text("Documents", "bold"))
    shown = batch.items[:SHOWN_ITEMS]
    ids = short_ids(app, [id for _, id in shown])
    errors = dict(_item_errors(app, shown))
    for name, id in shown:
        line = Text.assemble((f"  {one_line(ids[id]):8}", "green"), f"  {name:10}")
        out.print(line.append(one_line(errors.get(id, ""), 300), "red"), soft_wrap=True)
    if len(batch.items) > len(shown):
        out.print(Text(f"  … and {number(len(batch.items) - len(shown))} more; all of them with --json", "dim"))
