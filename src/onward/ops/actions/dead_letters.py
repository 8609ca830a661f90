"""Putting dead letters back, archiving and restoring them, and removing them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, ClassVar

from onward.app import App
from onward.model.ledger import DeadLetter
from onward.ops.actions.action import (
    Action,
    ActionMessage,
    ActionOutcome,
    ActionPlan,
    ActionProgress,
    Actor,
    Completion,
    Tone,
    in_steps,
    plain,
    stopped_sentence,
    worker_sentence,
)
from onward.ops.actions.requeue_run import (
    BAD_CANARY,
    RequeueRun,
    check_pace,
    refusal_sentences,
    requeue_sentences,
)
from onward.ops.queries.dead_letters import ChosenDeadLetters, select_dead_letters
from onward.ops.text.format import counted, number, one_line
from onward.ops.text.history import last_error_text
from onward.recovery.requeue_dead_letters import Refusal, Requeue, RequeueResult, refusal, service_names

MAX_QUICK_PLAN = 100
"""A quick plan looks at each of at most this many dead letters; more are only counted."""
PAGE = 200
"""Dead letters in one transaction."""


@dataclass(frozen=True, slots=True)
class DeadLetterSelection:
    """Which dead letters an action is about: those of a queue, of all queues, or one; narrowed by filters."""

    queue: str | None = None
    """A failed queue, a service, or the number of one dead letter."""
    everything: bool = False
    row: int | None = None
    group: str | None = None
    error_type: str | None = None
    since: float | None = None
    document: str | None = None
    limit: int | None = None

    def find(self, app: App, *, archived: bool = False) -> ChosenDeadLetters:
        """Return the dead letters; refuse names that nothing has."""
        if self.row is not None:
            about = {"row": self.row, "archived": archived}
            return ChosenDeadLetters(app, f"dead letter {self.row}", (), None, about, archived, self.row)
        return select_dead_letters(
            app,
            self.queue,
            everything=self.everything,
            archived=archived,
            group=self.group,
            error_type=self.error_type,
            since=self.since,
            document=self.document,
            limit=self.limit,
        )


# -- putting back


@dataclass(frozen=True, slots=True)
class RequeueDeadLetters(Action):
    """Put dead letters back: each original event is tried again, in a new round of its documents.

    What was put back is out of its queue: the same action again goes on with the rest.
    """

    selection: DeadLetterSelection
    canary: int = 0
    """How many go first; the rest goes only if they are processed."""
    rate: float | None = None
    """At most this many a second."""
    quick_plan: bool = False
    """Only count the dead letters if there are more than `MAX_QUICK_PLAN`."""
    log_name: ClassVar[str] = "failed requeue"

    def plan(self, app: App) -> ActionPlan:
        check_pace(self.canary, self.rate)
        choice = self.selection.find(app)
        touches, sentences, facts = self._preview(app, choice)
        text = "Each event is tried again, in a new round of its documents."
        return ActionPlan(
            f"Put {_title(choice)} back",
            touches,
            (*_described(choice), *sentences, ActionMessage(text, Tone.HINT)),
            facts,
            undo="stop it while it runs; what fails again is back in its queue.",
            slow=choice.row is None,
        )

    def _preview(
        self, app: App, choice: ChosenDeadLetters
    ) -> tuple[int, tuple[ActionMessage, ...], dict[str, Any]]:
        if self.quick_plan and (count := count_dead_letters(app, choice)) > MAX_QUICK_PLAN:
            text = f"Up to {_of(choice, count)} would go back. What has recovered, or is being tried, is skipped."
            return count, plain(text), {}
        result, queues, services = RequeueResult(), Counter[str](), service_names(app.store)
        for letter in choice.letters():
            if reason := refusal(letter, services):
                result.refused.append(Refusal(letter.row, reason))
            elif app.store.is_recovered(letter):
                result.skipped_recovered += 1
            else:
                queues[letter.failed_queue] += 1
        result.requeued = queues.total()
        first = min(self.canary, result.requeued)
        order = f", {number(first)} of them first" if 0 < first < result.requeued else ""
        sentences = plain(f"{_of(choice, result.requeued)} would go back{order}.")
        if len(queues) > 1:
            counts = (f"{one_line(name)}: {number(count)}" for name, count in queues.most_common())
            sentences += plain("; ".join(counts) + ".")
        if result.skipped_recovered:
            skipped = counted(result.skipped_recovered, "dead letter")
            sentences += (ActionMessage(f"{skipped} would be skipped: recovered, or being tried.", Tone.HINT),)
        facts = {**asdict(result), "queues": dict(queues)}
        return result.requeued, sentences + refusal_sentences(result.refused), facts

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        check_pace(self.canary, self.rate)
        choice = self.selection.find(app)
        progress.total = count_dead_letters(app, choice)
        about = choice.about | {"canary": self.canary or None, "rate": self.rate}
        run = RequeueRun(app, self, about, progress, actor)
        requeue = Requeue(
            app.store,
            choice.letters(),
            sleep=progress.sleep,
            rate=self.rate,
            canary=self.canary,
            report=run.report,
            waiting=run.waiting,
        )
        result = requeue.result
        run.follow(requeue.run, lambda: result.requeued)
        if run.stopped or run.error is not None:
            result.left_untouched = max(0, progress.total - result.handled)
        stopped = run.stopped and result.left_untouched > 0
        completion = Completion.PARTIAL if result.refused else Completion.WHOLE
        return ActionOutcome(
            result.requeued,
            self._sentences(app, choice, result, stopped=stopped or run.error is not None),
            {**asdict(result), "interrupted": stopped or run.error is not None},
            Completion.FAILED if result.canary.outcome in BAD_CANARY else completion,
            stopped=stopped,
            error=run.error,
        )

    def _sentences(
        self, app: App, choice: ChosenDeadLetters, result: RequeueResult, *, stopped: bool
    ) -> tuple[ActionMessage, ...]:
        sentences = requeue_sentences(result, stopped=stopped)
        if not result.handled and not result.left_untouched:
            sentences += plain(f"Nothing to put back in {one_line(choice.name)}.")
        if result.left_untouched:
            left = counted(result.left_untouched, "dead letter")
            sentences += (ActionMessage(f"{left} left untouched.", Tone.WARNING),)
        return sentences + (worker_sentence(app) if result.requeued else ())


# -- archiving, restoring and removing


@dataclass(frozen=True, slots=True)
class _DeadLetterChange(Action):
    """Base of archiving, restoring and removing dead letters."""

    selection: DeadLetterSelection
    archived: ClassVar[bool] = False
    title: ClassVar[str]
    verb: ClassVar[str]
    """What has become of the dead letters; the name of the count for programs."""
    effect: ClassVar[str]
    undo: ClassVar[str] = ""

    def _find(self, app: App) -> ChosenDeadLetters:
        return self.selection.find(app, archived=self.archived)

    def _wanted(self, app: App, letter: DeadLetter) -> bool:
        return True

    def _step(self, app: App) -> Callable[[Sequence[int]], int]:
        raise NotImplementedError

    def _about(self, choice: ChosenDeadLetters) -> dict[str, Any]:
        return {name: value for name, value in choice.about.items() if name != "archived"}

    def _count(self, app: App, choice: ChosenDeadLetters) -> int:
        return count_dead_letters(app, choice)

    def plan(self, app: App) -> ActionPlan:
        choice = self._find(app)
        count = self._count(app, choice)
        return ActionPlan(
            f"{self.title} {_title(choice)}",
            count,
            (
                *_described(choice),
                *self._sentences(choice, count, f"would be {self.verb}"),
                *plain(*[self.effect] if count else []),
            ),
            {self.verb: count, "interrupted": False},
            undo=self.undo,
            confirmation=f"this removes {_of(choice, count)} for ever",
            slow=count > MAX_QUICK_PLAN,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        choice, step = self._find(app), self._step(app)
        progress.total = self._count(app, choice)

        def change(page: list[DeadLetter]) -> int:
            # What is wanted is asked in the transaction that changes it.
            return app.store.atomically(lambda: step([letter.row for letter in page if self._wanted(app, letter)]))

        try:
            stopped = in_steps(choice.letters(), PAGE, progress, change)
        finally:
            self.log(app, actor, self._about(choice), progress.done)
        done = progress.done
        sentences = self._sentences(choice, done, self.verb)
        if stopped:
            sentences = (stopped_sentence(number(done), _of(choice, progress.total), self.verb),)
        return ActionOutcome(done, sentences, {self.verb: done, "interrupted": stopped}, stopped=stopped)

    def _sentences(self, choice: ChosenDeadLetters, count: int, verb: str) -> tuple[ActionMessage, ...]:
        return plain(one_line(f"{_of(choice, count)} {verb}."))


@dataclass(frozen=True, slots=True)
class ArchiveDeadLetters(_DeadLetterChange):
    """Keep dead letters, but neither count nor show them any more."""

    log_name: ClassVar[str] = "failed archive"
    title: ClassVar[str] = "Archive"
    verb: ClassVar[str] = "archived"
    effect: ClassVar[str] = "What is archived is kept, but counted and shown no more. The documents do not change."
    undo: ClassVar[str] = "restore it from the archived dead letters of its queue."

    def _step(self, app: App) -> Callable[[Sequence[int]], int]:
        return app.store.archive_dead_letters


@dataclass(frozen=True, slots=True)
class RestoreDeadLetters(_DeadLetterChange):
    """Bring archived dead letters back to their queue."""

    log_name: ClassVar[str] = "failed archive"
    archived: ClassVar[bool] = True
    title: ClassVar[str] = "Restore"
    verb: ClassVar[str] = "restored"
    effect: ClassVar[str] = "What is restored is back in its queue, and counted again. It is not tried again."
    undo: ClassVar[str] = "archive it again."

    def _step(self, app: App) -> Callable[[Sequence[int]], int]:
        return app.store.restore_dead_letters

    def _about(self, choice: ChosenDeadLetters) -> dict[str, Any]:
        return _DeadLetterChange._about(self, choice) | {"restore": True}


@dataclass(frozen=True, slots=True)
class PurgeDeadLetters(_DeadLetterChange):
    """Remove dead letters for ever; their documents do not change."""

    from_archive: bool = False
    recovered: bool = False
    """Only those about nothing that is still unfinished."""
    log_name: ClassVar[str] = "failed purge"
    title: ClassVar[str] = "Remove"
    verb: ClassVar[str] = "removed"
    effect: ClassVar[str] = "What is removed is gone for ever, with event and errors. The documents do not change."

    def _find(self, app: App) -> ChosenDeadLetters:
        return self.selection.find(app, archived=self.from_archive)

    def _wanted(self, app: App, letter: DeadLetter) -> bool:
        return not self.recovered or app.store.is_recovered(letter)

    def _step(self, app: App) -> Callable[[Sequence[int]], int]:
        return app.store.purge_dead_letters

    def _about(self, choice: ChosenDeadLetters) -> dict[str, Any]:
        return choice.about | {"recovered": self.recovered}

    def _count(self, app: App, choice: ChosenDeadLetters) -> int:
        if self.recovered:
            return sum(self._wanted(app, letter) for letter in choice.letters())
        return count_dead_letters(app, choice)

    def _sentences(self, choice: ChosenDeadLetters, count: int, verb: str) -> tuple[ActionMessage, ...]:
        if self.recovered and choice.row is not None and not count:
            return plain(f"Dead letter {choice.row} is about something unfinished: it stays.")
        return _DeadLetterChange._sentences(self, choice, count, verb)


# -- describing a choice


def count_dead_letters(app: App, choice: ChosenDeadLetters) -> int:
    """Return how many dead letters match; they are read only if a filter needs it."""
    if choice.row is not None:
        next(choice.letters())  # refuses a number that nothing has
        return 1
    filters = choice.filters
    if choice.limit is not None or any(one.since is not None or one.document is not None for one in filters):
        return sum(1 for _ in islice(choice.letters(), choice.limit))
    groups = app.store.dead_letter_groups(archived=choice.archived)
    typed = any(wanted.error_type for wanted in filters)
    types = {group.fingerprint: group.error_type for group in app.store.failure_groups()} if typed else {}
    return sum(
        group.dead_letters
        for wanted in filters
        for group in groups
        if wanted.service in (None, group.service)
        and wanted.fingerprint in (None, group.fingerprint)
        and wanted.error_type in (None, types.get(group.fingerprint, ""))
    )


def _of(choice: ChosenDeadLetters, count: int) -> str:
    if choice.row is not None:
        return f"Dead letter {choice.row}" if count else "No dead letter"
    return f"{counted(count, 'dead letter')} of {one_line(choice.name)}"


def _title(choice: ChosenDeadLetters) -> str:
    return one_line(choice.name if choice.row is not None else f"dead letters of {choice.name}", 80)


def _described(choice: ChosenDeadLetters) -> tuple[ActionMessage, ...]:
    """Say what a single dead letter failed with."""
    return (ActionMessage(last_error_text(next(choice.letters())), Tone.HINT),) if choice.row is not None else ()
