"""`onward retry`: have documents tried again, now or at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click
from rich.text import Text

from onward.cli.dates import Span, When
from onward.cli.opening import reading
from onward.cli.output import console, json_option, print_json
from onward.facts.actions import log_action
from onward.facts.choosing import Filters
from onward.facts.finding import resolve, short_ids, worker_command
from onward.facts.retrying import Key, chosen_keys, schedule, touched, unschedule
from onward.facts.wording import clock_time, counted, iso, number, one_line
from onward.model.documents import Status
from onward.model.recovery import Scheduled

if TYPE_CHECKING:
    from onward import App

NAMED = 5
SOME_MISSING = 3
_HIGHEST_PRIORITY = 1000
_SAID = {
    Scheduled.SCHEDULED: "{count} {will} be tried again {when}",
    Scheduled.HURRIED: "{count} had an event waiting already, which {will} fall due {when}",
    Scheduled.UNDER_WAY: "{count} left alone: under way with a worker just now (--reset begins anew)",
    Scheduled.PROCESSED: "{count} left alone: processed already (--reset begins anew)",
    Scheduled.MISSING: "{count} gone",
    Scheduled.NOBODYS: "{count} left alone: no service finishes such documents",
    Scheduled.CANCELLED: "{count} {is_} freed from the time that was set (what has an event waiting is due now)",
    Scheduled.NOT_SCHEDULED: "{count} had no time set",
}


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]…")
@click.option("--group", metavar="FINGERPRINT", help="All documents of this failure group that are not finished.")
@click.option("--collection", metavar="NAME", help="What failed or is stuck of this collection.")
@click.option("--source", metavar="SOURCE", help="What failed or is stuck of this source; its end will do.")
@click.option(
    "--status",
    type=click.Choice([one.value for one in Status]),
    help="Documents that stand so, instead of what failed or is stuck.",
)
@click.option("--at", type=When(), metavar="WHEN", help="At this time: 18:30, tomorrow, 2026-03-09T14:30.")
@click.option("--in", "after", type=Span(), metavar="SPAN", help="After so long: 90s, 10m, 2h, 1d.")
@click.option("--reset", is_flag=True, help="Begin with the first round, even what is processed or under way.")
@click.option(
    "--priority",
    type=click.IntRange(-_HIGHEST_PRIORITY, _HIGHEST_PRIORITY),
    help="The highest goes first; 0 is usual.",
)
@click.option("--cancel", is_flag=True, help="Take back the time that was set, as far as it has not come.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@json_option
def retry(
    ids: tuple[str, ...],
    group: str | None,
    collection: str | None,
    source: str | None,
    status: str | None,
    at: float | None,
    after: float | None,
    reset: bool,
    priority: int | None,
    cancel: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Have documents tried again: now, or at a time.

    Name them by their ids (the beginning of one will do), or choose them by failure group, collection or
    source. Of a collection or source, what failed is meant, and what is pending with nothing under way;
    --status chooses others.

    \b
    Examples:
      onward retry a0e78889
      onward retry --group 5d41402a --at 18:30
      onward retry --collection chunks --status failed --in 10m --dry-run
      onward retry --source harbour-list.mbox --cancel
    """
    filters = Filters(status=status, collection=collection, source=source, group=group)
    _check(ids, filters, at=at, after=after, reset=reset, priority=priority, cancel=cancel)
    with reading() as app:
        now = app.store.now()
        _check_time(at, now)
        wanted = at if at is not None else now + (after or 0.0)
        keys = [resolve(app, one) for one in ids] or chosen_keys(app, filters, cancel=cancel)
        if cancel:
            outcomes = unschedule(app, keys, dry_run=dry_run)
        else:
            outcomes = schedule(app, keys, wanted, reset=reset, priority=priority, dry_run=dry_run)
        if not dry_run and outcomes:
            about = filters.as_dict() | {"ids": list(ids), "at": iso(wanted) if wanted > now else None}
            about |= {"reset": reset, "priority": priority}
            log_action(app, "retry cancel" if cancel else "retry", about, touched(outcomes))
        _say(app, outcomes, wanted, now, dry_run=dry_run, cancel=cancel, as_json=as_json)
    raise SystemExit(SOME_MISSING if Scheduled.MISSING in outcomes.values() else 0)


def _check(
    ids: Sequence[str],
    filters: Filters,
    *,
    at: float | None,
    after: float | None,
    reset: bool,
    priority: int | None,
    cancel: bool,
) -> None:
    if ids and filters.given:
        raise click.UsageError("give either ids, or --group, --collection, --source and --status: not both")
    if filters.group and (filters.collection or filters.source or filters.status):
        raise click.UsageError("--group goes by itself, without --collection, --source and --status")
    if not ids and not (filters.group or filters.collection or filters.source):
        raise click.UsageError("say which documents: give ids, --group, --collection or --source")
    if at is not None and after is not None:
        raise click.UsageError("give either --at or --in: not both")
    if cancel and (at is not None or after is not None or reset or priority is not None):
        raise click.UsageError("--cancel goes without --at, --in, --reset and --priority")
    if filters.status == Status.PROCESSED and not (reset or cancel):
        raise click.UsageError("processed documents are finished; with --reset they begin anew")


def _check_time(at: float | None, now: float) -> None:
    """Refuse a time that has passed: whoever gives one rarely means now."""
    if at is None or at >= now:
        return
    there, today = (datetime.fromtimestamp(one, UTC).astimezone() for one in (at, now))
    if there.date() == today.date():
        # The same hour of the day, also where the clocks are changed in the night.
        again = (there.replace(tzinfo=None) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M")
        past = f"{there.strftime('%H:%M')} is past; tomorrow's is {again}"
    else:
        past = f"{there.strftime('%Y-%m-%d %H:%M')} is past"
    raise click.BadParameter(f"{past}; leave --at out for now", param_hint="'--at'")


def _say(
    app: App,
    outcomes: Mapping[Key, Scheduled],
    wanted: float,
    now: float,
    *,
    dry_run: bool,
    cancel: bool,
    as_json: bool,
) -> None:
    workers = len(app.store.workers())
    start = worker_command(app.store)
    if as_json:
        facts = {
            "dry_run": dry_run,
            "at": None if cancel else iso(wanted),
            "outcomes": Counter(str(one) for one in outcomes.values()),
            "documents": [
                {"collection": name, "id": id, "outcome": str(one)} for (name, id), one in outcomes.items()
            ],
            "workers": workers,
        }
        print_json(facts)
        return
    out = console()
    if not outcomes:
        out.print(
            Text("No such documents: nothing to cancel." if cancel else "No such documents: nothing to try.")
        )
        return
    when = f"at {clock_time(wanted)}" if wanted > now else "now"
    for outcome, said in _SAID.items():
        keys = [key for key, one in outcomes.items() if one is outcome]
        if keys:
            is_ = "would be" if dry_run else "is" if len(keys) == 1 else "are"
            will = "would" if dry_run else "will"
            line = Text(said.format(count=counted(len(keys), "document"), when=when, will=will, is_=is_))
            out.print(line.append(_which(app, keys), "dim"), soft_wrap=True)
    if touched(outcomes) and not dry_run and not cancel:
        by = _by_whom(workers, start, soon=wanted <= now)
        out.print(Text(by, "dim" if workers else "yellow"), soft_wrap=True)


def _which(app: App, keys: Sequence[Key]) -> str:
    """Which documents, if they are few; else how many of each collection."""
    if len(keys) <= NAMED:
        ids = short_ids(app, [id for _, id in keys])
        return ": " + ", ".join(one_line(f"{name}/{ids[id]}") for name, id in keys)
    by_collection = Counter(name for name, _ in keys)
    return ": " + ", ".join(f"{number(count)} {name}" for name, count in sorted(by_collection.items()))


def _by_whom(workers: int, start: str, *, soon: bool) -> str:
    if not workers:
        return f"No worker is alive to do it; start one: {start}"
    return "A worker takes it within seconds." if soon else "A worker takes it at that time."
