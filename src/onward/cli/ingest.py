"""`onward ingest`: take sources in, and process them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from rich.text import Text

from onward.cli import INTERRUPTED
from onward.cli.opening import check_models, pipeline
from onward.cli.output import console, json_option, print_json
from onward.cli.running import GO_ON, run
from onward.facts.accounting import Account, account, totals
from onward.facts.finding import show_command
from onward.facts.wording import clock_time, counted, duration, number, one_line, source_name
from onward.retry.errors import OnwardError

if TYPE_CHECKING:
    from rich.console import Console

    from onward import App

FAILED, UNFINISHED = 1, 3


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE…")
@click.option("--no-wait", is_flag=True, help="Only submit; a worker does the rest.")
@click.option(
    "--processes", type=click.IntRange(1, 64), help="Worker processes; one a core, at most 4, by default."
)
@json_option
def ingest(sources: tuple[str, ...], no_wait: bool, processes: int | None, as_json: bool) -> None:
    """Ingest mailboxes, folders and URLs: fetch, parse, chunk, embed and summarise them.

    It ends when nothing is due within a minute. Ctrl-C finishes what runs and ends, a second one gives
    it back at once; the next run goes on from there. Ingesting a source again takes in what is new.
    Worker messages go to onward.log in the data folder (ONWARD_HOME).

    \b
    Exit codes: 0 done, 1 failed, 3 done but some documents failed or still wait, 130 stopped.

    \b
    Examples:
      onward ingest archive.mbox
      onward ingest docs/ https://example.org/list.mbox.gz
      onward ingest --no-wait big.mbox && onward worker
    """
    began = time.monotonic()
    with pipeline() as app:
        check_models(app)
        app.check_bus()
        submitted, refused = _submit(app, sources, as_json)
        if not submitted:
            if as_json:
                print_json(_facts([], refused, 0.0, stopped=False))
            raise SystemExit(FAILED)
        if no_wait:
            _say_submitted(list(submitted), refused, as_json)
            raise SystemExit(UNFINISHED if refused else 0)
        stopped = run(app, _title(list(submitted)), sources=list(submitted), processes=processes)
        accounts = [account(app, source, before) for source, before in submitted.items()]
        seconds = time.monotonic() - began
        if as_json:
            print_json(_facts(accounts, refused, seconds, stopped=stopped))
        else:
            _summary(app, accounts, seconds, stopped=stopped)
    raise SystemExit(INTERRUPTED if stopped else _exit_code(accounts, refused))


def _submit(app: App, locations: Sequence[str], as_json: bool) -> tuple[dict[str, dict[str, int]], dict[str, str]]:
    """Submit all that can be; what cannot is told at once. The totals of each source before this run."""
    from onward.pipeline.fetching import canonical
    from onward.pipeline.fetching.location import is_url, printable
    from onward.pipeline.sources import submit

    submitted: dict[str, dict[str, int]] = {}
    refused: dict[str, str] = {}
    for location in locations:
        try:
            source = canonical(location)
            if source in submitted:
                continue
            if not is_url(source):
                _check_there(source, location)
            before = totals(app, source)
            submit(app, location)
            submitted[source] = before
        except (OnwardError, UnicodeEncodeError) as error:
            why = str(error)
            if isinstance(error, UnicodeEncodeError):
                why = f"the name '{one_line(printable(location))}' is not UTF-8; rename it, or ingest its folder"
            refused[printable(location)] = why
            if not as_json:
                click.echo(f"Error: {one_line(why)}", err=True)
    return submitted, refused


def _check_there(source: str, location: str) -> None:
    """Raise if there is nothing at a path; what else may be wrong with it is found when it is fetched."""
    import os

    from onward.pipeline.fetching import SourceMissing
    from onward.pipeline.fetching.errors import Unreadable
    from onward.pipeline.fetching.location import printable

    name = one_line(printable(location))
    try:
        os.lstat(source)
    except PermissionError:
        raise Unreadable(f"the source '{name}' may not be read: allow it for this user, or leave it out") from None
    except OSError:
        raise SourceMissing(f"there is no file or folder '{name}': check its name") from None


def _title(sources: list[str]) -> str:
    first = source_name(sources[0])
    return first if len(sources) == 1 else f"{first} and {counted(len(sources) - 1, 'other source')}"


def _exit_code(accounts: list[Account], refused: dict[str, str]) -> int:
    if all(one.status == "failed" for one in accounts):
        return FAILED
    return 0 if not refused and all(one.is_clean for one in accounts) else UNFINISHED


def _facts(
    accounts: list[Account], refused: dict[str, str], seconds: float, *, stopped: bool
) -> dict[str, object]:
    return {
        "sources": [one.as_dict() for one in accounts],
        "refused": [{"source": source, "error": error} for source, error in refused.items()],
        "seconds": round(seconds, 3),
        "stopped": stopped,
    }


def _say_submitted(submitted: list[str], refused: dict[str, str], as_json: bool) -> None:
    if as_json:
        print_json({"submitted": submitted, "refused": [{"source": s, "error": e} for s, e in refused.items()]})
        return
    out = console()
    for source in submitted:
        out.print(Text(f"{source_name(source)}: submitted"), soft_wrap=True)
    out.print(Text("Process it with:\n  onward worker"))


# -- the summary


def _summary(app: App, accounts: list[Account], seconds: float, *, stopped: bool) -> None:
    out = console()
    for one in accounts:
        _describe(out, one, stopped=stopped)
    out.print(Text(_total(accounts, seconds)))
    if stopped:
        out.print(Text(f"Stopped. {GO_ON}", "yellow"), soft_wrap=True)
        return
    _say_failed(app, out, accounts)
    _say_waiting(out, accounts)
    if any(one.documents.get("messages", {}).get("processed") for one in accounts):
        out.print(Text.assemble("Next: ", ("onward search WORDS…", "bold"), ", ", ("onward summaries", "bold")))


_STYLES = {"completed": "green", "partially_completed": "yellow", "failed": "red", "running": "yellow"}


def _describe(out: Console, one: Account, *, stopped: bool) -> None:
    status = "stopped" if stopped and one.status == "running" else one.status
    out.print(
        Text.assemble((source_name(one.source), "bold"), "  ", (status, _STYLES.get(status, "yellow"))),
        soft_wrap=True,
    )
    if not one.request_failed:
        for line in describe_account(one):
            out.print(Text(f"  {line}"), soft_wrap=True)
    for trouble in one.troubles:
        if trouble.collection == "archives":
            out.print(Text(f"  {one_line(trouble.error, 300)}", "red"), soft_wrap=True)
    archives = one.documents.get("archives", {})
    more = archives.get("failed", 0) + archives.get("failed_max_retries", 0)
    more -= sum(trouble.collection == "archives" for trouble in one.troubles)
    if more > 0:
        out.print(Text(f"  … and {counted(more, 'other')}", "red"), soft_wrap=True)
    out.print()


def describe_account(one: Account) -> list[str]:
    """A source in words: every message, and what was made of them."""
    messages, items = one.messages, one.items
    parts = [
        f"{number(messages[name])} {word}"
        for name, word in (("parsed", "parsed"), ("failed", "failed"), ("duplicates", "duplicate"))
        if messages.get(name)
    ]
    if messages.get("duplicates", 0) > 1:
        parts[-1] += "s"
    every = counted(messages.get("messages", 0), "message") + (f": {', '.join(parts)}" if parts else "")
    if not messages:  # nothing is read to its end yet
        so_far = sum(one.documents.get("messages", {}).values())
        if not so_far:
            return []
        every = f"{counted(so_far, 'message')} so far"
    added = {name: one.added.get(name, 0) for name in ("messages", "chunks", "threads", "summaries")}
    nothing_new = items and not items.get("new") and not items.get("removed")
    lines = []
    if nothing_new and not any(added.values()):
        lines.append(f"nothing new: {every}")
    else:
        if 0 < added["messages"] < one.documents.get("messages", {}).get("processed", 0):
            every += f"; {number(added['messages'])} of them new"
        lines.append(every)
        made = f"{counted(sum(one.documents.get('chunks', {}).values()), 'chunk')}"
        summarised = one.documents.get("threads", {}).get("processed", 0)
        lines.append(f"{made}, {counted(summarised, 'thread')} summarised")
    other = [
        f"{number(items[name])} {word}"
        for name, word in (("failed", "could not be taken"), ("removed", "removed"))
        if items.get(name)
    ]
    if items.get("items", 0) > 1 or other:
        lines.insert(0, ", ".join([counted(items.get("items", 0), "item"), *other]))
    return lines


def _total(accounts: list[Account], seconds: float) -> str:
    fresh = sum(max(0, one.added.get("messages", 0)) for one in accounts)
    rate = f", {number(fresh / seconds)} messages a second" if fresh >= 10 and seconds > 0 else ""
    sources = f"{counted(len(accounts), 'source')} in " if len(accounts) > 1 else "In "
    return f"{sources}{duration(seconds)}{rate}."


def _say_failed(app: App, out: Console, accounts: list[Account]) -> None:
    failed = sum(one.failed for one in accounts)
    if not failed:
        return
    first = next(trouble for one in accounts for trouble in one.troubles)
    out.print(Text(f"{counted(failed, 'document')} failed. To see which and why:", "red"))
    out.print(Text("  onward documents --status failed"))
    out.print(Text(f"  {show_command(app, first.collection, first.id)}"))


def _say_waiting(out: Console, accounts: list[Account]) -> None:
    for account_ in accounts:
        for one in account_.waiting:
            until = f" until {clock_time(one.until)}" if one.until else ""
            if one.dependency:
                until = f" for the {one.dependency}, which is down"
                until += f" and asked again at {clock_time(one.until)}" if one.until else ""
            if one.incomplete:
                until = " until what belongs to them is finished"
            wait = "waits" if one.count == 1 else "wait"
            noun = counted(one.count, one.collection.removesuffix("s"))
            error = f": {one_line(one.error, 200)}" if one.error else ""
            out.print(
                Text(f"{noun} of {source_name(account_.source)} {wait}{until}{error}", "yellow"), soft_wrap=True
            )
    if any(one.waiting for one in accounts):
        # Somebody has to be there when their time comes.
        out.print(
            Text("They are tried again by a running `onward worker`, or by the next `onward ingest`."),
            soft_wrap=True,
        )
        out.print(Text("To see them:\n  onward documents --status pending\n  onward status"))
