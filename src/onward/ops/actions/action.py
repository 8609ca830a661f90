"""Base of all actions: a plan with counts, a run that reports its progress, an outcome, and the action log."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import Enum, StrEnum
from typing import Any, NamedTuple

from onward.app import App
from onward.model.ledger_views import LoggedAction
from onward.ops.lookup import Item, pages, worker_command
from onward.ops.text.format import iso, one_line
from onward.retry.errors import OnwardError
from onward.retry.redact import redact
from onward.runtime.process_identity import alive_workers


class ActionStopped(Exception):
    """Somebody has asked a running action to stop."""


class Tone(StrEnum):
    """How a message is meant; the command line colours it."""

    PLAIN = ""
    GOOD = "good"
    HINT = "hint"
    WARNING = "warning"
    PROBLEM = "problem"


class ActionMessage(NamedTuple):
    text: str
    tone: Tone = Tone.PLAIN


Messages = tuple[ActionMessage, ...]


def say(*texts: str, tone: Tone = Tone.PLAIN) -> Messages:
    """Return sentences of one tone; an empty text is left out."""
    return tuple(ActionMessage(text, tone) for text in texts if text)


class Actor(NamedTuple):
    """The user who takes an action, and `cli`, `console` or `api`."""

    who: str
    via: str

    def log(self, app: App, action: str, about: Mapping[str, Any], touched: int) -> None:
        """Add an entry to the action log, unless nothing was changed; parameters not given are left out."""
        if touched:
            given = {name: _redacted(value) for name, value in about.items() if value not in (None, False, (), [])}
            app.store.log_action(self.who, self.via, action, given, touched)

    @contextmanager
    def logged(self, app: App, action: str, about: Mapping[str, Any], progress: ActionProgress) -> Iterator[None]:
        """Log what was done in a block, also if it fails."""
        try:
            yield
        finally:
            self.log(app, action, about, progress.done)


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """The planned changes of an action; nothing is changed yet."""

    title: str
    touches: int  # how many documents, dead letters or other things it changes
    sentences: Messages
    facts: Mapping[str, Any] = field(default_factory=dict)  # the same for programs
    undo: str = ""  # how it can be undone; empty: it is final
    confirmation: str = ""  # what the user has to confirm: "this gives up 3 documents for good"
    slow: bool = False  # it may take longer than a web request

    @property
    def final(self) -> bool:
        return self.touches > 0 and not self.undo

    @property
    def text(self) -> str:
        return " ".join(sentence.text for sentence in self.sentences)


class Completion(Enum):
    """How much of its plan an action has done."""

    WHOLE = "whole"
    PARTIAL = "partial"  # some things could not be changed, or still wait
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    touched: int
    sentences: Messages
    facts: Mapping[str, Any] = field(default_factory=dict)  # the same for programs
    completion: Completion = Completion.WHOLE
    stopped: bool = False  # completed changes are kept
    error: OnwardError | None = None  # what ended it early, such as a store that cannot be reached

    @property
    def text(self) -> str:
        return " ".join(sentence.text for sentence in self.sentences)


class ActionProgress:
    """How far a running action has come; the caller overrides `sleep` and `show`, and may set `stopping`.

    A run that goes on after an interruption finds in `cursor` what the last `checkpoint` has stored, and in
    `began_at` when the action was begun for the first time. `done` and `total` count this run only.
    """

    done = 0
    total = 0
    text = ""
    stopping = False
    cursor: Any = None  # JSON; None: the action begins
    began_at: float | None = None  # by the store's clock; None: it begins now
    continued = False  # an earlier run may have done a part of it

    def update(self, done: int, text: str = "") -> None:
        """Report how many things are done, and what is done just now."""
        self.done, self.text = done, text
        self.show()

    def show(self) -> None:
        """Show the progress to a person."""

    def checkpoint(self, cursor: Any) -> None:
        """Store, as JSON, from where the action can go on after an interruption.

        In a transaction of the store, it is part of it: then `cursor` says exactly what was done.
        """
        self.cursor = cursor

    def check(self) -> None:
        if self.stopping:
            raise ActionStopped

    def sleep(self, seconds: float) -> None:
        """Wait; raise `ActionStopped` if the action must stop."""
        self.check()
        time.sleep(seconds)

    def in_steps(self, items: Iterable[Item], size: int, step: Callable[[list[Item]], int]) -> bool:
        """Change items page by page; return whether it was stopped before the last page."""
        for page in pages(items, size):
            if self.stopping:
                return True
            self.update(self.done + step(page))
        return False


class Action(ABC):
    """A change that an operator makes, with its parameters as fields."""

    @abstractmethod
    def plan(self, app: App) -> ActionPlan:
        """Return what it would do; refuse parameters that make no sense with `BadInput` or `NotFound`."""

    @abstractmethod
    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        """Do it, and add an entry to the action log."""


def _redacted(value: Any) -> Any:
    """Return a value without its secrets: a source may carry a password."""
    if isinstance(value, list | tuple):
        return [_redacted(item) for item in value]
    return redact(value) if isinstance(value, str) else value


def action_facts(entry: LoggedAction) -> dict[str, Any]:
    return asdict(entry) | {"at": iso(entry.at)}


def worker_hint(app: App, alive: str = "", command: str = "") -> Messages:
    """Say how to start a worker if none is alive, with `command` if it is given; else `alive`, if it is given."""
    if not alive_workers(app.store):
        command = one_line(command) or worker_command(app.store)
        return say(f"No worker is alive to do it; start one: {command}", tone=Tone.WARNING)
    return say(alive, tone=Tone.HINT)


def stopped_sentence(done: str, total: str, verb: str) -> Messages:
    return say(one_line(f"{done} of {total} {verb}, then stopped. The same command goes on with the rest."))
