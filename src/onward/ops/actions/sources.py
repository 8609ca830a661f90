"""Ingesting a source again, retrying or cancelling what is unfinished of it, and forgetting it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from onward.app import App
from onward.model.documents import DocumentKey, DocumentState, Status
from onward.ops.actions.action import Action, ActionOutcome, ActionPlan, ActionProgress, Actor, say, worker_hint
from onward.ops.actions.document_retries import schedule, touched, unschedule
from onward.ops.actions.failure_groups import discard_documents
from onward.ops.bad_input import NotFound
from onward.ops.lookup import PAGE, PIPELINE_WORKER, all_states
from onward.ops.queries.document_details import stands_for_source
from onward.ops.queries.documents import GIVEN_UP, content_documents
from onward.ops.queries.ingestion_report import COLLECTIONS, totals
from onward.ops.submissions import check_takes_sources
from onward.ops.text.format import counted, counted_in, display_name, one_line, source_name

MAX_QUICK_CHANGE = 1_000  # changing more documents than this takes longer than a web request


@dataclass(frozen=True, slots=True)
class IngestAgain(Action):
    """Fetch a known source once more; what has not changed is left as it is."""

    source: str  # the location of a known source

    def plan(self, app: App) -> ActionPlan:
        check_takes_sources(app)
        from onward.pipeline.source_settings import source_settings

        documents = counted(sum(content_documents(totals(app, self.source)).values()), "document")
        keeps = source_settings(app, self.source).on_vanished == "keep"
        gone = "those that it no longer holds are " + ("kept" if keeps else "removed")
        return ActionPlan(
            f"Ingest {_short_name(self.source)} again?",
            1,
            say(
                f"{display_name(self.source)} would be ingested again.",
                "What has not changed is left as it is, and costs nothing.",
                f"What is new or changed is processed. Of its {documents}, {gone}.",
            ),
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        from onward.pipeline.sources import submit

        submit(app, self.source)
        actor.log(app, "ingest", {"source": self.source}, 1)
        return ActionOutcome(
            1, say(f"{display_name(self.source)} is ingested again.") + worker_hint(app, command=PIPELINE_WORKER)
        )


@dataclass(frozen=True, slots=True)
class ForgetSource(Action):
    """Remove a source and everything that came from it."""

    source: str  # the location of a known source

    def plan(self, app: App) -> ActionPlan:
        counts = totals(app, self.source)
        total = sum(counts.values())
        listed = ", ".join(counted_in(count, name) for name, count in sorted(counts.items()))
        return ActionPlan(
            f"Forget {_short_name(self.source)}?",
            total,
            say(
                f"{display_name(self.source)}: {counted(total, 'document')} would be removed: {listed}.",
                "Vectors, summaries and blobs go with them. The file, folder or page itself is not touched.",
            ),
            {"source": source_name(self.source), "documents": total},
            slow=total > MAX_QUICK_CHANGE,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        from onward.pipeline.sources import forget

        progress.update(0, f"Removing {counted(sum(totals(app, self.source).values()), 'document')}.")
        removed = forget(app, self.source)
        actor.log(app, "forget", {"source": self.source}, removed)
        text = f"{display_name(self.source)}: {counted(removed, 'document')} removed."
        return ActionOutcome(removed, say(text), {"source": source_name(self.source), "documents": removed})


@dataclass(frozen=True, slots=True)
class RetrySource(Action):
    """Try again now everything of a source that failed, was cancelled or waits; a reset fetches it anew."""

    id: str  # the id of the document that represents the source
    reset: bool = False

    def plan(self, app: App) -> ActionPlan:
        request, count = self._retry(app, dry_run=True)
        sentences = say("A worker has it just now.")
        if count:
            anew = "The source is fetched anew, and rounds are counted from the beginning." if self.reset else ""
            sentences = say(f"{counted(count, 'document')} will be tried again now.", anew) + worker_hint(app)
        elif request.status == Status.PROCESSED:
            sentences = say("Nothing of it failed or waits. To fetch it anew all the same, reset it.")
        return ActionPlan(
            f"Retry {_short_name(request.source or request.id)}?",
            count,
            sentences,
            undo="cancel it, as long as it is not done.",
            slow=count > MAX_QUICK_CHANGE,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        request, count = self._retry(app)
        actor.log(app, "retry", {"source": request.source, "reset": self.reset}, count)
        return ActionOutcome(count, say(f"{counted(count, 'document')} will be tried again now."))

    def _retry(self, app: App, *, dry_run: bool = False) -> tuple[DocumentState, int]:
        """Retry the failed, cancelled and waiting documents; the request first, which produces the others."""
        request = _request(app, self.id)
        own = [_key(request)] if self.reset or request.status != Status.PROCESSED else []
        # What was never begun waits for others to be finished: now would be too early for it.
        found = _with_status(app, request.source, *GIVEN_UP, Status.PENDING)
        begun = (_key(state) for state in found if state.round or state.failed_batch)
        keys = list(dict.fromkeys([*own, *begun]))
        return request, touched(schedule(app, keys, app.store.now(), reset=self.reset, dry_run=dry_run))


@dataclass(frozen=True, slots=True)
class CancelSource(Action):
    """Give up what is not finished of a source."""

    id: str  # the id of the document that represents the source

    def plan(self, app: App) -> ActionPlan:
        request = _request(app, self.id)
        counts = app.store.document_counts(request.source)
        count = sum(counts.get(name, {}).get(Status.PENDING, 0) for name in COLLECTIONS)
        count += len(_scheduled(app, request))
        are = "is" if count == 1 else "are"
        text = f"{counted(count, 'document')} that {are} not finished will be given up. What is finished stays."
        return ActionPlan(
            f"Cancel {_short_name(request.source or request.id)}?",
            count,
            say(text if count else "All of it is finished: there is nothing to cancel."),
            undo="retry it.",
            slow=count > MAX_QUICK_CHANGE,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        request = _request(app, self.id)
        progress.update(touched(unschedule(app, _scheduled(app, request))))
        with actor.logged(app, "cancel", {"source": request.source}, progress):
            # In the order of the pipeline: a document is given up before those that it makes.
            stopped = any(self._discard(app, request.source, name, progress) for name in COLLECTIONS)
        text = f"{counted(progress.done, 'document')} given up."
        return ActionOutcome(progress.done, say(text), stopped=stopped)

    def _discard(self, app: App, source: str | None, collection: str, progress: ActionProgress) -> bool:
        """Give up the pending documents of a collection page by page; return whether it was stopped."""
        discarded = 1
        # None is discarded if another process gives up the same documents.
        while discarded and (
            states := app.store.states(collection, status=Status.PENDING, source=source, limit=PAGE)
        ):
            if progress.stopping:
                return True
            discarded = discard_documents(app.store, [_key(state) for state in states])
            progress.update(progress.done + discarded)
        return False


def _request(app: App, id: str) -> DocumentState:
    for state in app.store.states_of([("archives", id)]):
        if stands_for_source(state):
            return state
    raise NotFound(f"no source has the document {one_line(id, 100)!r}")


def _scheduled(app: App, request: DocumentState) -> list[DocumentKey]:
    """Return the given-up documents that have a time for another try."""
    found = _with_status(app, request.source, *GIVEN_UP)
    return [_key(state) for state in found if state.retry_at is not None]


def _with_status(app: App, source: str | None, *statuses: str) -> Iterator[DocumentState]:
    for status in statuses:
        found = all_states(app.store, status=status, source=source)
        yield from (state for state in found if state.collection in COLLECTIONS)


def _key(state: DocumentState) -> DocumentKey:
    return state.collection, state.id


def _short_name(source: str) -> str:
    return one_line(display_name(source), 80)
