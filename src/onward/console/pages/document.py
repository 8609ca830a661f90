"""The page of a document: its content, its next step, its history, and the possible actions."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response, StreamingResponse

from onward.app import App
from onward.console.document_content import document_content
from onward.console.page_templates import document_path, fragment, page
from onward.console.request_context import Id, Onward
from onward.model.documents import DocumentState, Status
from onward.ops.queries.document_details import history_of, next_step_of, original_of
from onward.ops.queries.documents import find_titles, source_key
from onward.ops.text.format import one_line, source_name
from onward.ops.text.history import entry_text
from onward.ops.text.next_step import next_step_command, next_step_sentence
from onward.recovery.history import DocumentHistory
from onward.recovery.next_step import rounds_of

router = APIRouter()

SHOWN_CHILDREN = 20
MAX_CHILDREN = 1_000
"""Of more children than this only their number is shown."""


@router.get("/documents/{collection}/{id:path}")
def show(request: Request, app: Onward, collection: str, id: Id) -> Response:
    """Show everything about a document."""
    part_of = _part(app, collection, id)
    return page(
        request,
        "document.html",
        described=document_content(app, collection, id),
        collection=collection,
        id=id,
        part=part_of,
        live="/live/document" + document_path(collection, id).removeprefix("/documents"),
        raw="/raw" + document_path(collection, id).removeprefix("/documents"),
    )


@router.get("/raw/{collection}/{id:path}")
def raw(app: Onward, collection: str, id: Id) -> Response:
    """Send the fetched bytes of a message or archive; a browser saves them and does not show them."""
    name = re.sub(r"[^A-Za-z0-9_-]", "", id)[:40] or "document"
    ending = "eml" if collection == "messages" else "bin"
    headers = {
        "content-disposition": f'attachment; filename="{name}.{ending}"',
        "content-security-policy": "default-src 'none'; sandbox",
    }
    pieces = original_of(app, collection, id)
    return StreamingResponse(pieces, media_type="application/octet-stream", headers=headers)


def part(web: FastAPI, which: str) -> str:
    """Render the live part of the page."""
    collection, _, id = which.partition("/")
    return _part(web.state.onward, collection, id)


def _part(app: App, collection: str, id: str) -> str:
    history = history_of(app, collection, id)
    state = history.state
    step = next_step_of(app, state)
    return fragment(
        "document_part.html",
        state=state,
        rounds=rounds_of(state),
        source=(source_key(state.source), source_name(state.source)) if state.source else None,
        next=next_step_sentence(step, for_page=True),
        command=next_step_command(step),
        problems=step.problems,
        entries=[entry_text(entry) for entry in history.entries],
        history=history,
        parent=_parent(app, history),
        children=_children(app, history),
        actions=_actions(app, state),
    )


# -- parents and children


class DocumentLink(NamedTuple):
    """A document that this one was made from, or that was made from it."""

    path: str
    title: str
    status: str


class ChildDocuments(NamedTuple):
    """All documents of one collection that were made from this one."""

    collection: str
    counts: dict[str, int]
    shown: list[DocumentLink]
    more: int


def _relatives(app: App, states: list[DocumentState]) -> list[DocumentLink]:
    titles = find_titles(app, states)
    return [
        DocumentLink(
            document_path(state.collection, state.id),
            one_line(titles.get((state.collection, state.id), ""), 80)
            or f"{state.collection}/{one_line(state.id, 40)}",
            str(state.status),
        )
        for state in states
    ]


def _parent(app: App, history: DocumentHistory) -> DocumentLink | None:
    if not history.parent:
        return None
    collection, _, id = history.parent.partition("/")
    return next(iter(_relatives(app, app.store.states_of([(collection, id)]))), None)


def _children(app: App, history: DocumentHistory) -> list[ChildDocuments]:
    kin = []
    for name, counts in sorted(history.children.items()):
        total, shown = sum(counts.values()), []
        if total <= MAX_CHILDREN:
            found = app.store.children(name, history.state.collection, [history.state.id])
            keys = [(name, one.id) for one in found[:SHOWN_CHILDREN]]
            shown = _relatives(app, app.store.states_of(keys))
        kin.append(ChildDocuments(name, dict(counts), shown, total - len(shown)))
    return kin


# -- actions


class ActionButton(NamedTuple):
    """A button that leads to a change."""

    path: str
    title: str
    look: str = ""


def _actions(app: App, state: DocumentState) -> list[ActionButton]:
    """Return the actions that are possible with its status; the best first."""
    given = urlencode({"collection": state.collection, "id": state.id})
    finished_by = any(subscription.finishes == state.collection for subscription in app.store.subscriptions())
    found = []
    if finished_by and state.status != Status.PROCESSED:
        look = "main" if state.status in (Status.FAILED, Status.FAILED_MAX_RETRIES) else ""
        found.append(ActionButton(f"/confirm/retry?{given}", "Retry now", look))
        found.append(ActionButton(f"/confirm/schedule?{given}", "Schedule"))
    if state.retry_at is not None:
        found.append(ActionButton(f"/confirm/unschedule?{given}", "Cancel the schedule"))
    if finished_by:
        found.append(ActionButton(f"/confirm/reset?{given}", "Reset and retry"))
    if state.status not in (Status.PROCESSED, Status.DISCARDED):
        found.append(ActionButton(f"/confirm/discard?{given}", "Discard", "danger"))
    return found
