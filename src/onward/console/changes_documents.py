"""What can be done about one document: try it again, at a time, anew, or give it up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import ClassVar

from onward.app import App
from onward.console.acting import Field, Plan, change
from onward.console.operations import Operation
from onward.console.rendering import document_path
from onward.facts.actions import log_action
from onward.facts.finding import NotFound, Unusable, worker_command
from onward.facts.retrying import Key, schedule, touched, unschedule
from onward.facts.wording import iso, one_line
from onward.model.documents import DocumentState, Status
from onward.model.recovery import Scheduled

LATEST = 366 * 86_400.0
"""What is set further ahead than this is likely misspelt."""
_UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_WHEN = "a span such as 30m, 2h or 1d, or a time such as 2026-03-09T14:30, which is UTC unless it says otherwise"
_SAID = {
    Scheduled.SCHEDULED: "It will be tried again {when}.",
    Scheduled.HURRIED: "Its event waits already, and will fall due {when}.",
    Scheduled.UNDER_WAY: "It is left alone: a worker has it just now. To begin anew all the same, reset it.",
    Scheduled.PROCESSED: "It is left alone: it is processed already. To begin anew all the same, reset it.",
    Scheduled.MISSING: "It is gone.",
    Scheduled.NOBODYS: "It is left alone: no service finishes such documents.",
    Scheduled.CANCELLED: "The time that was set for it is taken back; if an event of it waits, that is due now.",
    Scheduled.NOT_SCHEDULED: "It is left alone: no time is set for it.",
}


def _document(app: App, given: Mapping[str, str]) -> DocumentState:
    collection, id = given.get("collection", ""), given.get("id", "")
    for state in app.store.states_of([(collection, id)]):
        return state
    raise NotFound(f"there is no document {one_line(f'{collection}/{id}', 200)!r}")


def _called(state: DocumentState) -> str:
    return one_line(f"{state.collection}/{state.id}", 80)


def _key(state: DocumentState) -> Key:
    return state.collection, state.id


def read_when(text: str, now: float) -> float:
    """The point in time that somebody means by a span or a date."""
    given = text.strip().lower()
    if match := re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?) *([smhdw])", given, re.ASCII):
        at = now + float(match[1]) * _UNITS[match[2]]
    else:
        try:
            found = datetime.fromisoformat(given.upper())
        except ValueError:
            raise Unusable(f"{one_line(text, 50)!r} is no time: give {_WHEN}") from None
        at = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    if at < now:
        raise Unusable(f"{one_line(text, 50)!r} is past: give a time to come")
    if at > now + LATEST:
        raise Unusable(f"{one_line(text, 50)!r} is more than a year ahead: give an earlier time")
    return at


def _when(at: float, now: float) -> str:
    if at <= now:
        return "now"
    return f"at {datetime.fromtimestamp(at, UTC).strftime('%Y-%m-%d %H:%M')} UTC"


def _by_whom(app: App) -> str:
    if app.store.workers():
        return "A worker takes it when its time has come."
    return f"No worker is alive to do it. Start one: {worker_command(app.store)}"


class _Trying:
    """What retry, reset and schedule have in common."""

    name: ClassVar[str]
    title: ClassVar[str]
    button: ClassVar[str]
    reset: ClassVar[bool] = False

    def _at(self, app: App, given: Mapping[str, str]) -> float:
        return app.store.now()

    def _fields(self, given: Mapping[str, str]) -> tuple[Field, ...]:
        return ()

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        state, at = _document(app, given), self._at(app, given)
        now = app.store.now()
        outcome = schedule(app, [_key(state)], at, reset=self.reset, dry_run=True)
        (kind,) = outcome.values()
        said = [_SAID[kind].format(when=_when(at, now))]
        if self.reset:
            said.append("Its rounds are counted from the beginning, and whatever is under way for it is dropped.")
        if touched(outcome):
            said.append(_by_whom(app))
        return Plan(
            title=f"{self.title} {_called(state)}?",
            button=self.button,
            touches=touched(outcome),
            sentences=tuple(said),
            undo="" if self.reset else "on its page it can be cancelled, as long as no worker has begun.",
            back=document_path(*_key(state)),
            fields=self._fields(given),
        )

    def do(self, app: App, given: Mapping[str, str], operation: Operation, *, who: str, via: str) -> str:
        state, at = _document(app, given), self._at(app, given)
        now = app.store.now()
        outcome = schedule(app, [_key(state)], at, reset=self.reset)
        about = {"ids": [f"{state.collection}/{state.id}"], "at": iso(at) if at > now else None}
        log_action(app, "retry", about | {"reset": self.reset}, touched(outcome), who=who, via=via)
        (kind,) = outcome.values()
        return _SAID[kind].format(when=_when(at, now))


@change
class Retry(_Trying):
    """Have a document tried again now."""

    name = "retry"
    title = "Retry"
    button = "Retry it now"


@change
class Reset(_Trying):
    """Have a document tried again from its first round on."""

    name = "reset"
    title = "Reset and retry"
    button = "Reset it and retry"
    reset = True


@change
class Schedule(_Trying):
    """Have a document tried again at a time."""

    name = "schedule"
    title = "Schedule"
    button = "Schedule it"
    usual = "1h"

    def _at(self, app: App, given: Mapping[str, str]) -> float:
        return read_when(given.get("at") or self.usual, app.store.now())

    def _fields(self, given: Mapping[str, str]) -> tuple[Field, ...]:
        value = given.get("at") or self.usual
        return (Field("at", "When", value=value, hint=_WHEN, required=True),)

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        plan = super().plan(app, given)
        if not plan.touches or given.get("at"):
            return plan
        # The time is still to be given: a sentence with the usual one would mislead.
        return replace(plan, sentences=("It will be tried again at the time you give.", *plan.sentences[1:]))


@change
class Unschedule:
    """Take back the time that was set for a document."""

    name: ClassVar[str] = "unschedule"

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        state = _document(app, given)
        outcome = unschedule(app, [_key(state)], dry_run=True)
        (kind,) = outcome.values()
        then = ("It is then treated as if no time had been set.",) if touched(outcome) else ()
        return Plan(
            title=f"Cancel the schedule of {_called(state)}?",
            button="Cancel its schedule",
            touches=touched(outcome),
            sentences=(_SAID[kind], *then),
            undo="it can be scheduled again.",
            back=document_path(*_key(state)),
        )

    def do(self, app: App, given: Mapping[str, str], operation: Operation, *, who: str, via: str) -> str:
        state = _document(app, given)
        outcome = unschedule(app, [_key(state)])
        about = {"ids": [f"{state.collection}/{state.id}"]}
        log_action(app, "retry cancel", about, touched(outcome), who=who, via=via)
        (kind,) = outcome.values()
        return _SAID[kind]


def _may_be_given_up(state: DocumentState) -> bool:
    return state.status not in (Status.PROCESSED, Status.DISCARDED)


def _give_up(app: App, given: Mapping[str, str]) -> int:
    """Give a document up, unless it was finished while somebody read what that means."""
    state = _document(app, given)
    return int(_may_be_given_up(state) and app.store.discard(*_key(state)))


@change
class Discard:
    """Give a document up for good."""

    name: ClassVar[str] = "discard"

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        state = _document(app, given)
        final = not _may_be_given_up(state)
        if final:
            said = f"It is {state.status} already: there is nothing to give up."
        else:
            said = "It is given up: nobody tries it again, and whatever is under way for it is dropped."
        return Plan(
            title=f"Discard {_called(state)}?",
            button="Discard it",
            touches=int(not final),
            sentences=(said, "It stays in the store, with its history."),
            undo="retry it, and it is put back.",
            back=document_path(*_key(state)),
        )

    def do(self, app: App, given: Mapping[str, str], operation: Operation, *, who: str, via: str) -> str:
        state = _document(app, given)
        count = app.store.atomically(lambda: _give_up(app, given))
        about = {"ids": [f"{state.collection}/{state.id}"]}
        log_action(app, "documents discard", about, count, who=who, via=via)
        return "It is given up." if count else "It was final already, and is left alone."
