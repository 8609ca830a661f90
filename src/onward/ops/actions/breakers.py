"""Taking a dependency out of service by hand, and bringing it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from onward.ops.actions.action import Action, ActionOutcome, ActionPlan, ActionProgress, Actor, plain
from onward.ops.bad_input import BadInput
from onward.ops.queries.breakers import breaker_facts, known_dependencies
from onward.ops.text.format import counted, one_line, shell_command
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App


@dataclass(frozen=True, slots=True)
class OpenBreaker(Action):
    """Take a dependency out of service until `CloseBreaker`."""

    name: str
    reason: str | None = None
    """Needed to run it, for everybody who looks."""
    log_name: ClassVar[str] = "breakers open"

    def plan(self, app: App) -> ActionPlan:
        breaker = _breaker(app, self.name)
        sentences = [f"Nothing that needs {one_line(self.name)} is started; {_services(breaker)} needs it."]
        if breaker["state"] == "open":
            reason = one_line(breaker["reason"], 200) or "no reason is known"
            sentences.append(f"It is down already ({reason}); it will not be probed any more.")
        sentences.append("Events that wait for it lose neither tries nor time.")
        title = f"Take {one_line(self.name, 60)} out of service"
        return ActionPlan(title, 1, plain(*sentences), undo="close its breaker.")

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        reason = one_line(redact(self.reason or ""), 500)
        if not reason:
            raise BadInput("the reason is empty; give one, for everybody who looks")
        before = _breaker(app, self.name)
        close = shell_command("onward breakers close", self.name)
        app.store.open_breaker(self.name, reason, remedy=f"when it is back: {close}", by_hand=True)
        self.log(app, actor, {"dependency": self.name, "reason": reason}, 1)
        text = f"{one_line(self.name)} {_opened(before)}; to bring it back: {close}"
        return ActionOutcome(1, plain(text), _breaker(app, self.name))


def _opened(before: dict[str, Any]) -> str:
    """Say what opening a breaker by hand has changed."""
    if before["state"] != "open":
        return "is out of service"
    reason = one_line(before["reason"], 200)
    if before["by_hand"]:
        return f"was out of service already ({reason}): only the reason is new"
    return f"was down already ({reason}): now it is not probed any more"


@dataclass(frozen=True, slots=True)
class CloseBreaker(Action):
    """Let events that need a dependency go on, and end its episode."""

    name: str
    log_name: ClassVar[str] = "breakers close"

    def plan(self, app: App) -> ActionPlan:
        breaker = _breaker(app, self.name)
        title = f"Bring {one_line(self.name, 60)} back"
        if breaker["since"] is None:
            return ActionPlan(title, 0, plain(f"{one_line(self.name)} is not down: nothing to close"))
        waiting = counted(breaker["waiting"], "event")
        sentence = f"{waiting} of {_services(breaker)} may go on: one at first, then more and more."
        return ActionPlan(title, 1, plain(sentence), undo="open its breaker again.")

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        failing = _breaker(app, self.name)["since"] is not None
        text = f"{one_line(self.name)} is not down: nothing to close"
        if failing:
            app.store.close_breaker(self.name)
            self.log(app, actor, {"dependency": self.name}, 1)
            text = f"{one_line(self.name)} is in service again"
        return ActionOutcome(int(failing), plain(text), _breaker(app, self.name))


def _breaker(app: App, name: str) -> dict[str, Any]:
    """Return the facts of a breaker; refuse a dependency that no service needs: it is likely misspelt."""
    known = known_dependencies(app)
    if name not in known:
        names = ", ".join(known) or "none, as no service has been started that needs one"
        raise BadInput(f"there is no dependency {one_line(name)!r}; known are: {names}")
    return next(breaker for breaker in breaker_facts(app) if breaker["dependency"] == name)


def _services(breaker: dict[str, Any]) -> str:
    return ", ".join(breaker["services"]) or "no service"
