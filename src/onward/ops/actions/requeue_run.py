"""One run that puts dead letters back: its progress, its entries in the action log, and its sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onward.app import App
from onward.ops.actions.action import Action, ActionMessage, ActionProgress, ActionStopped, Actor, Tone, plain
from onward.ops.bad_input import BadInput
from onward.ops.text.format import counted, number, one_line
from onward.recovery.requeue_dead_letters import CanaryOutcome, CanaryProgress, Refusal, RequeueResult
from onward.retry.errors import OnwardError
from onward.retry.redact import redact

BAD_CANARY = (CanaryOutcome.FAILED, CanaryOutcome.UNANSWERED)
MAX_LISTED = 10
MAX_CANARY = 1_000_000


def check_pace(canary: int, rate: float | None) -> None:
    """Refuse a canary or a rate that makes no sense."""
    if not 0 <= canary <= MAX_CANARY:
        raise BadInput(f"{canary} is no canary; give how many go first, from 1 to {MAX_CANARY}")
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise BadInput(f"{rate} is no rate; give how many a second, such as 10 or 0.5")


class RequeueRun:
    """Connects a requeue with the progress of its action and with the action log."""

    def __init__(
        self, app: App, action: Action, about: Mapping[str, Any], progress: ActionProgress, actor: Actor
    ) -> None:
        self._app = app
        self._action = action
        self._about = about
        self._progress = progress
        self._actor = actor
        self._logged = 0
        self._requeued = 0
        self.stopped = False
        self.error: OnwardError | None = None

    def follow(self, requeue: Callable[[], object], touched: Callable[[], int]) -> None:
        """Run a requeue; log the requeued dead letters even if it fails."""
        try:
            requeue()
        except (ActionStopped, KeyboardInterrupt):
            self.stopped = True
        except OnwardError as error:
            self.error = error
        finally:
            self._log(touched())

    def report(self, result: RequeueResult) -> None:
        self._requeued = result.requeued
        self._progress.update(result.handled)
        self._progress.check()

    def waiting(self, canary: CanaryProgress) -> None:
        """Report the canary's progress; the requeued dead letters are logged first, in case of a crash."""
        self._log(self._requeued)
        text = f"canary: {number(canary.done)} of {number(canary.total)} done"
        hint = one_line(redact(canary.hint), 300)
        self._progress.update(self._progress.done, f"{text}; {hint}" if hint else text)

    def _log(self, touched: int) -> None:
        """Log the dead letters that were requeued since the last entry."""
        new, self._logged = touched - self._logged, touched
        self._action.log(self._app, self._actor, self._about, new)


def requeue_sentences(result: RequeueResult, *, stopped: bool) -> tuple[ActionMessage, ...]:
    """Say what became of dead letters."""
    canary, sentences = result.canary, list[ActionMessage]()
    if canary.outcome in BAD_CANARY:
        text = f"Stopped by the canary: {one_line(redact(canary.message), 500)}"
        sentences.append(ActionMessage(text, Tone.PROBLEM))
        for failure in canary.failures[:MAX_LISTED]:
            about = "/".join(failure.document) if failure.document else "its event"
            error = f"{one_line(about)}: {one_line(redact(failure.error), 300)}"
            sentences.append(ActionMessage(f"  dead letter {failure.row}, {error}", Tone.PROBLEM))
    if canary.outcome is CanaryOutcome.PASSED:
        first = "one" if len(canary.rows) == 1 else number(len(canary.rows))
        sentences.append(ActionMessage(f"The first {first} went well.", Tone.GOOD))
    if stopped:
        sentences.append(ActionMessage("Stopped. The same command goes on with the rest.", Tone.WARNING))
    if result.requeued:
        sentences += plain(f"{counted(result.requeued, 'dead letter')} put back.")
    if result.skipped_recovered:
        skipped = counted(result.skipped_recovered, "dead letter")
        sentences.append(ActionMessage(f"{skipped} skipped: recovered, or being tried.", Tone.HINT))
    return (*sentences, *refusal_sentences(result.refused))


def refusal_sentences(refused: Sequence[Refusal]) -> tuple[ActionMessage, ...]:
    """Say why dead letters cannot go back, each reason once."""
    rows: dict[str, list[int]] = {}
    for refusal in refused:
        rows.setdefault(refusal.reason, []).append(refusal.row)
    sentences = []
    for reason, some in list(rows.items())[:MAX_LISTED]:
        listed = ", ".join(str(row) for row in some[:MAX_LISTED]) + (", …" if len(some) > MAX_LISTED else "")
        text = f"{counted(len(some), 'dead letter')} cannot go back ({listed}): {one_line(redact(reason), 300)}"
        sentences.append(ActionMessage(text, Tone.PROBLEM))
    return tuple(sentences)
