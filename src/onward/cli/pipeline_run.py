"""Runs the pipeline until nothing is due, and shows its progress."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from onward.cli.params import PIPELINE
from onward.retry.errors import OnwardError
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App

IDLE_SECONDS = 60.0
"""A run ends when nothing is due within this time."""
DISPLAY_SECONDS = 0.5
MAX_LOG_BYTES = 5_000_000
MAX_PROCESSES = 4
RESUME_HINT = "Nothing is lost: `onward ingest` or `onward worker` goes on where it stopped."


def default_processes() -> int:
    """Return the number of cores, at most `MAX_PROCESSES`: more are of no use on one store."""
    return max(1, min(MAX_PROCESSES, os.cpu_count() or 1))


def run(app: App, title: str, *, sources: Sequence[str] = (), processes: int | None = None) -> bool:
    """Process everything that is due; return whether it was interrupted."""
    from onward.cli.render.progress_display import Problems, open_display
    from onward.ledger.store_errors import StoreFull, StoreGone, StoreUnavailable
    from onward.pipeline.progress import ProgressMeter, RunProgress
    from onward.runtime.supervisor import WorkersFail
    from onward.worker import supervise

    file = log_file(app)
    progress, problems = ProgressMeter(app, sources), Problems(file)
    signals: list[float] = []
    next_display, shown_signals = 0.0, 0
    seen: RunProgress | None = None
    last_warning = ""
    display = open_display(title)

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

    try:
        with _logging_to(file), _signals_restored():
            supervise(
                PIPELINE,
                app=app,
                processes=processes or default_processes(),
                idle_within=IDLE_SECONDS,
                log_level=logging.INFO,
                log_file=file,
                on_poll=watch,
                on_signal=lambda: signals.append(time.monotonic()),
            )
        next_display = 0.0
        watch(app)  # show what happened since the last display
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
    return bool(signals)


def log_file(app: App) -> Path:
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


@contextmanager
def _signals_restored() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
