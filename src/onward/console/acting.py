"""What a person can change from the console: each change says first what it touches.

A change is a class with a name in `CHANGES`. `/confirm/NAME?…` shows its plan, `/do/NAME` carries it out; both
get the same fields. The API uses the same classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from onward.app import App
from onward.console.operations import Operation


@dataclass(frozen=True, slots=True)
class Field:
    """Something that is asked before a change."""

    name: str
    label: str
    kind: str = "text"
    """The type of its `input`; `textarea` and `checkbox`, too."""
    value: str = ""
    hint: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What a change would do."""

    title: str
    button: str
    touches: int
    """How many documents, letters or other things it is about."""
    sentences: tuple[str, ...]
    """What it does to them, and what it leaves alone."""
    undo: str = ""
    """How it can be undone; empty: it is final."""
    back: str = "/"
    """Where the page is that it was asked from."""
    fields: tuple[Field, ...] = field(default=())
    long: bool = False
    """It may take a while: it runs beside the page, which shows how it goes."""


class Change(Protocol):
    """Something that can be done from a page."""

    name: ClassVar[str]

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        """What it would do, given these fields; nothing is changed."""
        ...

    def do(self, app: App, given: Mapping[str, str], operation: Operation, *, who: str, via: str) -> str:
        """Do it, keep it in the action log, and answer in a sentence what was done."""
        ...


CHANGES: dict[str, Change] = {}


def change(kind: type[Change]) -> type[Change]:
    """Make a change known."""
    CHANGES[kind.name] = kind()
    return kind
