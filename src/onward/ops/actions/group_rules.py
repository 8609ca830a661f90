"""Merging and splitting failure groups, and undoing that."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from onward.app import App
from onward.model.group_rules import MAX_RULES, MAX_VALUE_CHARACTERS, GroupRule, SplitBy, split_fingerprint
from onward.model.ledger_views import FailureGroup
from onward.ops.actions.action import (
    Action,
    ActionOutcome,
    ActionPlan,
    ActionProgress,
    ActionStopped,
    Actor,
    Messages,
    Tone,
    say,
)
from onward.ops.actions.dead_letters import MAX_QUICK_PLAN
from onward.ops.actions.group_life import about_group, cleaned, group_name
from onward.ops.bad_input import BadInput
from onward.ops.queries.failure_groups import affected, error_text, find_group, weight
from onward.ops.queries.group_life import find_rule, rule_facts
from onward.ops.text.format import SHORT_ID, counted, number
from onward.ops.text.group_life import rule_sentence

MAX_PREVIEWED = 1_000  # documents that the plan of a split looks at
_LATER = "Failures from now on count like this at once."
_UNDO = "remove the rule: `onward failures rules` lists it."


def _apply(app: App, progress: ActionProgress, rules: Iterable[GroupRule]) -> bool:
    """Move what is stored by each rule; return whether it was stopped."""
    before = 0

    def report(moved: int) -> None:
        progress.update(before + moved)
        progress.check()

    try:
        for rule in rules:
            before += app.store.apply_rule(rule, report)
    except (ActionStopped, KeyboardInterrupt):
        return True
    return False


def _outcome(progress: ActionProgress, rules: Iterable[GroupRule], *, stopped: bool) -> ActionOutcome:
    sentences = say(f"Documents and dead letters moved: {number(progress.done)}." if progress.done else "")
    if stopped:
        text = "Stopped. Later failures follow the rule already; the same command, or a worker, moves the rest."
        sentences += say(text, tone=Tone.WARNING)
    facts = {"rules": [rule_facts(rule) for rule in rules], "moved": progress.done}
    return ActionOutcome(max(1, progress.done), sentences, facts, stopped=stopped)


def _check_room(app: App, new: int) -> None:
    if len(app.store.group_rules()) + new > MAX_RULES:
        raise BadInput(f"there are {MAX_RULES} rules already; undo some first: `onward failures rules` lists them")


@dataclass(frozen=True, slots=True)
class MergeFailureGroups(Action):
    """Let the failures of groups count with another one, present and future."""

    group: str  # the one that stays; a fingerprint, or the beginning of one
    others: tuple[str, ...]

    def _groups(self, app: App) -> tuple[FailureGroup, list[FailureGroup]]:
        target = find_group(app, self.group)
        found = {one.fingerprint: one for given in self.others for one in [find_group(app, given)]}
        if target.fingerprint in found:
            raise BadInput(f"{target.fingerprint[:SHORT_ID]} cannot be merged with itself, or is merged already")
        if not found:
            raise BadInput("give the groups that are to count with the first one, too")
        return target, list(found.values())

    def plan(self, app: App) -> ActionPlan:
        target, others = self._groups(app)
        _check_room(app, len(others))
        count = sum(max(1, weight(one)) for one in others)
        sentences = say(f"These would count with {target.fingerprint[:SHORT_ID]} ({error_text(target, 200)}):")
        sentences += say(*(f"  {one.fingerprint[:SHORT_ID]}  {error_text(one, 200)}" for one in others))
        return ActionPlan(
            f"Merge {counted(len(others), 'failure group')} into {group_name(target)}",
            count,
            sentences + say(_LATER),
            {"fingerprint": target.fingerprint, "merged": [one.fingerprint for one in others]},
            undo=_UNDO,
            slow=count > MAX_QUICK_PLAN,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        target, others = self._groups(app)
        _check_room(app, len(others))
        progress.total = sum(one.affected + one.dead_letters for one in others)
        about = about_group(target) | {"merged": [one.fingerprint for one in others]}
        rules = [app.store.merge_group(one.fingerprint, target.fingerprint, actor.who) for one in others]
        actor.log(app, "failures merge", about, len(rules))
        stopped = _apply(app, progress, rules)
        outcome = _outcome(progress, rules, stopped=stopped)
        merged = say(f"{counted(len(others), 'group')} merged into {target.fingerprint[:SHORT_ID]}.")
        facts = {"fingerprint": target.fingerprint, **outcome.facts}
        return ActionOutcome(outcome.touched, merged + outcome.sentences, facts, stopped=stopped)


@dataclass(frozen=True, slots=True)
class SplitFailureGroup(Action):
    """Make the failures of a group that match a group of their own, present and future."""

    group: str  # a fingerprint, or the beginning of one
    by: SplitBy
    value: str

    def plan(self, app: App) -> ActionPlan:
        group, value = find_group(app, self.group), self._value()
        _check_room(app, 1)
        matching, seen = self._preview(app, group, value)
        part = f"{number(matching)} of {'the first ' if seen == MAX_PREVIEWED else ''}{counted(seen, 'document')}"
        sentences = say(f"{part} would form a group of their own.", _LATER)
        if not matching:
            sentences += say("Nothing that is affected now matches.", tone=Tone.WARNING)
        return ActionPlan(
            f"Split {group_name(group)}",
            max(1, matching),
            say(error_text(group, 200), tone=Tone.HINT) + sentences,
            {"fingerprint": group.fingerprint, "new": split_fingerprint(group.fingerprint, self.by, value)},
            undo=_UNDO,
            slow=weight(group) > MAX_QUICK_PLAN,
        )

    def _preview(self, app: App, group: FailureGroup, value: str) -> tuple[int, int]:
        rule = GroupRule(0, group.fingerprint, "", self.by, value, 0.0, "")
        found = list(islice(affected(app.store, group.fingerprint), MAX_PREVIEWED))
        return sum(rule.matches(one.last_error or {}) for one in found), len(found)

    def _value(self) -> str:
        return cleaned(self.value, str(self.by), MAX_VALUE_CHARACTERS)

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        group, value = find_group(app, self.group), self._value()
        _check_room(app, 1)
        progress.total = group.affected + group.dead_letters
        rule = app.store.split_group(group.fingerprint, self.by, value, actor.who)
        actor.log(app, "failures split", about_group(group) | {"by": str(self.by), "value": value}, 1)
        stopped = _apply(app, progress, [rule])
        outcome = _outcome(progress, [rule], stopped=stopped)
        new = app.store.failure_group(rule.target)
        made = f"The new group is {rule.target[:SHORT_ID]}: onward failures show {rule.target[:SHORT_ID]}"
        text = made if new else f"Failures that match from now on are the group {rule.target[:SHORT_ID]}."
        facts: dict[str, Any] = {"fingerprint": group.fingerprint, "new": rule.target, **outcome.facts}
        return ActionOutcome(outcome.touched, outcome.sentences + say(text), facts, stopped=stopped)


@dataclass(frozen=True, slots=True)
class UndoGroupRule(Action):
    """Remove a rule; what is affected now goes back to the group that it would have been in without it."""

    id: int

    def plan(self, app: App) -> ActionPlan:
        rule = find_rule(app, self.id)
        found = app.store.failure_group(rule.target)
        count = max(1, weight(found) if found is not None else 0)
        return ActionPlan(
            f"Undo rule {rule.id}",
            count,
            say(f"{rule_sentence(rule)}: no longer.") + _GOES_BACK,
            rule_facts(rule),
            undo="merge or split the groups again.",
            slow=count > MAX_QUICK_PLAN,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        rule = app.store.end_rule(find_rule(app, self.id).id) or find_rule(app, self.id)
        found = app.store.failure_group(rule.target)
        progress.total = found.affected + found.dead_letters if found is not None else 0
        about = {"rule": rule.id, "group": rule.group, "target": rule.target}
        actor.log(app, "failures undo", about, 1)
        stopped = _apply(app, progress, [rule])
        outcome = _outcome(progress, [rule], stopped=stopped)
        done: Messages = say(f"Rule {rule.id} is removed.") if not stopped else ()
        return ActionOutcome(outcome.touched, done + outcome.sentences, outcome.facts, stopped=stopped)


_GOES_BACK = say(
    "What is affected now goes back to its own group, and so does what fails from now on. "
    "Failures of documents that have recovered stay counted where they are."
)
