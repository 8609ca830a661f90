"""Tasks: each ingestion of a source, how far it is, and what became of everything in it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from onward.app import App
from onward.console.asking import Onward
from onward.console.bars import Piece, stack
from onward.console.changes_sources import Again, Forget
from onward.console.rendering import document_path, fragment, page
from onward.console.sources import called, short
from onward.facts.accounting import COLLECTIONS, Account, account, outage_of
from onward.facts.finding import NotFound
from onward.facts.wording import counted_in, number, one_line
from onward.model.documents import Document, DocumentState

router = APIRouter()

SHOWN = 50
MOST_SORTED = 2_000
"""So many tasks are put in order of time; more of them come by their ids, as they are stored."""


@dataclass(frozen=True, slots=True)
class Row:
    """A task in the list."""

    id: str
    source: str
    """As people know it."""
    name: str
    """The end of that."""
    submitted_at: float
    submission: int
    status: str
    """Empty: a later task of the same source has taken over."""
    done: int = 0
    total: int = 0
    failed: int = 0
    set_aside: int = 0


@router.get("/tasks")
def show(request: Request, app: Onward, after: str = "") -> Response:
    """A page of tasks, the newest first."""
    return page(
        request,
        "tasks.html",
        part=_list(app, after),
        live="" if after else "/live/tasks",
        takes_sources="ingestion" in app.registry.services,
    )


@router.get("/tasks/{id}")
def show_one(request: Request, app: Onward, id: str) -> Response:
    """A task, or the last one of a source."""
    task = _task(app, id)
    key = urlencode({"source": task["source_id"]})
    return page(
        request,
        "task.html",
        name=short(task["source"]),
        source=called(task["source"]),
        id=task["id"],
        part=_one(app, task),
        again=f"/confirm/{Again.name}?{key}",
        forget=f"/confirm/{Forget.name}?{key}",
        documents=f"/documents?{key}",
    )


def part(web: FastAPI, which: str) -> str:
    """The list, or a task, for who watches it."""
    app: App = web.state.onward
    return _one(app, _task(app, which)) if which else _list(app, "")


# -- the list


def _list(app: App, after: str) -> str:
    total = sum(app.store.document_counts().get("tasks", {}).values())
    found = _found(app, total, after)
    rows = _rows(app, found[:SHOWN])
    more = urlencode({"after": found[SHOWN - 1].id}) if len(found) > SHOWN else ""
    return fragment(
        "tasks_part.html",
        rows=rows,
        total=total,
        next_path=f"/tasks?{more}" if more else "",
        first_path="/tasks" if after else "",
        sorted_by_time=total <= MOST_SORTED,
    )


def _found(app: App, total: int, after: str) -> list[DocumentState]:
    if total > MOST_SORTED:
        return app.store.states("tasks", after=after, limit=SHOWN + 1)
    states = app.store.states("tasks", limit=MOST_SORTED)
    states.sort(key=lambda one: (one.created_at or 0.0, one.id), reverse=True)
    behind = next((place + 1 for place, one in enumerate(states) if one.id == after), 0)
    return states[behind : behind + SHOWN + 1]


def _rows(app: App, states: list[DocumentState]) -> list[Row]:
    from onward.pipeline.sources import source_status

    bodies = {id: json.loads(text) for id, _, text in app.store.read_bodies("tasks", [one.id for one in states])}
    tasks = [bodies[one.id] for one in states if one.id in bodies and "submission" in bodies[one.id]]
    latest = _latest(app, [one["source_id"] for one in tasks])
    rows = []
    for task in tasks:
        row = Row(
            task["id"], called(task["source"]), short(task["source"]), task["submitted_at"], task["submission"], ""
        )
        if task["submission"] == latest.get(task["source_id"]):
            standing = source_status(app, task["source"])
            total = sum(sum(counts.values()) for counts in standing.documents.values())
            left = max(0, standing.pending) + standing.set_aside
            row = replace(row, status=standing.status, done=total - left, total=total)
            row = replace(row, failed=standing.failed, set_aside=standing.set_aside)
        rows.append(row)
    return rows


def _latest(app: App, requests: list[str]) -> dict[str, int]:
    """The last submission of each source."""
    found = app.store.read_bodies("archives", list(dict.fromkeys(requests)))
    return {id: json.loads(text).get("submission", 1) for id, _, text in found}


# -- one of them


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


class Stage(NamedTuple):
    """How far the documents of one collection are."""

    collection: str
    pieces: list[Piece]
    total: int


def _one(app: App, task: dict[str, Any]) -> str:
    told = account(app, task["source"], {}, waiting=False)
    latest = _latest(app, [task["source_id"]]).get(task["source_id"], task["submission"])
    names = [*COLLECTIONS, *sorted(told.documents.keys() & {"summaries"})]
    stages = [
        Stage(name, stack(told.documents[name]), sum(told.documents[name].values()))
        for name in names
        if name in told.documents
    ]
    total = sum(sum(counts.values()) for counts in told.documents.values())
    left = sum(counts.get("pending", 0) for counts in told.documents.values())
    return fragment(
        "task_part.html",
        task=task,
        key=task["source_id"],
        told=told,
        stages=stages,
        total=total,
        done=total - left,
        latest=latest,
        is_latest=latest == task["submission"],
        items=_items(told),
        waiting=_waits(app, told, task["source_id"]),
        troubles=[(document_path(one.collection, one.id), one) for one in told.troubles],
        worker_missing=bool(left) and not app.store.workers(),
    )


def _items(told: Account) -> list[tuple[str, str]]:
    """What became of everything in the source; what is none of is left out, but failures."""
    rows = []
    for name, first, counts in (("Items", "items", told.items), ("Messages", "messages", told.messages)):
        if counts:
            rest = [counted_in(n, one) for one, n in counts.items() if one != first and (n or one == "failed")]
            rows.append((name, f"{number(counts.get(first, 0))} ({', '.join(rest)})"))
    return rows


class Wait(NamedTuple):
    """Documents that are to be finished, why they are not yet, and when that may change."""

    text: str
    at: float | None
    path: str


def _waits(app: App, told: Account, key: str) -> list[Wait]:
    """What is not finished, by collection; each document's own page tells more."""
    orders, rows = app.store.subscriptions(), app.store.counts()
    found = []
    for name in COLLECTIONS:
        count = told.documents.get(name, {}).get("pending", 0)
        if not count:
            continue
        path = "/documents?" + urlencode({"collection": name, "status": "pending", "source": key})
        text = f"{counted_in(count, name)} {'is' if count == 1 else 'are'} to be finished"
        services = [one.service for one in orders if one.finishes == name]
        if (down := outage_of(app, name)) is not None:
            why = one_line(down.reason.rstrip("."), 200)
            wait = "It waits" if count == 1 else "They wait"
            text += f". {wait} for {down.dependency}, which is down: {why}"
            text += ". It is asked again" if down.next_probe else ""
            found.append(Wait(text, down.next_probe, path))
        elif any(rows.get(one, {}).get(state) for one in services for state in ("waiting", "claimed")):
            found.append(Wait(f"{text}: events of {' and '.join(services)} wait or are under way", None, path))
        elif name == "threads" and told.documents.get("chunks", {}).get("pending"):
            found.append(Wait(f"{text}, when the messages and chunks that belong to them are", None, path))
        else:
            found.append(_wait_for_the_retry_job(app, name, text, path))
    return found


def _wait_for_the_retry_job(app: App, collection: str, text: str, path: str) -> Wait:
    at = app.store.next_look([collection])
    if at is None:
        return Wait(text, None, path)
    if at <= app.store.now():
        return Wait(f"{text}; the retry job looks at the next one as soon as a worker runs it", None, path)
    return Wait(f"{text}; the retry job looks at the next one", at, path)
