"""Changes of dead letters: put back, put away, brought back, or removed for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import ClassVar

from onward.app import App
from onward.console import fields
from onward.console.acting import Plan, change
from onward.console.letters import chosen, chosen_path
from onward.console.operations import Operation
from onward.console.requeueing import Run, refused, told
from onward.facts.actions import log_action
from onward.facts.letters import Choice, error_line
from onward.facts.wording import counted, number, one_line
from onward.recovery.requeueing import Requeue, refusal

EXACT = 100
"""Of so many letters each is looked at before they are put back; more are only counted."""
AT_ONCE = 200
"""Letters in one transaction."""


def _count(app: App, choice: Choice) -> int:
    """How many letters match, without reading them."""
    if choice.row is not None:
        return 1
    groups = app.store.letter_groups(archived=choice.archived)
    typed = any(one.error_type for one in choice.wanted)
    types = {one.fingerprint: one.error_type for one in app.store.failure_groups()} if typed else {}
    return sum(
        one.letters
        for wanted in choice.wanted
        for one in groups
        if wanted.service in (None, one.service)
        and wanted.fingerprint in (None, one.fingerprint)
        and wanted.error_type in (None, types.get(one.fingerprint, ""))
    )


def _name(choice: Choice) -> str:
    return one_line(choice.name if choice.row is not None else f"letters of {choice.name}", 80)


def _what(choice: Choice) -> list[str]:
    """What the letters are, for one: what it failed with."""
    if choice.row is not None:
        return [error_line(next(choice.letters()))]
    wanted = choice.wanted[0]
    found = list[str]()
    if wanted.error_type:
        found.append(f"Only letters whose last error is {wanted.error_type}.")
    if wanted.fingerprint:
        found.append(f"Only letters of the failure group {wanted.fingerprint}.")
    return found


@change
class PutBack:
    """Put letters back: fields as in `letters.chosen`, `canary` and `rate`."""

    name: ClassVar[str] = "requeue"

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        choice = chosen(app, given)
        fields.canary(given), fields.rate(given)  # to refuse what makes no sense before it is confirmed
        touches, sentences = _would_put_back(app, choice)
        return Plan(
            f"Put {_name(choice)} back",
            "Put it back" if choice.row is not None else "Put them back",
            touches,
            (*_what(choice), *sentences, "Each event is tried again, in a new round of its documents."),
            undo="stop it while it runs; what fails again is back in its queue."
            if touches
            else "nothing is done.",
            back=chosen_path(app, given, gone=True),
            fields=fields.pace(given) if touches > 1 else (),
            long=choice.row is None,
        )

    def do(self, app: App, given: Mapping[str, str], operation: Operation, *, who: str, via: str) -> str:
        choice = chosen(app, given)
        first, rate = fields.canary(given), fields.rate(given)
        about = choice.about | {"canary": first or None, "rate": rate}
        run = Run(app, operation, "failed requeue", about, total=_count(app, choice), who=who, via=via)
        requeue = Requeue(
            app.store,
            choice.letters(),
            sleep=operation.sleep,
            rate=rate,
            canary=first,
            report=run.report,
            waiting=run.waiting,
        )
        try:
            requeue.run()
        finally:  # also what was done until somebody stopped it
            run.keep(requeue.result.requeued)
        sentences = told(requeue.result, requeue.result.left_untouched) or ["There was nothing to put back."]
        return run.end(sentences, result=requeue.result, touched=requeue.result.requeued)


def _would_put_back(app: App, choice: Choice) -> tuple[int, list[str]]:
    """How many letters would go back, and what is said of them; nothing is changed."""
    touches = _count(app, choice)
    if touches > EXACT:
        said = f"Up to {counted(touches, 'letter')} would go back."
        return touches, [said, "What has recovered meanwhile, or is being tried, is skipped."]
    reasons, recovered = list[str](), 0
    queues: Counter[str] = Counter()
    for letter in choice.letters():
        if reason := refusal(letter):
            reasons.append(reason)
        elif app.store.is_recovered(letter):
            recovered += 1
        else:
            queues[letter.failed_queue] += 1
    touches = queues.total()
    sentences = [f"{counted(touches, 'letter')} would go back."]
    if len(queues) > 1:
        sentences.append("; ".join(f"{name}: {number(count)}" for name, count in queues.most_common()) + ".")
    if recovered:
        sentences.append(f"{counted(recovered, 'letter')} would be skipped: recovered, or being tried.")
    return touches, sentences + refused(reasons)


def _change_all(
    app: App,
    choice: Choice,
    operation: Operation,
    action: str,
    step: Callable[[Sequence[int]], int],
    *,
    who: str,
    via: str,
) -> int:
    """Change letters a transaction at a time; what was done is kept however it ends."""
    operation.total = _count(app, choice)
    about = {name: value for name, value in choice.about.items() if name != "archived"}
    letters = choice.letters()
    try:
        while page := list(islice(letters, AT_ONCE)):
            operation.sleep(0)  # somebody may want it to end here
            operation.done += app.store.atomically(partial(step, [one.row for one in page]))
    finally:
        restore = {"restore": True} if choice.archived and action == "failed archive" else {}
        log_action(app, action, about | restore, operation.done, who=who, via=via)
    return operation.done


def _plan(app: App, given: Mapping[str, str], choice: Choice, *, verb: str, sentence: str, undo: str = "") -> Plan:
    """What is said before letters are put away, brought back or removed."""
    touches = _count(app, choice)
    one = choice.row is not None
    return Plan(
        f"{verb} {_name(choice)}",
        f"{verb} {'it' if one else 'them'}",
        touches,
        (*_what(choice), f"This is about {counted(touches, 'letter')}.", sentence),
        undo=undo,
        back=chosen_path(app, given, archived=choice.archived, gone=not undo),
        long=touches > EXACT,
    )


@change
class ArchiveLetters:
    """Put letters away: fields as in `letters.chosen`."""

    name: ClassVar[str] = "archive-letters"

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        return _plan(
            app,
            given,
            chosen(app, given),
            verb="Archive",
            undo="restore it from the archived letters of the queue.",
            sentence="What is archived is kept, but counted and shown no more. The documents stay as they are.",
        )

    def do(self, app: App, given: Mapping[str, str], operation: Operation, *, who: str, via: str) -> str:
        choice, step = chosen(app, given), app.store.archive_letters
        done = _change_all(app, choice, operation, "failed archive", step, who=who, via=via)
        return f"{counted(done, 'letter')} archived."


@change
class RestoreLetters:
    """Bring archived letters back to their queue: fields as in `letters.chosen`."""

    name: ClassVar[str] = "restore-letters"

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        return _plan(
            app,
            given,
            chosen(app, given, archived=True),
            verb="Restore",
            undo="archive it again.",
            sentence="What is restored is back in its queue, and counted again. Nothing is tried by that.",
        )

    def do(self, app: App, given: Mapping[str, str], operation: Operation, *, who: str, via: str) -> str:
        choice, step = chosen(app, given, archived=True), app.store.restore_letters
        done = _change_all(app, choice, operation, "failed archive", step, who=who, via=via)
        return f"{counted(done, 'letter')} restored."


@change
class PurgeLetters:
    """Remove letters for ever: fields as in `letters.chosen`, and `archived`."""

    name: ClassVar[str] = "purge-letters"

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        return _plan(
            app,
            given,
            chosen(app, given, archived=fields.ticked(given, "archived")),
            verb="Remove",
            sentence="What is removed is gone for ever, with event and errors. The documents stay as they are.",
        )

    def do(self, app: App, given: Mapping[str, str], operation: Operation, *, who: str, via: str) -> str:
        choice = chosen(app, given, archived=fields.ticked(given, "archived"))
        done = _change_all(app, choice, operation, "failed purge", app.store.purge_letters, who=who, via=via)
        return f"{counted(done, 'letter')} removed."
