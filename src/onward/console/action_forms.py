"""Forms of the console: which action each stands for, and what the page asks and shows besides its plan.

`/confirm/NAME?…` shows the plan of an action, `/do/NAME` runs it; both get the same fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from onward.app import App
from onward.console.page_templates import batch_path, document_path, group_path, letter_path, queue_path
from onward.ops.actions.action import Action
from onward.ops.actions.dead_letters import (
    ArchiveDeadLetters,
    PurgeDeadLetters,
    RequeueDeadLetters,
    RestoreDeadLetters,
)
from onward.ops.actions.documents import CancelScheduledRetry, DiscardDocuments, RetryDocuments
from onward.ops.actions.failure_groups import (
    DiscardFailedBatches,
    DiscardFailureGroup,
    RetryFailedBatches,
    RetryFailureGroup,
)
from onward.ops.actions.services import CloseBreaker, OpenBreaker
from onward.ops.actions.sources import CancelSource, ForgetSource, IngestAgain, RetrySource
from onward.ops.bad_input import BadInput
from onward.ops.dates import read_span
from onward.ops.queries.dead_letters import DeadLetterSelection, dead_letter_at, failed_queues
from onward.ops.queries.documents import source_named
from onward.ops.text.format import one_line, utc_time
from onward.pipeline.documents import source_id

DEFAULT_DELAY = "1h"
MAX_AHEAD_SECONDS = 366 * 86_400.0  # a time further ahead is likely a mistake
WHEN = "a span such as 30m, 2h or 1d, or a time such as 2026-03-09T14:30, which is UTC unless it says otherwise"

Given = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Field:
    """An input of a form."""

    name: str
    label: str
    value: str = ""
    hint: str = ""
    kind: str = "text"  # the type of its `input`
    required: bool = False


@dataclass(frozen=True, slots=True)
class ActionForm:
    """An action as a form; `back` is the page to return to."""

    button: str
    action: Callable[[App, Given], Action]
    back: Callable[[App, Given], str]
    fields: Callable[[Given], tuple[Field, ...]] = lambda given: ()


# -- values of submitted forms; a value that makes no sense is refused with its name


def clean(text: str) -> str:
    """Return a text without NUL characters, which no name in a store has."""
    return text.replace("\0", "")


def text(given: Given, name: str) -> str | None:
    """Return a text, or None if it is empty."""
    return clean(given.get(name, "")).strip() or None


def needed(given: Given, name: str) -> str:
    """Return a text that must not be empty."""
    found = clean(given.get(name, ""))
    if not found.strip():
        raise BadInput(f"`{name}` is missing, and it says what the change is about")
    return found


def ticked(given: Given, name: str) -> bool:
    """Return whether a box was ticked."""
    return given.get(name, "").strip().lower() in ("yes", "true", "on", "1")


def _whole_number(given: Given, name: str, remedy: str) -> int | None:
    found = text(given, name)
    if found is not None and not (found.isascii() and found.isdecimal() and len(found) < 20):
        raise BadInput(f"`{name}` is {one_line(found, 40)!r}; {remedy}")
    return None if found is None else int(found)


def _pace(given: Given) -> tuple[int, float | None]:
    """Return how many go first, and how many go a second; None: as fast as possible."""
    canary = _whole_number(given, "canary", "give how many go first, such as 3, or nothing") or 0
    found = text(given, "rate")
    if found is None:
        return canary, None
    try:
        rate = float(found)
    except ValueError:
        rate = math.nan
    if not (math.isfinite(rate) and rate > 0):
        raise BadInput(f"`rate` is {one_line(found, 40)!r}; give how many a second, such as 10 or 0.5, or nothing")
    return canary, rate


def _pace_fields(given: Given) -> tuple[Field, ...]:
    if text(given, "row") is not None:
        return ()
    return (
        Field("canary", "Try this many first", given.get("canary", ""), "the rest only if they go well", "number"),
        Field("rate", "At most this many a second", given.get("rate", ""), "empty: as fast as possible"),
    )


def read_when(given: str, now: float) -> float:
    """Return the point in time of a span or a date."""
    shown = repr(one_line(given, 50))
    span = read_span(given.strip().lower())
    try:
        found = datetime.fromisoformat(given.strip().upper()) if span is None else datetime.now(UTC)
    except ValueError:
        raise BadInput(f"{shown} is no time: give {WHEN}") from None
    at = now + span if span is not None else (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    if at < now:
        raise BadInput(f"{shown} is past: give a time to come")
    if at > now + MAX_AHEAD_SECONDS:
        raise BadInput(f"{shown} is more than a year ahead: give an earlier time")
    return at


# -- documents and sources


def _keys(given: Given) -> tuple[tuple[str, str]]:
    return ((given.get("collection", ""), given.get("id", "")),)


def _schedule(app: App, given: Given) -> Action:
    now = app.store.now()
    at = read_when(given.get("at") or DEFAULT_DELAY, now)
    return RetryDocuments(keys=_keys(given), after=at - now, time_text=lambda at: utc_time(at, at))


def _document(app: App, given: Given) -> str:
    return document_path(*_keys(given)[0])


def _source_document(app: App, given: Given) -> str:
    return document_path("archives", needed(given, "id"))


def _source(app: App, given: Given) -> str:
    return source_named(app, given.get("source", ""))


# -- dead letters and failure groups


def _selection(given: Given) -> DeadLetterSelection:
    """Return the dead letters that are meant: fields `row`, or `queue` or `all`, with `group` and `error_type`."""
    row = _whole_number(given, "row", "give the number of a dead letter")
    if row is not None:
        return DeadLetterSelection(row=row)
    everything = ticked(given, "all")
    queue, group = None if everything else needed(given, "queue"), text(given, "group")
    return DeadLetterSelection(
        queue=queue, everything=everything, group=group, error_type=text(given, "error_type")
    )


def _group(app: App, given: Given) -> str:
    return group_path(needed(given, "fingerprint"))


def _queue(app: App, given: Given, *, archived: bool = False, gone: bool = False) -> str:
    """Return the page to look at after an action; `gone`: a dead letter's own page is not there any more."""
    row = text(given, "row")
    if row is not None and not gone:
        return letter_path(int(row))
    queue = dead_letter_at(app, int(row)).failed_queue if row is not None else text(given, "queue")
    # Only a queue that a service has subscribed to is still there when it is empty.
    kept = {one.failed_queue or f"{one.service}.failed" for one in app.store.subscriptions()}
    if queue is None or (queue not in kept and (gone or queue not in failed_queues(app))):
        return "/queues"
    filters = {} if row is not None else {name: text(given, name) for name in ("error_type", "group")}
    return queue_path(queue, **filters, archived="yes" if archived and row is None else None)


# -- failed batches


def _batches(app: App, given: Given) -> Action:
    everything = ticked(given, "all")
    return RetryFailedBatches(() if everything else (needed(given, "id"),), everything)


def _batch(app: App, given: Given) -> str:
    return "/batches" if ticked(given, "all") else batch_path(needed(given, "id"))


FORMS = {
    "retry": ActionForm("Retry it now", lambda app, given: RetryDocuments(keys=_keys(given)), _document),
    "reset": ActionForm(
        "Reset it and retry", lambda app, given: RetryDocuments(keys=_keys(given), reset=True), _document
    ),
    "schedule": ActionForm(
        "Schedule it",
        _schedule,
        _document,
        lambda given: (Field("at", "When", given.get("at") or DEFAULT_DELAY, WHEN, required=True),),
    ),
    "unschedule": ActionForm(
        "Cancel its schedule", lambda app, given: CancelScheduledRetry(keys=_keys(given)), _document
    ),
    "discard": ActionForm("Discard it", lambda app, given: DiscardDocuments(keys=_keys(given)), _document),
    "retry-submitted": ActionForm(
        "Retry it now",
        lambda app, given: RetrySource(needed(given, "id"), reset=ticked(given, "reset")),
        _source_document,
    ),
    "cancel-submitted": ActionForm(
        "Cancel it", lambda app, given: CancelSource(needed(given, "id")), _source_document
    ),
    "ingest-again": ActionForm(
        "Ingest it again",
        lambda app, given: IngestAgain(_source(app, given)),
        lambda app, given: f"/tasks/{source_id(_source(app, given))}",
    ),
    "forget": ActionForm("Forget it", lambda app, given: ForgetSource(_source(app, given)), lambda *_: "/tasks"),
    "requeue": ActionForm(
        "Put back",
        lambda app, given: RequeueDeadLetters(_selection(given), *_pace(given), quick_plan=True),
        partial(_queue, gone=True),
        _pace_fields,
    ),
    "archive-letters": ActionForm("Archive", lambda app, given: ArchiveDeadLetters(_selection(given)), _queue),
    "restore-letters": ActionForm(
        "Restore", lambda app, given: RestoreDeadLetters(_selection(given)), partial(_queue, archived=True)
    ),
    "purge-letters": ActionForm(
        "Remove",
        lambda app, given: PurgeDeadLetters(_selection(given), archived=ticked(given, "archived")),
        lambda app, given: _queue(app, given, archived=ticked(given, "archived"), gone=True),
    ),
    "retry-group": ActionForm(
        "Put it back",
        lambda app, given: RetryFailureGroup(needed(given, "fingerprint"), *_pace(given), quick_plan=True),
        _group,
        _pace_fields,
    ),
    "discard-group": ActionForm(
        "Give it up for good", lambda app, given: DiscardFailureGroup(needed(given, "fingerprint")), _group
    ),
    "retry-batch": ActionForm("Retry now", _batches, _batch),
    "discard-batch": ActionForm(  # the batch is gone with its last document
        "Give it up for good",
        lambda app, given: DiscardFailedBatches((needed(given, "id"),)),
        lambda *_: "/batches",
    ),
    "open-breaker": ActionForm(
        "Take it out of service",
        lambda app, given: OpenBreaker(needed(given, "name"), text(given, "reason")),
        lambda *_: "/workers",
        lambda given: (Field("reason", "Why", given.get("reason", ""), "for everybody who looks", required=True),),
    ),
    "close-breaker": ActionForm(
        "Bring it back", lambda app, given: CloseBreaker(needed(given, "name")), lambda *_: "/workers"
    ),
}
