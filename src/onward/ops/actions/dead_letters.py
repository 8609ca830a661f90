"""Putting dead letters back, archiving and restoring them, and removing them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from onward.app import App
from onward.ledger.store import Store
from onward.model.events import Event
from onward.model.ledger import DeadLetter
from onward.ops.actions.action import (
    Action,
    ActionMessage,
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
from onward.ops.bad_input import BadInput
from onward.ops.lookup import is_pipeline_store
from onward.ops.queries.dead_letters import ChosenDeadLetters, DeadLetterSelection
from onward.ops.text.format import counted, number, one_line
from onward.ops.text.history import last_error_text
from onward.recovery.requeue_dead_letters import (
    CanaryOutcome,
    EventClasses,
    EventReader,
    Refusal,
    Requeue,
    RequeueResult,
)
from onward.retry.errors import OnwardError
from onward.retry.redact import redact

BAD_CANARY = (CanaryOutcome.FAILED, CanaryOutcome.UNANSWERED)
MAX_LISTED = 10
MAX_CANARY = 1_000_000
MAX_QUICK_PLAN = 100  # a quick plan looks at each of at most this many dead letters; more are only counted
PAGE = 200  # dead letters in one transaction


# -- putting back


def check_pace(canary: int, rate: float | None) -> None:
    if not 0 <= canary <= MAX_CANARY:
        raise BadInput(f"{canary} is no canary; give how many go first, from 1 to {MAX_CANARY}")
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise BadInput(f"{rate} is no rate; give how many a second, such as 10 or 0.5")


def event_classes(app: App, given: Sequence[type[Event]]) -> EventClasses:
    """Return a function that returns the given event classes, or those of an app's services.

    Commands open an app without services: if the store is the pipeline's, it returns the pipeline's classes.
    """

    def find() -> Iterable[type[Event]]:
        known = list(given) or list(app.registry.events())
        if known or not is_pipeline_store(app.store):
            return known
        from onward.pipeline import events

        return [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]

    return find


def preview_requeue(
    store: Store, letters: Iterable[DeadLetter], accept: Callable[[DeadLetter], object], events: EventClasses
) -> RequeueResult:
    """Return the result of a requeue, as far as it can be foreseen; call `accept` for what would go back."""
    result, reader = RequeueResult(), EventReader(store, events)
    for letter in letters:
        if reason := reader.refusal(letter):
            result.refused.append(Refusal(letter.row, reason))
        elif store.is_recovered(letter):
            result.skipped_recovered += 1
        else:
            result.requeued += 1
            accept(letter)
    return result


@dataclass(slots=True)
class RequeueRun:
    """Connects a requeue with the progress of its action and with the action log."""

    app: App
    progress: ActionProgress
    actor: Actor
    action: str
    about: Mapping[str, Any]
    canary: int
    rate: float | None
    events: EventClasses
    stopped: bool = False
    error: OnwardError | None = None
    logged: int = field(default=0, init=False)

    def requeue(self, letters: Iterable[DeadLetter]) -> Requeue:
        """Return a requeue that is not begun yet."""

        def report(result: RequeueResult) -> None:
            self.progress.update(result.handled)
            self.progress.check()

        def waiting(done: int, total: int, hint: str) -> None:
            self._log(requeue.result.requeued)  # before the wait, in case of a crash
            text = f"canary: {number(done)} of {number(total)} done"
            hint = one_line(redact(hint), 300)
            self.progress.update(self.progress.done, f"{text}; {hint}" if hint else text)

        requeue = Requeue(
            self.app.store,
            letters,
            sleep=self.progress.sleep,
            events=self.events,
            rate=self.rate,
            canary=self.canary,
            report=report,
            waiting=waiting,
        )
        return requeue

    @contextmanager
    def followed(self, touched: Callable[[], int]) -> Iterator[None]:
        """Keep what ends the block early; log what was put back even if it fails."""
        try:
            yield
        except (ActionStopped, KeyboardInterrupt):
            self.stopped = True
        except OnwardError as error:
            self.error = error
        finally:
            self._log(touched())

    def _log(self, touched: int) -> None:
        """Log what was put back since the last entry."""
        new, self.logged = touched - self.logged, touched
        about = {**self.about, "canary": self.canary or None, "rate": self.rate}
        self.actor.log(self.app, self.action, about, new)


@dataclass(frozen=True, slots=True)
class RequeueDeadLetters(Action):
    """Put dead letters back: each original event is tried again, in a new round of its documents.

    What was put back is out of its queue: the same action again goes on with the rest.
    """

    selection: DeadLetterSelection
    canary: int = 0  # how many go first; the rest goes only if they are processed
    rate: float | None = None  # at most this many a second
    quick_plan: bool = False  # only count the dead letters if there are more than `MAX_QUICK_PLAN`
    events: tuple[type[Event], ...] = ()  # to read again what could not be read; empty: those of the app

    def plan(self, app: App) -> ActionPlan:
        check_pace(self.canary, self.rate)
        choice = self.selection.find(app)
        touches, sentences, facts = self._preview(app, choice)
        text = "Each event is tried again, in a new round of its documents." if touches else ""
        return ActionPlan(
            f"Put {_title(choice)} back",
            touches,
            (*_described(choice), *sentences, *say(text, tone=Tone.HINT)),
            facts,
            undo="stop it while it runs; what fails again is back in its queue.",
            slow=choice.row is None,
        )

    def _preview(self, app: App, choice: ChosenDeadLetters) -> tuple[int, Messages, dict[str, Any]]:
        if self.quick_plan and (count := choice.count()) > MAX_QUICK_PLAN:
            text = f"Up to {_of(choice, count)} would go back. What has recovered, or is being tried, is skipped."
            return count, say(text), {}
        queues = Counter[str]()
        events = event_classes(app, self.events)
        result = preview_requeue(
            app.store, choice.letters(), lambda one: queues.update([one.failed_queue]), events
        )
        first = min(self.canary, result.requeued)
        order = f", {number(first)} of them first" if 0 < first < result.requeued else ""
        sentences = say(f"{_of(choice, result.requeued)} would go back{order}.")
        if len(queues) > 1:
            counts = (f"{one_line(name)}: {number(count)}" for name, count in queues.most_common())
            sentences += say("; ".join(counts) + ".")
        sentences += skipped_sentence(result, "would be skipped") + refusal_sentences(result.refused)
        return result.requeued, sentences, {**asdict(result), "queues": dict(queues)}

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        check_pace(self.canary, self.rate)
        choice = self.selection.find(app)
        progress.total = choice.count()
        events = event_classes(app, self.events)
        run = RequeueRun(app, progress, actor, "failed requeue", choice.about, self.canary, self.rate, events)
        requeue = run.requeue(choice.letters(progress.began_at))
        result = requeue.result
        with run.followed(lambda: result.requeued):
            requeue.run()
        if run.stopped or run.error is not None:
            result.left_untouched = max(0, progress.total - result.handled)
        stopped = run.stopped and result.left_untouched > 0
        interrupted = stopped or run.error is not None
        sentences = requeue_sentences(result, stopped=interrupted)
        if not result.handled and not result.left_untouched:
            sentences += say(f"Nothing to put back in {one_line(choice.name)}.")
        if result.left_untouched:
            left = counted(result.left_untouched, "dead letter")
            sentences += say(f"{left} left untouched.", tone=Tone.WARNING)
        completion = Completion.PARTIAL if result.refused else Completion.WHOLE
        return ActionOutcome(
            result.requeued,
            sentences + (worker_hint(app) if result.requeued else ()),
            {**asdict(result), "interrupted": interrupted},
            Completion.FAILED if result.canary.outcome in BAD_CANARY else completion,
            stopped=stopped,
            error=run.error,
        )


def requeue_sentences(result: RequeueResult, *, stopped: bool) -> Messages:
    canary, sentences = result.canary, list[ActionMessage]()
    if canary.outcome in BAD_CANARY:
        sentences += say(f"Stopped by the canary: {one_line(redact(canary.message), 500)}", tone=Tone.PROBLEM)
        for failure in canary.failures[:MAX_LISTED]:
            about = "/".join(failure.document) if failure.document else "its event"
            error = f"{one_line(about)}: {one_line(redact(failure.error), 300)}"
            sentences += say(f"  dead letter {failure.row}, {error}", tone=Tone.PROBLEM)
    if canary.outcome is CanaryOutcome.PASSED:
        first = "one" if len(canary.rows) == 1 else number(len(canary.rows))
        sentences += say(f"The first {first} went well.", tone=Tone.GOOD)
    if stopped:
        sentences += say("Stopped. The same command goes on with the rest.", tone=Tone.WARNING)
    if result.requeued:
        sentences += say(f"{counted(result.requeued, 'dead letter')} put back.")
    sentences += (*skipped_sentence(result, "skipped"), *refusal_sentences(result.refused))
    if result.unreadable:
        count = f"{counted(result.unreadable, 'dead letter')} could still not be read."
        sentences += say(f"{count} Try again after a fix of the consumer.", tone=Tone.HINT)
    return tuple(sentences)


def skipped_sentence(result: RequeueResult, verb: str) -> Messages:
    skipped = counted(result.skipped_recovered, "dead letter")
    text = f"{skipped} {verb}: recovered, or being tried."
    return say(text if result.skipped_recovered else "", tone=Tone.HINT)


def refusal_sentences(refused: Sequence[Refusal]) -> Messages:
    """Say why dead letters cannot go back, each reason once."""
    rows: dict[str, list[int]] = {}
    for one in refused:
        rows.setdefault(one.reason, []).append(one.row)
    texts = []
    for reason, some in list(rows.items())[:MAX_LISTED]:
        listed = ", ".join(str(row) for row in some[:MAX_LISTED]) + (", …" if len(some) > MAX_LISTED else "")
        count = counted(len(some), "dead letter")
        texts.append(f"{count} cannot go back ({listed}): {one_line(redact(reason), 300)}")
    return say(*texts, tone=Tone.PROBLEM)


# -- archiving, restoring and removing


@dataclass(frozen=True, slots=True)
class _DeadLetterChange(Action):
    """Base of archiving, restoring and removing dead letters."""

    selection: DeadLetterSelection
    archived: bool = False  # those that are archived
    recovered: bool = False  # only those about nothing that is still unfinished
    log_name: ClassVar[str] = "failed archive"
    title: ClassVar[str]
    verb: ClassVar[str]  # what has become of the dead letters; the name of the count for programs
    effect: ClassVar[str]
    undo: ClassVar[str] = ""

    def plan(self, app: App) -> ActionPlan:
        choice = self.selection.find(app, archived=self.archived)
        count = self._count(app, choice)
        sentences = self._sentences(choice, count, f"would be {self.verb}")
        return ActionPlan(
            f"{self.title} {_title(choice)}",
            count,
            (*_described(choice), *sentences, *say(self.effect if count else "")),
            {self.verb: count, "interrupted": False},
            undo=self.undo,
            confirmation=f"this removes {_of(choice, count)} for ever",
            slow=count > MAX_QUICK_PLAN,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        choice = self.selection.find(app, archived=self.archived)
        progress.total = self._count(app, choice)
        store, about = app.store, choice.about | {"recovered": self.recovered}
        if self.verb == "restored":
            about |= {"archived": None, "restore": True}
        changes = {
            "archived": store.archive_dead_letters,
            "restored": store.restore_dead_letters,
            "removed": store.purge_dead_letters,
        }

        def change(page: list[DeadLetter]) -> int:
            # What is wanted is asked in the transaction that changes it.
            wanted = [one.row for one in page if not self.recovered or store.is_recovered(one)]
            return changes[self.verb](wanted)

        with actor.logged(app, self.log_name, about, progress):
            stopped = progress.in_steps(
                choice.letters(progress.began_at), PAGE, lambda page: store.atomically(lambda: change(page))
            )
        done = progress.done
        sentences = self._sentences(choice, done, self.verb)
        if stopped:
            sentences = stopped_sentence(number(done), _of(choice, progress.total), self.verb)
        return ActionOutcome(done, sentences, {self.verb: done, "interrupted": stopped}, stopped=stopped)

    def _count(self, app: App, choice: ChosenDeadLetters) -> int:
        if self.recovered:
            return sum(app.store.is_recovered(letter) for letter in choice.letters())
        return choice.count()

    def _sentences(self, choice: ChosenDeadLetters, count: int, verb: str) -> Messages:
        if self.recovered and choice.row is not None and not count:
            return say(f"Dead letter {choice.row} is about something unfinished: it stays.")
        return say(one_line(f"{_of(choice, count)} {verb}."))


@dataclass(frozen=True, slots=True)
class ArchiveDeadLetters(_DeadLetterChange):
    """Keep dead letters, but neither count nor show them any more."""

    title: ClassVar[str] = "Archive"
    verb: ClassVar[str] = "archived"
    effect: ClassVar[str] = "What is archived is kept, but counted and shown no more. The documents do not change."
    undo: ClassVar[str] = "restore it from the archived dead letters of its queue."


@dataclass(frozen=True, slots=True)
class RestoreDeadLetters(_DeadLetterChange):
    archived: bool = True
    title: ClassVar[str] = "Restore"
    verb: ClassVar[str] = "restored"
    effect: ClassVar[str] = "What is restored is back in its queue, and counted again. It is not tried again."
    undo: ClassVar[str] = "archive it again."


@dataclass(frozen=True, slots=True)
class PurgeDeadLetters(_DeadLetterChange):
    """Remove dead letters for ever; their documents do not change."""

    log_name: ClassVar[str] = "failed purge"
    title: ClassVar[str] = "Remove"
    verb: ClassVar[str] = "removed"
    effect: ClassVar[str] = "What is removed is gone for ever, with event and errors. The documents do not change."


# -- describing a choice


def _of(choice: ChosenDeadLetters, count: int) -> str:
    if choice.row is not None:
        return f"Dead letter {choice.row}" if count else "No dead letter"
    return f"{counted(count, 'dead letter')} of {one_line(choice.name)}"


def _title(choice: ChosenDeadLetters) -> str:
    return one_line(choice.name if choice.row is not None else f"dead letters of {choice.name}", 80)


def _described(choice: ChosenDeadLetters) -> Messages:
    """Say what a single dead letter failed with."""
    return say(last_error_text(next(choice.letters())), tone=Tone.HINT) if choice.row is not None else ()
