"""What people have decided about a failure group, and the rules of groups, as sentences."""

from __future__ import annotations

from collections.abc import Callable

from onward.model.group_life import GroupLife, GroupState
from onward.model.group_rules import GroupRule, RuleState, SplitBy
from onward.ops.text.format import SHORT_ID, counted, moment, one_line
from onward.retry.redact import redact

STATE_WORDS = {
    GroupState.OPEN: "open",
    GroupState.CLOSED: "closed",
    GroupState.FIX_EXPECTED: "fix expected",
    GroupState.REGRESSION: "regression",
}
_TimeText = Callable[[float | None], str]


def state_text(life: GroupLife, state: GroupState) -> str:
    """Return the state in a few words: closed, fixed in 2.4.1."""
    fixed_in = one_line(redact(life.closing.version), 40) if life.closing is not None else ""
    match state:
        case GroupState.CLOSED:
            return f"closed, fixed in {fixed_in}" if fixed_in else "closed"
        case GroupState.FIX_EXPECTED:
            return f"fix expected in {fixed_in}"
        case GroupState.REGRESSION:
            found = one_line(redact(life.regressed_in), 40)
            return f"regression in {found}" if found else "regression"
        case _:
            return "open"


def life_sentences(life: GroupLife, state: GroupState, time_text: _TimeText = moment) -> list[str]:
    """Say who closed a group, when, and what would reopen it, or has reopened it."""
    closing = life.closing
    if closing is None:
        return []
    fixed_in, who, when = one_line(redact(closing.version)), one_line(closing.who), time_text(closing.at)
    closed = f"{who} closed it, {when}: {f'fixed in {fixed_in}' if fixed_in else 'fixed without a release'}."
    match state:
        case GroupState.REGRESSION:
            found = one_line(redact(life.regressed_in))
            back = f"It came back{f' in {found}' if found else ''}, {time_text(life.regressed_at)}."
            times = f"It has come back {counted(life.regressions, 'time')}." if life.regressions > 1 else ""
            return [sentence for sentence in (back, closed, times) if sentence]
        case GroupState.FIX_EXPECTED:
            sentences = [
                closed,
                f"No worker of {fixed_in} was seen yet. Failures of older versions do not reopen it.",
            ]
        case _ if fixed_in:
            sentences = [closed, f"A failure of {fixed_in} or a later version reopens it."]
        case _:
            sentences = [closed, "The next try that fails reopens it."]
    if count := closing.uncertain:
        have = (
            "has a version that is unknown or cannot" if count == 1 else "have versions that are unknown or cannot"
        )
        text = f"{counted(count, 'failure')} since then {have} be compared with {fixed_in}"
        sentences.append(f"{text}: look at them, and reopen the group if it is not fixed.")
    return sentences


def rule_sentence(rule: GroupRule) -> str:
    """Say what a rule does with failures."""
    group, target = rule.group[:SHORT_ID], rule.target[:SHORT_ID]
    value = one_line(redact(rule.value), 120)
    match rule.by:
        case None:
            text = f"Failures of {group} count with {target}"
        case SplitBy.MESSAGE:
            text = f"Failures of {group} with “{value}” in their message are the group {target}"
        case by:
            text = f"Failures of {group} with the {by} {value} are the group {target}"
    unfinished = {RuleState.ADDING: " (not finished)", RuleState.REMOVING: " (being removed)"}
    return text + unfinished.get(rule.state, "")
