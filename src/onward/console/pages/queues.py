"""Failed queues: the dead letters in them, each with its event and its errors."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from onward.app import App
from onward.console import changes_queues
from onward.console.asking import Onward
from onward.console.changes_failures import group_path
from onward.console.letters import MOST_ROW, Wanted, count_of, kinds, letter_path, page_of, queue_path, wanted
from onward.console.problems import Problem
from onward.console.rendering import document_path, page
from onward.facts.finding import Unusable
from onward.facts.letters import RAW_SHOWN, all_queue_facts, error_line, letter_at, letter_facts, made_visible
from onward.facts.wording import counted
from onward.model.ledger import DeadLetter
from onward.recovery.requeueing import refusal
from onward.retry.redact import redact

router = APIRouter()

NAMED = 50
"""So many documents of one letter are named."""
EVENT_SHOWN = 20_000
LISTED_KINDS = 50
CHANGES = tuple(
    one.name
    for one in (
        changes_queues.PutBack,
        changes_queues.ArchiveLetters,
        changes_queues.RestoreLetters,
        changes_queues.PurgeLetters,
    )
)


@router.get("/queues")
def show(request: Request, app: Onward) -> Response:
    """All failed queues, and what is in them."""
    found = [one | {"path": queue_path(one["queue"])} for one in all_queue_facts(app, archived=False)]
    full = sorted((one for one in found if one["letters"] or one["archived"]), key=lambda one: -one["letters"])
    bare = [one for one in found if not (one["letters"] or one["archived"])]
    return page(request, "queues.html", full=full, bare=bare, letters=sum(one["letters"] for one in full))


@router.get("/queues/{queue:path}")
def show_queue(request: Request, app: Onward, queue: str) -> Response:
    """The letters of a queue, the oldest first."""
    given = request.query_params
    asked = wanted(app, queue, given)
    after = given.get("after", "")
    behind = int(after) if after.isascii() and after.isdecimal() and len(after) < 19 else 0
    letters, more = page_of(app, asked, behind)
    found = kinds(app, asked.services, archived=asked.archived)
    here = sum(one.letters for one in found)
    there = sum(
        one.letters
        for one in app.store.letter_groups(archived=not asked.archived)
        if one.service in asked.services
    )
    return page(
        request,
        "queue.html",
        asked=asked,
        letters=[_brief(one) for one in letters],
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
        "documents": [_document(*one) for one in letter.documents[:1]],
        "more": len(letter.documents) - 1,
        "event": letter.original_event["event_type"],
        "tries": letter.attempt_count,
        "reason": letter.abandoned_reason.replace("_", " "),
        "error": error_line(letter),
    }


def _document(collection: str, id: str) -> dict[str, str]:
    return {"collection": collection, "id": id, "path": document_path(collection, id)}


def _changes(asked: Wanted) -> list[dict[str, str]]:
    """What can be done to all letters that match."""
    about = urlencode({"queue": asked.queue, **asked.filters})
    put_back, archive, restore, purge = CHANGES
    if asked.archived:
        named = [(restore, "Restore…", "main", about), (purge, "Remove…", "danger", f"{about}&archived=yes")]
    else:
        named = [
            (put_back, "Put back…", "main", about),
            (archive, "Archive…", "", about),
            (purge, "Remove…", "danger", about),
        ]
    return [{"path": f"/confirm/{name}?{rest}", "button": text, "kind": kind} for name, text, kind, rest in named]


# -- one letter


@router.get("/letters/{row}")
def show_letter(request: Request, app: Onward, row: str) -> Response:
    """A whole letter: the original event, its errors, and its bytes if they are no event."""
    letter, archived = _letter(app, row)
    return page(
        request,
        "letter.html",
        letter=letter,
        archived=archived,
        queue_path=queue_path(letter.failed_queue, archived="yes" if archived else None),
        group_path=group_path(letter.fingerprint) if app.store.failure_group(letter.fingerprint) else "",
        error=error_line(letter, 1_000),
        tries=counted(letter.attempt_count, "try"),
        reason=letter.abandoned_reason.replace("_", " "),
        documents=[_document(*one) for one in letter.documents[:NAMED]],
        more=max(0, len(letter.documents) - NAMED),
        event=_event(letter),
        errors=[_error(one) for one in reversed(letter.errors)],
        traceback=redact(str(letter.errors[-1].get("traceback") or "")).strip() if letter.errors else "",
        raw=_raw(letter),
        refusal=refusal(letter),
        changes=_letter_changes(letter.row, archived=archived, refused=bool(refusal(letter))),
    )


def _letter(app: App, row: str) -> tuple[DeadLetter, bool]:
    gone = Problem(
        404, "Not found", "There is no such letter: it was put back or removed. /queues lists what is there."
    )
    if not (row.isascii() and row.isdecimal() and int(row) < MOST_ROW):
        raise gone
    for archived in (False, True):
        try:
            return letter_at(app, int(row), archived=archived), archived
        except Unusable:
            continue
    raise gone


def _event(letter: DeadLetter) -> str:
    text = json.dumps(letter_facts(letter)["original_event"], ensure_ascii=False, indent=2, default=str)
    return text if len(text) <= EVENT_SHOWN else f"{text[:EVENT_SHOWN]}\n… (cut)"


def _error(error: dict[str, Any]) -> dict[str, Any]:
    where = [str(error[name]) for name in ("worker", "version") if error.get(name)]
    text = f"{error.get('error_type', '')}: {error.get('message', '')}".strip(": ")
    return {"at": error.get("at"), "text": redact(text) or "no error is known", "where": ", ".join(where)}


def _raw(letter: DeadLetter) -> dict[str, Any] | None:
    if letter.raw is None:
        return None
    text = redact(made_visible(letter.raw[:RAW_SHOWN]).decode())
    return {"text": text, "size": len(letter.raw), "cut": len(letter.raw) > RAW_SHOWN}


def _letter_changes(row: int, *, archived: bool, refused: bool) -> list[dict[str, str]]:
    put_back, archive, restore, purge = CHANGES
    named = [(restore, "Restore…", "main", ""), (purge, "Remove…", "danger", "&archived=yes")]
    if not archived:
        named = [(archive, "Archive…", "", ""), (purge, "Remove…", "danger", "")]
        if not refused:
            named.insert(0, (put_back, "Put back…", "main", ""))
    return [
        {"path": f"/confirm/{name}?row={row}{more}", "button": text, "kind": kind}
        for name, text, kind, more in named
    ]
