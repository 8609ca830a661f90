"""Putting dead letters back beside a page: how it goes, what came of it, and that it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onward.app import App
from onward.console.operations import Operation
from onward.facts.actions import log_action
from onward.facts.finding import worker_command
from onward.facts.wording import counted, number, one_line
from onward.recovery.requeueing import CanaryOutcome, Requeued, Waiting
from onward.retry.redact import redact

BAD_CANARY = (CanaryOutcome.FAILED, CanaryOutcome.UNANSWERED)
_REASONS = 5


class Run:
    """One run: tells its operation how far it is, and keeps in the action log what was put back so far."""

    def __init__(
        self,
        app: App,
        operation: Operation,
        action: str,
        about: Mapping[str, Any],
        *,
        total: int,
        who: str,
        via: str,
    ) -> None:
        self._app = app
        self._operation = operation
        self._action = action
        self._about = about
        self._who = who
        self._via = via
        self._kept = 0
        self._put_back = 0
        operation.total = total

    def report(self, result: Requeued) -> None:
        self._put_back = result.requeued
        self._operation.done = result.handled
        self._operation.text = "Putting letters back."

    def waiting(self, waiting: Waiting) -> None:
        """The first ones are being tried; whatever happens meanwhile, it is known that they went back."""
        self.keep(self._put_back)
        hint = one_line(redact(waiting.hint), 300)
        held_up = f" It may wait because {hint}." if hint else ""
        done = f"{number(waiting.done)} of {number(waiting.of)} done"
        self._operation.text = f"Trying the first ones: {done}.{held_up}"

    def keep(self, touched: int) -> None:
        """Log what was put back since the last time; the whole count is given."""
        new, self._kept = touched - self._kept, touched
        log_action(self._app, self._action, self._about, new, who=self._who, via=self._via)

    def end(self, sentences: list[str], *, result: Requeued, touched: int) -> str:
        """What came of it, in one text; one that the canary has stopped ends as a problem."""
        if touched and not self._app.store.workers():
            sentences = [*sentences, f"No worker is alive to do it; start one: {worker_command(self._app.store)}"]
        text = " ".join(sentences)
        if result.canary.outcome in BAD_CANARY:
            self._operation.problem = text
        return text


def told(result: Requeued, left: int) -> list[str]:
    """What became of the letters of a run, in sentences; so many things are left where they were."""
    found, canary = list[str](), result.canary
    if canary.outcome in BAD_CANARY:
        found.append(f"Stopped by the canary: {one_line(redact(canary.message), 500)}.")
    if canary.outcome is CanaryOutcome.PASSED:
        count = len(canary.rows)
        found.append(f"The first {'one' if count == 1 else number(count)} went well.")
    if result.requeued:
        found.append(f"{counted(result.requeued, 'letter')} put back.")
    if result.skipped_recovered:
        found.append(f"{counted(result.skipped_recovered, 'letter')} skipped: recovered, or being tried.")
    found += refused([one.reason for one in result.refused])
    if left:
        found.append(f"{number(left)} left where they are.")
    return found


def refused(reasons: list[str]) -> list[str]:
    """Why letters cannot go back, each reason once."""
    return [
        f"{counted(reasons.count(one), 'letter')} cannot go back: {one_line(redact(one), 300)}."
        for one in list(dict.fromkeys(reasons))[:_REASONS]
    ]
