"""Putting a whole failure group or failed batches back, or giving them up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from onward.app import App
from onward.ledger.store import Store
from onward.model.documents import DocumentKey
from onward.model.events import Event
from onward.model.ledger import FailedBatch
from onward.model.ledger_views import FailureGroup, ScheduleResult
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
    worker_hint,
)
from onward.ops.actions.dead_letters import (
    BAD_CANARY,
    MAX_QUICK_PLAN,
    RequeueRun,
    check_pace,
    event_classes,
    preview_requeue,
    refusal_sentences,
    requeue_sentences,
    skipped_sentence,
)
from onward.ops.actions.document_retries import schedule, touched
from onward.ops.actions.group_life import fix_expected
from onward.ops.bad_input import BadInput
from onward.ops.lookup import PAGE, pages
from onward.ops.queries.failure_groups import affected, documents_in, error_text, find_batch, find_group
from onward.ops.text.format import counted, number, one_line
from onward.recovery.requeue_dead_letters import (
    CanaryOutcome,
    DeadLetterFilter,
    EventClasses,
    Requeue,
    RequeueResult,
    matching_dead_letters,
)
from onward.retry.redact import redact

Keys = Sequence[DocumentKey]


@dataclass(slots=True)
class GroupRetryResult:
    dead_letters: RequeueResult
    documents: Counter[ScheduleResult] = field(default_factory=Counter)
    held_back: int = 0  # documents that are left alone until the canary has passed

    @property
    def touched(self) -> int:
        scheduled = self.documents[ScheduleResult.SCHEDULED] + self.documents[ScheduleResult.RESCHEDULED]
        return self.dead_letters.requeued + scheduled

    @property
    def left(self) -> int:
        return self.dead_letters.left_untouched + self.held_back


def plan_group_retry(
    store: Store, fingerprint: str, events: EventClasses = tuple
) -> tuple[RequeueResult, list[DocumentKey]]:
    """Return what a retry would do with a group's dead letters, and its documents that none of them is about."""
    brought: set[DocumentKey] = set()
    found = matching_dead_letters(store, DeadLetterFilter(fingerprint=fingerprint))
    letters = preview_requeue(store, found, lambda letter: brought.update(letter.documents), events)
    keys = [(state.collection, state.id) for state in affected(store, fingerprint)]
    return letters, [key for key in keys if key not in brought]


def retry_group(
    store: Store, requeue: Requeue, documents: Keys, result: GroupRetryResult, canary: int, rate: float | None
) -> None:
    """Requeue a group: its dead letters, then the documents that have none.

    If a canary fails, the rest is left alone. `result` is correct however this ends.
    """
    requeue.run()
    outcome = requeue.result.canary.outcome
    if outcome not in (CanaryOutcome.NONE, CanaryOutcome.PASSED):
        result.held_back = len(documents)
        return
    if canary and outcome is CanaryOutcome.NONE:
        # Without a dead letter to watch, only the first documents are retried: the operator checks them.
        result.held_back = len(documents[canary:])
        documents = documents[:canary]
    now = store.now()
    size = PAGE if rate is None else max(1, min(PAGE, int(rate)))
    for start, keys in enumerate(pages(documents, size)):
        at = now if rate is None else now + start * size / rate
        result.documents.update(store.schedule(keys, at).values())


@dataclass(frozen=True, slots=True)
class RetryFailureGroup(Action):
    """Put back everything that a failure group affects: dead letters, and documents without one."""

    group: str  # a fingerprint, or the beginning of one
    canary: int = 0  # how many go first; the rest goes only if they are processed
    rate: float | None = None  # at most this many a second
    quick_plan: bool = False  # only count if more than `MAX_QUICK_PLAN` things are affected
    events: tuple[type[Event], ...] = ()  # to read again what could not be read; empty: those of the app

    def plan(self, app: App) -> ActionPlan:
        check_pace(self.canary, self.rate)
        group = find_group(app, self.group)
        title, undo = f"Put {_name(group)} back", "stop it while it runs; what fails again is back in this group."
        example = say(error_text(group, 200), tone=Tone.HINT)
        if self.quick_plan and group.dead_letters + group.affected > MAX_QUICK_PLAN:
            text = f"Up to {_amount(group.affected, group.dead_letters)} would go back."
            skipped = "What has recovered, or is being tried, is skipped."
            most = max(group.dead_letters, group.affected)
            sentences = say(text, skipped) + fix_expected(app, group)
            return ActionPlan(title, most, example + sentences, undo=undo, slow=True)
        events = event_classes(app, self.events)
        letters, documents = plan_group_retry(app.store, group.fingerprint, events)
        first = f", {number(self.canary)} of them first" if self.canary else ""
        sentences = refusal_sentences(letters.refused) + skipped_sentence(letters, "would be skipped")
        if documents:
            count = counted(len(documents), "document")
            sentences = say(f"{count} without a dead letter would be tried again{first}.") + sentences
        if letters.requeued:
            count = counted(letters.requeued, "dead letter")
            sentences = say(f"{count} would be put back{first}.") + sentences
        if sentences:
            sentences += fix_expected(app, group)
        return ActionPlan(
            title,
            letters.requeued + len(documents),
            example + (sentences or say("Nothing of this group is left to put back.")),
            self._facts(group, letters.requeued, len(documents), GroupRetryResult(letters)),
            undo=undo,
            slow=True,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        check_pace(self.canary, self.rate)
        group = find_group(app, self.group)
        events = event_classes(app, self.events)
        planned, documents = plan_group_retry(app.store, group.fingerprint, events)
        progress.total = planned.requeued
        run = RequeueRun(app, progress, actor, "failures retry", _about(group), self.canary, self.rate, events)
        wanted = DeadLetterFilter(fingerprint=group.fingerprint)
        found = matching_dead_letters(app.store, wanted, begun=progress.began_at)
        requeue = run.requeue(found)
        letters, result = requeue.result, GroupRetryResult(requeue.result)
        with run.followed(lambda: result.touched):
            retry_group(app.store, requeue, documents, result, self.canary, self.rate)
        completion = Completion.PARTIAL if letters.refused or result.left else Completion.WHOLE
        return ActionOutcome(
            result.touched,
            self._sentences(app, group, result, stopped=run.stopped),
            self._facts(group, planned.requeued, len(documents), result),
            Completion.FAILED if letters.canary.outcome in BAD_CANARY else completion,
            stopped=run.stopped,
            error=run.error,
        )

    def _facts(
        self, group: FailureGroup, planned: int, documents: int, result: GroupRetryResult
    ) -> dict[str, Any]:
        letters = result.dead_letters
        return {
            "fingerprint": group.fingerprint,
            "dead_letters": planned,
            "documents_without_letter": documents,
            "requeued": letters.requeued,
            "skipped_recovered": letters.skipped_recovered,
            "unreadable": letters.unreadable,
            "refused": [{"row": refusal.row, "reason": refusal.reason} for refusal in letters.refused],
            "documents": {str(outcome): count for outcome, count in result.documents.items()},
            "canary": {"outcome": str(letters.canary.outcome), "message": redact(letters.canary.message)},
            "left_untouched": result.left,
        }

    def _sentences(self, app: App, group: FailureGroup, result: GroupRetryResult, *, stopped: bool) -> Messages:
        sentences = requeue_sentences(result.dead_letters, stopped=stopped)
        for outcome, text in (
            (ScheduleResult.SCHEDULED, "will be tried again now"),
            (ScheduleResult.RESCHEDULED, "waited already, and falls due now"),
            (ScheduleResult.UNDER_WAY, "left alone: a worker has it just now"),
        ):
            if count := result.documents[outcome]:
                sentences += say(f"{counted(count, 'document')} {text}.")
        if result.left:
            sentences += say(f"{number(result.left)} left where they are.")
            if result.dead_letters.canary.outcome is CanaryOutcome.NONE and not stopped:
                text = f"When the first are processed: onward failures retry {group.fingerprint[:16]}"
                sentences += say(text, tone=Tone.HINT)
        nothing = say("Nothing of this group is left to put back.")
        return (sentences or nothing) + (worker_hint(app) if result.touched else ())


@dataclass(frozen=True, slots=True)
class DiscardFailureGroup(Action):
    """Give up everything that a failure group affects: documents are discarded, dead letters archived."""

    group: str  # a fingerprint, or the beginning of one

    def plan(self, app: App) -> ActionPlan:
        group = find_group(app, self.group)
        amount, count = _amount(group.affected, group.dead_letters), group.affected + group.dead_letters
        kept = "Documents become discarded, dead letters are archived: they are kept, but not tried again."
        example = say(error_text(group, 200) if count else "", tone=Tone.HINT)
        return ActionPlan(
            f"Give {_name(group)} up",
            count,
            example + (say(f"{amount} would be given up.", kept) if count else _NOTHING_TO_GIVE_UP),
            {"fingerprint": group.fingerprint, "documents": group.affected, "dead_letters": group.dead_letters},
            confirmation=f"this gives up {amount} for good",
            slow=count > MAX_QUICK_PLAN,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        group = find_group(app, self.group)
        progress.total = group.affected + group.dead_letters
        documents, letters = discard_group(app.store, group.fingerprint)
        actor.log(app, "failures discard", _about(group), documents + letters)
        given_up = say(f"{_amount(documents, letters)} given up for good.")
        return ActionOutcome(
            documents + letters,
            given_up if documents + letters else _NOTHING_TO_GIVE_UP,
            {"fingerprint": group.fingerprint, "documents": documents, "dead_letters": letters},
        )


_NOTHING_TO_GIVE_UP = say("Nothing of this group is left to give up.")


def discard_group(store: Store, fingerprint: str) -> tuple[int, int]:
    """Discard the documents of a group, and archive its dead letters that are about no document; count both."""
    keys = [(state.collection, state.id) for state in affected(store, fingerprint)]
    documents = sum(discard_documents(store, some) for some in pages(keys, PAGE))
    rows = [letter.row for letter in matching_dead_letters(store, DeadLetterFilter(fingerprint=fingerprint))]
    return documents, sum(store.archive_dead_letters(some) for some in pages(rows, PAGE))


def discard_documents(store: Store, keys: Keys) -> int:
    """Discard documents in one transaction; return how many were changed."""
    return store.atomically(lambda: sum(store.discard(*key) for key in keys))


def _about(group: FailureGroup) -> dict[str, str]:
    return {"group": group.fingerprint, "service": group.service, "error_type": group.error_type}


def _name(group: FailureGroup) -> str:
    return one_line(f"{group.error_type or 'failures'} of {group.service or 'no service'}", 80)


def _amount(documents: int, letters: int) -> str:
    found = [counted(documents, "document")] if documents or not letters else []
    return " and ".join([*found, counted(letters, "dead letter")] if letters else found)


# -- failed batches


@dataclass(frozen=True, slots=True)
class RetryFailedBatches(Action):
    """Let the documents of failed batches be retried now; this is not counted as a retry of the batches."""

    ids: tuple[str, ...] = ()  # ids, or the beginnings of them
    everything: bool = False

    def plan(self, app: App) -> ActionPlan:
        chosen = _chosen(app, self.ids, everything=self.everything)
        texts = (f"{_described(chosen)} would be retried.", "This is not counted as a retry.")
        return ActionPlan(
            "Retry failed batches now",
            documents_in(chosen),
            say(*texts) if chosen else say("There are no failed batches."),
            _batch_facts(chosen),
            undo="what fails again is set aside again, and its schedule goes on.",
            slow=documents_in(chosen) > PAGE,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        chosen = _chosen(app, self.ids, everything=self.everything)
        # Each document gets a time of its own, which has precedence over that of its batch. Only the retry job's
        # own retries of a batch are counted, and its schedule goes on.
        items = [key for batch in chosen for key in batch.items]
        count = touched(schedule(app, items, app.store.now()))
        facts = _batch_facts(chosen) | {"documents": count}
        actor.log(app, "batches retry", {"batches": facts["batches"]}, count)
        sentences = say("There are no failed batches.")
        if chosen:
            sentences = say(f"{_described(chosen)} will be retried now.")
            sentences += worker_hint(app, "A worker takes it within seconds.")
        return ActionOutcome(count, sentences, facts)


@dataclass(frozen=True, slots=True)
class DiscardFailedBatches(Action):
    """Give up all documents of failed batches: they become discarded, and are kept."""

    ids: tuple[str, ...] = ()
    everything: bool = False

    def plan(self, app: App) -> ActionPlan:
        chosen = _chosen(app, self.ids, everything=self.everything)
        documents = counted(documents_in(chosen), "document")
        return ActionPlan(
            "Give failed batches up",
            documents_in(chosen),
            say(
                f"{documents} of {counted(len(chosen), 'failed batch')} would be discarded.",
                "Discarded documents are kept, but not tried again.",
            ),
            _batch_facts(chosen),
            confirmation=f"this gives up {documents} for good",
            slow=documents_in(chosen) > PAGE,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        chosen = _chosen(app, self.ids, everything=self.everything)
        facts, items = _batch_facts(chosen), [key for batch in chosen for key in batch.items]
        progress.total = len(items)
        with actor.logged(app, "batches discard", {"batches": facts["batches"]}, progress):
            stopped = progress.in_steps(items, PAGE, lambda keys: discard_documents(app.store, keys))
        text = f"{counted(progress.done, 'document')} of {counted(len(chosen), 'failed batch')} discarded."
        return ActionOutcome(progress.done, say(text), facts | {"documents": progress.done}, stopped=stopped)


def _chosen(app: App, ids: Sequence[str], *, everything: bool = False) -> list[FailedBatch]:
    if bool(ids) == everything:
        raise BadInput("give either the ids of batches, or --all")
    found = app.store.failed_batches() if everything else [find_batch(app, id) for id in ids]
    return list({batch.id: batch for batch in found}.values())


def _described(chosen: Sequence[FailedBatch]) -> str:
    return f"{counted(len(chosen), 'failed batch')} with {counted(documents_in(chosen), 'document')}"


def _batch_facts(chosen: Sequence[FailedBatch]) -> dict[str, Any]:
    return {"batches": [batch.id for batch in chosen], "documents": documents_in(chosen)}
