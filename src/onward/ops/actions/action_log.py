"""The log of what people have changed by hand."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onward.ops.text.format import iso
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App
    from onward.model.ledger_views import LoggedAction


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
