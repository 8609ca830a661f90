"""Cancelling documents that are not finished."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onward.app import App
from onward.model.documents import DocumentState
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
from onward.ops.actions.document_retries import known_states, touched, unschedule
from onward.ops.bad_input import BadInput
from onward.ops.lookup import PAGE, resolve
from onward.ops.text.format import counted, one_line


@dataclass(frozen=True, slots=True)
class CancelDocuments(Action):
    """Cancel documents: those that are not finished become discarded, and no try of them begins any more."""

    ids: tuple[str, ...]  # ids, the beginnings of ids, or COLLECTION/ID

    def plan(self, app: App) -> ActionPlan:
        states = self._states(app)
        open_names = [_name(one) for one in states if not _is_final(one)]
        final = [one for one in states if _is_final(one)]
        sentences = say(f"{counted(len(open_names), 'document')} would be cancelled.") if open_names else ()
        return ActionPlan(
            "Cancel documents",
            len(open_names),
            sentences + _final_sentences(final),
            _facts(open_names, final),
            undo="retry it, and it is put back.",
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        states = self._states(app)
        progress.total = len(states)
        done: list[str] = []

        def step(some: list[DocumentState]) -> int:
            cancelled = [_name(one) for one in some if _cancel(app, one, actor)]
            done.extend(cancelled)
            return len(cancelled)

        with actor.logged(app, "cancel", {"ids": [_name(one) for one in states]}, progress):
            stopped = progress.in_steps(states, PAGE, step)
        keys = [] if stopped else [(one.collection, one.id) for one in states if _name(one) not in done]
        left = known_states(app, keys) if keys else []
        sentences = say(f"{counted(len(done), 'document')} cancelled.") if done else ()
        completion = Completion.WHOLE if not left else Completion.PARTIAL if done else Completion.FAILED
        return ActionOutcome(
            len(done), sentences + _final_sentences(left), _facts(done, left), completion, stopped=stopped
        )

    def _states(self, app: App) -> list[DocumentState]:
        if not self.ids:
            raise BadInput("say which documents: give COLLECTION/ID, or the beginning of an id")
        return known_states(app, list(dict.fromkeys(resolve(app, id) for id in self.ids)))


def _is_final(state: DocumentState) -> bool:
    """Return whether no try of a document will begin: one that was given up may have a time for its next try."""
    return state.final and state.retry_at is None


def _cancel(app: App, state: DocumentState, actor: Actor) -> bool:
    if app.store.cancel(state.collection, state.id, by=actor.who):
        return True
    return state.retry_at is not None and touched(unschedule(app, [(state.collection, state.id)])) > 0


def _name(state: DocumentState) -> str:
    return f"{state.collection}/{state.id}"


def _final_sentences(final: Sequence[DocumentState]) -> Messages:
    texts = (f"{one_line(_name(one))} is {one.status} already: there is nothing to cancel." for one in final)
    return say(*texts, tone=Tone.WARNING)


def _facts(cancelled: Sequence[str], final: Sequence[DocumentState]) -> dict[str, object]:
    return {"cancelled": list(cancelled), "final": {_name(one): one.status for one in final}}
