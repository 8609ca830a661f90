"""The operation of a canary in growing steps: begun, or found again to go on with it."""

from __future__ import annotations

from dataclasses import replace

from onward.app import App
from onward.model.operations import Operation
from onward.ops.actions.action import Actor
from onward.ops.actions.group_canary import RetryGroupInSteps
from onward.ops.bad_input import NotPossible
from onward.ops.operation_run import OperationRun, begin_operation, continue_operation
from onward.ops.queries.failure_groups import find_group
from onward.ops.text.format import SHORT_ID, moment, one_line

MAX_READ = 1_000  # operations, the latest first, among which the last canary of a group is looked for


def open_canary(app: App, action: RetryGroupInSteps, actor: Actor) -> OperationRun:
    """Begin a canary, or with `action.resume` go on with the last one of its group, with its own parameters."""
    group = find_group(app, action.group).fingerprint
    if not action.resume:
        # Stored with the whole fingerprint: a beginning may fit another group later.
        whole = replace(action, group=group)
        return begin_operation(app, whole, actor, title=whole.plan(app).title)
    last = last_canary(app, group)
    begin = f"begin one: onward failures retry {group[:SHORT_ID]} --canary"
    if last is None:
        raise NotPossible(f"there is no canary of {group[:SHORT_ID]} to go on with; {begin}")
    if last.running:
        raise NotPossible(
            f"the canary of {group[:SHORT_ID]} is running since {moment(last.began_at)}, begun by "
            f"{one_line(last.who, 40)}; if its process has ended, try again in half a minute"
        )
    if not last.can_continue:
        raise NotPossible(f"the last canary of {group[:SHORT_ID]} has ended well; to put the rest back, {begin}")
    return continue_operation(app, last.id)


def last_canary(app: App, group: str) -> Operation | None:
    """Return the last canary of a group that was begun."""
    name = RetryGroupInSteps.__name__
    found = app.store.operations(limit=MAX_READ)
    return next((one for one in found if one.action == name and one.parameters.get("group") == group), None)
