"""What people have changed by hand."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onward.facts.wording import iso
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App
    from onward.model.recovery import Action


def log_action(
    app: App, action: str, about: Mapping[str, Any], touched: int, *, who: str | None = None, via: str = "cli"
) -> None:
    """Keep that somebody has changed something; what was not given is left out.

    What has changed nothing is no action. Without `who` it was the user of this process.
    """
    if not touched:
        return
    given = {name: _shown(value) for name, value in about.items() if value not in (None, False, (), [])}
    app.store.log_action(who_am_i() if who is None else who, via, action, given, touched)


def _shown(value: Any) -> Any:
    """A value without its secrets: a source may carry a password."""
    if isinstance(value, list | tuple):
        return [_shown(one) for one in value]
    return redact(value) if isinstance(value, str) else value


def who_am_i() -> str:
    """The user of this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"  # a process without a user name, as in some containers


def action_facts(one: Action) -> dict[str, Any]:
    """What somebody has changed, for programs."""
    return {
        "id": one.id,
        "at": iso(one.at),
        "who": one.who,
        "via": one.via,
        "action": one.action,
        "about": one.about,
        "touched": one.touched,
    }
