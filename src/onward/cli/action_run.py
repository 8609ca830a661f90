"""Running an action from the command line: plan or confirm, progress and signals, outcome and exit code."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from onward.cli import INTERRUPTED
from onward.cli.app_access import open_store_app
from onward.cli.output import Output
from onward.cli.params import dry_run_option, json_option, print_json
from onward.ops.actions.action import ActionProgress, ActionStopped, Actor, Completion, Tone
from onward.ops.actions.group_canary import RetryGroupInSteps
from onward.ops.canary_operation import open_canary
from onward.ops.document_export import new_file, write_lines
from onward.ops.text.format import number, one_line
from onward.runtime.process_identity import user_name

if TYPE_CHECKING:
    from pathlib import Path

    from onward import App
    from onward.ops.actions.action import Action, ActionMessage, ActionOutcome

PLAIN_PROGRESS_SECONDS = 10.0
FAILED, PARTIAL = 1, 3
_STYLES = {Tone.GOOD: "green", Tone.HINT: "dim", Tone.WARNING: "yellow", Tone.PROBLEM: "red"}
_confirm_option = click.option("--confirm", is_flag=True, help="Really do it: it is final.")


def runs_action(*, final: bool = False) -> Callable[[Callable[..., Action]], Callable[..., None]]:
    """Make a function that returns an action into one that runs it, or only prints its plan with --dry-run.

    A final action also needs --confirm.
    """

    def decorate(make_action: Callable[..., Action]) -> Callable[..., None]:
        @wraps(make_action)
        def command(*, dry_run: bool, as_json: bool, confirm: bool = True, **given: Any) -> None:
            action = make_action(**given)
            with open_store_app() as app:
                if not dry_run and confirm:
                    outcome = run_action(app, action)
                    print_result({"dry_run": False, **outcome.facts}, outcome.sentences, as_json=as_json)
                    if outcome.error is not None:
                        raise outcome.error
                    if outcome.stopped:
                        raise SystemExit(INTERRUPTED)
                    if outcome.completion is not Completion.WHOLE:
                        raise SystemExit(FAILED if outcome.completion is Completion.FAILED else PARTIAL)
                    return
                plan = action.plan(app)
                if plan.touches and not dry_run:
                    raise click.UsageError(f"{plan.confirmation}; add --confirm, or look first with --dry-run")
                print_result({"dry_run": True, **plan.facts}, plan.sentences, as_json=as_json)

        command = dry_run_option(json_option(command))
        return _confirm_option(command) if final else command

    return decorate


def run_action(app: App, action: Action) -> ActionOutcome:
    """Run an action; Ctrl-C and SIGTERM stop it after its present step, a second one at once."""
    if isinstance(action, RetryGroupInSteps):
        return _run_canary(app, action)
    progress = TerminalProgress()
    with on_signals(progress.stop, signal.SIGINT, signal.SIGTERM):
        try:
            return action.run(app, progress, Actor(user_name(), "cli"))
        finally:
            progress.end()


def _run_canary(app: App, action: RetryGroupInSteps) -> ActionOutcome:
    """Run a canary as an operation, so that it can be continued after an interruption."""
    actor, terminal = Actor(user_name(), "cli"), TerminalProgress()
    run = open_canary(app, action, actor)

    def show(progress: ActionProgress) -> None:
        terminal.total = progress.total
        terminal.update(progress.done, progress.text)

    def stop() -> None:
        if run.stopping:
            raise KeyboardInterrupt
        run.stop()

    run.on_update = show
    with on_signals(stop, signal.SIGINT, signal.SIGTERM):
        try:
            return run.execute(actor)
        finally:
            terminal.end()


def print_result(facts: Mapping[str, Any], sentences: Sequence[ActionMessage], *, as_json: bool) -> None:
    """Print facts for programs, or sentences for people, coloured by their tone."""
    if as_json:
        print_json(facts)
        return
    out = Output()
    for sentence in sentences:
        out.write(sentence.text, style=_STYLES.get(sentence.tone, ""))


class TerminalProgress(ActionProgress):
    """Shows the progress on standard error: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self._out = Output(stderr=True)
        self._printed_at = time.monotonic()
        self._printed = ""
        self._sleeping = False
        self._bar: Progress | None = None

    def stop(self) -> None:
        """Ask the action to stop; a second request, or one during a pause, stops it at once."""
        if self.stopping or self._sleeping:
            raise KeyboardInterrupt
        self.stopping = True

    def sleep(self, seconds: float) -> None:
        self.check()
        self._sleeping = True
        try:
            time.sleep(seconds)
        except KeyboardInterrupt:
            raise ActionStopped from None
        finally:
            self._sleeping = False

    def show(self) -> None:
        text = one_line(self.text, 300)
        if self._out.is_terminal and self.total:
            if self._bar is None:
                columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
                self._bar = Progress(*columns, TimeRemainingColumn(), console=self._out, transient=True)
                self._task = self._bar.add_task("", total=self.total)
                self._bar.start()
            self._bar.update(self._task, completed=self.done, description=text)
        elif (text and text != self._printed) or time.monotonic() - self._printed_at >= PLAIN_PROGRESS_SECONDS:
            self._printed, self._printed_at = text, time.monotonic()
            self._out.write(text or f"{number(self.done)} of {number(self.total)}")

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def write_export(lines: Iterable[dict[str, Any]], output: Path | None) -> int | None:
    """Write lines to a new file and return their number, or write them to standard output."""
    if output is None:
        write_lines(sys.stdout, lines)
        return None

    def stop() -> None:
        raise KeyboardInterrupt  # SIGTERM ends the command as Ctrl-C does: an unfinished file is removed

    with on_signals(stop, signal.SIGTERM), new_file(output) as file:
        return write_lines(file, lines)


@contextmanager
def on_signals(handler: Callable[[], None] | None, *numbers: signal.Signals) -> Iterator[None]:
    """Handle signals until the end of the block, then restore their handlers; None: only restore them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        if handler is not None:
            for number in numbers:
                signal.signal(number, lambda *_: handler())
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
