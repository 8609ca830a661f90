"""Failed batches: what was set aside to be retried together, and when that will be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from onward.app import App
from onward.console.asking import Onward
from onward.console.changes_batches import batch_path
from onward.console.fields import clean
from onward.console.rendering import document_path, page
from onward.console.timelines import schedule
from onward.facts.batches import documents_in, files_of, find_batch, is_persistent, item_errors
from onward.facts.wording import SHORT_ID, source_name
from onward.model.ledger import FailedBatch
from onward.retry.redact import redact

router = APIRouter()

PAGE = 50
ERRORS = 20


def _number(request: Request) -> int:
    given = request.query_params.get("page", "1")
    return max(1, int(given)) if given.isascii() and given.isdecimal() and len(given) < 7 else 1


@router.get("/batches")
def show(request: Request, app: Onward) -> Response:
    """All failed batches, those that are retried next first."""
    found = sorted(app.store.failed_batches(), key=lambda one: (one.retry_after, one.id))
    number = _number(request)
    shown = found[(number - 1) * PAGE : number * PAGE]
    return page(
        request,
        "batches.html",
        batches=[_brief(app, one) for one in shown],
        total=len(found),
        documents=documents_in(found),
        persistent=sum(is_persistent(app, one) for one in found),
        number=number,
        more=number * PAGE < len(found),
    )


def _brief(app: App, batch: FailedBatch) -> dict[str, Any]:
    return {
        "id": batch.id,
        "short": batch.id[:SHORT_ID],
        "path": batch_path(batch.id),
        "source": source_name(batch.source or "") or "no source",
        "service": batch.service,
        "documents": len(batch.items),
        "retries": batch.retry_count,
        "next": batch.retry_after,
        "due": batch.retry_after <= app.store.now(),
        "created_at": batch.created_at,
        "persistent": is_persistent(app, batch),
        "error": redact(str(batch.errors[-1].get("error", ""))) if batch.errors else "",
    }


@router.get("/batches/{id:path}")
def show_batch(request: Request, app: Onward, id: str) -> Response:
    """One failed batch with the error of each of its documents."""
    batch = app.store.failed_batch(clean(id)) or find_batch(app, clean(id))
    number = _number(request)
    items = batch.items[(number - 1) * PAGE : number * PAGE]
    errors = dict(item_errors(app, items))
    return page(
        request,
        "batch.html",
        batch=_brief(app, batch),
        steps=schedule(app.settings.ladder().failed_batch, batch),
        items=[
            {"collection": name, "id": one, "path": document_path(name, one), "error": errors.get(one, "")}
            for name, one in items
        ],
        files=files_of(app, replace(batch, items=items)),
        errors=[
            {"at": one.get("timestamp"), "text": redact(str(one.get("error", "")))}
            for one in reversed(batch.errors[-ERRORS:])
        ],
        number=number,
        more=number * PAGE < len(batch.items),
    )
