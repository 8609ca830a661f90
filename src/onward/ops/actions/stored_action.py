"""Actions as JSON, so that one that was interrupted can be made again and run by another process."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from onward.ops.actions.action import Action
from onward.ops.actions.dead_letters import (
    ArchiveDeadLetters,
    PurgeDeadLetters,
    RequeueDeadLetters,
    RestoreDeadLetters,
)
from onward.ops.actions.document_retries import CancelScheduledRetry, RetryDocuments
from onward.ops.actions.documents import DiscardDocuments, PurgeDocuments
from onward.ops.actions.failure_groups import (
    DiscardFailedBatches,
    DiscardFailureGroup,
    RetryFailedBatches,
    RetryFailureGroup,
)
from onward.ops.actions.group_canary import RetryGroupInSteps
from onward.ops.actions.group_rules import MergeFailureGroups, SplitFailureGroup, UndoGroupRule
from onward.ops.actions.group_selections import DiscardFailureGroups, RetryFailureGroups
from onward.ops.actions.services import CloseBreaker, OpenBreaker
from onward.ops.actions.sources import CancelSource, ForgetSource, IngestAgain, RetrySource
from onward.ops.actions.watching import ChangeWatches, WatchSource
from onward.ops.bad_input import NotPossible

# An action that is run as an operation: each is safe to run again, and then skips what it has done.
_STORED: tuple[type[Action], ...] = (
    ArchiveDeadLetters,
    CancelScheduledRetry,
    CancelSource,
    ChangeWatches,
    CloseBreaker,
    DiscardDocuments,
    DiscardFailedBatches,
    DiscardFailureGroup,
    DiscardFailureGroups,
    ForgetSource,
    IngestAgain,
    MergeFailureGroups,
    OpenBreaker,
    PurgeDeadLetters,
    PurgeDocuments,
    RequeueDeadLetters,
    RestoreDeadLetters,
    RetryDocuments,
    RetryFailedBatches,
    RetryFailureGroup,
    RetryFailureGroups,
    RetryGroupInSteps,
    RetrySource,
    SplitFailureGroup,
    UndoGroupRule,
    WatchSource,
)
STORED_ACTIONS = {kind.__name__: kind for kind in _STORED}


def action_parameters(action: Action) -> dict[str, Any]:
    """Return the fields of an action that differ from their defaults, as JSON."""
    assert is_dataclass(action), "an action has its parameters as fields"
    given = {one.name: getattr(action, one.name) for one in fields(action)}
    changed = {one.name: given[one.name] for one in fields(action) if given[one.name] != _default(one)}
    changed.pop("events", None)  # classes of another app; the app that continues it has its own
    found: dict[str, Any] = to_jsonable_python(changed)
    return found


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def read_action(name: str, parameters: dict[str, Any]) -> Action:
    """Return an action with these parameters; refuse what another version of Onward has stored."""
    kind = STORED_ACTIONS.get(name)
    try:
        if kind is not None:
            return _adapter(kind).validate_python(parameters)
    except ValidationError:
        pass
    raise NotPossible(f"this version of Onward cannot read the action {name!r}; begin it anew from its page")


@cache
def _adapter(kind: type[Action]) -> TypeAdapter[Action]:
    return TypeAdapter(kind)
