"""Running an action from the command line: plan or confirm, progress and signals, outcome and exit code."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from onward.cli import INTERRUPTED
from onward.cli.render.output import console, print_json
from onward.ops.actions.action import (
    Action,
    ActionMessage,
    ActionOutcome,
    ActionProgress,
    ActionStopped,
    Actor,
    Completion,
    Tone,
    user_name,
)
from onward.ops.text.format import number, one_line

if TYPE_CHECKING:
    from onward import App

PLAIN_PROGRESS_SECONDS = 10.0
FAILED = 1
PARTIAL = 3
_STYLES = {
    Tone.PLAIN: "",
    Tone.GOOD: "green",
    Tone.HINT: "dim",
    Tone.WARNING: "yellow",
    Tone.PROBLEM: "red",
}
dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would be done.")
confirm_option = click.option("--confirm", is_flag=True, help="Really do it: it is final.")


def carry_out(app: App, action: Action, *, as_json: bool, dry_run: bool = False, confirm: bool = True) -> None:
    """Run an action, or print its plan; end the command with the exit code of the outcome."""
    if dry_run or not confirm:
        plan = action.plan(app)
        if plan.touches and not dry_run:
            raise click.UsageError(f"{plan.confirmation}; add --confirm, or look first with --dry-run")
        _print({"dry_run": True, **plan.facts}, plan.sentences, as_json=as_json)
        return
    outcome = run_action(app, action)
    _print({"dry_run": False, **outcome.facts}, outcome.sentences, as_json=as_json)
    end(outcome)


def run_action(app: App, action: Action) -> ActionOutcome:
    """Run an action; Ctrl-C and SIGTERM stop it after its present step, a second one at once."""
    progress = TerminalProgress()
    with _on_signals(progress.stop, signal.SIGINT, signal.SIGTERM):
        try:
            return action.run(app, progress, Actor(user_name(), "cli"))
        finally:
            progress.end()


def end(outcome: ActionOutcome) -> None:
    """End the command with the exit code of an outcome, unless all was done."""
    if outcome.error is not None:
        raise outcome.error
    if outcome.stopped:
        raise SystemExit(INTERRUPTED)
    if outcome.completion is not Completion.WHOLE:
        raise SystemExit(FAILED if outcome.completion is Completion.FAILED else PARTIAL)


def _print(facts: Mapping[str, Any], sentences: Sequence[ActionMessage], *, as_json: bool) -> None:
    if as_json:
        print_json(facts)
    else:
        print_sentences(sentences)


def print_sentences(sentences: Sequence[ActionMessage]) -> None:
    """Print sentences for people, coloured by their tone."""
    for sentence in sentences:
        console().print(Text(sentence.text, _STYLES[sentence.tone]), soft_wrap=True)


class TerminalProgress(ActionProgress):
    """Shows the progress on standard error: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self._out = console(stderr=True)
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
            self._show_bar(text)
        elif (text and text != self._printed) or time.monotonic() - self._printed_at >= PLAIN_PROGRESS_SECONDS:
            self._printed, self._printed_at = text, time.monotonic()
            self._out.print(Text(text or f"{number(self.done)} of {number(self.total)}"), soft_wrap=True)

    def _show_bar(self, text: str) -> None:
        if self._bar is None:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=self._out, transient=True)
            self._task = self._bar.add_task("", total=self.total)
            self._bar.start()
        self._bar.update(self._task, completed=self.done, description=text)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does, with everything that is cleaned up and printed then."""

    def stop() -> None:
        raise KeyboardInterrupt

    with _on_signals(stop, signal.SIGTERM):
        yield


@contextmanager
def _on_signals(handler: Callable[[], None], *numbers: signal.Signals) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    before = {number: signal.signal(number, lambda *_: handler()) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
