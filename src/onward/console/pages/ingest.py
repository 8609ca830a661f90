"""Ingesting: a URL, a file, or a text that somebody pastes."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.datastructures import FormData, UploadFile
from starlette.responses import RedirectResponse, Response

from onward.app import App
from onward.console.asking import Onward, OwnForm, Running
from onward.console.pages.changes import WHO
from onward.console.rendering import page
from onward.console.sources import called
from onward.console.submitting import Submitted, submit_text, submit_upload, submit_url
from onward.facts.actions import log_action
from onward.facts.finding import Unusable, worker_command

router = APIRouter()


@router.get("/ingest")
def show(request: Request, app: Onward) -> Response:
    """Ask for a source."""
    return page(
        request,
        "ingest.html",
        takes_sources="ingestion" in app.registry.services,
        alive=bool(app.store.workers()),
        worker=worker_command(app.store),
        most=app.settings.serve_max_upload_bytes,
    )


@router.post("/ingest")
def submit(app: Onward, operations: Running, form: OwnForm) -> Response:
    """Take a source, and lead to its task."""
    submitted = _submitted(app, form)
    path = f"/tasks/{submitted.id}"
    name = called(submitted.source)
    if submitted.new:
        log_action(app, "ingest", {"source": submitted.source}, 1, who=WHO, via="console")
        said = f"{name} is taken; below is how it goes."
    else:
        said = f"{name} was ingested before, and is left as it is. To fetch it once more, ingest it again."
    operation = operations.begin("Ingest", path, lambda _: said)
    operation.join()
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
    raise Unusable("nothing was given: give a URL, choose a file, or paste a text")
