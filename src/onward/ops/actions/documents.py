"""Giving documents up, archiving and removing them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from onward.app import App
from onward.model.documents import DocumentKey, DocumentState, Status
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
    stopped_sentence,
)
from onward.ops.actions.document_retries import by_collection, document_name, known_states
from onward.ops.bad_input import BadInput
from onward.ops.document_export import exported, new_file, with_descendants, write_lines
from onward.ops.lookup import PAGE, all_states
from onward.ops.queries.document_details import stands_for_source
from onward.ops.queries.documents import (
    BESIDE_REQUEST,
    FAILED,
    GIVEN_UP,
    DocumentFilter,
    count_selected,
    needed_by_others,
    select_documents,
    statuses_of,
)
from onward.ops.text.format import counted, number, one_line

_FINISHED = (Status.PROCESSED, Status.DISCARDED)


@dataclass(frozen=True, slots=True)
class DiscardDocuments(Action):
    """Give documents up for good: they become discarded, and are kept."""

    filters: DocumentFilter = field(default_factory=DocumentFilter)
    keys: tuple[DocumentKey, ...] = ()  # exact documents, instead of filters
    everything: bool = False  # all that match the filters, whichever are given

    def plan(self, app: App) -> ActionPlan:
        counts = self._counts(app)
        count, sentences, facts = _removal("would be discarded", counts)
        if self.keys and not count:
            statuses = " or ".join(sorted({state.status for state in known_states(app, self.keys)}))
            sentences = say(f"It is {statuses} already: there is nothing to give up.")
        elif self.keys:
            sentences += say("Nothing tries it again, and whatever is under way is dropped; its history stays.")
        return ActionPlan(
            f"Discard {document_name(app, self.keys[0])}?" if len(self.keys) == 1 else "Discard documents",
            count,
            sentences,
            facts,
            undo="retry it, and it is put back.",
            confirmation=f"this gives up {counted(count, 'document')} for good",
            slow=count > PAGE,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        progress.total = self._counts(app).total()
        discarded = Counter[str]()

        def discard(states: list[DocumentState]) -> list[DocumentKey]:
            return [key for key in _unchanged(app, states) if app.store.discard(*key, by=actor.who)]

        def step(states: list[DocumentState]) -> int:
            done = app.store.atomically(partial(discard, states))
            discarded.update(collection for collection, _ in done)
            return len(done)

        about = {"ids": ["/".join(key) for key in self.keys]} if self.keys else asdict(self.filters)
        with actor.logged(app, "documents discard", about, progress):
            stopped = progress.in_steps(self._chosen(app, progress.began_at), PAGE, step)
        results = _removal("discarded", discarded, total=progress.total, stopped=stopped)
        return ActionOutcome(*results, stopped=stopped)

    def _statuses(self) -> Sequence[str | None]:
        status = self.filters.status
        if not self.everything:
            _check_given(self.filters)
        if status in _FINISHED:
            raise BadInput(f"--status: what is {status} is final: there is nothing to give up")
        return statuses_of(status, FAILED)

    def _chosen(self, app: App, begun: float | None = None) -> Iterator[DocumentState]:
        if self.keys:
            return (state for state in known_states(app, self.keys) if state.status not in _FINISHED)
        return select_documents(app, self.filters, self._statuses(), begun=begun)

    def _counts(self, app: App) -> Counter[str]:
        if self.keys:
            return _collections(self._chosen(app))
        return count_selected(app, self.filters, self._statuses())


@dataclass(frozen=True, slots=True)
class PurgeDocuments(Action):
    """Remove documents for ever, with everything that was made from them."""

    filters: DocumentFilter

    def plan(self, app: App) -> ActionPlan:
        chosen, kept = _removable(app, self.filters)
        results = _removal("would be removed", _collections(with_descendants(app, chosen)), kept=kept)
        confirmation = f"this removes {counted(results[0], 'document')} for ever"
        return ActionPlan("Remove documents", *results, confirmation=confirmation)

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        chosen, kept = _removable(app, self.filters)
        counts = _collections(with_descendants(app, chosen))
        progress.total = counts.total()
        with actor.logged(app, "documents purge", asdict(self.filters), progress):
            stopped = _remove(app, chosen, progress)
        results = _removal("removed", counts, progress.done, stopped=stopped, kept=kept)
        partly = Completion.PARTIAL if kept and chosen else Completion.WHOLE
        return ActionOutcome(*results, partly, stopped=stopped)


@dataclass(frozen=True, slots=True)
class ArchiveDocuments(Action):
    """Export documents that were given up to a file, then remove them with everything made from them."""

    filters: DocumentFilter
    output: Path

    def plan(self, app: App) -> ActionPlan:
        chosen, kept = self._chosen(app)
        results = _removal("would be archived", _collections(with_descendants(app, chosen)), kept=kept)
        return ActionPlan("Archive documents", *results, undo="ingest their source again.")

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        chosen, kept = self._chosen(app)
        if not chosen:
            return ActionOutcome(*_removal("archived", Counter(), kept=kept))

        def lines() -> Iterator[dict[str, Any]]:
            for line in exported(app, with_descendants(app, chosen)):
                progress.check()
                yield line

        written = 0
        try:
            with new_file(self.output) as file:
                written = write_lines(file, lines())
            progress.total = len(chosen)
            about = asdict(self.filters) | {"output": str(self.output)}
            with actor.logged(app, "documents archive", about, progress):
                stopped = _remove(app, chosen, progress)
        except ActionStopped:  # there is no file then
            written, stopped = 0, True
        facts = {"output": str(self.output), "exported": written, "removed": progress.done}
        facts |= {"left_alone": dict(kept), "interrupted": stopped}
        to_file = f"{counted(written, 'document')} exported to {one_line(str(self.output))}"
        rest = ", then stopped. The same command with another --output goes on with the rest." if stopped else "."
        sentences = say(f"{to_file}, {number(progress.done)} removed{rest}")
        if sources := len({state.source for state in chosen if state.source}):
            their = "their source" if sources == 1 else f"their {sources} sources"
            sentences += say(f"To bring them back, ingest {their} again: onward ingest SOURCE", tone=Tone.HINT)
        partly = Completion.PARTIAL if kept else Completion.WHOLE
        return ActionOutcome(progress.done, sentences + _kept_sentence(kept), facts, partly, stopped=stopped)

    def _chosen(self, app: App) -> tuple[list[DocumentState], Counter[str]]:
        status = self.filters.status
        if not set(statuses_of(status, GIVEN_UP)) <= set(GIVEN_UP):
            raise BadInput(
                f"--status: only what was given up is archived ({', '.join(GIVEN_UP)}), not what is {status}"
            )
        return _removable(app, self.filters)


def _check_given(filters: DocumentFilter) -> None:
    if not filters.given:
        raise BadInput("say which documents: --status, --collection, --source, --group or --older-than")


def _removable(app: App, filters: DocumentFilter) -> tuple[list[DocumentState], Counter[str]]:
    """Return the documents that can be removed, and how many must stay, by collection; refuse if all must."""
    _check_given(filters)
    states = list(select_documents(app, filters, statuses_of(filters.status, GIVEN_UP)))
    needed = needed_by_others(app, states)
    kept = Counter(collection for collection, _ in needed)
    if needed and len(needed) == len(states):
        raise BadInput(_kept_sentence(kept)[0].text)
    chosen = [state for state in states if (state.collection, state.id) not in needed]
    for source in [state.source for state in chosen if stands_for_source(state)]:
        for name in BESIDE_REQUEST:
            chosen += all_states(app.store, collection=name, source=source)
    return chosen, kept


def _remove(app: App, chosen: Sequence[DocumentState], progress: ActionProgress) -> bool:
    """Remove documents; return whether it was stopped."""
    return progress.in_steps(chosen, PAGE, lambda some: app.store.remove_documents(_unchanged(app, some)))


def _unchanged(app: App, states: Sequence[DocumentState]) -> list[DocumentKey]:
    """Return the documents that have not changed since they were chosen."""
    before = {(state.collection, state.id): (state.status, state.revision, state.round) for state in states}
    return [
        key
        for state in app.store.states_of(list(before))
        if before[key := (state.collection, state.id)] == (state.status, state.revision, state.round)
    ]


def _collections(states: Iterable[DocumentState]) -> Counter[str]:
    return Counter(state.collection for state in states)


def _removal(
    verb: str,
    counts: Counter[str],
    done: int | None = None,
    *,
    total: int | None = None,
    stopped: bool = False,
    kept: Counter[str] | None = None,
) -> tuple[int, Messages, dict[str, Any]]:
    """Return how many documents are discarded or removed, what to say about it, and the facts.

    `done` and `total` are the sum of `counts` if they are not given.
    """
    done = counts.total() if done is None else done
    total = counts.total() if total is None else total
    if stopped:
        sentences = stopped_sentence(number(done), counted(total, "document"), verb)
    elif not total:
        sentences = say("No such documents.")
    else:
        named = f": {by_collection(counts)}" if counts else ""
        sentences = say(f"{counted(done, 'document')} {verb}{named}")
        if done < total:
            left = f"{counted(total - done, 'document')} changed meanwhile, and left alone"
            sentences += say(left, tone=Tone.WARNING)
    facts = {"documents": done, "collections": dict(sorted(counts.items())), "left_alone": dict(kept or {})}
    return done, sentences + _kept_sentence(kept), facts | {"interrupted": stopped}


def _kept_sentence(kept: Counter[str] | None) -> Messages:
    if not kept:
        return ()
    text = f"{by_collection(kept)} cannot be removed alone: what came from there would stay behind."
    return say(f"{text} To remove an archive with its messages: onward forget SOURCE", tone=Tone.WARNING)
