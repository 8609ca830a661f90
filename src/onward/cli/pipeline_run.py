"""Runs the pipeline until nothing is due, and shows its progress: a table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import logging
import math
import re
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from onward.cli.action_run import on_signals
from onward.cli.output import Output, count_cell
from onward.cli.params import PIPELINE, default_processes
from onward.ops.text.format import clock_time, counted, duration, number, one_line
from onward.retry.errors import OnwardError
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App
    from onward.early_processes import EarlyProcesses
    from onward.pipeline.progress import OutageProgress, RunProgress, StageProgress

IDLE_SECONDS = 60.0  # a run ends when nothing is due within this time
DISPLAY_SECONDS = 0.5
PLAIN_SECONDS = 10.0
MAX_LOG_BYTES = 5_000_000
RESUME_HINT = "Nothing is lost: `onward ingest` or `onward worker` goes on where it stopped."
_PROBLEM = re.compile(r"^[\d-]+ [\d:,.]+ (INFO|WARNING|ERROR) +(.*?(?:failed|given up|set aside|died|hangs).*)$")
_IDS = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{24}\b((?:, [0-9a-f]{32})*)")
_KEY = re.compile(r", key [0-9a-f]{32}\b")
_READ_BYTES = 64_000


def run(
    app: App,
    title: str,
    *,
    sources: Sequence[str] = (),
    processes: int | None = None,
    background: bool = False,
    early: EarlyProcesses | None = None,
) -> bool:
    """Process everything that is due; return whether it was interrupted.

    Without `background`, services that work in the background are left to `onward worker`. `early` has worker
    processes of the pipeline that were started before.
    """
    from onward.ledger.store_errors import StoreFull, StoreGone, StoreUnavailable
    from onward.pipeline.progress import ProgressMeter
    from onward.runtime.supervisor import WorkersFail
    from onward.worker import supervise

    file = _log_file(app)
    progress, problems = ProgressMeter(app, sources, upgrade=background), Problems(file)
    signals: list[float] = []
    next_display, shown_signals = 0.0, 0
    seen: RunProgress | None = None
    last_warning = ""
    out = Output(stderr=True)
    display = LiveDisplay(out, title) if out.is_terminal else PlainDisplay(out)

    def watch(_: App) -> None:
        nonlocal next_display, shown_signals, seen, last_warning
        if time.monotonic() < next_display and shown_signals == len(signals):
            return
        next_display, shown_signals = time.monotonic() + DISPLAY_SECONDS, len(signals)
        try:
            seen = progress.measure()
        except StoreUnavailable as error:  # the workers wait for the store, too
            if str(error) != last_warning:
                last_warning = str(error)
                logging.getLogger("onward").warning("the progress cannot be read: %s", error)
        if seen is not None:
            display.show(seen, problems.read(), len(signals))

    trouble = ""
    try:
        with _logging_to(file), on_signals(None, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            trouble = supervise(
                PIPELINE,
                app=app,
                services=[one.name for one in app.registry.services.values() if background or not one.background],
                processes=processes or default_processes(),
                idle_within=IDLE_SECONDS,
                log_level=logging.INFO,
                log_file=file,
                on_poll=watch,
                on_signal=lambda: signals.append(time.monotonic()),
                early=early,
            )
        next_display = 0.0
        watch(app)  # show what happened since the last display
        if not signals:
            app.store.pack_index(everything=True)  # a search would read all that waits for it
    except StoreGone:
        raise
    except StoreFull as error:  # a full disk has no room for a log either: the error has the details
        raise OnwardError(
            f"the workers could not go on: {redact(app.settings.store)} cannot be written; its disk is full, or "
            "it is read-only. Nothing was lost. Free some disk space, or make the file and its folder writable, "
            "and start again"
        ) from error
    except WorkersFail as error:
        problem = f"{problems.read()}\n" if problems.read() else ""
        raise OnwardError(f"{problem}the workers could not go on; see {file}") from error
    finally:
        display.end()
    if trouble:
        out.wrapped(one_line(f"{trouble}. Events wait in the store; a worker publishes them later."))
    return bool(signals)


# -- the log of workers


def _log_file(app: App) -> Path:
    """Return the log file of workers; a large one is renamed first."""
    home = Path(app.settings.home)
    home.mkdir(parents=True, exist_ok=True)
    file = home / "onward.log"
    if file.exists() and file.stat().st_size > MAX_LOG_BYTES:
        file.replace(file.with_suffix(".log.1"))
    return file.absolute()


class _LogFile(logging.FileHandler):
    """A log file whose own write errors are ignored: on a full disk the error of the run is reported."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # logging's own name
        pass

    def close(self) -> None:
        with suppress(OSError):
            super().close()


@contextmanager
def _logging_to(file: Path) -> Iterator[None]:
    """Send the logs of this process to the same file, not into the display."""
    from onward.observe.logs import log_formatter

    log = logging.getLogger("onward")
    handler = _LogFile(file, encoding="utf-8")
    handler.setFormatter(log_formatter(format="text"))  # `Problems` reads it
    level, propagate = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()
        log.setLevel(level)
        log.propagate = propagate


class Problems:
    """Finds the last problem in the log of the workers."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._at = file.stat().st_size if file.exists() else 0
        self._last = ""

    def read(self) -> str:
        """Read the log from where the last call ended, and return the last problem."""
        try:
            with self._file.open("rb") as log:
                log.seek(self._at)
                data = log.read(_READ_BYTES)
        except OSError:
            return self._last
        end = data.rfind(b"\n") + 1
        self._at += end or (len(data) if len(data) == _READ_BYTES else 0)
        for line in data[:end].decode("utf-8", "replace").splitlines():
            if found := _PROBLEM.match(line):
                self._last = _IDS.sub(
                    lambda ids: ids[1] + (" and others" if ids[2] else ""), _KEY.sub("", found[2])
                )
        return self._last


# -- displays


class LiveDisplay:
    """A table that is redrawn in place and removed at the end."""

    def __init__(self, out: Console, title: str) -> None:
        self._title = title
        self._spinner = Spinner("dots", style="cyan")
        self._live = Live(console=out, auto_refresh=False, transient=True)
        self._live.start()
        self._live.update(Padding(Text(f"{one_line(title, 60)}: starting …", "dim"), (1, 2)), refresh=True)

    def show(self, view: RunProgress, problem: str, stopping: int) -> None:
        self._live.update(picture(view, self._title, problem, stopping, self._spinner), refresh=True)

    def end(self) -> None:
        self._live.stop()


class PlainDisplay:
    """Prints a line every `PLAIN_SECONDS`, and at each new problem."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._next = PLAIN_SECONDS / 2
        self._problems: set[str] = set()  # the kinds of problems that were printed
        self._stopping = 0
        self._down: set[str] = set()

    def show(self, view: RunProgress, problem: str, stopping: int) -> None:
        lines = []
        if problem and (kind := re.sub(r"\w*\d\w*| and others", "", problem)) not in self._problems:
            self._problems.add(kind)
            lines.append(f"problem: {one_line(problem, 400)}")
        if stopping > self._stopping:
            self._stopping = stopping
            lines.append(_stopping(stopping))
        lines += [_outage(outage) for outage in view.outages if outage.dependency not in self._down]
        down = {outage.dependency for outage in view.outages}
        lines += [f"{name} is available again" for name in sorted(self._down - down)]
        self._down = down
        if view.elapsed >= self._next:
            self._next = view.elapsed + PLAIN_SECONDS
            stages = [stage for stage in view.stages if stage.unit != "event" and (stage.done or stage.waiting)]
            done = ", ".join(f"{stage.name} {counted(stage.done, stage.unit)}{_rate(stage)}" for stage in stages)
            lines.append(f"{done}; {_left(view.left)}" if view.left else done)
        for line in lines:
            self._out.print(Text(f"{view.elapsed:6.1f} s  {line}"), soft_wrap=True)

    def end(self) -> None:
        pass


def _rate(stage: StageProgress) -> str:
    return f" ({number(stage.rate)} a second)" if stage.rate and stage.rate >= 0.5 and stage.waiting else ""


def _left(seconds: float) -> str:
    return f"about {duration(math.ceil(seconds))} left"


def _stopping(times: int) -> str:
    if times == 1:
        return "stopping: running handlers are finished first; Ctrl-C again ends at once"
    return "stopping at once; what runs is retried later"


def _outage(outage: OutageProgress) -> str:
    since = f" since {clock_time(outage.since)}" if outage.since is not None else ""
    wait = "waits and loses" if outage.waiting == 1 else "wait and lose"
    waiting = f": {counted(outage.waiting, 'event')} {wait} no tries" if outage.waiting else ""
    text = f"{outage.dependency} is down{since}{waiting}"
    asked = f"; asked again at {clock_time(outage.until)}" if outage.until else ""
    reason = f" ({one_line(outage.reason, 160)})" if outage.reason else ""
    remedy = f": {one_line(outage.remedy, 200)}" if outage.remedy else ""
    return f"{text}{asked}{reason}{remedy}"


def picture(
    view: RunProgress, title: str, problem: str, stopping: int, spinner: RenderableType = ""
) -> RenderableType:
    """Return the table of a view."""
    head = Table.grid(expand=True)
    head.add_column(width=2)
    head.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    head.add_column(justify="right")
    left = f"{_left(view.left)} · " if view.left else ""
    head.add_row(spinner, Text(one_line(title), "bold"), Text(f"{left}{duration(view.elapsed)}", "dim"))
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False, header_style="dim", border_style="dim")
    table.add_column("stage", width=13)
    table.add_column("", ratio=1, min_width=8)
    for name, width in (("done", 16), ("waiting", 12), ("failed", 6), ("a second", 8)):
        table.add_column(name, justify="right", width=width, no_wrap=True)
    for stage in view.stages:
        waiting = counted(stage.waiting, stage.waiting_unit) if stage.waiting_unit else number(stage.waiting)
        table.add_row(
            Text(stage.name, "bold" if stage.working else ""),
            _bar(stage),
            Text(counted(stage.done, stage.unit), "green") if stage.done else count_cell(0),
            Text(waiting, "yellow") if stage.waiting else count_cell(0),
            count_cell(stage.failed, "red"),
            Text(number(stage.rate) if stage.rate and stage.rate >= 0.5 else "", "dim"),
        )
    parts: list[RenderableType] = [head, table]
    parts += [Text(f"● {_outage(outage)}", "yellow") for outage in view.outages]
    if problem:
        parts.append(Text.assemble(("last problem  ", "dim"), (one_line(problem, 240), "red")))
    if stopping:
        parts.append(Text(_stopping(stopping), "bold yellow"))
    return Padding(Group(*parts), (1, 2))


def _bar(stage: StageProgress) -> RenderableType:
    if stage.share is None:
        return Text("at work" if stage.working else "", "dim")
    done = min(1.0, stage.share)
    return ProgressBar(1.0, done, complete_style="cyan", finished_style="green", style="grey23")
