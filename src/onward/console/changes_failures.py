"""Changes of whole failure groups: putting one back, or giving it up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import quote

from onward.app import App
from onward.console import fields
from onward.console.acting import Plan, change
from onward.console.operations import Operation
from onward.console.requeueing import Run, refused, told
from onward.facts.actions import log_action
from onward.facts.diagnosis import error_text
from onward.facts.finding import find_group
from onward.facts.wording import counted, one_line
from onward.model.recovery import FailureGroup, Scheduled
from onward.recovery.groups import GroupRetry, discard_group, plan, put_back
from onward.recovery.requeueing import CanaryOutcome

EXACT = 100
"""Of so many letters and documents each is looked at before a group is put back; more are only counted."""


def group_path(fingerprint: str) -> str:
    """Where a failure group's page is."""
    return f"/failures/{quote(fingerprint, safe='')}"


def _about(group: FailureGroup) -> dict[str, str]:
    return {"group": group.fingerprint, "service": group.service, "error_type": group.error_type}


def _name(group: FailureGroup) -> str:
    return one_line(f"{group.error_type or 'failures'} of {group.service or 'no service'}", 80)


def _amount(documents: int, letters: int) -> str:
    said = [counted(documents, "document")] if documents or not letters else []
    return " and ".join([*said, counted(letters, "dead letter")] if letters else said)


@change
class RetryGroup:
    """Put back all that a failure group affects: fields `fingerprint`, `canary`, `rate`."""

    name: ClassVar[str] = "retry-group"

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        group = find_group(app, fields.needed(given, "fingerprint"))
        fields.canary(given), fields.rate(given)  # to refuse what makes no sense before it is confirmed
        touches, sentences = _would_put_back(app, group)
        return Plan(
            f"Put {_name(group)} back",
            "Put it back",
            touches,
            (error_text(group, 200), *sentences),
            undo="stop it while it runs; what fails again is back in this group."
            if touches
            else "nothing is done.",
            back=group_path(group.fingerprint),
            fields=fields.pace(given) if touches else (),
            long=True,
        )

    def do(self, app: App, given: Mapping[str, str], operation: Operation, *, who: str, via: str) -> str:
        group = find_group(app, fields.needed(given, "fingerprint"))
        first, rate = fields.canary(given), fields.rate(given)
        result = GroupRetry()
        about = _about(group) | {"canary": first or None, "rate": rate}
        run = Run(app, operation, "failures retry", about, total=group.dead_letters, who=who, via=via)
        try:
            put_back(
                app.store,
                group.fingerprint,
                result,
                sleep=operation.sleep,
                rate=rate,
                canary=first,
                report=run.report,
                waiting=run.waiting,
            )
        finally:  # also what was done until somebody stopped it
            run.keep(result.touched)
        sentences = told(result.letters, result.letters.left_untouched + result.held_back)
        for outcome, what in (
            (Scheduled.SCHEDULED, "will be tried again now"),
            (Scheduled.HURRIED, "waited already: due now"),
            (Scheduled.UNDER_WAY, "left alone: being tried just now"),
        ):
            if count := result.documents[outcome]:
                sentences.append(f"{counted(count, 'document')} {what}.")
        if result.held_back and result.letters.canary.outcome is CanaryOutcome.NONE:
            sentences.append("Put the group back once more when the first ones are processed.")
        sentences = sentences or ["Nothing of this group is left to put back."]
        return run.end(sentences, result=result.letters, touched=result.touched)


def _would_put_back(app: App, group: FailureGroup) -> tuple[int, list[str]]:
    """How much would go back, and what is said of it; nothing is changed."""
    if group.dead_letters + group.affected > EXACT:
        touches = max(group.dead_letters, group.affected)
        said = f"Up to {_amount(group.affected, group.dead_letters)} would go back."
        return touches, [said, "What has recovered meanwhile, or is being tried, is skipped."]
    planned = plan(app.store, group.fingerprint)
    sentences = []
    if planned.letters:
        sentences.append(f"{counted(len(planned.letters), 'dead letter')} would be put back.")
    if planned.documents:
        count = counted(len(planned.documents), "document")
        sentences.append(f"{count} without a dead letter would be tried again.")
    if planned.recovered:
        sentences.append(f"{counted(planned.recovered, 'dead letter')} skipped: recovered, or being tried.")
    sentences += refused([one.reason for one in planned.refused])
    touches = len(planned.letters) + len(planned.documents)
    return touches, sentences or ["Nothing of this group is left to put back."]


@change
class DiscardGroup:
    """Give up all that a failure group affects: field `fingerprint`."""

    name: ClassVar[str] = "discard-group"

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        group = find_group(app, fields.needed(given, "fingerprint"))
        touches = group.affected + group.dead_letters
        said = f"{_amount(group.affected, group.dead_letters)} would be given up for good."
        return Plan(
            f"Give {_name(group)} up",
            "Give it up for good",
            touches,
            (
                error_text(group, 200),
                said if touches else "Nothing of this group is left to give up.",
                "Documents become discarded, letters are archived: they are kept, but nobody tries them again.",
            ),
            back=group_path(group.fingerprint),
            long=group.affected + group.dead_letters > EXACT,
        )

    def do(self, app: App, given: Mapping[str, str], operation: Operation, *, who: str, via: str) -> str:
        group = find_group(app, fields.needed(given, "fingerprint"))
        done = discard_group(app.store, group.fingerprint)
        log_action(app, "failures discard", _about(group), done.documents + done.letters, who=who, via=via)
        if not (done.documents or done.letters):
            return "Nothing of this group was left to give up."
        return f"{_amount(done.documents, done.letters)} given up for good."
