"""Failed queues with their dead letters, and failed batches: documents set aside to be retried together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from onward.app import App
from onward.console.action_forms import FormValues, clean
from onward.console.charts import batch_retries
from onward.console.page_templates import page, page_path
from onward.console.pages.documents import page_number
from onward.console.pages.saved_filters import saved_filters
from onward.console.problems import Problem
from onward.console.request_context import Onward
from onward.model.ledger import DeadLetter, FailedBatch
from onward.ops.bad_input import BadInput, NotFound
from onward.ops.queries.dead_letters import dead_letter_at, dead_letter_facts, failed_queue_facts, failed_queues
from onward.ops.queries.failure_groups import files_of, find_batch, is_persistent, item_errors
from onward.ops.queries.titles import find_titles
from onward.ops.text.format import one_line, source_name
from onward.ops.text.history import MAX_SHOWN_BYTES, error_text, last_error_text, raw_text, reason_text
from onward.recovery.requeue_dead_letters import EventReader
from onward.retry.redact import redact

router = APIRouter(include_in_schema=False)

PAGE = 50
MOST_ROW = 2**63
NAMED = 50  # documents of a dead letter that are named
EVENT_SHOWN = 20_000
LISTED_KINDS = 50
ERRORS = 20


@dataclass(frozen=True, slots=True)
class QueuePageFilter:
    """The filters of a queue's page; an empty one matches all dead letters."""

    queue: str
    services: tuple[str, ...]
    error_type: str | None = None
    group: str | None = None
    archived: bool = False

    @property
    def filters(self) -> dict[str, str]:
        found = {"error_type": self.error_type, "group": self.group}
        return {name: value for name, value in found.items() if value}

    def path(self, after: int | None = None) -> str:
        more = {"archived": "yes" if self.archived else None, "after": str(after) if after else None}
        return page_path("queues", self.queue, **self.filters, **more)


def dead_letter_filter(app: App, queue: str, given: Mapping[str, str]) -> QueuePageFilter:
    """Return the filters of a request; refuse a queue that does not exist."""
    services = failed_queues(app).get(queue)
    if services is None:
        raise NotFound(f"there is no failed queue {one_line(queue, 100)!r}")
    form = FormValues(app, given)
    filters = (form.text("error_type"), form.text("group"), form.ticked("archived"))
    return QueuePageFilter(queue, tuple(services), *filters)


def page_of(app: App, asked: QueuePageFilter, after: int) -> tuple[list[DeadLetter], bool]:
    """Return the dead letters after a row, oldest first, and whether there are more."""
    found: list[DeadLetter] = []
    for service in asked.services:
        found += app.store.find_dead_letters(
            service=service,
            fingerprint=asked.group,
            error_type=asked.error_type,
            archived=asked.archived,
            after=after,
            limit=PAGE + 1,
        )
    found.sort(key=lambda one: one.row)
    return found[:PAGE], len(found) > PAGE


class DeadLetterKind(NamedTuple):
    """The dead letters of a queue with the same fingerprint."""

    fingerprint: str
    error_type: str
    letters: int


def _kinds(app: App, services: tuple[str, ...], *, archived: bool) -> list[DeadLetterKind]:
    """Return the kinds of dead letters of a queue, the most frequent first."""
    counts: Counter[str] = Counter()
    for one in app.store.dead_letter_groups(archived=archived):
        if one.service in services:
            counts[one.fingerprint] += one.dead_letters
    groups = [one for name in services for one in app.store.failure_groups(service=name)]
    types = {one.fingerprint: one.error_type for one in groups}
    found = [DeadLetterKind(fingerprint, types.get(fingerprint, ""), n) for fingerprint, n in counts.items()]
    return sorted(found, key=lambda one: (-one.letters, one.fingerprint))


@router.get("/queues")
def show(request: Request, app: Onward) -> Response:
    found = [one | {"path": page_path("queues", one["queue"])} for one in failed_queue_facts(app, archived=False)]
    full = sorted(
        (one for one in found if one["dead_letters"] or one["archived"]), key=lambda one: -one["dead_letters"]
    )
    bare = [one for one in found if not (one["dead_letters"] or one["archived"])]
    return page(request, "queues.html", full=full, bare=bare, letters=sum(one["dead_letters"] for one in full))


@router.get("/queues/{queue:path}")
def show_queue(request: Request, app: Onward, queue: str) -> Response:
    """Show the dead letters of a queue, the oldest first."""
    asked = dead_letter_filter(app, queue, request.query_params)
    after = request.query_params.get("after", "")
    behind = int(after) if after.isascii() and after.isdecimal() and len(after) < 19 else 0
    letters, more = page_of(app, asked, behind)
    found = _kinds(app, asked.services, archived=asked.archived)
    matching = [
        one.letters
        for one in found
        if asked.group in (None, one.fingerprint) and asked.error_type in (None, one.error_type)
    ]
    here = sum(one.letters for one in found)
    others = app.store.dead_letter_groups(archived=not asked.archived)
    there = sum(group.dead_letters for group in others if group.service in asked.services)
    return page(
        request,
        "queue.html",
        asked=asked,
        letters=[(letter, last_error_text(letter)) for letter in letters],
        titles=find_titles(app, [key for letter in letters for key in letter.documents[:1]]),
        kinds=found[:LISTED_KINDS],
        error_types=sorted({one.error_type for one in found if one.error_type}),
        count=sum(matching),
        dead=there if asked.archived else here,
        put_away=here if asked.archived else there,
        following=asked.path(letters[-1].row) if more else "",
        first=asked.path() if behind else "",
        here=page_path("queues", queue),
        there=page_path("queues", queue, archived="yes"),
        bar=_named_changes(archived=asked.archived),
        saved=saved_filters(app, "queues", asked.path()),
    )


def _named_changes(*, archived: bool, refused: bool = False) -> list[tuple[str, str, str]]:
    """Return the actions on dead letters: their names, buttons and looks."""
    named = [("archive-letters", "Archive…", "")]
    if archived:
        named = [("restore-letters", "Restore…", "main")]
    elif not refused:
        named.insert(0, ("requeue", "Put back…", "main"))
    return [*named, ("purge-letters", "Remove…", "danger")]


def _changes(row: int, *, archived: bool, refused: bool) -> list[dict[str, str]]:
    """Return the buttons for a dead letter."""
    buttons = []
    for name, button, kind in _named_changes(archived=archived, refused=refused):
        more = {"archived": "yes"} if archived and name == "purge-letters" else {}
        path = f"/confirm/{name}?{urlencode({'row': row, **more})}"
        buttons.append({"path": path, "button": button, "kind": kind})
    return buttons


@router.get("/letters/{row}")
def show_letter(request: Request, app: Onward, row: str) -> Response:
    """Show a dead letter: the original event, its errors, and its bytes if they are no event."""
    letter, archived = _letter(app, row)
    refused = EventReader(app.store, app.registry.events).refusal(letter)
    facts, sent = dead_letter_facts(letter), letter.original_event or {}
    event, properties = (
        json.dumps(facts[name], ensure_ascii=False, indent=2, default=str)
        for name in ("original_event", "properties")
    )
    return page(
        request,
        "letter.html",
        letter=letter,
        archived=archived,
        queue_path=page_path("queues", letter.failed_queue, archived="yes" if archived else None),
        group_path=page_path("failures", letter.fingerprint)
        if app.store.failure_group(letter.fingerprint)
        else "",
        error=last_error_text(letter, 1_000),
        reason=reason_text(letter),
        documents=letter.documents[:NAMED],
        titles=find_titles(app, letter.documents[:NAMED]),
        more=max(0, len(letter.documents) - NAMED),
        event_type=str(sent.get("event_type", "")),
        properties=properties if letter.properties else "",
        event=event if len(event) <= EVENT_SHOWN else f"{event[:EVENT_SHOWN]}\n… (cut)",
        errors=[(one, error_text(one)) for one in reversed(letter.errors)],
        traceback=redact(str(letter.errors[-1].get("traceback") or "")).strip() if letter.errors else "",
        raw=raw_text(letter.raw) if letter.raw is not None else None,
        raw_cut=letter.raw is not None and len(letter.raw) > MAX_SHOWN_BYTES,
        refusal=refused,
        changes=_changes(letter.row, archived=archived, refused=bool(refused)),
    )


def _letter(app: App, row: str) -> tuple[DeadLetter, bool]:
    if row.isascii() and row.isdecimal() and len(row) < 20 and int(row) < MOST_ROW:
        for archived in (False, True):
            try:
                return dead_letter_at(app, int(row), archived=archived), archived
            except BadInput:
                continue
    detail = "There is no such dead letter: it was put back or removed. /queues lists what is there."
    raise Problem(404, "Not found", detail)


# -- failed batches


@router.get("/batches")
def show_batches(request: Request, app: Onward) -> Response:
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
        bar=(("retry-batch", "Retry now…", "main"), ("discard-batch", "Give up…", "danger")),
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
        titles=find_titles(app, items),
        files=files_of(app, replace(batch, items=items)),
        errors=errors[::-1],
        number=number,
        more=number * PAGE < len(batch.items),
    )
