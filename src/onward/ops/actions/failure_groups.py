"""Putting a whole failure group back, or giving it up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from onward.app import App
from onward.model.ledger_views import FailureGroup, ScheduleResult
from onward.ops.actions.action import (
    Action,
    ActionMessage,
    ActionOutcome,
    ActionPlan,
    ActionProgress,
    Actor,
    Completion,
    Tone,
    plain,
    worker_sentence,
)
from onward.ops.actions.dead_letters import MAX_QUICK_PLAN
from onward.ops.actions.requeue_run import (
    BAD_CANARY,
    RequeueRun,
    check_pace,
    refusal_sentences,
    requeue_sentences,
)
from onward.ops.lookup import find_group
from onward.ops.queries.failure_groups import error_text
from onward.ops.text.format import counted, number, one_line
from onward.recovery.group_actions import (
    GroupRetryPlan,
    GroupRetryResult,
    discard_group,
    plan_group_retry,
    retry_group,
)
from onward.recovery.requeue_dead_letters import CanaryOutcome, Refusal
from onward.retry.redact import redact

_NOTHING = "Nothing of this group is left to put back."


@dataclass(frozen=True, slots=True)
class RetryFailureGroup(Action):
    """Put back everything that a failure group affects: dead letters, and documents without one."""

    group: str
    """A fingerprint, or the beginning of one."""
    canary: int = 0
    """How many go first; the rest goes only if they are processed."""
    rate: float | None = None
    """At most this many a second."""
    quick_plan: bool = False
    """Only count if more than `MAX_QUICK_PLAN` things are affected."""
    log_name: ClassVar[str] = "failures retry"

    def plan(self, app: App) -> ActionPlan:
        check_pace(self.canary, self.rate)
        group = find_group(app, self.group)
        title, undo = f"Put {_name(group)} back", "stop it while it runs; what fails again is back in this group."
        example = ActionMessage(error_text(group, 200), Tone.HINT)
        if self.quick_plan and group.dead_letters + group.affected > MAX_QUICK_PLAN:
            text = f"Up to {_amount(group.affected, group.dead_letters)} would go back."
            skipped = "What has recovered, or is being tried, is skipped."
            most = max(group.dead_letters, group.affected)
            return ActionPlan(title, most, (example, *plain(text, skipped)), undo=undo, slow=True)
        planned = plan_group_retry(app.store, group.fingerprint)
        return ActionPlan(
            title,
            len(planned.dead_letters) + len(planned.documents),
            (example, *self._plan_sentences(planned)),
            self._facts(group, planned, GroupRetryResult(), planned.refused)
            | {"requeued": len(planned.dead_letters), "skipped_recovered": planned.recovered},
            undo=undo,
            slow=True,
        )

    def _plan_sentences(self, planned: GroupRetryPlan) -> tuple[ActionMessage, ...]:
        first = f", {number(self.canary)} of them first" if self.canary else ""
        sentences = refusal_sentences(planned.refused)
        if planned.recovered:
            skipped = counted(planned.recovered, "dead letter")
            sentences += (ActionMessage(f"{skipped} would be skipped: recovered, or being tried.", Tone.HINT),)
        if planned.documents:
            count = counted(len(planned.documents), "document")
            sentences = plain(f"{count} without a dead letter would be tried again{first}.") + sentences
        if planned.dead_letters:
            count = counted(len(planned.dead_letters), "dead letter")
            sentences = plain(f"{count} would be put back{first}.") + sentences
        return sentences or plain(_NOTHING)

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        check_pace(self.canary, self.rate)
        group, result = find_group(app, self.group), GroupRetryResult()
        planned = plan_group_retry(app.store, group.fingerprint)
        progress.total = len(planned.dead_letters)
        about = _about(group) | {"canary": self.canary or None, "rate": self.rate}
        run = RequeueRun(app, self, about, progress, actor)
        run.follow(
            lambda: retry_group(
                app.store,
                group.fingerprint,
                result,
                sleep=progress.sleep,
                rate=self.rate,
                canary=self.canary,
                report=run.report,
                waiting=run.waiting,
            ),
            lambda: result.touched,
        )
        completion = Completion.WHOLE if result.complete else Completion.PARTIAL
        if result.dead_letters.canary.outcome in BAD_CANARY:
            completion = Completion.FAILED
        return ActionOutcome(
            result.touched,
            self._sentences(app, group, result, stopped=run.stopped),
            self._facts(group, planned, result, result.dead_letters.refused),
            completion,
            stopped=run.stopped,
            error=run.error,
        )

    def _facts(
        self, group: FailureGroup, planned: GroupRetryPlan, result: GroupRetryResult, refused: list[Refusal]
    ) -> dict[str, Any]:
        canary, letters = result.dead_letters.canary, result.dead_letters
        return {
            "fingerprint": group.fingerprint,
            "dead_letters": len(planned.dead_letters),
            "documents_without_letter": len(planned.documents),
            "requeued": letters.requeued,
            "skipped_recovered": letters.skipped_recovered,
            "refused": [{"row": refusal.row, "reason": refusal.reason} for refusal in refused],
            "documents": {str(outcome): count for outcome, count in result.documents.items()},
            "canary": {"outcome": str(canary.outcome), "message": redact(canary.message)},
            "left_untouched": letters.left_untouched + result.held_back,
        }

    def _sentences(
        self, app: App, group: FailureGroup, result: GroupRetryResult, *, stopped: bool
    ) -> tuple[ActionMessage, ...]:
        sentences = requeue_sentences(result.dead_letters, stopped=stopped)
        for outcome, text in (
            (ScheduleResult.SCHEDULED, "will be tried again now"),
            (ScheduleResult.RESCHEDULED, "waited already, and falls due now"),
            (ScheduleResult.UNDER_WAY, "left alone: a worker has it just now"),
        ):
            if count := result.documents[outcome]:
                sentences += plain(f"{counted(count, 'document')} {text}.")
        if left := result.dead_letters.left_untouched + result.held_back:
            sentences += plain(f"{number(left)} left where they are.")
            if result.dead_letters.canary.outcome is CanaryOutcome.NONE and not stopped:
                text = f"When the first are processed: onward failures retry {group.fingerprint[:16]}"
                sentences += (ActionMessage(text, Tone.HINT),)
        return (sentences or plain(_NOTHING)) + (worker_sentence(app) if result.touched else ())


@dataclass(frozen=True, slots=True)
class DiscardFailureGroup(Action):
    """Give up everything that a failure group affects: documents are discarded, dead letters archived."""

    group: str
    """A fingerprint, or the beginning of one."""
    log_name: ClassVar[str] = "failures discard"

    def plan(self, app: App) -> ActionPlan:
        group = find_group(app, self.group)
        amount = _amount(group.affected, group.dead_letters)
        count = group.affected + group.dead_letters
        sentences = plain("Nothing of this group is left to give up.")
        if count:
            kept = "Documents become discarded, dead letters are archived: they are kept, but not tried again."
            sentences = (
                ActionMessage(error_text(group, 200), Tone.HINT),
                *plain(f"{amount} would be given up.", kept),
            )
        return ActionPlan(
            f"Give {_name(group)} up",
            count,
            sentences,
            _discard_facts(group, group.affected, group.dead_letters),
            confirmation=f"this gives up {amount} for good",
            slow=count > MAX_QUICK_PLAN,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        group = find_group(app, self.group)
        progress.total = group.affected + group.dead_letters
        done = discard_group(app.store, group.fingerprint)
        count = done.documents + done.dead_letters
        self.log(app, actor, _about(group), count)
        text = f"{_amount(done.documents, done.dead_letters)} given up for good."
        return ActionOutcome(
            count,
            plain(text if count else "Nothing of this group is left to give up."),
            _discard_facts(group, done.documents, done.dead_letters),
        )


def _discard_facts(group: FailureGroup, documents: int, letters: int) -> dict[str, Any]:
    return {"fingerprint": group.fingerprint, "documents": documents, "dead_letters": letters}


def _about(group: FailureGroup) -> dict[str, str]:
    return {"group": group.fingerprint, "service": group.service, "error_type": group.error_type}


def _name(group: FailureGroup) -> str:
    return one_line(f"{group.error_type or 'failures'} of {group.service or 'no service'}", 80)


def _amount(documents: int, letters: int) -> str:
    found = [counted(documents, "document")] if documents or not letters else []
    return " and ".join([*found, counted(letters, "dead letter")] if letters else found)
