"""Changes of breakers: a dependency taken out of service by hand, and brought back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from onward.app import App
from onward.console import fields
from onward.console.acting import Field, Plan, change
from onward.console.operations import Operation
from onward.facts.breakers import breaker_facts, check_dependency, close_by_hand, open_by_hand
from onward.facts.finding import Unusable
from onward.facts.wording import counted, one_line

BREAKERS = "/workers"


def _breaker(app: App, name: str) -> dict[str, Any]:
    check_dependency(app, name)
    return next(one for one in breaker_facts(app) if one["dependency"] == name)


def _services(breaker: dict[str, Any]) -> str:
    return ", ".join(breaker["services"]) or "no service"


@change
class OpenBreaker:
    """Take a dependency out of service: fields `name` and `reason`."""

    name: ClassVar[str] = "open-breaker"

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        name = fields.needed(given, "name")
        breaker = _breaker(app, name)
        sentences = [
            f"Nothing that needs {one_line(name)} is begun any more; it is needed by {_services(breaker)}."
        ]
        if breaker["state"] == "open":
            was = one_line(breaker["reason"], 200) or "no reason is known"
            sentences.append(f"It is down already ({was}); it is not asked any more whether it is back.")
        sentences.append("What waits loses neither tries nor time.")
        return Plan(
            f"Take {one_line(name, 60)} out of service",
            "Take it out of service",
            1,
            tuple(sentences),
            undo="bring it back on the page Workers.",
            back=BREAKERS,
            fields=(
                Field("reason", "Why", "text", given.get("reason", ""), "for everybody who looks", required=True),
            ),
        )

    def do(self, app: App, given: Mapping[str, str], operation: Operation, *, who: str, via: str) -> str:
        name, reason = fields.needed(given, "name"), fields.text(given, "reason")
        if reason is None:
            raise Unusable("`reason` is empty; say why, for everybody who looks")
        open_by_hand(app, name, reason, who=who, via=via)
        return f"{one_line(name)} is out of service."


@change
class CloseBreaker:
    """Let events that need a dependency go on: field `name`."""

    name: ClassVar[str] = "close-breaker"

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        name = fields.needed(given, "name")
        breaker = _breaker(app, name)
        down = breaker["state"] == "open"
        waiting = counted(breaker["waiting"], "event")
        sentences = (
            (f"{waiting} of {_services(breaker)} may go on: one at first, then ever more.",)
            if down
            else (f"{one_line(name)} is not down: there is nothing to bring back.",)
        )
        return Plan(
            f"Bring {one_line(name, 60)} back",
            "Bring it back",
            1 if down else 0,
            sentences,
            undo="take it out of service again." if down else "nothing is done.",
            back=BREAKERS,
        )

    def do(self, app: App, given: Mapping[str, str], operation: Operation, *, who: str, via: str) -> str:
        name = fields.needed(given, "name")
        if close_by_hand(app, name, who=who, via=via):
            return f"{one_line(name)} is in service again."
        return f"{one_line(name)} was not down."
