"""The pages of failed batches: documents that were set aside to be retried together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from onward.app import App
from onward.console.action_forms import batch_path
from onward.console.charts import batch_retries
from onward.console.form_fields import clean
from onward.console.page_templates import document_path, page
from onward.console.request_context import Onward
from onward.model.ledger import FailedBatch
from onward.ops.queries.failure_groups import documents_in, files_of, find_batch, is_persistent, item_errors
from onward.ops.text.format import SHORT_ID, source_name
from onward.retry.redact import redact

router = APIRouter()

PAGE = 50
ERRORS = 20


def _number(request: Request) -> int:
    given = request.query_params.get("page", "1")
    return max(1, int(given)) if given.isascii() and given.isdecimal() and len(given) < 7 else 1


@router.get("/batches")
def show(request: Request, app: Onward) -> Response:
    """Show all failed batches, those that are retried next first."""
    found = sorted(app.store.failed_batches(), key=lambda batch: (batch.retry_after, batch.id))
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
    """Show a failed batch with the error of each of its documents."""
    batch = app.store.failed_batch(clean(id)) or find_batch(app, clean(id))
    number = _number(request)
    items = batch.items[(number - 1) * PAGE : number * PAGE]
    errors = dict(item_errors(app, items))
    return page(
        request,
        "batch.html",
        batch=_brief(app, batch),
        steps=batch_retries(app.settings.ladder().failed_batch, batch),
        items=[
            {"collection": name, "id": one, "path": document_path(name, one), "error": errors.get(one, "")}
            for name, one in items
        ],
        files=files_of(app, replace(batch, items=items)),
        errors=[
            {"at": error.get("timestamp"), "text": redact(str(error.get("error", "")))}
            for error in reversed(batch.errors[-ERRORS:])
        ],
        number=number,
        more=number * PAGE < len(batch.items),
    )
