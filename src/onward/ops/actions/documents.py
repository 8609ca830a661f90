"""Retrying documents now or later and cancelling that; giving documents up, archiving and removing them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from onward.app import App
from onward.model.documents import DocumentKey, DocumentState, Status
from onward.model.ledger_views import ScheduleResult
from onward.ops.actions.action import (
    Action,
    ActionOutcome,
    ActionPlan,
    ActionProgress,
    ActionStopped,
    Actor,
    Completion,
    Messages,
    Tone,
    say,
    stopped_sentence,
    worker_hint,
)
from onward.ops.bad_input import BadInput, NotFound
from onward.ops.document_export import exported, new_file, with_descendants, write_lines
from onward.ops.lookup import PAGE, all_states, pages, resolve, short_ids
from onward.ops.queries.document_details import stands_for_source
from onward.ops.queries.documents import (
    BESIDE_REQUEST,
    FAILED,
    GIVEN_UP,
    DocumentFilter,
    needed_by_others,
    select_documents,
    statuses_of,
)
from onward.ops.queries.titles import find_titles, titled
from onward.ops.text.format import clock_time, counted, counted_in, iso, number, one_line, zoned_time
from onward.runtime.process_identity import alive_workers

Outcomes = Mapping[DocumentKey, ScheduleResult]
MAX_NAMED = 5
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


# -- retrying


@dataclass(frozen=True, slots=True)
class _DocumentRetry(Action):
    """Base of retrying and cancelling: selects the documents."""

    ids: tuple[str, ...] = ()  # ids, the beginnings of ids, or COLLECTION/ID
    keys: tuple[DocumentKey, ...] = ()  # exact documents
    filters: DocumentFilter = field(default_factory=DocumentFilter)

    def _chosen(
        self, app: App, statuses: Sequence[str], wanted: Callable[[DocumentState], bool]
    ) -> list[DocumentKey]:
        """Return the documents; without a status in the filters, those with one of `statuses`."""
        filters = self.filters
        if self.ids and filters.given:
            raise BadInput("give either ids, or --group, --collection, --source and --status: not both")
        if filters.group and (filters.collection or filters.source or filters.status):
            raise BadInput("--group goes by itself, without --collection, --source and --status")
        if self.keys:
            _known_states(app, self.keys)
            return list(self.keys)
        if self.ids:
            return [resolve(app, id) for id in self.ids]
        if not (filters.group or filters.collection or filters.source):
            raise BadInput("say which documents: give ids, --group, --collection or --source")
        found = select_documents(app, filters, statuses_of(filters.status, statuses))
        return [(state.collection, state.id) for state in found if wanted(state)]

    def _about(self) -> dict[str, Any]:
        return asdict(self.filters) | {"ids": [*self.ids, *("/".join(key) for key in self.keys)]}

    def _title(self, app: App, verb: str) -> str:
        return f"{verb} {_named(app, self.keys[0])}?" if len(self.keys) == 1 else f"{verb} documents"


@dataclass(frozen=True, slots=True)
class RetryDocuments(_DocumentRetry):
    """Try documents again: now, at a time, or after some seconds."""

    at: float | None = None
    after: float | None = None
    reset: bool = False  # begin with the first round, also what is processed or under way
    priority: int | None = None
    zone: str = ""  # in which the time is shown; empty: that of this process

    def plan(self, app: App) -> ActionPlan:
        at, when, outcomes = self._retry(app, dry_run=True)
        count, sentences, facts = _results(app, outcomes, at, "try", when)
        if self.reset:
            text = "Rounds are counted from the beginning, and whatever is under way is dropped."
            sentences += say(text, tone=Tone.HINT)
        return ActionPlan(
            self._title(app, "Reset and retry" if self.reset else "Retry" if when == "now" else "Schedule"),
            count,
            sentences,
            facts,
            undo="" if self.reset else "cancel it, as long as no worker has begun.",
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        at, when, outcomes = self._retry(app)
        count, sentences, facts = _results(app, outcomes, at, "try", when, done=True)
        about = {"at": iso(at) if when != "now" else None, "reset": self.reset, "priority": self.priority}
        actor.log(app, "retry", self._about() | about, count)
        if count:
            taken = "within seconds" if when == "now" else "at that time"
            sentences += worker_hint(app, f"A worker takes it {taken}.")
        missing = ScheduleResult.MISSING in outcomes.values()
        return ActionOutcome(count, sentences, facts, Completion.PARTIAL if missing else Completion.WHOLE)

    def _retry(self, app: App, *, dry_run: bool = False) -> tuple[float, str, Outcomes]:
        """Return when the documents are retried, that time in words, and what becomes of each."""
        if self.at is not None and self.after is not None:
            raise BadInput("give either --at or --in: not both")
        now, filters = app.store.now(), self.filters
        at = self.at if self.at is not None else now + (self.after or 0.0)
        if at < now:
            raise BadInput(f"{_past(at, now)}; leave --at out for now")  # it is likely a mistake
        if filters.status == Status.PROCESSED and not self.reset:
            raise BadInput("processed documents are finished; with --reset they begin anew")

        def failed_or_stuck(state: DocumentState) -> bool:
            return bool(filters.status or filters.group) or state.status != Status.PENDING or state.row is None

        keys = self._chosen(app, (*FAILED, Status.PENDING), failed_or_stuck)
        outcomes = schedule(app, keys, at, reset=self.reset, priority=self.priority, dry_run=dry_run)
        shown = zoned_time(at, self.zone) if self.zone else clock_time(at)
        return at, f"at {shown}" if at > now else "now", outcomes


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
        results = _results(app, unschedule(app, self._keys(app), dry_run=True), None, "cancel", "now")
        return ActionPlan(self._title(app, "Cancel the schedule of"), *results, undo="schedule it again.")

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        results = _results(app, unschedule(app, self._keys(app)), None, "cancel", "now", done=True)
        actor.log(app, "retry cancel", self._about(), results[0])
        return ActionOutcome(*results)

    def _keys(self, app: App) -> list[DocumentKey]:
        return self._chosen(app, tuple(Status), lambda state: state.retry_at is not None)


def schedule(app: App, keys: Sequence[DocumentKey], at: float, *, dry_run: bool = False, **how: Any) -> Outcomes:
    """Have documents tried again as `Store.schedule` does; a dry run only returns what would become of each."""
    return _in_transactions(app, keys, partial(app.store.schedule, at=at, **how), dry_run=dry_run)


def unschedule(app: App, keys: Sequence[DocumentKey], *, dry_run: bool = False) -> Outcomes:
    return _in_transactions(app, keys, app.store.unschedule, dry_run=dry_run)


def touched(outcomes: Outcomes) -> int:
    return sum(outcome in _CHANGED for outcome in outcomes.values())


class _RollBack(Exception):
    """Ends the transaction of a dry run."""


def _in_transactions(
    app: App, keys: Sequence[DocumentKey], step: Callable[[list[DocumentKey]], Outcomes], *, dry_run: bool
) -> Outcomes:
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


def _results(
    app: App, outcomes: Outcomes, at: float | None, verb: str, when: str, *, done: bool = False
) -> tuple[int, Messages, dict[str, Any]]:
    """Return how many documents are changed, what becomes of each, and the same for programs."""
    texts = [] if outcomes else [f"No such documents: nothing to {verb}."]
    for outcome, text in _OUTCOMES.items():
        if keys := [key for key, found in outcomes.items() if found is outcome]:
            is_, will = ("is" if len(keys) == 1 else "are", "will") if done else ("would be", "would")
            count = counted(len(keys), "document")
            named = _by_collection(Counter(name for name, _ in keys))
            if len(keys) <= MAX_NAMED:
                ids, titles = short_ids(app, [id for _, id in keys]), find_titles(app, keys)
                named = ", ".join(titled(key, titles, ids[key[1]]) for key in keys)
            texts.append(f"{text.format(count=count, when=when, will=will, is_=is_)}: {named}")
    facts = {
        "at": iso(at),
        "outcomes": Counter(str(outcome) for outcome in outcomes.values()),
        "documents": [
            {"collection": name, "id": id, "outcome": str(outcome)} for (name, id), outcome in outcomes.items()
        ],
        "workers": len(alive_workers(app.store)),
    }
    return touched(outcomes), say(*texts), facts


def _named(app: App, key: DocumentKey) -> str:
    """Return a document for the title of an action."""
    return find_titles(app, [key]).get(key) or one_line("/".join(key), 80)


def _by_collection(counts: Counter[str]) -> str:
    return ", ".join(counted_in(count, name) for name, count in sorted(counts.items()))


def _known_states(app: App, keys: Sequence[DocumentKey]) -> list[DocumentState]:
    states = app.store.states_of(keys)
    missing = set(keys) - {(state.collection, state.id) for state in states}
    if missing:
        raise NotFound(f"there is no document {one_line('/'.join(min(missing)), 200)!r}")
    return states


# -- giving up and removing


@dataclass(frozen=True, slots=True)
class DiscardDocuments(Action):
    """Give documents up for good: they become discarded, and are kept."""

    filters: DocumentFilter = field(default_factory=DocumentFilter)
    keys: tuple[DocumentKey, ...] = ()  # exact documents, instead of filters

    def plan(self, app: App) -> ActionPlan:
        chosen = self._chosen(app)
        count, sentences, facts = _removal("would be discarded", _collections(chosen))
        if self.keys and not chosen:
            statuses = " or ".join(sorted({state.status for state in _known_states(app, self.keys)}))
            sentences = say(f"It is {statuses} already: there is nothing to give up.")
        elif self.keys:
            sentences += say("Nothing tries it again, and whatever is under way is dropped; its history stays.")
        return ActionPlan(
            f"Discard {_named(app, self.keys[0])}?" if len(self.keys) == 1 else "Discard documents",
            count,
            sentences,
            facts,
            undo="retry it, and it is put back.",
            confirmation=f"this gives up {counted(count, 'document')} for good",
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        chosen = self._chosen(app)
        progress.total = len(chosen)
        discarded = Counter[str]()

        def discard(states: list[DocumentState]) -> list[DocumentKey]:
            return [key for key in _unchanged(app, states) if app.store.discard(*key)]

        def step(states: list[DocumentState]) -> int:
            done = app.store.atomically(partial(discard, states))
            discarded.update(collection for collection, _ in done)
            return len(done)

        about = {"ids": ["/".join(key) for key in self.keys]} if self.keys else asdict(self.filters)
        with actor.logged(app, "documents discard", about, progress):
            stopped = progress.in_steps(chosen, PAGE, step)
        results = _removal("discarded", discarded, total=len(chosen), stopped=stopped)
        return ActionOutcome(*results, stopped=stopped)

    def _chosen(self, app: App) -> list[DocumentState]:
        over, status = (Status.PROCESSED, Status.DISCARDED), self.filters.status
        if self.keys:
            return [state for state in _known_states(app, self.keys) if state.status not in over]
        _check_given(self.filters)
        if status in over:
            raise BadInput(f"--status: what is {status} is final: there is nothing to give up")
        return list(select_documents(app, self.filters, statuses_of(status, FAILED)))


@dataclass(frozen=True, slots=True)
class PurgeDocuments(Action):
    """Remove documents for ever, with everything that was made from them."""

    filters: DocumentFilter

    def plan(self, app: App) -> ActionPlan:
        chosen, kept = _removable(app, self.filters)
        results = _removal("would be removed", _collections(with_descendants(app, chosen)), kept=kept)
        confirmation = f"this removes {counted(results[0], 'document')} for ever"
        return ActionPlan("Remove documents", *results, confirmation=confirmation)

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        chosen, kept = _removable(app, self.filters)
        counts = _collections(with_descendants(app, chosen))
        progress.total = counts.total()
        with actor.logged(app, "documents purge", asdict(self.filters), progress):
            stopped = _remove(app, chosen, progress)
        results = _removal("removed", counts, progress.done, stopped=stopped, kept=kept)
        partly = Completion.PARTIAL if kept and chosen else Completion.WHOLE
        return ActionOutcome(*results, partly, stopped=stopped)


@dataclass(frozen=True, slots=True)
class ArchiveDocuments(Action):
    """Export documents that were given up to a file, then remove them with everything made from them."""

    filters: DocumentFilter
    output: Path

    def plan(self, app: App) -> ActionPlan:
        chosen, kept = self._chosen(app)
        results = _removal("would be archived", _collections(with_descendants(app, chosen)), kept=kept)
        return ActionPlan("Archive documents", *results, undo="ingest their source again.")

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        chosen, kept = self._chosen(app)
        if not chosen:
            return ActionOutcome(*_removal("archived", Counter(), kept=kept))

        def lines() -> Iterator[dict[str, Any]]:
            for line in exported(app, with_descendants(app, chosen)):
                progress.check()
                yield line

        written = 0
        try:
            with new_file(self.output) as file:
                written = write_lines(file, lines())
            progress.total = len(chosen)
            about = asdict(self.filters) | {"output": str(self.output)}
            with actor.logged(app, "documents archive", about, progress):
                stopped = _remove(app, chosen, progress)
        except ActionStopped:  # there is no file then
            written, stopped = 0, True
        facts = {"output": str(self.output), "exported": written, "removed": progress.done}
        facts |= {"left_alone": dict(kept), "interrupted": stopped}
        to_file = f"{counted(written, 'document')} exported to {one_line(str(self.output))}"
        rest = ", then stopped. The same command with another --output goes on with the rest." if stopped else "."
        sentences = say(f"{to_file}, {number(progress.done)} removed{rest}")
        if sources := len({state.source for state in chosen if state.source}):
            their = "their source" if sources == 1 else f"their {sources} sources"
            sentences += say(f"To bring them back, ingest {their} again: onward ingest SOURCE", tone=Tone.HINT)
        partly = Completion.PARTIAL if kept else Completion.WHOLE
        return ActionOutcome(progress.done, sentences + _kept_sentence(kept), facts, partly, stopped=stopped)

    def _chosen(self, app: App) -> tuple[list[DocumentState], Counter[str]]:
        status = self.filters.status
        if not set(statuses_of(status, GIVEN_UP)) <= set(GIVEN_UP):
            raise BadInput(
                f"--status: only what was given up is archived ({', '.join(GIVEN_UP)}), not what is {status}"
            )
        return _removable(app, self.filters)


def _check_given(filters: DocumentFilter) -> None:
    if not filters.given:
        raise BadInput("say which documents: --status, --collection, --source, --group or --older-than")


def _removable(app: App, filters: DocumentFilter) -> tuple[list[DocumentState], Counter[str]]:
    """Return the documents that can be removed, and how many must stay, by collection; refuse if all must."""
    _check_given(filters)
    states = list(select_documents(app, filters, statuses_of(filters.status, GIVEN_UP)))
    needed = needed_by_others(app, states)
    kept = Counter(collection for collection, _ in needed)
    if needed and len(needed) == len(states):
        raise BadInput(_kept_sentence(kept)[0].text)
    chosen = [state for state in states if (state.collection, state.id) not in needed]
    for source in [state.source for state in chosen if stands_for_source(state)]:
        for name in BESIDE_REQUEST:
            chosen += all_states(app.store, collection=name, source=source)
    return chosen, kept


def _remove(app: App, chosen: Sequence[DocumentState], progress: ActionProgress) -> bool:
    """Remove documents; return whether it was stopped."""
    return progress.in_steps(chosen, PAGE, lambda some: app.store.remove_documents(_unchanged(app, some)))


def _unchanged(app: App, states: Sequence[DocumentState]) -> list[DocumentKey]:
    """Return the documents that have not changed since they were chosen."""
    before = {(state.collection, state.id): (state.status, state.revision, state.round) for state in states}
    return [
        key
        for state in app.store.states_of(list(before))
        if before[key := (state.collection, state.id)] == (state.status, state.revision, state.round)
    ]


def _collections(states: Iterable[DocumentState]) -> Counter[str]:
    return Counter(state.collection for state in states)


def _removal(
    verb: str,
    counts: Counter[str],
    done: int | None = None,
    *,
    total: int | None = None,
    stopped: bool = False,
    kept: Counter[str] | None = None,
) -> tuple[int, Messages, dict[str, Any]]:
    """Return how many documents are discarded or removed, what to say about it, and the facts.

    `done` and `total` are the sum of `counts` if they are not given.
    """
    done = counts.total() if done is None else done
    total = counts.total() if total is None else total
    if stopped:
        sentences = stopped_sentence(number(done), counted(total, "document"), verb)
    elif not total:
        sentences = say("No such documents.")
    else:
        named = f": {_by_collection(counts)}" if counts else ""
        sentences = say(f"{counted(done, 'document')} {verb}{named}")
        if done < total:
            left = f"{counted(total - done, 'document')} changed meanwhile, and left alone"
            sentences += say(left, tone=Tone.WARNING)
    facts = {"documents": done, "collections": dict(sorted(counts.items())), "left_alone": dict(kept or {})}
    return done, sentences + _kept_sentence(kept), facts | {"interrupted": stopped}


def _kept_sentence(kept: Counter[str] | None) -> Messages:
    if not kept:
        return ()
    text = f"{_by_collection(kept)} cannot be removed alone: what came from there would stay behind."
    return say(f"{text} To remove an archive with its messages: onward forget SOURCE", tone=Tone.WARNING)
