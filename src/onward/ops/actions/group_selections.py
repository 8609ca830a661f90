"""Putting several failure groups back, or giving them up: chosen ones, or all that affect something now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from onward.app import App
from onward.model.group_life import GroupState
from onward.model.ledger_views import FailureGroup
from onward.ops.actions.action import (
    Action,
    ActionOutcome,
    ActionPlan,
    ActionProgress,
    Actor,
    Completion,
    Messages,
    Tone,
    say,
)
from onward.ops.actions.dead_letters import check_pace
from onward.ops.actions.failure_groups import DiscardFailureGroup, RetryFailureGroup
from onward.ops.bad_input import BadInput
from onward.ops.queries.failure_groups import error_text, find_group, list_groups, weight
from onward.ops.text.format import counted, number, one_line

MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class GroupSelection:
    """Which failure groups are meant: some, or all that match the filters of a list, as `list_groups` has them."""

    fingerprints: tuple[str, ...] = ()
    everything: bool = False
    service: str | None = None
    state: GroupState | None = None
    owner: str | None = None
    past: bool = False  # also those that are closed, or affect nothing now

    def find(self, app: App) -> list[FailureGroup]:
        if bool(self.fingerprints) == self.everything:
            raise BadInput("give either the fingerprints of groups, or all that match")
        if not self.everything:
            return [find_group(app, one) for one in dict.fromkeys(self.fingerprints)]
        found = list_groups(
            app, service=self.service, state=self.state, owner=self.owner, everything=self.past
        ).page
        return [one.group for one in found if weight(one.group)]


class GroupProgress(ActionProgress):
    """The progress of one group, as a part of the progress of all."""

    def __init__(self, whole: ActionProgress, cursor: Any, save: Callable[[Any], None]) -> None:
        self._whole, self._before, self._save = whole, whole.done, save
        self.began_at, self.continued, self.cursor = whole.began_at, whole.continued, cursor

    @property
    def stopping(self) -> bool:  # type: ignore[override]
        return self._whole.stopping

    def show(self) -> None:
        self._whole.update(self._before + self.done, self.text)

    def sleep(self, seconds: float) -> None:
        self._whole.sleep(seconds)

    def checkpoint(self, cursor: Any) -> None:
        super().checkpoint(cursor)
        self._save(cursor)


@dataclass(frozen=True, slots=True)
class _GroupsAction(Action):
    """Base of actions that do the same to several groups, one after the other."""

    groups: GroupSelection
    title: ClassVar[str]
    verb: ClassVar[str]
    undo: ClassVar[str] = ""

    def _action(self, group: FailureGroup) -> Action:
        """Return the action for one group."""
        raise NotImplementedError

    def plan(self, app: App) -> ActionPlan:
        found = self.groups.find(app)
        touches = sum(max(one.affected, one.dead_letters) for one in found)
        documents = counted(sum(one.affected for one in found), "document")
        letters = counted(sum(one.dead_letters for one in found), "dead letter")
        sentences = say(f"Up to {documents} and {letters} of {counted(len(found), 'group')} would {self.verb}.")
        sentences += say(*(error_text(one, 160) for one in found[:MAX_NAMED]), tone=Tone.HINT)
        if len(found) > MAX_NAMED:
            sentences += say(f"… and {number(len(found) - MAX_NAMED)} more.", tone=Tone.HINT)
        title = f"{self.title} ({counted(len(found), 'group')})"
        return ActionPlan(title, touches, sentences, undo=self.undo, slow=True)

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        cursor: dict[str, Any] = progress.cursor or {"done": [], "group": "", "cursor": None}
        done: list[str] = list(cursor["done"])
        found = [one for one in self.groups.find(app) if one.fingerprint not in done]
        progress.total = sum(max(one.affected, one.dead_letters) for one in found)
        touched, sentences, failed = 0, Messages(), 0
        for group in found:
            inner = cursor["cursor"] if cursor["group"] == group.fingerprint else None

            def save(inner: Any, fingerprint: str = group.fingerprint) -> None:
                progress.checkpoint({"done": done, "group": fingerprint, "cursor": inner})

            outcome = self._action(group).run(app, GroupProgress(progress, inner, save), actor)
            touched += outcome.touched
            failed += outcome.completion is Completion.FAILED
            name = one_line(f"{group.error_type or 'failures'} of {group.service or 'no service'}", 80)
            sentences += say(f"{name}: {outcome.text}")
            if outcome.stopped or outcome.error is not None:
                return ActionOutcome(touched, sentences, {}, stopped=outcome.stopped, error=outcome.error)
            done.append(group.fingerprint)
            progress.checkpoint({"done": done, "group": "", "cursor": None})
            progress.update(max(progress.done, touched))
        completion = Completion.WHOLE if not failed else Completion.PARTIAL
        return ActionOutcome(touched, sentences or say("No group is left."), {}, completion)


@dataclass(frozen=True, slots=True)
class RetryFailureGroups(_GroupsAction):
    """Put back everything that several failure groups affect; a canary goes first in each of them."""

    canary: int = 0
    rate: float | None = None  # at most this many a second
    title: ClassVar[str] = "Put failure groups back"
    verb: ClassVar[str] = "go back"
    undo: ClassVar[str] = "stop it while it runs; what fails again is back in its group."

    def plan(self, app: App) -> ActionPlan:
        check_pace(self.canary, self.rate)
        return _GroupsAction.plan(self, app)

    def _action(self, group: FailureGroup) -> Action:
        return RetryFailureGroup(group.fingerprint, self.canary, self.rate)


@dataclass(frozen=True, slots=True)
class DiscardFailureGroups(_GroupsAction):
    """Give up everything that several failure groups affect."""

    title: ClassVar[str] = "Give failure groups up"
    verb: ClassVar[str] = "be given up for good"

    def _action(self, group: FailureGroup) -> Action:
        return DiscardFailureGroup(group.fingerprint)
