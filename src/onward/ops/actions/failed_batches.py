"""Retrying failed batches now, or giving their documents up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from onward.app import App
from onward.model.ledger import FailedBatch
from onward.ops.actions.action import (
    Action,
    ActionOutcome,
    ActionPlan,
    ActionProgress,
    Actor,
    in_steps,
    plain,
    worker_sentence,
)
from onward.ops.bad_input import BadInput
from onward.ops.queries.batches import counted_batches, documents_in, find_batches
from onward.ops.text.format import counted
from onward.recovery.group_actions import PAGE, discard_documents

_NONE = "There are no failed batches."


@dataclass(frozen=True, slots=True)
class RetryFailedBatches(Action):
    """Let failed batches be retried now; this is not counted as a retry."""

    ids: tuple[str, ...] = ()
    """Ids, or the beginnings of them."""
    everything: bool = False
    log_name: ClassVar[str] = "batches retry"

    def plan(self, app: App) -> ActionPlan:
        chosen = _chosen(app, self.ids, everything=self.everything)
        texts = [f"{_described(chosen)} would be retried.", "This is not counted as a retry."]
        return ActionPlan(
            "Retry failed batches now",
            documents_in(chosen),
            plain(*texts) if chosen else plain(_NONE),
            _facts(chosen),
            undo="what fails again is set aside again, and its schedule goes on.",
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        now = app.store.now()
        chosen = _chosen(app, self.ids, everything=self.everything)
        # A batch that is gone by now has recovered.
        retried = [batch for batch in chosen if app.store.reschedule_batch(batch.id, now)]
        count = documents_in(retried)
        self.log(app, actor, {"batches": [batch.id for batch in retried]}, count)
        sentences = plain(_NONE)
        if retried:
            sentences = plain(f"{_described(retried)} will be retried now.")
            sentences += worker_sentence(app, "A worker takes it within seconds.")
        return ActionOutcome(count, sentences, _facts(retried))


@dataclass(frozen=True, slots=True)
class DiscardFailedBatches(Action):
    """Give up all documents of failed batches: they become discarded, and are kept."""

    ids: tuple[str, ...]
    log_name: ClassVar[str] = "batches discard"

    def plan(self, app: App) -> ActionPlan:
        chosen = _chosen(app, self.ids)
        count = documents_in(chosen)
        return ActionPlan(
            "Give failed batches up",
            count,
            plain(
                f"{counted(count, 'document')} of {counted_batches(len(chosen))} would be discarded.",
                "Discarded documents are kept, but not tried again.",
            ),
            _facts(chosen),
            confirmation=f"this gives up {counted(count, 'document')} for good",
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        chosen = _chosen(app, self.ids)
        items = [key for batch in chosen for key in batch.items]
        progress.total = len(items)
        try:
            stopped = in_steps(items, PAGE, progress, lambda keys: discard_documents(app.store, keys))
        finally:
            self.log(app, actor, {"batches": [batch.id for batch in chosen]}, progress.done)
        text = f"{counted(progress.done, 'document')} of {counted_batches(len(chosen))} discarded."
        facts = _facts(chosen) | {"documents": progress.done}
        return ActionOutcome(progress.done, plain(text), facts, stopped=stopped)


def _chosen(app: App, ids: Sequence[str], *, everything: bool = False) -> list[FailedBatch]:
    if bool(ids) == everything:
        raise BadInput("give either the ids of batches, or --all")
    return app.store.failed_batches() if everything else find_batches(app, ids)


def _described(chosen: Sequence[FailedBatch]) -> str:
    return f"{counted_batches(len(chosen))} with {counted(documents_in(chosen), 'document')}"


def _facts(chosen: Sequence[FailedBatch]) -> dict[str, Any]:
    return {"batches": [batch.id for batch in chosen], "documents": documents_in(chosen)}
