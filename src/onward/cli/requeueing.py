"""`onward failed requeue`: put dead letters back."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from onward.cli import INTERRUPTED
from onward.cli.actions import interruptible
from onward.cli.letters import all_option, dry_run_option, filter_options
from onward.cli.opening import reading
from onward.cli.output import console, json_option, print_json
from onward.facts.actions import log_action
from onward.facts.letters import Choice, choose
from onward.facts.wording import counted, number, one_line
from onward.recovery.requeueing import CanaryOutcome, Refusal, Requeue, Requeued, Waiting, refusal
from onward.retry import OnwardError

if TYPE_CHECKING:
    from onward import App

PLAIN_EVERY = 10.0
TOLD = 10
SOME_REFUSED = 3


def _finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no rate; give letters per second, such as 10 or 0.5")
    return value


@click.command()
@click.argument("queue", required=False, metavar="[QUEUE]")
@all_option
@filter_options
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    metavar="PER_SECOND",
    callback=_finite,
    help="At most so many letters a second.",
)
@click.option(
    "--canary", type=click.IntRange(1), metavar="N", help="Put N back, and the rest only when these are done."
)
@dry_run_option
@json_option
def requeue(
    queue: str | None,
    everything: bool,
    rate: float | None,
    canary: int | None,
    dry_run: bool,
    as_json: bool,
    **filters: Any,
) -> None:
    """Put letters back: each original event is tried again, in a new round of its documents.

    What was put back is out of the queue, so that the same command goes on where it was stopped. What
    has recovered meanwhile is skipped.

    \b
    Examples:
      onward failed requeue parsing.failed --dry-run
      onward failed requeue embedding.generation.failed --rate 5 --canary 3
      onward failed requeue --all --error-type TimeoutError --since yesterday
    """
    with reading() as app:
        choice = choose(app, queue, everything=everything, **filters)
        if dry_run:
            _preview(app, choice, canary, as_json)
            return
        total = sum(1 for _ in choice.letters())
        display = Display(total)
        log = _Log(app, choice.about | {"rate": rate, "canary": canary})

        def waiting(now: Waiting) -> None:
            log.keep(run.result)  # whatever happens while it waits
            display.waiting(now)

        run = Requeue(
            app.store,
            choice.letters(),
            sleep=time.sleep,
            rate=rate,
            canary=canary or 0,
            report=display.report,
            waiting=waiting,
        )
        stopped: KeyboardInterrupt | OnwardError | None = None
        try:
            with interruptible():
                run.run()
        except (KeyboardInterrupt, OnwardError) as error:
            stopped = error
            run.result.left_untouched = max(0, total - run.result.handled)
        finally:
            display.end()
        _tell(run.result, choice.name, as_json=as_json, interrupted=stopped is not None)
        log.keep(run.result)
    if isinstance(stopped, KeyboardInterrupt):
        raise SystemExit(INTERRUPTED)
    if stopped is not None:
        raise stopped
    if run.result.canary.outcome in (CanaryOutcome.FAILED, CanaryOutcome.UNANSWERED):
        raise SystemExit(1)
    if run.result.refused:
        raise SystemExit(SOME_REFUSED)


class _Log:
    """Keeps what was put back since it was last asked to: a canary before it is waited for, then the rest."""

    def __init__(self, app: App, about: dict[str, Any]) -> None:
        self._app = app
        self._about = about
        self._kept = 0

    def keep(self, result: Requeued) -> None:
        new, self._kept = result.requeued - self._kept, result.requeued
        log_action(self._app, "failed requeue", self._about, new)


def _preview(app: App, choice: Choice, canary: int | None, as_json: bool) -> None:
    result = Requeued()
    counts: Counter[str] = Counter()
    for letter in choice.letters():
        if reason := refusal(letter):
            result.refused.append(Refusal(letter.row, reason))
        elif app.store.is_recovered(letter):
            result.skipped_recovered += 1
        else:
            result.requeued += 1
            counts[letter.failed_queue] += 1
    if as_json:
        print_json({"dry_run": True, **asdict(result), "queues": dict(counts)})
        return
    out = console()
    first = min(canary or 0, result.requeued)
    order = f", {number(first)} of them first" if 0 < first < result.requeued else ""
    out.print(Text(one_line(f"{choice.of(result.requeued)} would go back{order}.")), soft_wrap=True)
    if len(counts) > 1:
        for name, count in counts.most_common():
            out.print(Text(f"  {one_line(name)}  {number(count)}"), soft_wrap=True)
    _tell_rest(result, skipped="would be skipped")


def _tell(result: Requeued, name: str, *, as_json: bool, interrupted: bool) -> None:
    if as_json:
        print_json({"dry_run": False, **asdict(result), "interrupted": interrupted})
        return
    out = console()
    canary = result.canary
    if canary.outcome in (CanaryOutcome.FAILED, CanaryOutcome.UNANSWERED):
        text = f"Stopped by the canary: {one_line(canary.message, 500)}"
        out.print(Text(text, "red"), soft_wrap=True)
        for one in canary.failures[:TOLD]:
            about = f"{one.document[0]}/{one.document[1]}" if one.document else "its event"
            out.print(
                Text(f"  letter {one.row}, {one_line(about)}: {one_line(one.error, 300)}", "red"), soft_wrap=True
            )
    if interrupted:
        out.print(Text("Stopped. The same command goes on with the rest.", "yellow"))
    if not result.handled and not result.left_untouched:
        out.print(Text(f"Nothing to put back in {one_line(name)}."), soft_wrap=True)
        return
    out.print(Text(f"{counted(result.requeued, 'letter')} put back."))
    _tell_rest(result)
    if result.left_untouched:
        out.print(Text(f"{counted(result.left_untouched, 'letter')} left untouched.", "yellow"))


def _tell_rest(result: Requeued, skipped: str = "skipped") -> None:
    out = console()
    if count := result.skipped_recovered:
        why = "it has recovered, or is being tried" if count == 1 else "they have recovered, or are being tried"
        out.print(Text(f"{counted(count, 'letter')} {skipped}: {why}.", "dim"), soft_wrap=True)
    if result.refused:
        out.print(Text(f"{counted(len(result.refused), 'letter')} cannot go back:", "red"))
        for one in result.refused[:TOLD]:
            out.print(Text(f"  letter {one.row}: {one_line(one.reason, 300)}"), soft_wrap=True)
        if len(result.refused) > TOLD:
            out.print(Text(f"  … and {number(len(result.refused) - TOLD)} more"))


# -- while it goes on


class Display:
    """Shows how a run goes, on standard error."""

    def __init__(self, total: int) -> None:
        self._out = console(stderr=True)
        self._total = total
        self._told = time.monotonic()
        self._waited = ""
        self._progress: Progress | None = None
        if self._out.is_terminal and total:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
            )
            self._progress = Progress(*columns, console=self._out, transient=True)
            self._progress.start()
            self._task = self._progress.add_task("putting back", total=total)

    def report(self, result: Requeued) -> None:
        if self._progress is not None:
            self._progress.update(self._task, completed=result.handled, description="putting back")
        elif time.monotonic() - self._told >= PLAIN_EVERY:
            self._told = time.monotonic()
            self._say(f"{number(result.handled)} of {number(self._total)} letters")

    def waiting(self, waiting: Waiting) -> None:
        """Say how the canary stands, when that has changed."""
        text = f"canary: {waiting.done} of {waiting.of} done"
        if self._progress is not None:
            self._progress.update(self._task, description=text)
            text = ""
        text = one_line("; ".join(one for one in (text, waiting.hint) if one), 300)
        if text and text != self._waited:
            self._say(text)
        self._waited = text

    def _say(self, text: str) -> None:
        self._out.print(Text(text), soft_wrap=True)

    def end(self) -> None:
        if self._progress is not None:
            self._progress.stop()
