"""Ingesting a source again, retrying or cancelling what is unfinished of it, and forgetting it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from onward.app import App
from onward.model.documents import DocumentState, Status
from onward.ops.actions.action import (
    Action,
    ActionOutcome,
    ActionPlan,
    ActionProgress,
    Actor,
    plain,
    worker_sentence,
)
from onward.ops.actions.retry_documents import Key, schedule, touched, unschedule
from onward.ops.bad_input import NotFound
from onward.ops.queries.document_progress import stands_for_source
from onward.ops.queries.documents import GIVEN_UP, PAGE
from onward.ops.queries.ingestion_report import totals
from onward.ops.submissions import check_takes_sources
from onward.ops.text.format import counted, counted_in, display_name, one_line, source_name
from onward.recovery.group_actions import discard_documents

MAX_QUICK_CHANGE = 1_000
"""Changing more documents than this takes longer than a web request."""
_COLLECTIONS = ("archives", "messages", "chunks", "threads")
"""In this order: a document is given up before those that it makes."""


@dataclass(frozen=True, slots=True)
class IngestAgain(Action):
    """Fetch a known source once more; what has not changed is left as it is."""

    source: str
    """The location of a known source."""
    log_name: ClassVar[str] = "ingest"

    def plan(self, app: App) -> ActionPlan:
        check_takes_sources(app)
        kept = counted(sum(totals(app, self.source).values()), "document")
        return ActionPlan(
            f"Ingest {_short_name(self.source)} again?",
            1,
            plain(
                "It is fetched once more. What has not changed is left as it is, and costs nothing.",
                f"What is new or changed is processed. Of its {kept}, those that it no longer holds are removed.",
            ),
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        from onward.pipeline.sources import submit

        submit(app, self.source)
        self.log(app, actor, {"source": self.source}, 1)
        return ActionOutcome(1, plain(f"{display_name(self.source)} is ingested again."))


@dataclass(frozen=True, slots=True)
class ForgetSource(Action):
    """Remove a source and everything that came from it."""

    source: str
    """The location of a known source."""
    log_name: ClassVar[str] = "forget"

    def plan(self, app: App) -> ActionPlan:
        counts = totals(app, self.source)
        total = sum(counts.values())
        listed = ", ".join(counted_in(count, name) for name, count in sorted(counts.items()))
        return ActionPlan(
            f"Forget {_short_name(self.source)}?",
            total,
            plain(
                f"{display_name(self.source)}: {counted(total, 'document')} would be removed: {listed}.",
                "Vectors, summaries and blobs go with them. The file, folder or page itself is not touched.",
            ),
            self._facts(total),
            slow=total > MAX_QUICK_CHANGE,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        from onward.pipeline.sources import forget

        progress.update(0, f"Removing {counted(sum(totals(app, self.source).values()), 'document')}.")
        removed = forget(app, self.source)
        self.log(app, actor, {"source": self.source}, removed)
        text = f"{display_name(self.source)}: {counted(removed, 'document')} removed."
        return ActionOutcome(removed, plain(text), self._facts(removed))

    def _facts(self, documents: int) -> dict[str, Any]:
        return {"source": source_name(self.source), "documents": documents}


@dataclass(frozen=True, slots=True)
class RetrySource(Action):
    """Try again now everything of a source that failed, was cancelled or waits; a reset fetches it anew."""

    id: str
    """The id of the document that represents the source."""
    reset: bool = False
    log_name: ClassVar[str] = "retry"

    def plan(self, app: App) -> ActionPlan:
        request = _request(app, self.id)
        keys = self._keys(app, request)
        count = touched(schedule(app, keys, app.store.now(), reset=self.reset, dry_run=True))
        sentences = plain(_why_nothing(request))
        if count:
            sentences = plain(f"{counted(count, 'document')} will be tried again now.")
            if self.reset:
                sentences += plain("The source is fetched anew, and rounds are counted from the beginning.")
            sentences += worker_sentence(app)
        return ActionPlan(
            f"Retry {_short_name(request.source or request.id)}?",
            count,
            sentences,
            undo="cancel it, as long as it is not done.",
            slow=count > MAX_QUICK_CHANGE,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        request = _request(app, self.id)
        count = touched(schedule(app, self._keys(app, request), app.store.now(), reset=self.reset))
        self.log(app, actor, {"source": request.source, "reset": self.reset}, count)
        return ActionOutcome(count, plain(f"{counted(count, 'document')} will be tried again now."))

    def _keys(self, app: App, request: DocumentState) -> list[Key]:
        """Return the failed, cancelled and waiting documents; the request first, which produces the others."""
        own = [_key(request)] if self.reset or request.status != Status.PROCESSED else []
        statuses = (*GIVEN_UP, Status.PENDING)
        found = (state for status in statuses for state in _with_status(app, request.source, status))
        # What was never begun waits for others to be finished: now would be too early for it.
        begun = (_key(state) for state in found if state.round or state.failed_batch)
        return list(dict.fromkeys([*own, *begun]))


def _why_nothing(request: DocumentState) -> str:
    if request.status == Status.PROCESSED:
        return "Nothing of it failed or waits. To fetch it anew all the same, reset it."
    return "A worker has it just now."


@dataclass(frozen=True, slots=True)
class CancelSource(Action):
    """Give up what is not finished of a source."""

    id: str
    """The id of the document that represents the source."""
    log_name: ClassVar[str] = "cancel"

    def plan(self, app: App) -> ActionPlan:
        request = _request(app, self.id)
        counts = app.store.document_counts(request.source)
        count = sum(counts.get(name, {}).get(Status.PENDING, 0) for name in _COLLECTIONS)
        count += len(_scheduled(app, request))
        are = "is" if count == 1 else "are"
        text = f"{counted(count, 'document')} that {are} not finished will be given up. What is finished stays."
        return ActionPlan(
            f"Cancel {_short_name(request.source or request.id)}?",
            count,
            plain(text if count else "All of it is finished: there is nothing to cancel."),
            undo="retry it.",
            slow=count > MAX_QUICK_CHANGE,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        request = _request(app, self.id)
        progress.update(touched(unschedule(app, _scheduled(app, request))))
        try:
            stopped = self._discard(app, request, progress)
        finally:
            self.log(app, actor, {"source": request.source}, progress.done)
        return ActionOutcome(
            progress.done, plain(f"{counted(progress.done, 'document')} given up."), stopped=stopped
        )

    def _discard(self, app: App, request: DocumentState, progress: ActionProgress) -> bool:
        """Give up pending documents page by page; return whether it was stopped."""
        for collection in _COLLECTIONS:
            while states := app.store.states(collection, status=Status.PENDING, source=request.source, limit=PAGE):
                if progress.stopping:
                    return True
                discarded = discard_documents(app.store, [_key(state) for state in states])
                progress.update(progress.done + discarded)
                if not discarded:
                    break  # another process gives up the same documents
        return False


def _request(app: App, id: str) -> DocumentState:
    for state in app.store.states_of([("archives", id)]):
        if stands_for_source(state):
            return state
    raise NotFound(f"no source has the document {one_line(id, 100)!r}")


def _scheduled(app: App, request: DocumentState) -> list[Key]:
    """Return the given-up documents that have a time for another try."""
    found = (state for status in GIVEN_UP for state in _with_status(app, request.source, status))
    return [_key(state) for state in found if state.retry_at is not None]


def _with_status(app: App, source: str | None, status: str) -> Iterator[DocumentState]:
    after = ("", "")
    while page := app.store.find_states(status=status, source=source, after=after, limit=PAGE):
        after = (page[-1].collection, page[-1].id)
        yield from (state for state in page if state.collection in _COLLECTIONS)


def _key(state: DocumentState) -> Key:
    return state.collection, state.id


def _short_name(source: str) -> str:
    return one_line(display_name(source), 80)
