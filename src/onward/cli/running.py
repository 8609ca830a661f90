"""Running the pipeline until nothing is due, while somebody watches."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from onward.cli.opening import PIPELINE
from onward.retry.errors import OnwardError
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App

IDLE_SECONDS = 60.0
"""A run ends when nothing is due within so many seconds."""
LOOK_EVERY = 0.5
LOG_BYTES = 5_000_000
MOST_PROCESSES = 4
GO_ON = "Nothing is lost: `onward ingest` or `onward worker` goes on where it stopped."


def default_processes() -> int:
    """One for each core, but not more than are of use on one store."""
    return max(1, min(MOST_PROCESSES, os.cpu_count() or 1))


def run(app: App, title: str, *, sources: Sequence[str] = (), processes: int | None = None) -> bool:
    """Process everything that is due; answer whether it was stopped before its end."""
    from onward.cli.display import Problems, open_display
    from onward.pipeline.progress import Progress, View
    from onward.pipeline.sources import collect_blobs
    from onward.ports import StoreFull, StoreUnavailable
    from onward.runtime.supervisor import WorkersFail
    from onward.worker import supervise

    file = log_file(app)
    progress, problems = Progress(app, sources), Problems(file)
    signals: list[float] = []
    next_look, answered = 0.0, 0
    seen: View | None = None
    said = ""
    display = open_display(title)

    def watch(_: App) -> None:
        nonlocal next_look, answered, seen, said
        if time.monotonic() < next_look and answered == len(signals):
            return
        next_look, answered = time.monotonic() + LOOK_EVERY, len(signals)
        try:
            seen = progress.look()
        except StoreUnavailable as error:  # the workers wait for it, too
            if str(error) != said:
                said = str(error)
                logging.getLogger("onward").warning("the progress cannot be read: %s", error)
        if seen is not None:
            display.show(seen, problems.look(), len(signals))

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
        collect_blobs(app)
        next_look = 0.0
        watch(app)  # what happened since the last look is told, too
    except StoreFull as error:  # a full disk has no room for a log either: all there is to say is said here
        raise OnwardError(
            f"the workers could not go on: {redact(app.settings.store)} cannot be written; its disk is full, or "
            "it is read-only. Nothing was lost. Free some disk space, or make the file and its folder writable, "
            "and start again"
        ) from error
    except WorkersFail as error:
        problem = f"{problems.look()}\n" if problems.look() else ""
        raise OnwardError(f"{problem}the workers could not go on; see {file}") from error
    finally:
        display.end()
    return bool(signals)


def log_file(app: App) -> Path:
    """The file that workers write to; one that has grown large is put away first."""
    home = Path(app.settings.home)
    home.mkdir(parents=True, exist_ok=True)
    file = home / "onward.log"
    if file.exists() and file.stat().st_size > LOG_BYTES:
        file.replace(file.with_suffix(".log.1"))
    return file.absolute()


class _LogFile(logging.FileHandler):
    """A log that may be cut short: on a full disk the run's own error is told, not that of its log."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # logging's own name
        pass

    def close(self) -> None:
        with suppress(OSError):
            super().close()


@contextmanager
def _logging_to(file: Path) -> Iterator[None]:
    """What this process logs goes to the same file, never into the picture."""
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
