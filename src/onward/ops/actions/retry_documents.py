"""Retrying documents now or later, and cancelling that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from onward.app import App
from onward.model.documents import DocumentState, Status
from onward.model.ledger_views import ScheduleResult
from onward.ops.actions.action import (
    Action,
    ActionMessage,
    ActionOutcome,
    ActionPlan,
    ActionProgress,
    Actor,
    Completion,
    Tone,
    pages,
    plain,
    worker_sentence,
)
from onward.ops.bad_input import BadInput, NotFound
from onward.ops.lookup import resolve, short_ids
from onward.ops.queries.documents import PAGE, DocumentFilter, select_documents, statuses_of
from onward.ops.text.format import clock_time, counted, iso, number, one_line
from onward.runtime.process_identity import alive_workers

Key = tuple[str, str]
MAX_NAMED = 5
_FAILED = (Status.FAILED, Status.FAILED_MAX_RETRIES)
_CHANGED = (ScheduleResult.SCHEDULED, ScheduleResult.RESCHEDULED, ScheduleResult.CANCELLED)
_OUTCOMES = {
    ScheduleResult.SCHEDULED: "{count} {will} be tried again {when}",
    ScheduleResult.RESCHEDULED: "{count} had an event waiting already, which {will} fall due {when}",
    ScheduleResult.UNDER_WAY: "{count} left alone: under way with a worker just now (a reset begins anew)",
    ScheduleResult.PROCESSED: "{count} left alone: processed already (a reset begins anew)",
    ScheduleResult.MISSING: "{count} gone",
    ScheduleResult.NO_SERVICE: "{count} left alone: no service finishes such documents",
    ScheduleResult.CANCELLED: "{count} {is_} no longer scheduled (what has an event waiting is due now)",
    ScheduleResult.NOT_SCHEDULED: "{count} had no time set",
}


@dataclass(frozen=True, slots=True)
class _DocumentRetry(Action):
    """Base of retrying and cancelling: selects the documents."""

    ids: tuple[str, ...] = ()
    """Ids, the beginnings of ids, or COLLECTION/ID."""
    keys: tuple[Key, ...] = ()
    """Exact documents."""
    filters: DocumentFilter = field(default_factory=DocumentFilter)

    def _chosen(self, app: App, matching: Callable[[], Iterable[DocumentState]]) -> list[Key]:
        filters = self.filters
        if self.ids and filters.given:
            raise BadInput("give either ids, or --group, --collection, --source and --status: not both")
        if filters.group and (filters.collection or filters.source or filters.status):
            raise BadInput("--group goes by itself, without --collection, --source and --status")
        if self.keys:
            known_states(app, self.keys)
            return list(self.keys)
        if not self.ids and not (filters.group or filters.collection or filters.source):
            raise BadInput("say which documents: give ids, --group, --collection or --source")
        return [resolve(app, id) for id in self.ids] or [(state.collection, state.id) for state in matching()]

    def _about(self) -> dict[str, Any]:
        exact = [f"{collection}/{id}" for collection, id in self.keys]
        return self.filters.as_dict() | {"ids": [*self.ids, *exact]}

    def _title(self, verb: str) -> str:
        if len(self.keys) != 1:
            return f"{verb} documents"
        return f"{verb} {one_line('/'.join(self.keys[0]), 80)}?"


@dataclass(frozen=True, slots=True)
class RetryDocuments(_DocumentRetry):
    """Try documents again: now, at a time, or after some seconds."""

    at: float | None = None
    after: float | None = None
    reset: bool = False
    """Begin with the first round, also what is processed or under way."""
    priority: int | None = None
    time_text: Callable[[float], str] = clock_time
    log_name: ClassVar[str] = "retry"

    def plan(self, app: App) -> ActionPlan:
        now = app.store.now()
        at = self._time(now)
        outcomes = schedule(app, self._keys(app), at, reset=self.reset, priority=self.priority, dry_run=True)
        sentences = self._sentences(app, outcomes, at, now, done=False)
        if self.reset:
            text = "Rounds are counted from the beginning, and whatever is under way is dropped."
            sentences += (ActionMessage(text, Tone.HINT),)
        return ActionPlan(
            self._title("Reset and retry" if self.reset else "Schedule" if at > now else "Retry"),
            touched(outcomes),
            sentences,
            self._facts(app, outcomes, at),
            undo="" if self.reset else "cancel it, as long as no worker has begun.",
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        now = app.store.now()
        at = self._time(now)
        outcomes = schedule(app, self._keys(app), at, reset=self.reset, priority=self.priority)
        count = touched(outcomes)
        about = {"at": iso(at) if at > now else None, "reset": self.reset, "priority": self.priority}
        self.log(app, actor, self._about() | about, count)
        return ActionOutcome(
            count,
            self._sentences(app, outcomes, at, now, done=True),
            self._facts(app, outcomes, at),
            Completion.PARTIAL if ScheduleResult.MISSING in outcomes.values() else Completion.WHOLE,
        )

    def _keys(self, app: App) -> list[Key]:
        if self.filters.status == Status.PROCESSED and not self.reset:
            raise BadInput("processed documents are finished; with --reset they begin anew")
        return self._chosen(app, lambda: self._failed_or_stuck(app))

    def _failed_or_stuck(self, app: App) -> Iterable[DocumentState]:
        filters = self.filters
        for state in select_documents(app, filters, statuses_of(filters.status, (*_FAILED, Status.PENDING))):
            if filters.status or filters.group or state.status != Status.PENDING or state.row is None:
                yield state

    def _time(self, now: float) -> float:
        """Return when to retry; refuse a time in the past: it is likely a mistake."""
        if self.at is not None and self.after is not None:
            raise BadInput("give either --at or --in: not both")
        at = self.at if self.at is not None else now + (self.after or 0.0)
        if at < now:
            raise BadInput(f"{_past(at, now)}; leave --at out for now")
        return at

    def _facts(self, app: App, outcomes: Mapping[Key, ScheduleResult], at: float | None) -> dict[str, Any]:
        return {"at": iso(at)} | _outcome_facts(app, outcomes)

    def _sentences(
        self, app: App, outcomes: Mapping[Key, ScheduleResult], at: float, now: float, *, done: bool
    ) -> tuple[ActionMessage, ...]:
        if not outcomes:
            return plain("No such documents: nothing to try.")
        when = f"at {self.time_text(at)}" if at > now else "now"
        sentences = _outcome_sentences(app, outcomes, when=when, done=done)
        if done and touched(outcomes):
            sentences += worker_sentence(
                app, "A worker takes it at that time." if at > now else "A worker takes it within seconds."
            )
        return sentences


def _past(at: float, now: float) -> str:
    there, today = (datetime.fromtimestamp(moment, UTC).astimezone() for moment in (at, now))
    if there.date() != today.date():
        return f"{there.strftime('%Y-%m-%d %H:%M')} is past"
    # The same hour of the day, also where the clocks are changed in the night.
    again = (there.replace(tzinfo=None) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M")
    return f"{there.strftime('%H:%M')} is past; tomorrow's is {again}"


@dataclass(frozen=True, slots=True)
class CancelScheduledRetry(_DocumentRetry):
    """Take back the time that was set for documents, as far as it has not come."""

    log_name: ClassVar[str] = "retry cancel"

    def plan(self, app: App) -> ActionPlan:
        outcomes = unschedule(app, self._keys(app), dry_run=True)
        return ActionPlan(
            self._title("Cancel the schedule of"),
            touched(outcomes),
            self._sentences(app, outcomes, done=False),
            self._facts(app, outcomes),
            undo="schedule it again.",
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        outcomes = unschedule(app, self._keys(app))
        self.log(app, actor, self._about(), touched(outcomes))
        return ActionOutcome(
            touched(outcomes), self._sentences(app, outcomes, done=True), self._facts(app, outcomes)
        )

    def _keys(self, app: App) -> list[Key]:
        return self._chosen(app, lambda: self._scheduled(app))

    def _scheduled(self, app: App) -> Iterable[DocumentState]:
        statuses = statuses_of(self.filters.status, tuple(Status))
        return (state for state in select_documents(app, self.filters, statuses) if state.retry_at is not None)

    def _facts(self, app: App, outcomes: Mapping[Key, ScheduleResult]) -> dict[str, Any]:
        return {"at": None} | _outcome_facts(app, outcomes)

    def _sentences(
        self, app: App, outcomes: Mapping[Key, ScheduleResult], *, done: bool
    ) -> tuple[ActionMessage, ...]:
        if not outcomes:
            return plain("No such documents: nothing to cancel.")
        return _outcome_sentences(app, outcomes, when="now", done=done)


def schedule(
    app: App,
    keys: Sequence[Key],
    at: float,
    *,
    reset: bool = False,
    priority: int | None = None,
    dry_run: bool = False,
) -> dict[Key, ScheduleResult]:
    """Have documents tried again at a time; a dry run only returns what would become of each."""

    def step(some: list[Key]) -> Mapping[Key, ScheduleResult]:
        return app.store.schedule(some, at, reset=reset, priority=priority)

    return _in_transactions(app, keys, step, dry_run=dry_run)


def unschedule(app: App, keys: Sequence[Key], *, dry_run: bool = False) -> dict[Key, ScheduleResult]:
    """Take back the time that was set for documents."""
    return _in_transactions(app, keys, app.store.unschedule, dry_run=dry_run)


def touched(outcomes: Mapping[Key, ScheduleResult]) -> int:
    """Return how many documents were changed."""
    return sum(outcome in _CHANGED for outcome in outcomes.values())


class _RollBack(Exception):
    """Ends the transaction of a dry run."""


def _in_transactions(
    app: App, keys: Sequence[Key], step: Callable[[list[Key]], Mapping[Key, ScheduleResult]], *, dry_run: bool
) -> dict[Key, ScheduleResult]:
    """Change documents page by page; a dry run rolls each page back, so that its outcomes are the real ones."""
    outcomes: dict[Key, ScheduleResult] = {}
    for some in pages(dict.fromkeys(keys), PAGE):
        try:
            with app.store.transaction():
                outcomes |= step(some)
                if dry_run:
                    raise _RollBack
        except _RollBack:
            pass
    return outcomes


def _outcome_facts(app: App, outcomes: Mapping[Key, ScheduleResult]) -> dict[str, Any]:
    return {
        "outcomes": Counter(str(outcome) for outcome in outcomes.values()),
        "documents": [
            {"collection": name, "id": id, "outcome": str(outcome)} for (name, id), outcome in outcomes.items()
        ],
        "workers": len(alive_workers(app.store)),
    }


def _outcome_sentences(
    app: App, outcomes: Mapping[Key, ScheduleResult], *, when: str, done: bool
) -> tuple[ActionMessage, ...]:
    sentences: list[ActionMessage] = []
    for outcome, text in _OUTCOMES.items():
        keys = [key for key, found in outcomes.items() if found is outcome]
        if keys:
            is_, will = "is" if len(keys) == 1 else "are", "will"
            if not done:
                is_, will = "would be", "would"
            count = counted(len(keys), "document")
            sentences.append(
                ActionMessage(text.format(count=count, when=when, will=will, is_=is_) + _named(app, keys))
            )
    return tuple(sentences)


def _named(app: App, keys: Sequence[Key]) -> str:
    """Name documents, if they are few; else say how many each collection has."""
    if len(keys) <= MAX_NAMED:
        ids = short_ids(app, [id for _, id in keys])
        return ": " + ", ".join(one_line(f"{name}/{ids[id]}") for name, id in keys)
    return ": " + by_collection(Counter(name for name, _ in keys))


def by_collection(counts: Counter[str]) -> str:
    """Return how many documents each collection has: 3 pages, 1 words."""
    return ", ".join(f"{number(count)} {name}" for name, count in sorted(counts.items()))


def known_states(app: App, keys: Sequence[Key]) -> list[DocumentState]:
    states = app.store.states_of(keys)
    missing = set(keys) - {(state.collection, state.id) for state in states}
    if missing:
        raise NotFound(f"there is no document {one_line('/'.join(min(missing)), 200)!r}")
    return states
