"""Closing and reopening failure groups, their notes and owners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onward.app import App
from onward.model.group_life import (
    MAX_NAME_CHARACTERS,
    MAX_NOTE_CHARACTERS,
    GroupLife,
    GroupState,
)
from onward.model.ledger_views import FailureGroup
from onward.model.version_order import has_fix
from onward.ops.actions.action import Action, ActionOutcome, ActionPlan, ActionProgress, Actor, Messages, Tone, say
from onward.ops.bad_input import BadInput, NotFound
from onward.ops.queries.failure_groups import error_text, find_group
from onward.ops.queries.group_life import life_facts
from onward.ops.text.format import number, one_line, printable
from onward.retry.redact import redact


def about_group(group: FailureGroup) -> dict[str, str]:
    """Return what the action log says of a group."""
    return {"group": group.fingerprint, "service": group.service, "error_type": group.error_type}


def group_name(group: FailureGroup) -> str:
    return one_line(f"{group.error_type or 'failures'} of {group.service or 'no service'}", 80)


def fix_expected(app: App, group: FailureGroup) -> Messages:
    """Warn before a retry if the version with the fix was not seen yet."""
    closing = group.life.closing
    if closing is None or group.life.state(app.store.first_seen_versions()) is not GroupState.FIX_EXPECTED:
        return ()
    text = f"No worker of {one_line(redact(closing.version), 40)}, which has the fix, was seen yet"
    return say(f"{text}: what is put back now will probably fail again.", tone=Tone.WARNING)


def cleaned(text: str, what: str, most: int) -> str:
    """Return a typed text as every database stores it, without secrets; refuse one that is empty or too long."""
    found = redact(printable(text).replace("\0", "").strip())
    if not found:
        raise BadInput(f"the {what} is empty; give some text")
    if len(found) > most:
        raise BadInput(f"the {what} has {number(len(found))} characters; give at most {number(most)}")
    return found


def _changed(app: App, group: FailureGroup, life: GroupLife | None) -> tuple[GroupLife, GroupState]:
    if life is None:
        raise NotFound(f"the failure group {group.fingerprint} was removed in between; see `onward failures list`")
    return life, life.state(app.store.first_seen_versions())


def _facts(group: FailureGroup, life: GroupLife, state: GroupState) -> dict[str, Any]:
    return {"fingerprint": group.fingerprint, **life_facts(life, state)}


def _plan(app: App, group: FailureGroup, title: str, sentences: Messages, undo: str) -> ActionPlan:
    example = say(error_text(group, 200), tone=Tone.HINT)
    facts = _facts(group, group.life, group.life.state(app.store.first_seen_versions()))
    return ActionPlan(f"{title} {group_name(group)}", 1, example + sentences, facts, undo=undo)


@dataclass(frozen=True, slots=True)
class CloseFailureGroup(Action):
    """Close a failure group whose cause is fixed, in a version or without a release."""

    group: str  # a fingerprint, or the beginning of one
    version: str | None = None  # the first version with the fix; None: no release is needed

    def plan(self, app: App) -> ActionPlan:
        group, version = find_group(app, self.group), self._version()
        return _plan(app, group, "Close", self._sentences(app, group, version), "reopen it.")

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        group, version = find_group(app, self.group), self._version()
        sentences = self._sentences(app, group, version)
        life, state = _changed(app, group, app.store.close_group(group.fingerprint, actor.who, version))
        actor.log(app, "failures fixed", about_group(group) | {"version": version or None}, 1)
        return ActionOutcome(1, say("Closed.") + sentences, _facts(group, life, state))

    def _version(self) -> str:
        return "" if self.version is None else cleaned(self.version, "version", MAX_NAME_CHARACTERS)

    def _sentences(self, app: App, group: FailureGroup, version: str) -> Messages:
        shown = one_line(version)
        if not version:
            text = "It is listed again if a try that begins from now on fails like this."
            return say(text) + self._left(group)
        now, seen = app.store.now(), app.store.first_seen_versions()
        failed = [one for one in group.versions if has_fix(one, version, seen, now)]
        deployed = any(has_fix(one, version, seen, now) for one in seen)
        text = f"A failure in {shown} or a later version is a regression, and reopens it."
        if not deployed:
            text = f"No worker of {shown} was seen yet: the fix is expected. " + text
        sentences = say(text)
        if failed:
            names = ", ".join(one_line(redact(one), 40) for one in failed[:3])
            sentences += say(f"It has failed in {names} already: is the fix in there?", tone=Tone.WARNING)
        return sentences + self._left(group)

    def _left(self, group: FailureGroup) -> Messages:
        if not (group.affected or group.dead_letters):
            return ()
        command = f"onward failures retry {group.fingerprint[:16]} --canary"
        return say(f"What it affects stays as it is. When the fix runs: {command}", tone=Tone.HINT)


@dataclass(frozen=True, slots=True)
class ReopenFailureGroup(Action):
    group: str  # a fingerprint, or the beginning of one

    def plan(self, app: App) -> ActionPlan:
        group = find_group(app, self.group)
        if group.life.closing is None:
            facts = _facts(group, group.life, GroupState.OPEN)
            return ActionPlan(f"Reopen {group_name(group)}", 0, _IS_OPEN, facts)
        text = "It is listed among what needs a person again, and is no regression."
        return _plan(app, group, "Reopen", say(text), "close it again.")

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        group = find_group(app, self.group)
        if group.life.closing is None:
            return ActionOutcome(0, _IS_OPEN, _facts(group, group.life, GroupState.OPEN))
        life, state = _changed(app, group, app.store.reopen_group(group.fingerprint))
        actor.log(app, "failures reopen", about_group(group), 1)
        return ActionOutcome(1, say("Reopened."), _facts(group, life, state))


_IS_OPEN = say("It is open already.")


@dataclass(frozen=True, slots=True)
class NoteFailureGroup(Action):
    group: str  # a fingerprint, or the beginning of one
    text: str

    def plan(self, app: App) -> ActionPlan:
        text = cleaned(self.text, "note", MAX_NOTE_CHARACTERS)
        return _plan(
            app, find_group(app, self.group), "Add a note to", say(one_line(text, 300)), "add another note."
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        text, group = cleaned(self.text, "note", MAX_NOTE_CHARACTERS), find_group(app, self.group)
        life, state = _changed(app, group, app.store.note_group(group.fingerprint, actor.who, text))
        actor.log(app, "failures note", about_group(group), 1)
        return ActionOutcome(1, say("The note is kept."), _facts(group, life, state))


@dataclass(frozen=True, slots=True)
class AssignFailureGroup(Action):
    group: str  # a fingerprint, or the beginning of one
    owner: str | None  # None: nobody

    def plan(self, app: App) -> ActionPlan:
        return _plan(app, find_group(app, self.group), "Assign", self._sentences("would own"), "assign it again.")

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        group = find_group(app, self.group)
        life, state = _changed(app, group, app.store.assign_group(group.fingerprint, self._owner()))
        actor.log(app, "failures assign", about_group(group) | {"owner": self._owner() or None}, 1)
        return ActionOutcome(1, self._sentences("owns"), _facts(group, life, state))

    def _owner(self) -> str:
        return "" if self.owner is None else one_line(cleaned(self.owner, "owner", MAX_NAME_CHARACTERS))

    def _sentences(self, verb: str) -> Messages:
        return say(f"{self._owner() or 'Nobody'} {verb} it now.")
