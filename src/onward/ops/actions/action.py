"""Base of all actions: a plan with counts, a run that reports its progress, and an outcome."""

from __future__ import annotations

import getpass
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from itertools import islice
from typing import Any, ClassVar, TypeVar

from onward.app import App
from onward.model.ledger_views import LoggedAction
from onward.ops.lookup import worker_command
from onward.ops.text.format import iso, one_line
from onward.retry.errors import OnwardError
from onward.retry.redact import redact
from onward.runtime.process_identity import alive_workers

Item = TypeVar("Item")


class ActionStopped(Exception):
    """Somebody has asked a running action to stop."""


class Tone(StrEnum):
    """How a message is meant; the command line colours it."""

    PLAIN = ""
    GOOD = "good"
    HINT = "hint"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class ActionMessage:
    """A sentence about an action, and its tone."""

    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Actor:
    """The user who takes an action, and `cli`, `console` or `api`."""

    who: str
    via: str


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """The planned changes of an action; nothing is changed yet."""

    title: str
    touches: int
    """How many documents, dead letters or other things it changes."""
    sentences: tuple[ActionMessage, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The same for programs."""
    undo: str = ""
    """How it can be undone; empty: it is final."""
    confirmation: str = ""
    """The change that the user has to confirm: "this gives up 3 documents for good"."""
    slow: bool = False
    """It may take longer than a web request."""

    @property
    def final(self) -> bool:
        return self.touches > 0 and not self.undo

    @property
    def text(self) -> str:
        return " ".join(sentence.text for sentence in self.sentences)


class Completion(Enum):
    """How much of its plan an action has done."""

    WHOLE = "whole"
    PARTIAL = "partial"
    """Some things could not be changed, or still wait."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ActionOutcome:
    """The result of an action."""

    touched: int
    sentences: tuple[ActionMessage, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The same for programs."""
    completion: Completion = Completion.WHOLE
    stopped: bool = False
    """It was stopped; completed changes are kept."""
    error: OnwardError | None = None
    """What ended it early, such as a store that cannot be reached."""

    @property
    def text(self) -> str:
        return " ".join(sentence.text for sentence in self.sentences)


class ActionProgress:
    """How far a running action has come; the caller overrides `sleep` and `show`, and may set `stopping`."""

    def __init__(self) -> None:
        self.done = 0
        self.total = 0
        self.text = ""
        self.stopping = False

    def update(self, done: int, text: str = "") -> None:
        """Report how many things are done, and what is done just now."""
        self.done, self.text = done, text
        self.show()

    def show(self) -> None:
        """Show the progress to a person."""

    def check(self) -> None:
        """Raise `ActionStopped` if the action must stop."""
        if self.stopping:
            raise ActionStopped

    def sleep(self, seconds: float) -> None:
        """Wait; raise `ActionStopped` if the action must stop."""
        self.check()
        time.sleep(seconds)


class Action(ABC):
    """A change that an operator makes, with its parameters as fields."""

    log_name: ClassVar[str]
    """What the action log calls it."""

    @abstractmethod
    def plan(self, app: App) -> ActionPlan:
        """Return what it would do; refuse parameters that make no sense with `BadInput` or `NotFound`."""

    @abstractmethod
    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        """Do it, and add one entry to the action log."""

    def log(self, app: App, actor: Actor, about: Mapping[str, Any], touched: int) -> None:
        """Add an entry to the action log, unless nothing was changed."""
        log_action(app, self.log_name, about, touched, who=actor.who, via=actor.via)


# -- parts that actions share


def plain(*texts: str) -> tuple[ActionMessage, ...]:
    """Return sentences without a tone."""
    return tuple(ActionMessage(text) for text in texts)


def worker_sentence(app: App, alive: str = "") -> tuple[ActionMessage, ...]:
    """Say how to start a worker if none is alive; else `alive`, if it is given."""
    if not alive_workers(app.store):
        start = f"No worker is alive to do it; start one: {worker_command(app.store)}"
        return (ActionMessage(start, Tone.WARNING),)
    return (ActionMessage(alive, Tone.HINT),) if alive else ()


def pages(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Split items into lists of at most `size`."""
    remaining = iter(items)
    while page := list(islice(remaining, size)):
        yield page


def in_steps(
    items: Iterable[Item], size: int, progress: ActionProgress, step: Callable[[list[Item]], int]
) -> bool:
    """Change items page by page; return whether it was stopped before the last page."""
    for page in pages(items, size):
        if progress.stopping:
            return True
        progress.update(progress.done + step(page))
    return False


def stopped_sentence(done: str, total: str, verb: str) -> ActionMessage:
    """Say how far an action came before it was stopped."""
    return ActionMessage(
        one_line(f"{done} of {total} {verb}, then stopped. The same command goes on with the rest.")
    )


def log_action(app: App, action: str, about: Mapping[str, Any], touched: int, *, who: str, via: str) -> None:
    """Add an entry, unless nothing was changed; parameters that were not given are left out."""
    if touched:
        given = {name: _redacted(value) for name, value in about.items() if value not in (None, False, (), [])}
        app.store.log_action(who, via, action, given, touched)


def _redacted(value: Any) -> Any:
    """Return a value without its secrets: a source may carry a password."""
    if isinstance(value, list | tuple):
        return [_redacted(item) for item in value]
    return redact(value) if isinstance(value, str) else value


def user_name() -> str:
    """Return the name of the user of this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"  # a process without a user name, as in some containers


def action_facts(entry: LoggedAction) -> dict[str, Any]:
    """Return an entry of the log, for programs."""
    return {
        "id": entry.id,
        "at": iso(entry.at),
        "who": entry.who,
        "via": entry.via,
        "action": entry.action,
        "about": entry.about,
        "touched": entry.touched,
    }
