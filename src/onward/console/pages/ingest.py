"""The page that ingests a URL, a file or a pasted text."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.datastructures import FormData, UploadFile
from starlette.responses import RedirectResponse, Response

from onward.app import App
from onward.console.page_templates import page
from onward.console.pages.actions import CONSOLE
from onward.console.request_context import Onward, OwnForm, Running
from onward.ops.actions.action import log_action
from onward.ops.bad_input import BadInput
from onward.ops.lookup import worker_command
from onward.ops.submissions import Submitted, submit_text, submit_upload, submit_url
from onward.ops.text.format import display_name
from onward.runtime.process_identity import alive_workers

router = APIRouter()


@router.get("/ingest")
def show(request: Request, app: Onward) -> Response:
    """Ask for a source."""
    return page(
        request,
        "ingest.html",
        takes_sources="ingestion" in app.registry.services,
        alive=bool(alive_workers(app.store)),
        worker=worker_command(app.store),
        most=app.settings.serve_max_upload_bytes,
    )


@router.post("/ingest")
def submit(app: Onward, operations: Running, form: OwnForm) -> Response:
    """Take a source, and lead to its task."""
    submitted = _submitted(app, form)
    path = f"/tasks/{submitted.id}"
    name = display_name(submitted.source)
    if submitted.new:
        log_action(app, CONSOLE, "ingest", {"source": submitted.source}, 1)
        text = f"{name} is taken; below is how it goes."
    else:
        text = f"{name} was ingested before, and is left as it is. To fetch it once more, ingest it again."
    operation = operations.record("Ingest", path, text)
    return RedirectResponse(f"{path}?said={operation.id}", 303)


def _submitted(app: App, form: FormData) -> Submitted:
    file = form.get("file")
    if isinstance(file, UploadFile) and file.filename:
        return submit_upload(app, file.filename, file.file)
    url, text = str(form.get("url") or ""), str(form.get("text") or "")
    if url.strip():
        return submit_url(app, url)
    if text.strip():
        return submit_text(app, text, str(form.get("title") or ""))
    raise BadInput("nothing was given: give a URL, choose a file, or paste a text")
