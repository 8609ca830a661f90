"""Giving documents up, and removing them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from onward.app import App
from onward.model.documents import DocumentState, Status
from onward.ops.actions.action import (
    Action,
    ActionMessage,
    ActionOutcome,
    ActionPlan,
    ActionProgress,
    ActionStopped,
    Actor,
    Completion,
    Tone,
    in_steps,
    plain,
    stopped_sentence,
)
from onward.ops.actions.retry_documents import by_collection, known_states
from onward.ops.bad_input import BadInput
from onward.ops.document_export import exported, new_file, with_descendants, write_lines
from onward.ops.queries.documents import (
    GIVEN_UP,
    PAGE,
    DocumentFilter,
    needed_by_others,
    select_documents,
    statuses_of,
)
from onward.ops.text.format import counted, number, one_line

Key = tuple[str, str]
_FAILED = (Status.FAILED, Status.FAILED_MAX_RETRIES)


@dataclass(frozen=True, slots=True)
class DiscardDocuments(Action):
    """Give documents up for good: they become discarded, and are kept."""

    filters: DocumentFilter = field(default_factory=DocumentFilter)
    keys: tuple[Key, ...] = ()
    """Exact documents, instead of filters."""
    log_name: ClassVar[str] = "documents discard"

    def plan(self, app: App) -> ActionPlan:
        chosen = self._chosen(app)
        counts = Counter(state.collection for state in chosen)
        sentences = _done_sentences("would be discarded", counts, len(chosen))
        if self.keys and not chosen:
            statuses = " or ".join(sorted({state.status for state in known_states(app, self.keys)}))
            sentences = plain(f"It is {statuses} already: there is nothing to give up.")
        elif self.keys:
            sentences += plain("Nothing tries it again, and whatever is under way is dropped; its history stays.")
        title = f"Discard {one_line('/'.join(self.keys[0]), 80)}?" if self.keys else "Discard documents"
        return ActionPlan(
            title,
            len(chosen),
            sentences,
            _done_facts(counts, len(chosen)),
            undo="retry it, and it is put back.",
            confirmation=f"this gives up {counted(len(chosen), 'document')} for good",
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        chosen = self._chosen(app)
        counts = Counter(state.collection for state in chosen)
        progress.total = len(chosen)

        def step(states: list[DocumentState]) -> int:
            return app.store.atomically(lambda: sum(app.store.discard(*key) for key in _unchanged(app, states)))

        about = {"ids": [f"{name}/{id}" for name, id in self.keys]} if self.keys else self.filters.as_dict()
        try:
            stopped = in_steps(chosen, PAGE, progress, step)
        finally:
            self.log(app, actor, about, progress.done)
        return ActionOutcome(
            progress.done,
            _done_sentences("discarded", counts, progress.done, stopped=stopped),
            _done_facts(counts, progress.done, stopped=stopped),
            stopped=stopped,
        )

    def _chosen(self, app: App) -> list[DocumentState]:
        if self.keys:
            over = (Status.PROCESSED, Status.DISCARDED)
            return [state for state in known_states(app, self.keys) if state.status not in over]
        _check_given(self.filters)
        if self.filters.status in (Status.PROCESSED, Status.DISCARDED):
            raise BadInput(f"--status: what is {self.filters.status} is final: there is nothing to give up")
        return list(select_documents(app, self.filters, statuses_of(self.filters.status, _FAILED)))


@dataclass(frozen=True, slots=True)
class PurgeDocuments(Action):
    """Remove documents for ever, with everything that was made from them."""

    filters: DocumentFilter
    log_name: ClassVar[str] = "documents purge"

    def plan(self, app: App) -> ActionPlan:
        chosen, kept = _removable(app, self.filters)
        counts = _with_descendants(app, chosen)
        return ActionPlan(
            "Remove documents",
            counts.total(),
            _done_sentences("would be removed", counts, counts.total(), kept=kept),
            _done_facts(counts, counts.total(), kept=kept),
            confirmation=f"this removes {counted(counts.total(), 'document')} for ever",
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        chosen, kept = _removable(app, self.filters)
        counts = _with_descendants(app, chosen)
        progress.total = counts.total()
        try:
            stopped = _remove(app, chosen, progress)
        finally:
            self.log(app, actor, self.filters.as_dict(), progress.done)
        return ActionOutcome(
            progress.done,
            _done_sentences("removed", counts, progress.done, stopped=stopped, kept=kept),
            _done_facts(counts, progress.done, stopped=stopped, kept=kept),
            Completion.PARTIAL if kept and chosen else Completion.WHOLE,
            stopped=stopped,
        )


@dataclass(frozen=True, slots=True)
class ArchiveDocuments(Action):
    """Export documents that were given up to a file, then remove them with everything made from them."""

    filters: DocumentFilter
    output: Path
    log_name: ClassVar[str] = "documents archive"

    def plan(self, app: App) -> ActionPlan:
        chosen, kept = self._chosen(app)
        counts = _with_descendants(app, chosen)
        return ActionPlan(
            "Archive documents",
            counts.total(),
            _done_sentences("would be archived", counts, counts.total(), kept=kept),
            _done_facts(counts, counts.total(), kept=kept),
            undo="ingest their source again.",
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        chosen, kept = self._chosen(app)
        if not chosen:
            nothing: Counter[str] = Counter()
            return ActionOutcome(
                0, _done_sentences("archived", nothing, 0, kept=kept), _done_facts(nothing, 0, kept=kept)
            )
        written = 0
        try:
            with new_file(self.output) as file:
                written = write_lines(file, _checked(progress, exported(app, with_descendants(app, chosen))))
            progress.total = len(chosen)
            try:
                stopped = _remove(app, chosen, progress)
            finally:
                self.log(app, actor, self.filters.as_dict() | {"output": str(self.output)}, progress.done)
        except ActionStopped:  # there is no file then
            written, stopped = 0, True
        facts = {
            "output": str(self.output),
            "exported": written,
            "removed": progress.done,
            "left_alone": dict(kept),
            "interrupted": stopped,
        }
        sources = {state.source for state in chosen if state.source}
        return ActionOutcome(
            progress.done,
            self._sentences(written, progress.done, len(sources), stopped=stopped) + _kept_sentences(kept),
            facts,
            Completion.PARTIAL if kept else Completion.WHOLE,
            stopped=stopped,
        )

    def _chosen(self, app: App) -> tuple[list[DocumentState], Counter[str]]:
        status = self.filters.status
        if not set(statuses_of(status, GIVEN_UP)) <= set(GIVEN_UP):
            raise BadInput(
                f"--status: only what was given up is archived ({', '.join(GIVEN_UP)}), not what is {status}"
            )
        return _removable(app, self.filters)

    def _sentences(self, written: int, removed: int, sources: int, *, stopped: bool) -> tuple[ActionMessage, ...]:
        text = (
            f"{counted(written, 'document')} exported to {one_line(str(self.output))}, {number(removed)} removed"
        )
        rest = ", then stopped. The same command with another --output goes on with the rest."
        sentences = plain(text + (rest if stopped else "."))
        if sources:
            their = "their source" if sources == 1 else f"their {sources} sources"
            hint = f"To bring them back, ingest {their} again: onward ingest SOURCE"
            sentences += (ActionMessage(hint, Tone.HINT),)
        return sentences


def _checked(progress: ActionProgress, lines: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    for line in lines:
        progress.check()
        yield line


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
        raise BadInput(_kept_text(kept))
    return [state for state in states if (state.collection, state.id) not in needed], kept


def _with_descendants(app: App, chosen: Sequence[DocumentState]) -> Counter[str]:
    return Counter(state.collection for state in with_descendants(app, chosen))


def _remove(app: App, chosen: Sequence[DocumentState], progress: ActionProgress) -> bool:
    """Remove documents; return whether it was stopped."""
    return in_steps(chosen, PAGE, progress, lambda some: app.store.remove_documents(_unchanged(app, some)))


def _unchanged(app: App, states: Sequence[DocumentState]) -> list[Key]:
    """Return the documents that have not changed since they were chosen."""
    before = {(state.collection, state.id): (state.status, state.revision, state.round) for state in states}
    return [
        key
        for state in app.store.states_of(list(before))
        if before[key := (state.collection, state.id)] == (state.status, state.revision, state.round)
    ]


def _done_facts(
    counts: Counter[str], done: int, *, stopped: bool = False, kept: Mapping[str, int] | None = None
) -> dict[str, Any]:
    return {
        "documents": done,
        "collections": dict(sorted(counts.items())),
        "left_alone": dict(kept or {}),
        "interrupted": stopped,
    }


def _done_sentences(
    verb: str, counts: Counter[str], done: int, *, stopped: bool = False, kept: Counter[str] | None = None
) -> tuple[ActionMessage, ...]:
    total = counts.total()
    if stopped:
        sentences: tuple[ActionMessage, ...] = (stopped_sentence(number(done), counted(total, "document"), verb),)
    elif not counts:
        sentences = plain("No such documents.")
    else:
        sentences = plain(f"{counted(done, 'document')} {verb}: {by_collection(counts)}")
        if done < total:
            left = f"{counted(total - done, 'document')} changed meanwhile, and left alone"
            sentences += (ActionMessage(left, Tone.WARNING),)
    return sentences + _kept_sentences(kept)


def _kept_sentences(kept: Counter[str] | None) -> tuple[ActionMessage, ...]:
    return (ActionMessage(_kept_text(kept), Tone.WARNING),) if kept else ()


def _kept_text(kept: Counter[str]) -> str:
    return (
        f"{by_collection(kept)} cannot be removed alone: what came from there would stay behind. "
        "To remove an archive with its messages: onward forget SOURCE"
    )
