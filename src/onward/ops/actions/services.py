"""Retiring a service that was removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from onward.app import App
from onward.ops.actions.action import (
    Action,
    ActionMessage,
    ActionOutcome,
    ActionPlan,
    ActionProgress,
    Actor,
    Tone,
    plain,
)
from onward.ops.bad_input import BadInput
from onward.ops.queries.workers import breaker_facts, known_dependencies, runs, service_facts
from onward.ops.text.format import counted, one_line, shell_command, worker_process
from onward.retry.redact import redact
from onward.runtime.process_identity import alive_workers


@dataclass(frozen=True, slots=True)
class RetireService(Action):
    """Retire a service that no worker runs: it takes no more events, and those that wait become dead letters."""

    name: str
    log_name: ClassVar[str] = "services retire"

    def plan(self, app: App) -> ActionPlan:
        service = self._service(app)
        events = service["waiting"] + service["claimed"]
        confirmation = f"this retires {self.name} and makes dead letters of {counted(events, 'event')}"
        return ActionPlan(
            f"Retire {one_line(self.name, 60)}",
            max(1, events),
            _sentences(service, events, done=False),
            self._facts(service, events),
            undo="start a worker of the service again, and put its dead letters back.",
            confirmation=confirmation,
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        service = self._service(app)
        events = app.store.retire_service(self.name)
        self.log(app, actor, {"service": self.name}, max(1, events))
        return ActionOutcome(max(1, events), _sentences(service, events, done=True), self._facts(service, events))

    def _service(self, app: App) -> dict[str, Any]:
        """Return the facts of the service; refuse one that does not exist or that a worker runs."""
        known = {service["service"]: service for service in service_facts(app.store)}
        if self.name not in known:
            names = ", ".join(known) or "none"
            raise BadInput(f"there is no service {one_line(self.name)!r}; there are: {names}")
        running = [worker for worker in alive_workers(app.store) if runs(worker, self.name)]
        if running:
            processes = ", ".join(worker_process(worker["worker"]) for worker in running)
            raise BadInput(
                f"{self.name} is run by {processes}: stop it first, or start it without {self.name}. A worker of "
                "another machine that has died is not counted any more 90 s after it was last seen"
            )
        return known[self.name]

    def _facts(self, service: dict[str, Any], events: int) -> dict[str, Any]:
        kept = {name: service[name] for name in ("set_aside", "failed_queue")}
        return {"service": self.name, "events": events, **kept}


def _sentences(service: dict[str, Any], events: int, *, done: bool) -> tuple[ActionMessage, ...]:
    name, queue, aside = one_line(service["service"]), one_line(service["failed_queue"]), service["set_aside"]
    sentences = plain(f"{name} {'is' if done else 'would be'} retired.")
    if events:
        became = "became" if done else "would become"
        kind = "a dead letter" if events == 1 else "dead letters"
        sentences += plain(
            f"{counted(events, 'event')} {became} {kind}: {shell_command('onward failed list', queue)}"
        )
    if aside:
        leave, their = "left" if done else "would leave", "its" if aside == 1 else "their"
        sentences += plain(f"{counted(aside, 'document')} {leave} {their} failed batch.")
    if service["finishes"] and (events or aside):
        finishes = one_line(service["finishes"])
        discard = shell_command("onward documents discard --status pending --collection", finishes)
        hint = f"Their documents stay pending. If no other service finishes {finishes}: {discard}"
        sentences += (ActionMessage(hint, Tone.HINT),)
    return sentences


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
