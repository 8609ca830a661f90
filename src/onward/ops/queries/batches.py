"""Failed batches: documents that were set aside to be retried together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from onward.app import App
from onward.model.documents import Document
from onward.model.ledger import FailedBatch
from onward.ops.bad_input import NotFound
from onward.ops.text.format import iso, number, one_line
from onward.recovery.next_step import describe_error
from onward.retry.redact import redact

Key = tuple[str, str]
_MOST_LEVELS = 10
"""So far a document's ancestors are looked for."""


def find_batches(app: App, ids: Sequence[str]) -> list[FailedBatch]:
    """Return the failed batches with these ids, or beginnings of ids; each once."""
    return list({one.id: one for one in (find_batch(app, id) for id in ids)}.values())


def find_batch(app: App, id: str) -> FailedBatch:
    """Return the failed batch with this id, or beginning of an id."""
    found = [batch for batch in app.store.failed_batches() if id.strip() and batch.id.startswith(id.strip())]
    if not found:
        raise NotFound(f"no failed batch has an id that begins with {one_line(id)!r}; see `onward batches`")
    if len(found) > 1:
        listed = "\n".join(f"  {one.id}" for one in found[:10])
        raise NotFound(
            f"{one_line(id)!r} begins the ids of {counted_batches(len(found))}; give more of one:\n{listed}"
        )
    return found[0]


def documents_in(chosen: Sequence[FailedBatch]) -> int:
    """Return the number of documents in these batches."""
    return sum(len(one.items) for one in chosen)


def counted_batches(count: int) -> str:
    """1 failed batch, 3 failed batches."""
    return f"{number(count)} failed batch{'' if count == 1 else 'es'}"


def batch_facts(app: App, batch: FailedBatch) -> dict[str, Any]:
    """Return a failed batch, for programs."""
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
            {"timestamp": iso(error.get("timestamp")), "error": redact(str(error.get("error", "")))}
            for error in batch.errors
        ],
        "retry_count": batch.retry_count,
        "retry_after": iso(batch.retry_after),
        "created_at": iso(batch.created_at),
        "persistent": is_persistent(app, batch),
    }


def is_persistent(app: App, batch: FailedBatch) -> bool:
    """Return whether a batch has been retried so often that an operator should look at it."""
    return app.settings.ladder().failed_batch.persistent(batch.retry_count)


def _task(app: App, source: str | None) -> tuple[str | None, str | None]:
    """Return the last task of a source, and the source's own id."""
    if source is None:
        return None, None
    from onward.pipeline.documents import Archive, source_id

    id = source_id(source)
    request = app.get(Archive, id)
    return (Document.make_id("task", id, request.submission), id) if request else (None, None)


def files_of(app: App, batch: FailedBatch) -> list[str]:
    """Return the files of the source that the items came from, by the titles of their oldest ancestors."""
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
    """Yield the id and the last error of each document."""
    for state in app.store.states_of(items):
        yield state.id, describe_error(state.last_error)
