"""Retiring a service that was removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

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
from onward.ops.queries.services import service_facts
from onward.ops.queries.workers import runs
from onward.ops.text.format import counted, one_line, shell_command, worker_process
from onward.runtime.process_identity import alive_workers

if TYPE_CHECKING:
    from onward import App


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
