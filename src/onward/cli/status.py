"""`onward status`: what needs a person, and how everything stands."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.table import Table
from rich.text import Text

from onward.cli.opening import EMPTY, reading, store_file
from onward.cli.output import (
    console,
    counted,
    duration,
    iso,
    json_option,
    number,
    one_line,
    print_json,
    size,
)
from onward.retry.redact import redact
from onward.settings import load_settings

if TYPE_CHECKING:
    from rich.console import Console

    from onward import App

LONG_OUTAGE = 24 * 3600.0
_STYLES = {"completed": "green", "partially_completed": "yellow", "failed": "red", "running": "cyan"}


@dataclass(frozen=True, slots=True)
class Need:
    """Something that a person should look at, and the command that does."""

    text: str
    command: str = ""


@dataclass(slots=True)
class Standing:
    """How everything stands."""

    store: str
    size: int
    needs: list[Need] = field(default_factory=list)
    sources: list[dict[str, Any]] = field(default_factory=list)
    stages: list[dict[str, Any]] = field(default_factory=list)
    outages: list[dict[str, Any]] = field(default_factory=list)
    set_aside: list[dict[str, Any]] = field(default_factory=list)
    workers: list[dict[str, Any]] = field(default_factory=list)


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show what needs a person first, then sources, stages, outages and workers.

    \b
    Examples:
      onward status
      onward status --json
    """
    settings = load_settings()
    file = store_file(settings)
    if file is not None and not file.exists():
        standing = Standing(str(file), 0)
    else:
        with reading() as app:
            standing = _look(app)
    if as_json:
        print_json(asdict(standing))
    elif not standing.sources and not standing.stages:
        click.echo(f"{EMPTY}\nThe store will be {standing.store}.")
    else:
        _print(standing)


def _look(app: App) -> Standing:
    standing = Standing(redact(app.settings.store), _size(app))
    standing.sources = [_source(app, source) for source in sorted(app.store.sources())]
    standing.stages = _stages(app)
    standing.outages = [
        {
            "dependency": one.dependency,
            "since": iso(one.opened_at),
            "seconds": app.store.now() - one.opened_at if one.opened_at else 0.0,
            "reason": one.reason,
            "remedy": one.remedy,
            "asked_again": iso(one.next_probe),
        }
        for one in app.store.breakers()
        if one.open
    ]
    standing.set_aside = [
        {
            "source": redact(one.source or ""),
            "service": one.service,
            "documents": len(one.items),
            "retries": one.retry_count,
            "tried_again": iso(one.retry_after),
            "error": str(one.errors[-1].get("message", "")) if one.errors else "",
        }
        for one in app.store.failed_batches()
    ]
    standing.workers = [
        {"worker": one["worker"], "version": one.get("version", ""), "last_seen": iso(one["last_seen"])}
        for one in app.store.workers()
    ]
    standing.needs = _needs(standing)
    return standing


def _size(app: App) -> int:
    file = store_file(app.settings)
    if file is None:
        return 0
    parts = [file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))]
    return sum(part.stat().st_size for part in parts if part.exists())


def _source(app: App, source: str) -> dict[str, Any]:
    from onward.pipeline.sources import source_status

    found = source_status(app, source)
    return {
        "source": redact(source),
        "status": found.status,
        "messages": found.count("messages"),
        "chunks": found.count("chunks"),
        "threads": found.count("threads"),
        "pending": found.pending,
        "failed": found.failed,
        "set_aside": found.set_aside,
    }


def _stages(app: App) -> list[dict[str, Any]]:
    """Each service's events, in the order of the pipeline; those of others behind."""
    order = ("ingestion", "parsing", "chunking", "embedding", "orchestration", "summarization")
    counts = app.store.counts()
    documents = app.store.document_counts()
    finished = {one.service: one.finishes for one in app.store.subscriptions()}
    names = [name for name in order if name in counts or name in finished]
    names += sorted(name for name in counts if name not in order)
    done = {name: documents.get(finished.get(name) or "", {}).get("processed") for name in names}
    if "ingestion" in done and "parsing" in done:
        # Both finish archives: the one those that stand for a source, the other what was fetched.
        requests = app.store.statuses("archives", [_request(source) for source in app.store.sources()])
        fetched = sum(one == "processed" for one in requests.values())
        done |= {"ingestion": fetched, "parsing": (done["parsing"] or 0) - fetched}
    return [_stage(app, name, counts.get(name, {}), done[name]) for name in names]


def _request(source: str) -> str:
    from onward.pipeline.documents import source_id

    return source_id(source)


def _stage(app: App, name: str, rows: dict[str, int], done: int | None) -> dict[str, Any]:
    due = app.store.next_due([name], suspects=True) if rows.get("waiting") else None
    waited = app.store.now() - due if due is not None else 0.0
    return {
        "service": name or "(no service)",
        "waiting": rows.get("waiting", 0),
        "working": rows.get("claimed", 0),
        # Events that are done are soon forgotten; what they finished is not.
        "done": rows.get("done", 0) if done is None else done,
        "failed": rows.get("dead", 0),
        "unrouted": rows.get("unrouted", 0),
        "oldest_waits_seconds": round(max(0.0, waited), 3),
        "next_due": iso(due) if waited < 0 else None,
    }


def _needs(standing: Standing) -> list[Need]:
    needs = [
        Need(f"{one['dependency']} is down: {one['reason']}. {one['remedy']}".strip())
        for one in standing.outages
        if one["remedy"] or one["seconds"] > LONG_OUTAGE
    ]
    due = sum(one["waiting"] for one in standing.stages if not one["next_due"])
    if due and not standing.workers:
        verb = "is" if due == 1 else "are"
        needs.append(Need(f"{counted(due, 'event')} {verb} due, and no worker runs", "onward worker"))
    failed = sum(one["failed"] for one in standing.sources)
    if failed:
        needs.append(Need(f"{counted(failed, 'document')} failed", "onward documents --status failed"))
    pending = sum(one["pending"] for one in standing.sources)
    given_up = [f"{one['service']} {number(one['failed'])}" for one in standing.stages if one["failed"]]
    if given_up:
        # Those of a document that failed for good are not pending any more.
        where = "pending" if pending or not failed else "failed"
        needs.append(Need(f"dead letters: {', '.join(given_up)}", f"onward documents --status {where}"))
    if pending and not given_up and not any(one["waiting"] + one["working"] for one in standing.stages):
        text = f"{counted(pending, 'document')} unfinished, and nothing is under way for them"
        needs.append(Need(text, "onward documents --status pending"))
    return needs


# -- for people


def _print(standing: Standing) -> None:
    out = console()
    if standing.needs:
        out.print(Text("Needs a person", "bold red"))
        for need in standing.needs:
            out.print(
                Text.assemble(
                    "  ", one_line(need.text), ("" if not need.command else ":  "), (need.command, "bold")
                ),
                soft_wrap=True,
            )
    else:
        out.print(Text("Nothing needs a person.", "green"))
    out.print()
    for outage in standing.outages:
        since = duration(outage["seconds"])
        text = f"● {outage['dependency']} has been down for {since}: {one_line(outage['reason'], 200)}"
        out.print(Text(text, "yellow"), soft_wrap=True)
    _print_sources(out, standing)
    _print_stages(out, standing)
    for batch in standing.set_aside:
        aside = f"{counted(batch['documents'], 'document')} of {batch['source'] or 'no source'} set aside"
        out.print(Text(one_line(f"{aside}: {batch['error']}", 300), "yellow"), soft_wrap=True)
    alive = counted(len(standing.workers), "worker") if standing.workers else "no worker"
    out.print(Text(f"{alive} alive · {one_line(standing.store)} · {size(standing.size)}", "dim"), soft_wrap=True)


def _number(count: int, style: str = "") -> Text:
    return Text(number(count), style) if count else Text("·", "dim")


def _print_sources(out: Console, standing: Standing) -> None:
    for one in standing.sources:
        name = Text(one_line(one["source"]), "bold")
        out.print(Text.assemble(name, "  ", (one["status"], _STYLES.get(one["status"], ""))), soft_wrap=True)
        line = Text("  " + ", ".join(counted(one[f"{noun}s"], noun) for noun in ("message", "chunk", "thread")))
        for what, style in (("pending", "yellow"), ("failed", "red"), ("set_aside", "yellow")):
            if one[what]:
                line.append(f", {number(one[what])} {what.replace('_', ' ')}", style)
        out.print(line, soft_wrap=True)


def _print_stages(out: Console, standing: Standing) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim", border_style="dim")
    table.add_column("stage", overflow="fold")
    for name in ("waiting", "working", "done", "failed", "oldest waits"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in standing.stages:
        waits = ""
        if one["next_due"]:
            waits = f"due in {duration(_until(one['next_due']))}"
        elif one["waiting"]:
            waits = duration(one["oldest_waits_seconds"])
        table.add_row(
            Text(one_line(one["service"])),
            _number(one["waiting"], "yellow"),
            _number(one["working"], "cyan"),
            _number(one["done"], "green"),
            _number(one["failed"], "red"),
            Text(waits, "dim"),
        )
    out.print(table)


def _until(at: str) -> float:
    from datetime import UTC, datetime

    return max(0.0, (datetime.fromisoformat(at) - datetime.now(UTC)).total_seconds())
