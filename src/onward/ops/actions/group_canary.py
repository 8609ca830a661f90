"""Putting a failure group back in growing steps, each only if the one before was processed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from onward.app import App
from onward.model.events import Event
from onward.model.ledger_views import FailureGroup
from onward.ops.actions.action import (
    Action,
    ActionOutcome,
    ActionPlan,
    ActionProgress,
    ActionStopped,
    Actor,
    Completion,
    Messages,
    Tone,
    say,
    worker_hint,
)
from onward.ops.actions.dead_letters import (
    MAX_LISTED,
    MAX_QUICK_PLAN,
    check_pace,
    event_classes,
    refusal_sentences,
)
from onward.ops.actions.failure_groups import plan_group_retry
from onward.ops.actions.group_life import about_group, fix_expected, group_name
from onward.ops.bad_input import BadInput
from onward.ops.queries.failure_groups import error_text, find_group
from onward.ops.text.format import SHORT_ID, number, one_line
from onward.recovery.group_canary import STEPS, CanaryCursor, CanaryEnd, GroupCanary
from onward.retry.errors import OnwardError
from onward.retry.redact import redact

MAX_UNLOGGED = 1_000  # things that a crash may leave out of the action log


@dataclass(frozen=True, slots=True)
class RetryGroupInSteps(Action):
    """Put back what a failure group affects: one, then a few, then more, then the rest.

    It is run as an operation: `progress.cursor` has the step that it was at when it was interrupted.
    """

    group: str  # a fingerprint, or the beginning of one
    share: float = 1.0  # a step has gone well if at least this share of it was processed
    rate: float | None = None  # at most this many a second
    quick_plan: bool = False  # only count if more than `MAX_QUICK_PLAN` things are affected
    events: tuple[type[Event], ...] = ()  # to read again what could not be read; empty: those of the app
    resume: bool = False  # go on with the last one of this group; see `open_canary`

    def _check(self) -> None:
        check_pace(0, self.rate)
        if not (math.isfinite(self.share) and 0 < self.share <= 1):
            raise BadInput(f"{self.share} is no share; give a number above 0, up to 1, such as 0.9")

    def plan(self, app: App) -> ActionPlan:
        self._check()
        group = find_group(app, self.group)
        if self.quick_plan and group.dead_letters + group.affected > MAX_QUICK_PLAN:
            count, amount = max(group.dead_letters, group.affected), "up to "
            refused: Messages = ()
        else:
            letters, documents = plan_group_retry(app.store, group.fingerprint, event_classes(app, self.events))
            count, amount, refused = letters.requeued + len(documents), "", refusal_sentences(letters.refused)
        part = "was processed" if self.share == 1 else f"was processed to at least {100 * self.share:g} %"
        order = f"{amount}{number(count)} would be put back{_steps(count)}.".capitalize()
        each = f"Each step goes only if the one before {part}." if count > STEPS[0] else ""
        sentences = say(order, each) + fix_expected(app, group) if count else _NOTHING
        return ActionPlan(
            f"Put {group_name(group)} back in steps",
            count,
            say(error_text(group, 200), tone=Tone.HINT) + sentences + refused,
            {"fingerprint": group.fingerprint, "steps": list(STEPS), "items": count},
            undo="stop it while it runs; it can be continued.",
            slow=True,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        self._check()
        group = find_group(app, self.group)
        cursor = CanaryCursor.read(progress.cursor)
        begun = app.store.now() if progress.began_at is None else progress.began_at
        logged = before = cursor.put_back

        def log() -> None:
            """Log what was put back since the last entry."""
            nonlocal logged
            new, logged = max(0, canary.cursor.put_back - logged), max(logged, canary.cursor.put_back)
            actor.log(app, "failures retry", about_group(group) | {"steps": True, "rate": self.rate}, new)

        def checkpoint(cursor: dict[str, Any]) -> None:
            progress.checkpoint(cursor)
            if canary.cursor.step < len(canary.steps) or canary.cursor.put_back >= logged + MAX_UNLOGGED:
                log()

        def report(canary: GroupCanary, hint: str) -> None:
            progress.update(canary.cursor.put_back - before, _progress_text(canary, hint))
            progress.check()

        canary = GroupCanary(
            app.store,
            group.fingerprint,
            begun,
            sleep=progress.sleep,
            checkpoint=checkpoint,
            report=report,
            events=event_classes(app, self.events),
            share=self.share,
            rate=self.rate,
            cursor=cursor,
        )
        progress.total = canary.left + len(cursor.items)
        end: CanaryEnd | None = None
        error: OnwardError | None = None
        try:
            end = canary.run()
        except (ActionStopped, KeyboardInterrupt):
            pass
        except OnwardError as caught:
            error = caught
        finally:
            log()
        stopped = end is None and error is None
        left = 0 if error is not None or end is CanaryEnd.DONE else canary.left
        bad = end in (CanaryEnd.FAILED, CanaryEnd.UNANSWERED)
        completion = Completion.PARTIAL if canary.refused else Completion.WHOLE
        return ActionOutcome(
            canary.cursor.put_back - before,
            _sentences(app, group, canary, end, left),
            _facts(group, canary, end, left),
            Completion.FAILED if bad else completion,
            stopped=stopped,
            error=error,
        )


_NOTHING = say("Nothing of this group is left to put back.")


def _step_name(canary: GroupCanary) -> str:
    step, steps = canary.cursor.step, len(canary.steps)
    return f"step {step + 1} of {steps + 1}" if step < steps else "the rest"


def _steps(count: int) -> str:
    """Say how many go in each step."""
    steps, left = list[str](), count
    for step in STEPS:
        if left > 0:
            steps.append(number(min(step, left)))
        left -= step
    order = ", then ".join([*steps, "the rest"] if left > 0 else steps)
    return f": {order}" if len(steps) > 1 else ""


def _progress_text(canary: GroupCanary, hint: str) -> str:
    text, items = _step_name(canary), len(canary.cursor.items)
    if canary.cursor.step < len(canary.steps) and items:
        text += f": {number(canary.settled)} of {number(items)} done"
    return f"{text}; {one_line(redact(hint), 300)}" if hint else text


def _sentences(app: App, group: FailureGroup, canary: GroupCanary, end: CanaryEnd | None, left: int) -> Messages:
    cursor, sentences = canary.cursor, Messages()
    resume = f"onward failures retry {group.fingerprint[:16]} --resume"
    if end in (CanaryEnd.FAILED, CanaryEnd.UNANSWERED):
        text = one_line(redact(canary.message), 500)
        sentences += say(f"Stopped by the canary in {_step_name(canary)}: {text}", tone=Tone.PROBLEM)
        for one in canary.failures[:MAX_LISTED]:
            about = "/".join(one.document) if one.document else f"dead letter {one.item.row}"
            way = "again" if one.group == group.fingerprint else f"now in group {one.group[:SHORT_ID] or '?'}"
            sentences += say(f"  {one_line(about)} ({way}): {one_line(one.error, 300)}", tone=Tone.PROBLEM)
    if end is None:
        sentences += say(f"Stopped in {_step_name(canary)}.", tone=Tone.WARNING)
    if cursor.processed:
        sentences += say(f"Processed in steps: {number(cursor.processed)}.", tone=Tone.GOOD)
    if cursor.put_back:
        sentences += say(f"{number(cursor.put_back)} put back in all.")
    elif end is CanaryEnd.DONE:
        sentences += _NOTHING
    sentences += refusal_sentences(list(canary.refused.values()))
    if end is not CanaryEnd.DONE:
        sentences += say(f"{number(left)} left where they are." if left else "")
        when = "After a fix" if end is CanaryEnd.FAILED else "To go on"
        sentences += say(f"{when}: {resume}", tone=Tone.HINT)
    return sentences + (worker_hint(app) if cursor.put_back else ())


def _facts(group: FailureGroup, canary: GroupCanary, end: CanaryEnd | None, left: int) -> dict[str, Any]:
    cursor = canary.cursor
    return {
        "fingerprint": group.fingerprint,
        "outcome": str(end or "stopped"),
        "steps": list(canary.steps),
        "step": cursor.step,
        "put_back": cursor.put_back,
        "processed": cursor.processed,
        "failed": cursor.failed,
        "left_untouched": left,
        "message": redact(canary.message),
        "failures": [
            {
                "row": one.item.row,
                "document": "/".join(one.document) if one.document else None,
                "error": one.error,
                "group": one.group or None,
                "same_group": one.group == group.fingerprint,
            }
            for one in canary.failures
        ],
        "refused": [{"row": one.row, "reason": redact(one.reason)} for one in canary.refused.values()],
    }
