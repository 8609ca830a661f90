"""Failed queues: the dead letters in them, each with its event and its errors."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from onward.app import App
from onward.console.action_forms import group_path
from onward.console.dead_letter_pages import (
    MOST_ROW,
    QueuePageFilter,
    count_of,
    dead_letter_filter,
    kinds,
    letter_path,
    page_of,
    queue_path,
)
from onward.console.page_templates import document_path, page
from onward.console.problems import Problem
from onward.console.request_context import Onward
from onward.model.ledger import DeadLetter
from onward.ops.bad_input import BadInput
from onward.ops.queries.dead_letters import (
    dead_letter_at,
    dead_letter_facts,
    failed_queue_facts,
)
from onward.ops.text.history import MAX_SHOWN_BYTES, error_text, last_error_text, raw_text, reason_text
from onward.recovery.requeue_dead_letters import refusal, service_names
from onward.retry.redact import redact

router = APIRouter()

NAMED = 50
"""At most this many documents of a dead letter are named."""
EVENT_SHOWN = 20_000
LISTED_KINDS = 50
ACTIONS = ("requeue", "archive-letters", "restore-letters", "purge-letters")


@router.get("/queues")
def show(request: Request, app: Onward) -> Response:
    """Show all failed queues and their counts."""
    found = [one | {"path": queue_path(one["queue"])} for one in failed_queue_facts(app, archived=False)]
    full = sorted((one for one in found if one["letters"] or one["archived"]), key=lambda one: -one["letters"])
    bare = [one for one in found if not (one["letters"] or one["archived"])]
    return page(request, "queues.html", full=full, bare=bare, letters=sum(one["letters"] for one in full))


@router.get("/queues/{queue:path}")
def show_queue(request: Request, app: Onward, queue: str) -> Response:
    """Show the dead letters of a queue, the oldest first."""
    given = request.query_params
    asked = dead_letter_filter(app, queue, given)
    after = given.get("after", "")
    behind = int(after) if after.isascii() and after.isdecimal() and len(after) < 19 else 0
    letters, more = page_of(app, asked, behind)
    found = kinds(app, asked.services, archived=asked.archived)
    here = sum(one.letters for one in found)
    there = sum(
        group.dead_letters
        for group in app.store.dead_letter_groups(archived=not asked.archived)
        if group.service in asked.services
    )
    return page(
        request,
        "queue.html",
        asked=asked,
        letters=[_brief(letter) for letter in letters],
        kinds=found[:LISTED_KINDS],
        error_types=sorted({one.error_type for one in found if one.error_type}),
        count=count_of(asked, found),
        dead=there if asked.archived else here,
        put_away=here if asked.archived else there,
        following=asked.path(letters[-1].row) if more else "",
        first=asked.path() if behind else "",
        here=queue_path(queue),
        there=queue_path(queue, archived="yes"),
        changes=_changes(asked),
    )


def _brief(letter: DeadLetter) -> dict[str, Any]:
    return {
        "row": letter.row,
        "path": letter_path(letter.row),
        "at": letter.timestamp,
        "documents": [_document(*document) for document in letter.documents[:1]],
        "more": len(letter.documents) - 1,
        "event": letter.original_event["event_type"],
        "tries": letter.attempt_count,
        "reason": letter.abandoned_reason,
        "error": last_error_text(letter),
    }


def _document(collection: str, id: str) -> dict[str, str]:
    return {"collection": collection, "id": id, "path": document_path(collection, id)}


def _changes(asked: QueuePageFilter) -> list[dict[str, str]]:
    """Return the buttons for all dead letters that match."""
    about = urlencode({"queue": asked.queue, **asked.filters})
    put_back, archive, restore, purge = ACTIONS
    if asked.archived:
        named = [(restore, "Restore…", "main", about), (purge, "Remove…", "danger", f"{about}&archived=yes")]
    else:
        named = [
            (put_back, "Put back…", "main", about),
            (archive, "Archive…", "", about),
            (purge, "Remove…", "danger", about),
        ]
    return [{"path": f"/confirm/{name}?{rest}", "button": text, "kind": kind} for name, text, kind, rest in named]


# -- the page of a dead letter


@router.get("/letters/{row}")
def show_letter(request: Request, app: Onward, row: str) -> Response:
    """Show a dead letter: the original event, its errors, and its bytes if they are no event."""
    letter, archived = _letter(app, row)
    refused = refusal(letter, service_names(app.store))
    return page(
        request,
        "letter.html",
        letter=letter,
        archived=archived,
        queue_path=queue_path(letter.failed_queue, archived="yes" if archived else None),
        group_path=group_path(letter.fingerprint) if app.store.failure_group(letter.fingerprint) else "",
        error=last_error_text(letter, 1_000),
        reason=reason_text(letter),
        documents=[_document(*document) for document in letter.documents[:NAMED]],
        more=max(0, len(letter.documents) - NAMED),
        event=_event(letter),
        errors=[_error(error) for error in reversed(letter.errors)],
        traceback=redact(str(letter.errors[-1].get("traceback") or "")).strip() if letter.errors else "",
        raw=_raw(letter),
        refusal=refused,
        changes=_letter_changes(letter.row, archived=archived, refused=bool(refused)),
    )


def _letter(app: App, row: str) -> tuple[DeadLetter, bool]:
    gone = Problem(
        404, "Not found", "There is no such dead letter: it was put back or removed. /queues lists what is there."
    )
    if not (row.isascii() and row.isdecimal() and int(row) < MOST_ROW):
        raise gone
    for archived in (False, True):
        try:
            return dead_letter_at(app, int(row), archived=archived), archived
        except BadInput:
            continue
    raise gone


def _event(letter: DeadLetter) -> str:
    text = json.dumps(dead_letter_facts(letter)["original_event"], ensure_ascii=False, indent=2, default=str)
    return text if len(text) <= EVENT_SHOWN else f"{text[:EVENT_SHOWN]}\n… (cut)"


def _error(error: dict[str, Any]) -> dict[str, Any]:
    where = [str(error[name]) for name in ("worker", "version") if error.get(name)]
    return {"at": error.get("at"), "text": error_text(error), "where": ", ".join(where)}


def _raw(letter: DeadLetter) -> dict[str, Any] | None:
    if letter.raw is None:
        return None
    return {"text": raw_text(letter.raw), "size": len(letter.raw), "cut": len(letter.raw) > MAX_SHOWN_BYTES}


def _letter_changes(row: int, *, archived: bool, refused: bool) -> list[dict[str, str]]:
    put_back, archive, restore, purge = ACTIONS
    named = [(restore, "Restore…", "main", ""), (purge, "Remove…", "danger", "&archived=yes")]
    if not archived:
        named = [(archive, "Archive…", "", ""), (purge, "Remove…", "danger", "")]
        if not refused:
            named.insert(0, (put_back, "Put back…", "main", ""))
    return [
        {"path": f"/confirm/{name}?row={row}{more}", "button": text, "kind": kind}
        for name, text, kind, more in named
    ]
