"""Operations: runs of actions that are stored, with their progress and result."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class OperationStatus(StrEnum):
    RUNNING = "running"
    INTERRUPTED = "interrupted"  # its process has ended, or has lost the store for longer than its lease
    STOPPED = "stopped"  # by a person
    FAILED = "failed"
    DONE = "done"


CONTINUABLE = (OperationStatus.INTERRUPTED, OperationStatus.STOPPED, OperationStatus.FAILED)


@dataclass(frozen=True, slots=True)
class Operation:
    """An action that was begun: what, by whom and when, how far it has come, and how it ended."""

    id: str
    title: str
    action: str  # the name of the action's class; empty: nothing that can be run again
    parameters: dict[str, Any]  # of the action, those that were given
    who: str
    via: str  # `cli`, `console` or `api`
    back: str  # the path of the console's page from which it was begun
    began_at: float
    ended_at: float | None
    status: str  # an `OperationStatus`
    done: int  # of all its runs
    total: int
    text: str
    problem: str  # why it failed or was stopped
    cursor: Any  # what the action has stored with `checkpoint`, to go on from there
    run: int  # 1, and 1 more each time it was continued
    stopping: bool  # a person has asked it to stop

    @property
    def running(self) -> bool:
        return self.status == OperationStatus.RUNNING

    @property
    def can_continue(self) -> bool:
        return self.status in CONTINUABLE and bool(self.action)
