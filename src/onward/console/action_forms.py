"""Forms of the console: which action each stands for, and what the page asks and shows besides its plan.

`/confirm/NAME?…` shows the plan of an action, `/do/NAME` runs it; both get the same fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote

from onward.app import App
from onward.console.page_templates import document_path, page_path, with_query
from onward.console.time_zone import ViewerZone, read_zone, viewer_zone
from onward.model.group_life import GroupState
from onward.model.group_rules import SplitBy
from onward.ops.actions.action import Action
from onward.ops.actions.dead_letters import (
    ArchiveDeadLetters,
    PurgeDeadLetters,
    RequeueDeadLetters,
    RestoreDeadLetters,
)
from onward.ops.actions.document_retries import CancelScheduledRetry, RetryDocuments
from onward.ops.actions.documents import DiscardDocuments
from onward.ops.actions.failure_groups import (
    DiscardFailedBatches,
    DiscardFailureGroup,
    RetryFailedBatches,
    RetryFailureGroup,
)
from onward.ops.actions.group_canary import RetryGroupInSteps
from onward.ops.actions.group_life import (
    AssignFailureGroup,
    CloseFailureGroup,
    NoteFailureGroup,
    ReopenFailureGroup,
)
from onward.ops.actions.group_rules import MergeFailureGroups, SplitFailureGroup, UndoGroupRule
from onward.ops.actions.group_selections import DiscardFailureGroups, GroupSelection, RetryFailureGroups
from onward.ops.actions.services import CloseBreaker, OpenBreaker
from onward.ops.actions.sources import CancelSource, ForgetSource, IngestAgain, RetrySource
from onward.ops.actions.watching import ChangeWatches, WatchSource
from onward.ops.bad_input import BadInput
from onward.ops.queries.dead_letters import DeadLetterSelection, dead_letter_at, failed_queues
from onward.ops.queries.documents import DocumentFilter, source_named
from onward.ops.queries.group_life import find_rule
from onward.ops.submissions import remote_source
from onward.ops.text.format import one_line
from onward.pipeline.dates import ClockChange, read_span, read_time
from onward.pipeline.documents import source_id

DEFAULT_DELAY = "1h"
MAX_AHEAD_SECONDS = 366 * 86_400.0  # a time further ahead is likely a mistake
WHEN = "a span such as 30m, 2h or 1d, or a time such as 2026-03-09T14:30"


@dataclass(frozen=True, slots=True)
class FormValues:
    """The values of a submitted form; one that makes no sense is refused with its name."""

    app: App
    values: Mapping[str, str]

    def get(self, name: str) -> str:
        """Return a value without NUL characters, which no name in a store has."""
        return clean(self.values.get(name, ""))

    def text(self, name: str) -> str | None:
        """Return a text, or None if it is empty."""
        return self.get(name).strip() or None

    def needed(self, name: str) -> str:
        if self.text(name) is None:
            raise BadInput(f"`{name}` is missing, and it says what the change is about")
        return self.get(name)

    def ticked(self, name: str) -> bool:
        return self.get(name).strip().lower() in ("yes", "true", "on", "1")

    def whole_number(self, name: str, remedy: str) -> int | None:
        found = self.text(name)
        if found is not None and not (found.isascii() and found.isdecimal() and len(found) < 20):
            raise BadInput(f"`{name}` is {one_line(found, 40)!r}; {remedy}")
        return None if found is None else int(found)

    @property
    def zone(self) -> ViewerZone:
        """Return the zone of its times: that of the page with the form, also if the browser has moved since."""
        return read_zone(self.values.get("zone", "")) or viewer_zone()

    @property
    def selected(self) -> list[str]:
        """Return the entries of a list that were ticked; at least one."""
        if not (found := self.get("selected").split()):
            raise BadInput("nothing is selected: tick some entries of the list, or all that match")
        return found

    @property
    def documents(self) -> dict[str, Any]:
        """Return which documents an action is about: the one of a page, those ticked, or all that match."""
        if "id" in self.values:
            return {"keys": ((self.values.get("collection", ""), self.values["id"]),)}
        if self.ticked("all"):
            source = self.source if self.text("source") else None
            status, collection, title = (self.text(name) for name in ("status", "collection", "q"))
            filters = DocumentFilter(status, collection, source, title=title)
            return {"filters": filters, "everything": True}
        pairs = (one.partition("/") for one in self.selected)
        return {"keys": tuple((unquote(collection), unquote(id)) for collection, _, id in pairs)}

    @property
    def source(self) -> str:
        return source_named(self.app, self.values.get("source", ""))

    @property
    def letters(self) -> DeadLetterSelection:
        """Return the dead letters that are meant: `row`, those ticked, or all of a queue, or of all queues.

        `group` and `error_type` narrow the dead letters of queues down.
        """
        row = self.whole_number("row", "give the number of a dead letter")
        if row is not None:
            return DeadLetterSelection(row=row)
        queue, everything = self.text("queue"), self.ticked("all")
        if self.get("selecting") and not everything:
            return DeadLetterSelection(rows=tuple(row_number(one) for one in self.selected))
        everything = everything and queue is None
        group, error_type = self.text("group"), self.text("error_type")
        queue = None if everything else self.needed("queue")
        return DeadLetterSelection(queue=queue, everything=everything, group=group, error_type=error_type)

    @property
    def groups(self) -> GroupSelection:
        """Return the failure groups that were ticked, or all that match."""
        if self.ticked("all"):
            state = self.get("state")
            return GroupSelection(
                everything=True,
                service=self.text("service"),
                state=GroupState(state) if state in list(GroupState) else None,
                owner=self.text("owner"),
                past=state == "all",
            )
        return GroupSelection(tuple(unquote(one) for one in self.selected))

    @property
    def batches(self) -> tuple[tuple[str, ...], bool]:
        """Return the failed batches that are meant: the one of a page, those ticked, or all."""
        if self.ticked("all"):
            return (), True
        return (self.get("id"),) if self.text("id") else tuple(unquote(one) for one in self.selected), False

    @property
    def pace(self) -> tuple[int, float | None]:
        """Return how many go first, and how many go a second; None: as fast as possible."""
        canary = self.whole_number("canary", "give how many go first, such as 3, or nothing") or 0
        found = self.text("rate")
        if found is None:
            return canary, None
        try:
            rate = float(found)
        except ValueError:
            rate = math.nan
        if not (math.isfinite(rate) and rate > 0):
            remedy = "give how many a second, such as 10 or 0.5, or nothing"
            raise BadInput(f"`rate` is {one_line(found, 40)!r}; {remedy}")
        return canary, rate


def row_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise BadInput(f"{one_line(text, 40)!r} is no dead letter: give the number of one")
    return int(text)


def clean(text: str) -> str:
    """Return a text without NUL characters."""
    return text.replace("\0", "")


def read_when(given: str, now: float, zone: ViewerZone) -> float:
    """Return the point in time of a span, or of a time in the zone."""
    shown = repr(one_line(given, 50))
    text = given.strip().lower()
    span = read_span(text)
    try:
        at = now + span if span is not None else read_time(text, zone.info)
    except ClockChange as error:
        raise BadInput(str(error)) from None
    except (ValueError, OverflowError, OSError):
        remedy = f"give {WHEN}, in {zone.name} unless it says otherwise"
        raise BadInput(f"{shown} is no time: {remedy}") from None
    if at < now:
        raise BadInput(f"{shown} is past: give a time to come")
    if at > now + MAX_AHEAD_SECONDS:
        raise BadInput(f"{shown} is more than a year ahead: give an earlier time")
    return at


class Field(NamedTuple):
    name: str
    label: str
    value: str
    hint: str
    kind: str = "text"  # the type of its `input`
    required: bool = False


class ActionForm(NamedTuple):
    """An action as a form; `back` returns the path of the page to return to."""

    button: str
    action: Callable[[FormValues], Action]
    back: Callable[[FormValues], str]
    fields: Callable[[FormValues], tuple[Field, ...]] = lambda form: ()


def _schedule(form: FormValues) -> Action:
    now = form.app.store.now()
    at = read_when(form.values.get("at") or DEFAULT_DELAY, now, form.zone)
    return RetryDocuments(**form.documents, after=at - now, zone=form.zone.name)


def _schedule_fields(form: FormValues) -> tuple[Field, ...]:
    hint = f"{WHEN}; in {form.zone.text} unless it says otherwise"
    return (
        Field("at", "When", form.values.get("at") or DEFAULT_DELAY, hint, required=True),
        Field("zone", "", form.zone.name, "", "hidden"),
    )


def _reason_fields(form: FormValues) -> tuple[Field, ...]:
    return (Field("reason", "Why", form.values.get("reason", ""), "for everybody who looks", required=True),)


def _pace_fields(form: FormValues) -> tuple[Field, ...]:
    if form.text("row") is not None:
        return ()
    canary, rate = (form.values.get(name, "") for name in ("canary", "rate"))
    return (
        Field("canary", "Try this many first", canary, "the rest only if they go well", "number"),
        Field("rate", "At most this many a second", rate, "empty: as fast as possible"),
    )


def _retry_group(form: FormValues) -> Action:
    group, (canary, rate) = form.needed("fingerprint"), form.pace
    if form.ticked("growing"):  # whatever number was suggested
        return RetryGroupInSteps(group, rate=rate, quick_plan=True)
    return RetryFailureGroup(group, canary, rate, quick_plan=True)


def _group_pace_fields(form: FormValues) -> tuple[Field, ...]:
    hint = "1, then 5, then 50, then the rest, each if those before are processed; not the number below"
    return (
        Field("growing", "In growing steps:", "yes" if form.ticked("growing") else "", hint, "checkbox"),
        *_pace_fields(form),
    )


def _split_group(form: FormValues) -> Action:
    by = form.needed("by")
    if by not in list(SplitBy):
        raise BadInput(f"`by` is {one_line(by, 40)!r}; give one of {', '.join(SplitBy)}")
    return SplitFailureGroup(form.needed("fingerprint"), SplitBy(by), form.needed("value"))


def _undo_rule(form: FormValues) -> Action:
    id = form.whole_number("rule", "give the number of a rule")
    if id is None:
        raise BadInput("`rule` is missing; give the number of a rule")
    return UndoGroupRule(id)


# -- the pages to return to


def _document(form: FormValues) -> str:
    """Return the page of a document; for several, the list that they were selected from."""
    if "id" in form.values:
        return document_path(*form.documents["keys"][0])
    names = ("q", "collection", "status", "source", "order")
    return with_query("/documents", **{name: form.text(name) for name in names})


def _source_document(form: FormValues) -> str:
    return document_path("archives", form.needed("id"))


def _group(form: FormValues) -> str:
    return page_path("failures", form.needed("fingerprint"))


def _group_of_rule(form: FormValues) -> str:
    """Return the page of the group that is still there when the rule is gone."""
    rule = find_rule(form.app, form.whole_number("rule", "give the number of a rule") or 0)
    return page_path("failures", rule.target if rule.by is None else rule.group)


def _groups(form: FormValues) -> str:
    return with_query("/failures", **{name: form.text(name) for name in ("service", "state", "owner")})


def _batch(form: FormValues) -> str:
    return page_path("batches", form.needed("id")) if form.text("id") else "/batches"


def _queue(form: FormValues, *, archived: bool = False, gone: bool = False) -> str:
    """Return the page of a queue or dead letter; `gone`: the dead letter's own page is not there any more."""
    row = form.text("row")
    if row is not None and not gone:
        return page_path("letters", int(row))
    queue = dead_letter_at(form.app, int(row)).failed_queue if row is not None else form.text("queue")
    # Only a queue that a service has subscribed to is still there when it is empty.
    kept = {one.failed_queue or f"{one.service}.failed" for one in form.app.store.subscriptions()}
    if queue is None or (queue not in kept and (gone or queue not in failed_queues(form.app))):
        return "/queues"
    if row is not None:
        return page_path("queues", queue)
    filters = {name: form.text(name) for name in ("error_type", "group")}
    return page_path("queues", queue, **filters, archived="yes" if archived else None)


def _watched(form: FormValues) -> Action:
    """Return the action for a source that is to be watched, with the values of the form."""
    from onward.pipeline.source_settings import WrongOption, read_options, split_options

    every = read_span(form.needed("every").strip().lower())
    if every is None:
        raise BadInput(f"every is {one_line(form.get('every'), 40)!r}; give a span such as 15m, 2h or 1d")
    try:
        options = read_options(split_options(form.text("options") or ""))
    except WrongOption as error:
        raise BadInput(str(error)) from error
    keep = "keep" if form.ticked("keep") else "forget"
    return WatchSource(remote_source(form.app, form.needed("location")), every, options, keep)


FORMS = {
    "retry": ActionForm("Retry now", lambda form: RetryDocuments(**form.documents), _document),
    "reset": ActionForm("Reset and retry", lambda form: RetryDocuments(**form.documents, reset=True), _document),
    "schedule": ActionForm("Schedule", _schedule, _document, _schedule_fields),
    "unschedule": ActionForm(
        "Cancel the schedule", lambda form: CancelScheduledRetry(**form.documents), _document
    ),
    "discard": ActionForm("Discard", lambda form: DiscardDocuments(**form.documents), _document),
    "retry-submitted": ActionForm(
        "Retry it now", lambda form: RetrySource(form.needed("id"), reset=form.ticked("reset")), _source_document
    ),
    "cancel-submitted": ActionForm("Cancel it", lambda form: CancelSource(form.needed("id")), _source_document),
    "ingest-again": ActionForm(
        "Ingest it again", lambda form: IngestAgain(form.source), lambda form: f"/tasks/{source_id(form.source)}"
    ),
    "watch": ActionForm("Watch it", _watched, lambda form: "/sources"),
    "pause-source": ActionForm(
        "Pause it", lambda form: ChangeWatches("pause", (form.source,)), lambda form: "/sources"
    ),
    "resume-source": ActionForm(
        "Resume it", lambda form: ChangeWatches("resume", (form.source,)), lambda form: "/sources"
    ),
    "remove-source": ActionForm(
        "Watch it no longer", lambda form: ChangeWatches("remove", (form.source,)), lambda form: "/sources"
    ),
    "forget": ActionForm("Forget it", lambda form: ForgetSource(form.source), lambda form: "/tasks"),
    "requeue": ActionForm(
        "Put back",
        lambda form: RequeueDeadLetters(form.letters, *form.pace, quick_plan=True),
        partial(_queue, gone=True),
        _pace_fields,
    ),
    "archive-letters": ActionForm("Archive", lambda form: ArchiveDeadLetters(form.letters), _queue),
    "restore-letters": ActionForm(
        "Restore", lambda form: RestoreDeadLetters(form.letters), partial(_queue, archived=True)
    ),
    "purge-letters": ActionForm(
        "Remove",
        lambda form: PurgeDeadLetters(form.letters, archived=form.ticked("archived")),
        lambda form: _queue(form, archived=form.ticked("archived"), gone=True),
    ),
    "retry-group": ActionForm(
        "Put it back",
        _retry_group,
        _group,
        _group_pace_fields,
    ),
    "discard-group": ActionForm(
        "Give it up for good", lambda form: DiscardFailureGroup(form.needed("fingerprint")), _group
    ),
    "close-group": ActionForm(
        "Close it", lambda form: CloseFailureGroup(form.needed("fingerprint"), form.text("version")), _group
    ),
    "reopen-group": ActionForm("Reopen it", lambda form: ReopenFailureGroup(form.needed("fingerprint")), _group),
    "note-group": ActionForm(
        "Add the note", lambda form: NoteFailureGroup(form.needed("fingerprint"), form.get("text")), _group
    ),
    "assign-group": ActionForm(
        "Assign it", lambda form: AssignFailureGroup(form.needed("fingerprint"), form.text("owner")), _group
    ),
    "merge-group": ActionForm(
        "Merge them",
        lambda form: MergeFailureGroups(form.needed("fingerprint"), (form.needed("other"),)),
        _group,
    ),
    "split-group": ActionForm("Split it", _split_group, _group),
    "undo-rule": ActionForm("Undo it", _undo_rule, _group_of_rule),
    "retry-groups": ActionForm(
        "Put them back",
        lambda form: RetryFailureGroups(form.groups, *form.pace),
        _groups,
        _pace_fields,
    ),
    "discard-groups": ActionForm("Give them up for good", lambda form: DiscardFailureGroups(form.groups), _groups),
    "retry-batch": ActionForm("Retry now", lambda form: RetryFailedBatches(*form.batches), _batch),
    "discard-batch": ActionForm(  # the batch is gone with its last document
        "Give up for good", lambda form: DiscardFailedBatches(*form.batches), lambda form: "/batches"
    ),
    "open-breaker": ActionForm(
        "Take it out of service",
        lambda form: OpenBreaker(form.needed("name"), form.text("reason")),
        lambda form: "/workers",
        _reason_fields,
    ),
    "close-breaker": ActionForm(
        "Bring it back", lambda form: CloseBreaker(form.needed("name")), lambda form: "/workers"
    ),
}
