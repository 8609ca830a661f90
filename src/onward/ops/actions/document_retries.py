"""Retrying documents now or later, and cancelling that: chosen ones, or all that match a filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from onward.app import App
from onward.model.documents import DocumentKey, DocumentState, Status
from onward.model.ledger_views import ScheduleResult
from onward.ops.actions.action import (
    Action,
    ActionOutcome,
    ActionPlan,
    ActionProgress,
    Actor,
    Completion,
    Messages,
    Tone,
    say,
    stopped_sentence,
    worker_hint,
)
from onward.ops.bad_input import BadInput, NotFound
from onward.ops.lookup import PAGE, pages, resolve, short_ids
from onward.ops.queries.documents import (
    FAILED,
    DocumentFilter,
    count_selected,
    select_documents,
    statuses_of,
)
from onward.ops.queries.titles import find_titles, titled
from onward.ops.text.format import clock_time, counted, counted_in, iso, number, one_line, zoned_time
from onward.runtime.process_identity import alive_workers

Outcomes = Mapping[DocumentKey, ScheduleResult]
Step = Callable[[list[DocumentKey]], Outcomes]
MAX_NAMED = 5
MAX_EXACT_PLAN = 1_000  # for more documents, a plan only counts them: it would try the change on each
MAX_LISTED = 10_000  # documents whose results are listed for programs
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

    ids: tuple[str, ...] = ()  # ids, the beginnings of ids, or COLLECTION/ID
    keys: tuple[DocumentKey, ...] = ()  # exact documents
    filters: DocumentFilter = field(default_factory=DocumentFilter)
    everything: bool = False  # all that match the filters, whichever are given

    def _check(self) -> None:
        filters = self.filters
        if self.ids and filters.given:
            raise BadInput("give either ids, or --group, --collection, --source and --status: not both")
        if filters.group and (filters.collection or filters.source or filters.status):
            raise BadInput("--group goes by itself, without --collection, --source and --status")
        narrow = filters.group or filters.collection or filters.source or filters.title
        if not (self.keys or self.ids or narrow or self.everything):
            raise BadInput("say which documents: give ids, --group, --collection or --source")

    @property
    def _by_filter(self) -> bool:
        return not (self.keys or self.ids)

    def _statuses(self) -> Sequence[str | None]:
        """Return the statuses of the documents that are meant; those that a run leads to come first."""
        raise NotImplementedError

    def _wanted(self, state: DocumentState) -> bool:
        raise NotImplementedError

    def _chosen(self, app: App, progress: ActionProgress | None = None) -> Iterator[DocumentKey]:
        """Yield the documents; of a run that goes on, those that have not changed since it was begun."""
        begun = progress.began_at if progress is not None else None
        if self._by_filter:
            found = select_documents(app, self.filters, self._statuses(), begun=begun)
            yield from ((state.collection, state.id) for state in found if self._wanted(state))
            return
        keys = self.keys or tuple(resolve(app, id) for id in self.ids)
        states = known_states(app, keys) if self.keys else []
        if begun is not None and progress is not None and progress.continued:
            states = states or app.store.states_of(keys)
            done = {(one.collection, one.id) for one in states if (one.updated_at or 0.0) > begun}
            keys = tuple(key for key in keys if key not in done)
        yield from dict.fromkeys(keys)

    def _count(self, app: App) -> int:
        """Return how many documents there are at most."""
        if not self._by_filter:
            return len(self.keys or self.ids)
        return count_selected(app, self.filters, self._statuses()).total()

    def _about(self) -> dict[str, Any]:
        return asdict(self.filters) | {"ids": [*self.ids, *("/".join(key) for key in self.keys[:MAX_LISTED])]}

    def _title(self, app: App, verb: str) -> str:
        return f"{verb} {document_name(app, self.keys[0])}?" if len(self.keys) == 1 else f"{verb} documents"

    def _run(self, app: App, progress: ActionProgress, step: Step, tally: RetryTally) -> bool:
        """Change the documents page by page and count what has become of them; return whether it was stopped."""

        def change(some: list[DocumentKey]) -> int:
            tally.add(app.store.atomically(partial(step, some)))
            return len(some)

        progress.total = self._count(app)
        return progress.in_steps(self._chosen(app, progress), PAGE, change)


@dataclass(frozen=True, slots=True)
class RetryDocuments(_DocumentRetry):
    """Try documents again: now, at a time, or after some seconds."""

    at: float | None = None
    after: float | None = None
    reset: bool = False  # begin with the first round, also what is processed or under way
    priority: int | None = None
    zone: str = ""  # in which the time is shown; empty: that of this process

    def plan(self, app: App) -> ActionPlan:
        now = app.store.now()
        at, when = self._time(now, now)
        title = self._title(app, "Reset and retry" if self.reset else "Retry" if when == "now" else "Schedule")
        undo = "" if self.reset else "cancel it, as long as no worker has begun."
        count = self._count(app)
        if count > MAX_EXACT_PLAN:
            sentences = say(f"Up to {counted(count, 'document')} would be tried again {when}.")
            if self._by_filter and self.filters.status is None:
                left = "What is processed, discarded or being tried is left alone; choose a status for others."
                sentences += say(left, tone=Tone.HINT)
            facts: dict[str, Any] = {"at": iso(at), "documents": []}
        else:
            outcomes = schedule(app, list(self._chosen(app)), at, **self._how(), dry_run=True)
            count, sentences, facts = RetryTally.of(outcomes).results(app, at, "try", when)
        if self.reset:
            text = "Rounds are counted from the beginning, and whatever is under way is dropped."
            sentences += say(text, tone=Tone.HINT)
        return ActionPlan(title, count, sentences, facts, undo=undo, slow=count > PAGE)

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        now = app.store.now()
        begun = now if progress.began_at is None else progress.began_at
        at, when = self._time(now, begun, is_continued=progress.continued)
        about = {"at": iso(at) if when != "now" else None, "reset": self.reset, "priority": self.priority}
        tally = RetryTally()
        try:
            stopped = self._run(app, progress, partial(app.store.schedule, at=at, **self._how()), tally)
        finally:
            actor.log(app, "retry", self._about() | about, tally.changed)
        count, sentences, facts = tally.results(app, at, "try", when, done=True)
        if stopped:
            total = counted(progress.total, "document")
            sentences = stopped_sentence(number(progress.done), total, "looked at") + sentences
        if count:
            taken = "within seconds" if when == "now" else "at that time"
            sentences += worker_hint(app, f"A worker takes it {taken}.")
        completion = Completion.PARTIAL if tally.counts[ScheduleResult.MISSING] else Completion.WHOLE
        return ActionOutcome(count, sentences, facts, completion, stopped=stopped)

    def _how(self) -> dict[str, Any]:
        return {"reset": self.reset, "priority": self.priority}

    def _time(self, now: float, begun: float, *, is_continued: bool = False) -> tuple[float, str]:
        """Return when the documents are retried, and that time in words."""
        if self.at is not None and self.after is not None:
            raise BadInput("give either --at or --in: not both")
        at = self.at if self.at is not None else begun + self.after if self.after else now
        if at < now and not is_continued and self.at is not None:
            raise BadInput(f"{_past(at, now)}; leave --at out for now")  # it is likely a mistake
        at = max(at, now)
        if self.filters.status == Status.PROCESSED and not self.reset:
            raise BadInput("processed documents are finished; with --reset they begin anew")
        self._check()
        shown = zoned_time(at, self.zone) if self.zone else clock_time(at)
        return at, f"at {shown}" if at > now else "now"

    def _statuses(self) -> Sequence[str | None]:
        return statuses_of(self.filters.status, (Status.PENDING, *FAILED))

    def _wanted(self, state: DocumentState) -> bool:
        """Return whether it failed or is stuck, or its status or group was asked for."""
        asked = bool(self.filters.status or self.filters.group)
        return asked or state.status != Status.PENDING or state.row is None


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

    def plan(self, app: App) -> ActionPlan:
        self._check()
        title, undo, count = self._title(app, "Cancel the schedule of"), "schedule it again.", self._count(app)
        if count > MAX_EXACT_PLAN:
            text = f"Of {counted(count, 'document')}, those with a time set would be scheduled no more."
            return ActionPlan(title, count, say(text), undo=undo, slow=True)
        outcomes = unschedule(app, list(self._chosen(app)), dry_run=True)
        results = RetryTally.of(outcomes).results(app, None, "cancel", "now")
        return ActionPlan(title, *results, undo=undo)

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        self._check()
        tally = RetryTally()
        stopped = self._run(app, progress, app.store.unschedule, tally)
        results = tally.results(app, None, "cancel", "now", done=True)
        actor.log(app, "retry cancel", self._about(), results[0])
        return ActionOutcome(*results, stopped=stopped)

    def _statuses(self) -> Sequence[str | None]:
        return statuses_of(self.filters.status, tuple(Status))

    def _wanted(self, state: DocumentState) -> bool:
        return state.retry_at is not None


def schedule(app: App, keys: Sequence[DocumentKey], at: float, *, dry_run: bool = False, **how: Any) -> Outcomes:
    """Have documents tried again as `Store.schedule` does; a dry run only returns what would become of each."""
    return _in_transactions(app, keys, partial(app.store.schedule, at=at, **how), dry_run=dry_run)


def unschedule(app: App, keys: Sequence[DocumentKey], *, dry_run: bool = False) -> Outcomes:
    return _in_transactions(app, keys, app.store.unschedule, dry_run=dry_run)


def touched(outcomes: Outcomes) -> int:
    return RetryTally.of(outcomes).changed


class _RollBack(Exception):
    """Ends the transaction of a dry run."""


def _in_transactions(app: App, keys: Sequence[DocumentKey], step: Step, *, dry_run: bool) -> Outcomes:
    """Change documents page by page; a dry run rolls each page back, so that its outcomes are the real ones."""
    outcomes: dict[DocumentKey, ScheduleResult] = {}
    for some in pages(dict.fromkeys(keys), PAGE):
        try:
            with app.store.transaction():
                outcomes |= step(some)
                if dry_run:
                    raise _RollBack
        except _RollBack:
            pass
    return outcomes


@dataclass(slots=True)
class RetryTally:
    """What has become of documents: counts by result and collection, and the first of them by name."""

    by_collection: dict[ScheduleResult, Counter[str]] = field(default_factory=dict)
    named: dict[ScheduleResult, list[DocumentKey]] = field(default_factory=dict)
    listed: list[tuple[DocumentKey, ScheduleResult]] = field(default_factory=list)

    @classmethod
    def of(cls, outcomes: Outcomes) -> RetryTally:
        tally = cls()
        tally.add(outcomes)
        return tally

    def add(self, outcomes: Outcomes) -> None:
        for key, result in outcomes.items():
            self.by_collection.setdefault(result, Counter())[key[0]] += 1
            if len(names := self.named.setdefault(result, [])) < MAX_NAMED:
                names.append(key)
        self.listed += list(outcomes.items())[: MAX_LISTED - len(self.listed)]

    @property
    def counts(self) -> Counter[ScheduleResult]:
        return Counter({result: counts.total() for result, counts in self.by_collection.items()})

    @property
    def changed(self) -> int:
        return sum(self.counts[result] for result in _CHANGED)

    def results(
        self, app: App, at: float | None, verb: str, when: str, *, done: bool = False
    ) -> tuple[int, Messages, dict[str, Any]]:
        """Return how many documents are changed, what becomes of each, and the same for programs."""
        texts = [] if self.by_collection else [f"No such documents: nothing to {verb}."]
        for result, text in _OUTCOMES.items():
            if count := self.counts[result]:
                is_, will = ("is" if count == 1 else "are", "will") if done else ("would be", "would")
                named = by_collection(self.by_collection[result])
                if count <= MAX_NAMED:
                    keys = self.named[result]
                    ids, titles = short_ids(app, [id for _, id in keys]), find_titles(app, keys)
                    named = ", ".join(titled(key, titles, ids[key[1]]) for key in keys)
                about = {"count": counted(count, "document"), "when": when, "will": will, "is_": is_}
                texts.append(f"{text.format(**about)}: {named}")
        facts = {
            "at": iso(at),
            "outcomes": {str(result): count for result, count in self.counts.items()},
            "documents": [
                {"collection": name, "id": id, "outcome": str(result)} for (name, id), result in self.listed
            ],
            "workers": len(alive_workers(app.store)),
        }
        return self.changed, say(*texts), facts


def document_name(app: App, key: DocumentKey) -> str:
    """Return a document for the title of an action."""
    return find_titles(app, [key]).get(key) or one_line("/".join(key), 80)


def by_collection(counts: Counter[str]) -> str:
    return ", ".join(counted_in(count, name) for name, count in sorted(counts.items()))


def known_states(app: App, keys: Sequence[DocumentKey]) -> list[DocumentState]:
    states = app.store.states_of(keys)
    missing = set(keys) - {(state.collection, state.id) for state in states}
    if missing:
        raise NotFound(f"there is no document {one_line('/'.join(min(missing)), 200)!r}")
    return states
