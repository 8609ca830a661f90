"""Retiring a service that was removed; taking a dependency out of service by hand, and bringing it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onward.app import App
from onward.ops.actions.action import Action, ActionOutcome, ActionPlan, ActionProgress, Actor, Messages, Tone, say
from onward.ops.bad_input import BadInput
from onward.ops.queries.services import breaker_facts, known_dependencies, runs, service_facts
from onward.ops.text.format import counted, one_line, shell_command, worker_process
from onward.retry.redact import redact
from onward.runtime.process_identity import alive_workers


@dataclass(frozen=True, slots=True)
class RetireService(Action):
    """Retire a service that no worker runs: it takes no more events, and those that wait become dead letters."""

    name: str

    def plan(self, app: App) -> ActionPlan:
        service = self._service(app)
        events = service["waiting"] + service["claimed"]
        return ActionPlan(
            f"Retire {one_line(self.name, 60)}",
            *self._results(service, events, done=False),
            undo="start a worker of the service again, and put its dead letters back.",
            confirmation=f"this retires {self.name} and makes dead letters of {counted(events, 'event')}",
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        service = self._service(app)
        results = self._results(service, app.store.retire_service(self.name), done=True)
        actor.log(app, "services retire", {"service": self.name}, results[0])
        return ActionOutcome(*results)

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

    def _results(
        self, service: dict[str, Any], events: int, *, done: bool
    ) -> tuple[int, Messages, dict[str, Any]]:
        queue, aside = service["failed_queue"], service["set_aside"]
        sentences = say(f"{one_line(self.name)} {'is' if done else 'would be'} retired.")
        if events:
            became = "became" if done else "would become"
            kind = "a dead letter" if events == 1 else "dead letters"
            command = shell_command("onward failed list", one_line(queue))
            sentences += say(f"{counted(events, 'event')} {became} {kind}: {command}")
        if aside:
            leave, their = "left" if done else "would leave", "its" if aside == 1 else "their"
            sentences += say(f"{counted(aside, 'document')} {leave} {their} failed batch.")
        if service["finishes"] and (events or aside):
            finishes = one_line(service["finishes"])
            discard = shell_command("onward documents discard --status pending --collection", finishes)
            hint = f"Their documents stay pending. If no other service finishes {finishes}: {discard}"
            sentences += say(hint, tone=Tone.HINT)
        facts = {"service": self.name, "events": events, "set_aside": aside, "failed_queue": queue}
        return max(1, events), sentences, facts


@dataclass(frozen=True, slots=True)
class OpenBreaker(Action):
    """Take a dependency out of service until `CloseBreaker`."""

    name: str
    reason: str | None = None  # needed to run it, for everybody who looks

    def plan(self, app: App) -> ActionPlan:
        breaker = _breaker(app, self.name)
        already = ""
        if breaker["state"] == "open":
            reason = one_line(breaker["reason"], 200) or "no reason is known"
            already = f"It is down already ({reason}); it will not be probed any more."
        return ActionPlan(
            f"Take {one_line(self.name, 60)} out of service",
            1,
            say(
                f"Nothing that needs {one_line(self.name)} is started; {_services(breaker)} needs it.",
                already,
                "Events that wait for it lose neither tries nor time.",
            ),
            undo="close its breaker.",
        )

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        reason = one_line(redact(self.reason or ""), 500)
        if not reason:
            raise BadInput("the reason is empty; give one, for everybody who looks")
        before = _breaker(app, self.name)
        close = shell_command("onward breakers close", self.name)
        app.store.open_breaker(self.name, reason, remedy=f"when it is back: {close}", by_hand=True)
        actor.log(app, "breakers open", {"dependency": self.name, "reason": reason}, 1)
        why, change = one_line(before["reason"], 200), "is out of service"
        if before["state"] == "open" and before["by_hand"]:
            change = f"was out of service already ({why}): only the reason is new"
        elif before["state"] == "open":
            change = f"was down already ({why}): now it is not probed any more"
        text = f"{one_line(self.name)} {change}; to bring it back: {close}"
        return ActionOutcome(1, say(text), _breaker(app, self.name))


@dataclass(frozen=True, slots=True)
class CloseBreaker(Action):
    """Let events that need a dependency go on, and end its episode."""

    name: str

    def plan(self, app: App) -> ActionPlan:
        breaker = _breaker(app, self.name)
        title = f"Bring {one_line(self.name, 60)} back"
        if breaker["since"] is None:
            return ActionPlan(title, 0, say(f"{one_line(self.name)} is not down: nothing to close"))
        waiting = counted(breaker["waiting"], "event")
        sentence = f"{waiting} of {_services(breaker)} may go on: one at first, then more and more."
        probed = "" if breaker["by_hand"] else "If it is still down, the first one waits again, and loses no try."
        return ActionPlan(title, 1, say(sentence, probed), undo="open its breaker again.")

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        before = _breaker(app, self.name)
        failing = before["since"] is not None
        if failing:
            app.store.close_breaker(self.name)
            actor.log(app, "breakers close", {"dependency": self.name}, 1)
        result = "is in service again" if failing else "is not down: nothing to close"
        if failing and not before["by_hand"]:
            result += "; if it is still down, its breaker opens again"
        return ActionOutcome(int(failing), say(f"{one_line(self.name)} {result}"), _breaker(app, self.name))


def _breaker(app: App, name: str) -> dict[str, Any]:
    """Return the facts of a breaker; refuse a dependency that no service needs: it is likely misspelt."""
    known = known_dependencies(app)
    if name not in known:
        names = ", ".join(known) or "none, as no service has been started that needs one"
        raise BadInput(f"there is no dependency {one_line(name)!r}; known are: {names}")
    return next(breaker for breaker in breaker_facts(app) if breaker["dependency"] == name)


def _services(breaker: dict[str, Any]) -> str:
    return ", ".join(breaker["services"]) or "no service"
