"""Failed batches: what was set aside to be retried together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from onward.facts.accounting import error_of
from onward.facts.actions import log_action
from onward.facts.finding import NotFound
from onward.facts.wording import iso, number, one_line
from onward.model.documents import Document
from onward.model.ledger import MAX_COMMIT_DOCUMENTS, FailedBatch
from onward.recovery.groups import discard_all
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App

Key = tuple[str, str]
_MOST_LEVELS = 10
"""So far a document's ancestors are looked for."""


def find_batches(app: App, ids: Sequence[str]) -> list[FailedBatch]:
    """The failed batches that ids, or the beginnings of them, mean; each once."""
    return list({one.id: one for one in (find_batch(app, id) for id in ids)}.values())


def find_batch(app: App, id: str) -> FailedBatch:
    """The failed batch that an id, or the beginning of one, means."""
    found = [one for one in app.store.failed_batches() if id.strip() and one.id.startswith(id.strip())]
    if not found:
        raise NotFound(f"no failed batch has an id that begins with {one_line(id)!r}; see `onward batches`")
    if len(found) > 1:
        listed = "\n".join(f"  {one.id}" for one in found[:10])
        raise NotFound(
            f"{one_line(id)!r} begins the ids of {counted_batches(len(found))}; give more of one:\n{listed}"
        )
    return found[0]


def documents_in(chosen: Sequence[FailedBatch]) -> int:
    """How many documents these batches hold."""
    return sum(len(one.items) for one in chosen)


def counted_batches(count: int) -> str:
    """1 failed batch, 3 failed batches."""
    return f"{number(count)} failed batch{'' if count == 1 else 'es'}"


def batch_facts(app: App, batch: FailedBatch) -> dict[str, Any]:
    """A failed batch, for programs."""
    task, project = _task(app, batch.source)
    return {
        "id": batch.id,
        "service": batch.service,
        "task_id": task,
        "project_id": project,
        "project_path": redact(batch.source) if batch.source else None,
        "failed_files": files_of(app, batch),
        "items": [id for _, id in batch.items],
        "errors": [
            {"timestamp": iso(one.get("timestamp")), "error": redact(str(one.get("error", "")))}
            for one in batch.errors
        ],
        "retry_count": batch.retry_count,
        "retry_after": iso(batch.retry_after),
        "created_at": iso(batch.created_at),
        "persistent": is_persistent(app, batch),
    }


def is_persistent(app: App, batch: FailedBatch) -> bool:
    """Whether a batch has been retried so often that somebody should look at it."""
    return app.settings.ladder().failed_batch.persistent(batch.retry_count)


def _task(app: App, source: str | None) -> tuple[str | None, str | None]:
    """The last task of a source, and the source's own id."""
    if source is None:
        return None, None
    from onward.pipeline.documents import Archive, source_id

    id = source_id(source)
    request = app.get(Archive, id)
    return (Document.make_id("task", id, request.submission), id) if request else (None, None)


def files_of(app: App, batch: FailedBatch) -> list[str]:
    """The places of the source that the items came from: what their oldest ancestors call themselves."""
    keys = list(batch.items)
    roots: set[Key] = set()
    for _ in range(_MOST_LEVELS):
        above: set[Key] = set()
        for state in app.store.states_of(keys):
            if state.parent:
                name, _, id = state.parent.partition("/")
                above.add((name, id))
            else:
                roots.add((state.collection, state.id))
        if not above:
            break
        keys = sorted(above)
    found: set[str] = set()
    for collection in {name for name, _ in roots}:
        for _, _, text in app.store.read_bodies(collection, [id for name, id in roots if name == collection]):
            body = json.loads(text)
            found.add(redact(str(body.get("path") or body.get("source") or "")))
    return sorted(found - {""})


def item_errors(app: App, items: Sequence[Key]) -> Iterator[tuple[str, str]]:
    """The id and the last error of each document."""
    for state in app.store.states_of(items):
        yield state.id, redact(error_of(state))


# -- changing them


def retry_batches(
    app: App, chosen: Sequence[FailedBatch], *, who: str | None = None, via: str = "cli"
) -> list[FailedBatch]:
    """Let batches be retried now; answer those that will be: one that is gone by now has recovered."""
    now = app.store.now()
    hurried = [one for one in chosen if app.store.hurry_batch(one.id, now)]
    if hurried:
        about = {"batches": [one.id for one in hurried]}
        log_action(app, "batches retry", about, documents_in(hurried), who=who, via=via)
    return hurried


def discard_batches(app: App, chosen: Sequence[FailedBatch], *, who: str | None = None, via: str = "cli") -> int:
    """Give up all documents of batches; answer how many."""
    count = sum(discard_items(app, one.items) for one in chosen)
    log_action(app, "batches discard", {"batches": [one.id for one in chosen]}, count, who=who, via=via)
    return count


def discard_items(app: App, items: Sequence[Key]) -> int:
    """Give documents up for good; answer how many were not final yet."""
    count = 0
    for start in range(0, len(items), MAX_COMMIT_DOCUMENTS):
        count += discard_all(app.store, items[start : start + MAX_COMMIT_DOCUMENTS])
    return count
