"""Sentences and rows about what a load needs, and about fleets of workers."""

from __future__ import annotations

from collections.abc import Iterator

from onward.ops.capacity.figures import SQLITE, Figures
from onward.ops.capacity.fleet import FleetForecast, FleetRun
from onward.ops.capacity.plan import MAX_FILE_BYTES, MOST_USED, CallDemand, DatabaseDemand, Plan
from onward.ops.text.format import counted, number
from onward.ops.text.simulation import rate, span

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_LARGE = ((1e9, "billion"), (1e6, "million"))
Rows = list[tuple[str, str]]


def size(bytes: float) -> str:
    """Return a size in decimal units: 4.2 GB."""
    return next((f"{bytes / unit:.3g} {name}" for unit, name in _UNITS if bytes >= unit), f"{bytes:.0f} bytes")


def large(count: float) -> str:
    """Return a count, rounded where it is large: 3.4 million."""
    return next((f"{count / unit:.3g} {name}" for unit, name in _LARGE if count >= unit), number(count))


def cores(count: float) -> str:
    """Return a number of busy processors."""
    return f"{count:.2g}" if count < 100 else number(count)


def percent(share: float) -> str:
    return f"{share * 100:.3g} %"


# -- a plan


def about_plan(plan: Plan) -> list[str]:
    """Return what comes, in sentences."""
    load = plan.workload
    message = load.message
    busiest = f"{rate(plan.peak_per_second)} in the busiest hour, {load.peak:.3g} times the average"
    parts = f"{message.chunks:.2g} chunks with {number(message.tokens)} tokens"
    lines = [
        f"{large(load.per_second * 86_400)} messages a day of {size(message.bytes)}, {busiest}.",
        f"Each has {parts}, and is kept for {span(load.keep_seconds)}.",
    ]
    if load.found_in:
        lines.append(f"From the store: {load.found_in}.")
    return lines


def worker_rows(plan: Plan) -> Rows:
    """Return the workers, and which services keep their processors busy."""
    busy = sum(plan.cores.values())
    rows = [
        ("worker processes", number(plan.processes)),
        ("busy processors", f"{cores(busy)} in the busiest hour"),
    ]
    rows += [(f"  {name}", cores(used)) for name, used in plan.cores.items()]
    if plan.waiting_processes:
        rows.append(("needed for calls at once", number(plan.waiting_processes)))
    return rows


def call_rows(one: CallDemand) -> Rows:
    """Return the calls to a remote model."""
    rows = [
        ("calls a month", large(one.per_month)),
        ("tokens a month", large(one.tokens_per_month)),
        ("calls at once", f"{one.at_once:.2g} in the busiest hour"),
    ]
    if one.limit_use is not None and one.peak_limit_use is not None:
        used = f"{percent(one.limit_use)} on average, {percent(one.peak_limit_use)} in the busiest hour"
        rows.append(("of its limit", used))
    return rows


def database_rows(one: DatabaseDemand) -> Rows:
    """Return what a database holds and does."""
    grows = f"{size(one.bytes_per_message)} a message, {size(one.bytes_per_month)} a month"
    rows = [("holds", f"{size(one.bytes_kept)}: {grows}")]
    if one.name != SQLITE:
        rows.append(("busy processors", f"{cores(one.server_cores)} in the busiest hour"))
    rows += [
        ("log", f"{size(one.log_bytes_per_second)}/s, flushed {rate(one.commits_per_second)}"),
        ("disk", f"{number(max(1.0, one.writes_per_second))} writes a second"),
    ]
    return rows


def advice(plan: Plan) -> Iterator[str]:
    """Return what follows from a plan."""
    embedded = plan.databases[0]
    most = rate(embedded.most_per_second or 0.0)
    if plan.advised == SQLITE:
        yield f"One machine with SQLite is enough: it takes up to {most}, and {size(MAX_FILE_BYTES)} in all."
    elif embedded.bytes_kept > MAX_FILE_BYTES:
        yield f"Use PostgreSQL: a file of {size(embedded.bytes_kept)} takes hours to copy, check or restore."
    else:
        yield f"Use PostgreSQL: SQLite has one writer at a time, and takes up to {most}."
    for one in plan.calls:
        if one.limit_use is None or one.peak_limit_use is None:
            continue
        if one.catch_up_seconds is None:
            allowed = large((one.most_messages_per_second or 0.0) * 86_400)
            yield (
                f"The limit of {one.service} allows {allowed} messages a day: less than come. What waits grows "
                "for ever; ask for a higher limit, or use a model in the process."
            )
        elif one.peak_limit_use > 1:
            yield (
                f"The busiest hour exceeds the limit of {one.service}: "
                f"what waits then is done {span(one.catch_up_seconds)} later."
            )
    if plan.outage_catch_up_seconds is not None:
        yield f"After an hour without any work, all is caught up within {span(plan.outage_catch_up_seconds)}."


def measured_where(figures: Figures) -> str:
    """Return where the figures are from."""
    return f"Costs as measured on {figures.measured_on} with {figures.machine}."


def headroom() -> str:
    return f"Processors of workers are used to {percent(MOST_USED)} in the busiest hour."


# -- a fleet


def about_fleet(found: FleetForecast) -> str:
    """Return what was simulated."""
    fleet, last = found.fleet, found.runs[-1]
    handler = (
        f"a handler of {span(fleet.handler_seconds)}" if fleet.handler_seconds else "a handler that takes no time"
    )
    return (
        f"{counted(fleet.workers, 'worker')} and {large(last.events)} events: {handler}, {fleet.slots} at once in "
        f"each; a PostgreSQL with {counted(fleet.server_cores, 'processor')}, whose log takes "
        f"{size(fleet.log_bytes_per_second)} a second."
    )


FLEET_HEADS = ("workers", "events a second", "a worker", "server", "log", "a commit")


def fleet_row(run: FleetRun) -> tuple[str, ...]:
    return (
        number(run.workers),
        number(run.per_second),
        f"{each:.3g}" if (each := run.per_second / run.workers) < 100 else number(each),
        f"{run.server_use * 100:.0f} %",
        f"{run.log_use * 100:.0f} %",
        span(run.commit_seconds) if run.commit_seconds >= 1 else f"{run.commit_seconds * 1e3:.3g} ms",
    )


def knee(found: FleetForecast) -> list[str]:
    """Return where more workers stop to help, and how long all events take."""
    last = found.runs[-1]
    if found.knee is None or found.limit is None:
        first = f"No knee up to {counted(last.workers, 'worker')}: each does as much as one alone."
    else:
        at = f"{counted(found.knee.workers, 'worker')} and {number(found.knee.per_second)} events a second"
        first = f"The knee is at {at}. Beyond it, the limit is: {found.limit}."
    return [first, f"{large(last.events)} events take {counted(last.workers, 'worker')} {span(last.seconds)}."]
