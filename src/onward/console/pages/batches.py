"""The pages of failed batches: documents that were set aside to be retried together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from onward.app import App
from onward.console.action_forms import clean
from onward.console.charts import batch_retries
from onward.console.page_templates import page
from onward.console.pages.documents import page_number
from onward.console.request_context import Onward
from onward.model.ledger import FailedBatch
from onward.ops.queries.failure_groups import files_of, find_batch, is_persistent, item_errors
from onward.ops.text.format import source_name
from onward.retry.redact import redact

router = APIRouter()

PAGE = 50
ERRORS = 20


@router.get("/batches")
def show(request: Request, app: Onward) -> Response:
    """Show all failed batches, those that are retried next first."""
    found = sorted(app.store.failed_batches(), key=lambda batch: (batch.retry_after, batch.id))
    number = page_number(request.query_params.get("page", ""))
    return page(
        request,
        "batches.html",
        batches=[(one, _facts(app, one)) for one in found[(number - 1) * PAGE : number * PAGE]],
        total=len(found),
        persistent=sum(is_persistent(app, one) for one in found),
        number=number,
        more=number * PAGE < len(found),
    )


def _facts(app: App, batch: FailedBatch) -> dict[str, Any]:
    return {
        "source": source_name(batch.source or "") or "no source",
        "due": batch.retry_after <= app.store.now(),
        "persistent": is_persistent(app, batch),
        "error": redact(str(batch.errors[-1].get("error", ""))) if batch.errors else "",
    }


@router.get("/batches/{id:path}")
def show_batch(request: Request, app: Onward, id: str) -> Response:
    """Show a failed batch with the error of each of its documents."""
    batch = app.store.failed_batch(clean(id)) or find_batch(app, clean(id))
    number = page_number(request.query_params.get("page", ""))
    items = batch.items[(number - 1) * PAGE : number * PAGE]
    errors = [(one.get("timestamp"), redact(str(one.get("error", "")))) for one in batch.errors[-ERRORS:]]
    return page(
        request,
        "batch.html",
        batch=batch,
        facts=_facts(app, batch),
        steps=batch_retries(app.settings.ladder().failed_batch, batch),
        items=items,
        item_errors=dict(item_errors(app, items)),
        files=files_of(app, replace(batch, items=items)),
        errors=errors[::-1],
        number=number,
        more=number * PAGE < len(batch.items),
    )
