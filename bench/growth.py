"""Times and bytes as the store grows: pages, commands, an ingest, and where the bytes are; on both databases.

`BENCH_GROWTH_DOCUMENTS` has the sizes of the stores whose pages and commands are measured, `BENCH_GROWTH_MESSAGES`
the messages of an ingest at which its rate is measured (500,000 take an hour on each database). An empty value
leaves that part out.
`--chart FILE` draws the processor times, which are what to compare: other programs make a run take longer.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import click

from bench.console import PageCost, measure_page, opened, page_paths, processor_seconds, serving
from bench.console_store import word
from bench.growth_chart import growth_chart
from bench.growth_ingest import IngestStore, measure_ingest, postgres_sizes, sqlite_sizes
from bench.growth_store import fill_to
from bench.table import Sheet
from tests.support.servers import PostgresServer

DOCUMENTS = [int(size) for size in os.environ.get("BENCH_GROWTH_DOCUMENTS", "10000 100000 1000000").split()]
TIMES = 15  # that a page is asked for
LISTED_PAGES = 12  # in the table: those that take longest in the largest store
COMMANDS = {
    "onward status": ("status", "--json"),
    "onward search": ("search", "--json", f"{word(300)} {word(2_000)}"),
    # Last: what it requeues is not due any more. The short delay makes all that failed due.
    "onward retry-job --once": ("retry-job", "--once"),
}
COMMAND_RUNS = {"onward retry-job --once": 1}
CHART_PAGES = ("overview", "documents that wait, of a source", "threads", "a failure group")
MEDIAN = "median of all pages"
Costs = dict[str, dict[int, PageCost]]  # by page or command, then by size


def run(archive: Path | None = None, chart: Path | None = None) -> list[Sheet]:
    """Measure stores of each size, then an ingest."""
    sheets: list[Sheet] = []
    with tempfile.TemporaryDirectory(prefix="onward-bench-") as folder:
        scratch = Path(folder)
        if DOCUMENTS:
            costs = {"SQLite": _measure_sqlite(scratch), "PostgreSQL": _measure_postgres(scratch)}
            sheets.append(cost_sheet(costs))
            if chart is not None:
                chart.write_text(growth_chart(_curves(costs), "Processor time as the store grows"))
        with ExitStack() as stack:
            server = stack.enter_context(PostgresServer())
            home, other = scratch / "ingest", scratch / "ingest-postgres"
            stores = [
                IngestStore("SQLite", {"ONWARD_HOME": str(home)}, 0, lambda: sqlite_sizes(home)),
                IngestStore(
                    "PostgreSQL",
                    {"ONWARD_HOME": str(other), "ONWARD_STORE": server.url()},
                    server.pid,
                    lambda: postgres_sizes(server.url(), other),
                ),
            ]
            sheets += measure_ingest(stores, archive, scratch)
    return sheets


def _measure_sqlite(scratch: Path) -> Costs:
    costs: Costs = {}
    for documents in DOCUMENTS:
        settings = {"ONWARD_HOME": str(scratch / f"sqlite-{documents}")}
        with opened(settings) as app:
            count = fill_to(app, documents)
        measure_store("SQLite", settings, count, costs)
    return costs


def _measure_postgres(scratch: Path) -> Costs:
    costs: Costs = {}
    with PostgresServer(options={"shared_buffers": "256MB"}) as server:
        for documents in DOCUMENTS:
            url = server.create_database(f"growth{documents}")
            settings = {"ONWARD_HOME": str(scratch / f"postgres-{documents}"), "ONWARD_STORE": url}
            with opened(settings) as app:
                count = fill_to(app, documents, url)
            server.execute("VACUUM (ANALYZE)", f"growth{documents}")
            measure_store("PostgreSQL", settings, count, costs, server.pid)
    return costs


def measure_store(
    where: str, settings: Mapping[str, str], count: int, costs: Costs, server: int | None = None
) -> None:
    """Measure all pages and commands of a store that has so many documents."""
    with opened(settings) as app:
        paths = page_paths(app)
    with serving(settings) as console:
        for name, path in paths.items():
            costs.setdefault(name, {})[count] = measure_page(console, path, server, TIMES)
    for name, arguments in COMMANDS.items():
        runs = [_command(settings, arguments, server) for _ in range(COMMAND_RUNS.get(name, 5))]
        passed, used = (statistics.median(values) for values in zip(*runs, strict=True))
        costs.setdefault(name, {})[count] = PageCost(passed, passed, used)
    slowest = max(paths, key=lambda name: costs[name][count].p50)
    click.echo(f"  {where}, {count:,} documents: {costs[slowest][count].p50:.0f} ms for {slowest}", err=True)


def _command(settings: Mapping[str, str], arguments: tuple[str, ...], server: int | None) -> tuple[float, float]:
    """Run a command; return the milliseconds that passed, and those of processor time with the server's."""

    def used() -> float:
        times = os.times()
        return (
            times.children_user
            + times.children_system
            + (processor_seconds(server, family=True) if server else 0.0)
        )

    given = {**os.environ, **settings, "RETRY_JOB_BASE_DELAY_SECONDS": "1", "RETRY_JOB_MAX_DELAY_SECONDS": "1"}
    before, began = used(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "onward", *arguments], env=given, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 3):
        raise RuntimeError(f"onward {' '.join(arguments)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return (time.perf_counter() - began) * 1e3, (used() - before) * 1e3


def cost_sheet(costs: Mapping[str, Costs]) -> Sheet:
    """Return a table of the pages that take longest in the largest store, and of the commands."""
    sizes = {where: sorted({size for curve in found.values() for size in curve}) for where, found in costs.items()}
    pages = [name for name in next(iter(costs.values())) if name not in COMMANDS]

    def longest(name: str) -> float:
        return max(found[name][sizes[where][-1]].processor for where, found in costs.items())

    def cells(name: str, chosen: list[str]) -> tuple[str, ...]:
        values = []
        for where, found in costs.items():
            for size in sizes[where]:
                p50 = statistics.median(found[one][size].p50 for one in chosen)
                used = statistics.median(found[one][size].processor for one in chosen)
                values.append(f"{p50:,.0f} ({used:,.0f})")
        return (name, *values)

    slow = sorted(pages, key=longest, reverse=True)[:LISTED_PAGES]
    rows = [cells(name, [name]) for name in slow]
    rows.append(cells(f"median of {len(pages)} pages", pages))
    rows += [cells(name, [name]) for name in COMMANDS]
    columns = ("ms (of processor time)", *(f"{where}, {size:,}" for where in costs for size in sizes[where]))
    return Sheet("Pages and commands as the store grows", columns, rows, labels=1)


def _curves(costs: Mapping[str, Costs]) -> dict[str, dict[str, dict[int, float]]]:
    curves: dict[str, dict[str, dict[int, float]]] = {}
    for where, found in costs.items():
        pages = [name for name in found if name not in COMMANDS]
        sizes = sorted(next(iter(found.values())))
        curves[where] = {
            MEDIAN: {size: statistics.median(found[one][size].processor for one in pages) for size in sizes}
        }
        for name in (*CHART_PAGES, "onward status"):
            curves[where][name] = {size: found[name][size].processor for size in sizes}
    return curves
