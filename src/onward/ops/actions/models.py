"""Removing vectors of models that are no longer set, and pausing the vector upgrade."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onward.app import App
from onward.ops.actions.action import Action, ActionOutcome, ActionPlan, ActionProgress, ActionStopped, Actor, say
from onward.ops.bad_input import BadInput
from onward.ops.queries.models import read_vectors
from onward.ops.text.format import counted

PAGE = 2_000


@dataclass(frozen=True, slots=True)
class PruneVectors(Action):
    """Remove the vectors of models that the settings no longer name."""

    def plan(self, app: App) -> ActionPlan:
        unused = _unused(app)
        total = sum(unused.values())
        listed = [f"{counted(count, 'vector')} of {model} would be removed." for model, count in unused.items()]
        return ActionPlan(
            "Remove vectors of models that are not set?",
            total,
            say(*listed or ["Every vector is of a model that is set."]),
            {"vectors": total, "models": unused},
            undo="set the model again, and run onward reembed.",
            slow=total > PAGE,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        from onward.pipeline.documents import Chunk

        unused = _unused(app)
        progress.total, stopped = sum(unused.values()), False
        removed = dict.fromkeys(unused, 0)
        with actor.logged(app, "models prune", {"models": sorted(unused)}, progress):
            try:
                for model in unused:
                    for page in app.store.remove_vectors(Chunk, model, page=PAGE):
                        removed[model] += page
                        progress.update(sum(removed.values()))
                        progress.check()
            except ActionStopped:
                stopped = True
        total = sum(removed.values())
        sentences = [f"{counted(count, 'vector')} of {model} removed." for model, count in removed.items()]
        return ActionOutcome(
            total,
            say(*sentences or ["Every vector is of a model that is set."]),
            {"vectors": total, "models": removed},
            stopped=stopped,
        )


def _unused(app: App) -> Mapping[str, int]:
    vectors = read_vectors(app)
    if not vectors.embedder:
        raise BadInput(
            "the models of the settings cannot be opened, so which vectors are used is unknown: onward models"
        )
    return vectors.unused
