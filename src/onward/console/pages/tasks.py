"""The pages of tasks: each ingestion of a source, its progress and its results; and the page that begins one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Request
from starlette.datastructures import UploadFile
from starlette.responses import RedirectResponse, Response

from onward.app import App
from onward.console.charts import bar_segments
from onward.console.operations import CONSOLE
from onward.console.page_templates import fragment, page, with_query
from onward.console.request_context import Onward, OwnForm, Running
from onward.model.documents import Document, DocumentState
from onward.ops.bad_input import BadInput, NotFound
from onward.ops.folder_uploads import MAX_FOLDER_FILES
from onward.ops.lookup import worker_command
from onward.ops.queries.documents import content_documents
from onward.ops.queries.ingestion_report import (
    COLLECTIONS,
    IngestionReport,
    attachment_states_text,
    kinds_text,
    outage_of,
    read_ingestion_report,
    unread_reasons_text,
)
from onward.ops.queries.titles import find_titles
from onward.ops.submissions import submit_source, submit_text, submit_upload, url_source
from onward.ops.text.format import counted, counted_in, display_name, number, one_line, short_name
from onward.pipeline.uploads import clean_name
from onward.runtime.process_identity import alive_workers

router = APIRouter(include_in_schema=False)

SHOWN = 50
MAX_SORTED = 2_000  # up to this many tasks are sorted by time; more are listed by id, as they are stored


@router.get("/tasks")
def show(request: Request, app: Onward, after: str = "") -> Response:
    """Show a page of tasks, the newest first."""
    takes_sources = "ingestion" in app.registry.services
    live = "" if after else "/live/tasks"
    return page(request, "tasks.html", part=_list(app, after), live=live, takes_sources=takes_sources)


@router.get("/tasks/{id}")
def show_one(request: Request, app: Onward, id: str) -> Response:
    """Show a task, or the last task of a source."""
    task = _task(app, id)
    key = urlencode({"source": task["source_id"]})
    return page(
        request,
        "task.html",
        name=short_name(task["source"]),
        source=display_name(task["source"]),
        id=task["id"],
        part=_one(app, task),
        again=f"/confirm/ingest-again?{key}",
        forget=f"/confirm/forget?{key}",
        documents=f"/documents?{key}",
    )


def part(web: FastAPI, which: str) -> str:
    app: App = web.state.onward
    return _one(app, _task(app, which)) if which else _list(app, "")


def _list(app: App, after: str) -> str:
    total = sum(app.store.document_counts().get("tasks", {}).values())
    if total > MAX_SORTED:
        found = app.store.states("tasks", after=after, limit=SHOWN + 1)
    else:
        states = app.store.states("tasks", limit=MAX_SORTED)
        states.sort(key=lambda one: (one.created_at or 0.0, one.id), reverse=True)
        behind = next((place + 1 for place, one in enumerate(states) if one.id == after), 0)
        found = states[behind : behind + SHOWN + 1]
    return fragment(
        "tasks_part.html",
        rows=_rows(app, found[:SHOWN]),
        total=total,
        next_path=with_query("/tasks", after=found[SHOWN - 1].id) if len(found) > SHOWN else "",
        first_path="/tasks" if after else "",
        sorted_by_time=total <= MAX_SORTED,
    )


def _rows(app: App, states: list[DocumentState]) -> list[dict[str, Any]]:
    """Return the tasks; the status of one that a later task of the same source has replaced is empty."""
    from onward.pipeline.sources import source_status

    bodies = {id: json.loads(text) for id, _, text in app.store.read_bodies("tasks", [one.id for one in states])}
    tasks = [bodies[state.id] for state in states if "submission" in bodies.get(state.id, ())]
    latest = _latest(app, [one["source_id"] for one in tasks])
    rows = []
    for task in tasks:
        names = {"source": display_name(task["source"]), "name": short_name(task["source"])}
        row = task | names | {"status": "", "done": 0, "total": 0, "failed": 0, "set_aside": 0}
        if task["submission"] == latest.get(task["source_id"]):
            now = source_status(app, task["source"])
            total = sum(sum(counts.values()) for counts in content_documents(now.documents).values())
            row |= {"status": now.status, "failed": now.failed, "set_aside": now.set_aside}
            row |= {"total": total, "done": total - max(0, now.pending) - now.set_aside}
        rows.append(row)
    return rows


def _latest(app: App, requests: list[str]) -> dict[str, int]:
    found = app.store.read_bodies("archives", list(dict.fromkeys(requests)))
    return {id: json.loads(text).get("submission", 1) for id, _, text in found}


def _task(app: App, id: str) -> dict[str, Any]:
    for _, _, text in app.store.read_bodies("tasks", [id]):
        task: dict[str, Any] = json.loads(text)
        if "submission" in task:
            return task
    if submission := _latest(app, [id]).get(id):
        task_id = Document.make_id("task", id, submission)
        if task_id != id:
            return _task(app, task_id)
    raise NotFound(f"there is no task {one_line(id, 100)!r}; it may be forgotten")


def _one(app: App, task: dict[str, Any]) -> str:
    key = task["source_id"]
    report = read_ingestion_report(app, task["source"], {}, waiting=False)
    latest = _latest(app, [key]).get(key, task["submission"])
    names = [*COLLECTIONS, *sorted(report.documents.keys() & {"summaries"})]
    total = sum(sum(counts.values()) for counts in content_documents(report.documents).values())
    left = sum(counts.get("pending", 0) for counts in report.documents.values())
    return fragment(
        "task_part.html",
        task=task,
        key=key,
        report=report,
        stages=[(name, bar_segments(report.documents[name])) for name in names if name in report.documents],
        total=total,
        done=total - left,
        latest=latest,
        is_latest=latest == task["submission"],
        items=_items(report),
        waiting=_waits(app, report, key),
        troubles=report.troubles,
        titles=find_titles(app, [(failed.collection, failed.id) for failed in report.troubles]),
        worker_missing=bool(left) and not alive_workers(app.store),
    )


def _items(report: IngestionReport) -> list[tuple[str, str]]:
    """Return the counts of items and messages by result; zeros are left out, except for failures."""
    rows = []
    for name, first, counts in (("Items", "items", report.items), ("Messages", "messages", report.messages)):
        if counts:
            apart = (first, "duplicates")
            rest = [counted_in(n, one) for one, n in counts.items() if one not in apart and (n or one == "failed")]
            rows.append((name, f"{number(counts.get(first, 0))} ({', '.join(rest)})"))
    if duplicates := report.messages.get("duplicates"):
        rows.append(("Duplicates", f"{number(duplicates)} left out"))
    if report.attachments:
        states = attachment_states_text(report.attachments)
        rows.append(("Attachments", f"{number(report.attachments['total'])} ({states})"))
        if reasons := unread_reasons_text(report.attachments):
            rows.append(("Attachments not read", reasons))
    if report.without_text:
        rows.append(("Without text", counted(len(report.without_text), "message")))
    if report.damaged.ids:
        rows.append(("Damaged", str(report.damaged)))
    for name, kinds in (("Passed over", report.passed_over.kinds), ("Ignored", report.passed_over.ignored)):
        if kinds:
            rows.append((name, f"{number(sum(kinds.values()))} ({kinds_text(kinds)})"))
    return rows


def _waits(app: App, report: IngestionReport, key: str) -> list[tuple[str, float | None, str]]:
    """Return which documents are unfinished and why, when that may change, and the path of their list."""
    orders, rows = app.store.subscriptions(), app.store.counts()
    found = []
    for name in COLLECTIONS:
        count = report.documents.get(name, {}).get("pending", 0)
        if not count:
            continue
        at = None
        text = f"{counted_in(count, name)} {'is' if count == 1 else 'are'} to be finished"
        services = [order.service for order in orders if order.finishes == name]
        if (down := outage_of(app, name, report.source)) is not None:
            at, why = down.next_probe, one_line(down.reason.rstrip("."), 200)
            text += f". {'It waits' if count == 1 else 'They wait'} for {down.dependency}, which is down: {why}"
            text += ". It is asked again" if at else ""
        elif any(rows.get(one, {}).get(state) for one in services for state in ("waiting", "claimed")):
            text += f": events of {' and '.join(services)} wait or are under way"
        elif name == "threads" and report.documents.get("chunks", {}).get("pending"):
            text += ", when the messages and chunks that belong to them are"
        elif (at := app.store.next_check([name])) is not None:
            text += "; the retry job looks at the next one"
            if at <= app.store.now():
                text, at = f"{text} as soon as a worker runs it", None
        found.append((text, at, with_query("/documents", collection=name, status="pending", source=key)))
    return found


# -- ingesting a URL, a file or a pasted text


class UploadResult(NamedTuple):
    name: str
    path: str = ""  # of its task
    new: bool = False
    problem: str = ""  # why it was refused


@router.get("/ingest")
def ask_source(request: Request, app: Onward) -> Response:
    return _ingest_page(request, app)


def _ingest_page(request: Request, app: App, results: Sequence[UploadResult] = (), status: int = 200) -> Response:
    return page(
        request,
        "ingest.html",
        status=status,
        results=results,
        max_files=MAX_FOLDER_FILES,
        takes_sources="ingestion" in app.registry.services,
        alive=bool(alive_workers(app.store)),
        worker=worker_command(app.store),
        most=app.settings.serve_max_upload_bytes,
    )


@router.post("/ingest")
def submit(request: Request, app: Onward, operations: Running, form: OwnForm) -> Response:
    url, text = str(form.get("url") or ""), str(form.get("text") or "")
    files = [file for file in form.getlist("file") if isinstance(file, UploadFile) and file.filename]
    if len(files) > 1:
        results = [_submit_file(app, file) for file in files]
        return _ingest_page(request, app, results, 422 if all(one.problem for one in results) else 200)
    if files:
        submitted = submit_upload(app, files[0].filename or "", files[0].file)
    elif url.strip():
        submitted = submit_source(app, url_source(url))
    elif text.strip():
        submitted = submit_text(app, text, str(form.get("title") or ""))
    else:
        raise BadInput("nothing was given: give a URL, choose files, or paste a text")
    path, name = f"/tasks/{submitted.id}", display_name(submitted.source)
    if submitted.new:
        CONSOLE.log(app, "ingest", {"source": submitted.source}, 1)
        said = f"{name} is taken; below is how it goes."
    else:
        said = f"{name} was ingested before, and is left as it is. To fetch it once more, ingest it again."
    operation = operations.record(f"Ingest {name}", CONSOLE, path, said)
    return RedirectResponse(f"{path}?said={operation}", 303)


def _submit_file(app: App, file: UploadFile) -> UploadResult:
    """Submit one file of several; a refused one does not hold up the others."""
    try:
        submitted = submit_upload(app, file.filename or "", file.file)
    except BadInput as error:
        return UploadResult(clean_name(file.filename or ""), problem=str(error))
    if submitted.new:
        CONSOLE.log(app, "ingest", {"source": submitted.source}, 1)
    return UploadResult(display_name(submitted.source), f"/tasks/{submitted.id}", submitted.new)
