"""Forms of the console: which action each stands for, and what the page asks and shows besides its plan.

`/confirm/NAME?…` shows the plan of an action, `/do/NAME` runs it; both get the same fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote

from onward.app import App
from onward.console import form_fields
from onward.console.dead_letter_pages import letter_path, queue_path
from onward.console.form_fields import Given, needed, text, ticked
from onward.console.page_templates import document_path
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
from onward.ops.queries.dead_letters import DeadLetterSelection, dead_letter_at, failed_queues
from onward.ops.queries.documents import source_key, source_named
from onward.ops.text.format import utc_time

WORKERS_PATH = "/workers"
DEFAULT_DELAY = "1h"


@dataclass(frozen=True, slots=True)
class Field:
    """An input of a form."""

    name: str
    label: str
    kind: str = "text"
    """The type of its `input`; `checkbox`, too."""
    value: str = ""
    hint: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class ActionForm:
    """An action as a form."""

    button: str
    action: Callable[[App, Given], Action]
    back: Callable[[App, Given], str]
    """The page to return to."""
    fields: Callable[[Given], tuple[Field, ...]] = lambda given: ()


def group_path(fingerprint: str) -> str:
    """Return the path of a failure group's page."""
    return f"/failures/{quote(fingerprint, safe='')}"


def batch_path(id: str) -> str:
    """Return the path of a failed batch's page."""
    return f"/batches/{quote(id, safe='')}"


# -- documents


def _key(given: Given) -> tuple[str, str]:
    return given.get("collection", ""), given.get("id", "")


def _retry(app: App, given: Given, *, reset: bool = False) -> Action:
    return RetryDocuments(keys=(_key(given),), reset=reset)


def _schedule(app: App, given: Given) -> Action:
    now = app.store.now()
    at = form_fields.read_when(given.get("at") or DEFAULT_DELAY, now)
    return RetryDocuments(keys=(_key(given),), after=at - now, time_text=lambda at: utc_time(at, at))


def _when(given: Given) -> tuple[Field, ...]:
    value = given.get("at") or DEFAULT_DELAY
    return (Field("at", "When", value=value, hint=form_fields.WHEN, required=True),)


def _document(app: App, given: Given) -> str:
    return document_path(*_key(given))


def _source_document(app: App, given: Given) -> str:
    return document_path("archives", needed(given, "id"))


# -- dead letters and failure groups


def _selection(given: Given) -> DeadLetterSelection:
    """Return the dead letters that are meant: fields `row`, or `queue` or `all`, with `group` and `error_type`."""
    row = form_fields.whole_number(given, "row", "give the number of a dead letter")
    if row is not None:
        return DeadLetterSelection(row=row)
    everything = ticked(given, "all")
    return DeadLetterSelection(
        queue=None if everything else needed(given, "queue"),
        everything=everything,
        group=text(given, "group"),
        error_type=text(given, "error_type"),
    )


def _canary(given: Given) -> int:
    return form_fields.whole_number(given, "canary", "give how many go first, such as 3, or nothing") or 0


def _requeue(app: App, given: Given) -> Action:
    selection, canary, rate = _selection(given), _canary(given), form_fields.rate(given)
    return RequeueDeadLetters(selection, canary, rate, quick_plan=True)


def _retry_group(app: App, given: Given) -> Action:
    fingerprint, canary, rate = needed(given, "fingerprint"), _canary(given), form_fields.rate(given)
    return RetryFailureGroup(fingerprint, canary, rate, quick_plan=True)


def _pace_fields(given: Given) -> tuple[Field, ...]:
    if text(given, "row") is not None:
        return ()
    return (
        Field("canary", "Try this many first", "number", given.get("canary", ""), "the rest only if they go well"),
        Field("rate", "At most this many a second", "text", given.get("rate", ""), "empty: as fast as possible"),
    )


def _group(app: App, given: Given) -> str:
    return group_path(needed(given, "fingerprint"))


def _queue(app: App, given: Given, *, archived: bool = False, gone: bool = False) -> str:
    """Return the page to look at after an action; `gone`: a dead letter's own page is not there any more."""
    row = text(given, "row")
    if row is not None and not gone:
        return letter_path(int(row))
    queue = dead_letter_at(app, int(row)).failed_queue if row is not None else text(given, "queue")
    if queue is None:
        return "/queues"
    # Only a queue that a service has subscribed to is still there when it is empty.
    kept = {
        subscription.failed_queue or f"{subscription.service}.failed" for subscription in app.store.subscriptions()
    }
    if queue not in kept and (gone or queue not in failed_queues(app)):
        return "/queues"
    filters = {} if row is not None else {name: text(given, name) for name in ("error_type", "group")}
    return queue_path(queue, **filters, archived="yes" if archived and row is None else None)


# -- failed batches and sources


def _batches(app: App, given: Given) -> Action:
    everything = ticked(given, "all")
    return RetryFailedBatches(() if everything else (needed(given, "id"),), everything)


def _batch(app: App, given: Given) -> str:
    return "/batches" if ticked(given, "all") else batch_path(needed(given, "id"))


def _source(app: App, given: Given) -> str:
    return source_named(app, given.get("source", ""))


def _always(path: str) -> Callable[[App, Given], str]:
    return lambda app, given: path


FORMS = {
    "retry": ActionForm("Retry it now", _retry, _document),
    "reset": ActionForm("Reset it and retry", partial(_retry, reset=True), _document),
    "schedule": ActionForm("Schedule it", _schedule, _document, _when),
    "unschedule": ActionForm(
        "Cancel its schedule", lambda app, given: CancelScheduledRetry(keys=(_key(given),)), _document
    ),
    "discard": ActionForm("Discard it", lambda app, given: DiscardDocuments(keys=(_key(given),)), _document),
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
        lambda app, given: f"/tasks/{source_key(_source(app, given))}",
    ),
    "forget": ActionForm("Forget it", lambda app, given: ForgetSource(_source(app, given)), _always("/tasks")),
    "requeue": ActionForm("Put back", _requeue, partial(_queue, gone=True), _pace_fields),
    "archive-letters": ActionForm("Archive", lambda app, given: ArchiveDeadLetters(_selection(given)), _queue),
    "restore-letters": ActionForm(
        "Restore",
        lambda app, given: RestoreDeadLetters(_selection(given)),
        partial(_queue, archived=True),
    ),
    "purge-letters": ActionForm(
        "Remove",
        lambda app, given: PurgeDeadLetters(_selection(given), archived=ticked(given, "archived")),
        lambda app, given: _queue(app, given, archived=ticked(given, "archived"), gone=True),
    ),
    "retry-group": ActionForm("Put it back", _retry_group, _group, _pace_fields),
    "discard-group": ActionForm(
        "Give it up for good", lambda app, given: DiscardFailureGroup(needed(given, "fingerprint")), _group
    ),
    "retry-batch": ActionForm("Retry now", _batches, _batch),
    "discard-batch": ActionForm(
        "Give it up for good",
        lambda app, given: DiscardFailedBatches((needed(given, "id"),)),
        _always("/batches"),  # it is gone with its last document
    ),
    "open-breaker": ActionForm(
        "Take it out of service",
        lambda app, given: OpenBreaker(needed(given, "name"), text(given, "reason")),
        _always(WORKERS_PATH),
        lambda given: (
            Field("reason", "Why", "text", given.get("reason", ""), "for everybody who looks", required=True),
        ),
    ),
    "close-breaker": ActionForm(
        "Bring it back", lambda app, given: CloseBreaker(needed(given, "name")), _always(WORKERS_PATH)
    ),
}
