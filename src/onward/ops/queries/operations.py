"""Operations that run or have run, for people and for programs."""

from __future__ import annotations

from typing import Any

from onward.app import App
from onward.model.operations import Operation, OperationStatus
from onward.ops.bad_input import BadInput
from onward.ops.queries.titles import titled_ids
from onward.ops.text.format import iso, number, one_line
from onward.retry.redact import redact, redact_values

MAX_NAMED = 5  # documents of an operation
STATUSES = tuple(str(status) for status in OperationStatus)


def list_operations(
    app: App, *, status: str | None = None, who: str | None = None, before: str | None = None, limit: int = 50
) -> list[Operation]:
    """Return operations, the latest first; refuse a status that there is not."""
    if status is not None and status not in STATUSES:
        raise BadInput(f"{one_line(status, 40)!r} is no status of an operation; there are: {', '.join(STATUSES)}")
    return app.store.operations(status=status, who=who, before=before, limit=limit)


def operation_facts(operation: Operation) -> dict[str, Any]:
    """Return an operation for programs, without secrets."""
    return {
        "id": operation.id,
        "title": redact(operation.title),
        "status": operation.status,
        "running": operation.running,
        "can_continue": operation.can_continue,
        "action": operation.action,
        "about": redact_values(operation.parameters),
        "who": operation.who,
        "via": operation.via,
        "done": operation.done,
        "total": operation.total,
        "text": operation.text,
        "problem": operation.problem or None,
        "runs": operation.run,
        "began": iso(operation.began_at),
        "ended": iso(operation.ended_at),
    }


def operation_about(app: App, operation: Operation) -> list[tuple[str, str]]:
    """Return the name and value of each parameter, those of a filter on the same level; without secrets.

    Documents have their titles.
    """
    pairs = list[tuple[str, str]]()
    for name, value in operation.parameters.items():
        if name == "keys":
            more = f" and {number(len(value) - MAX_NAMED)} more" if len(value) > MAX_NAMED else ""
            named = titled_ids(app, ["/".join(key) for key in value[:MAX_NAMED]])
            pairs.append(("documents", ", ".join(named) + more))
            continue
        if name == "quick_plan":  # how the confirmation counted, not what was done
            continue
        inner = value.items() if isinstance(value, dict) else [(name, value)]
        pairs += [(key, redact(_shown(one))) for key, one in inner if one not in (None, False, [], "")]
    return pairs


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join("/".join(map(str, one)) if isinstance(one, list) else str(one) for one in value)
    return "yes" if value is True else str(value)
