"""What can be done about a submitted source as a whole: try again what failed of it, or let the rest be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from onward.app import App
from onward.console.acting import Plan, change
from onward.console.fields import needed, ticked
from onward.console.operations import Operation
from onward.console.rendering import document_path
from onward.facts.actions import log_action
from onward.facts.choosing import GIVEN_UP, PAGE
from onward.facts.finding import NotFound, worker_command
from onward.facts.processing import stands_for_source
from onward.facts.retrying import Key, schedule, touched, unschedule
from onward.facts.wording import counted, one_line, source_name
from onward.model.documents import DocumentState, Status
from onward.recovery.groups import discard_all

LONG = 1_000
_IN_ORDER = ("archives", "messages", "chunks", "threads")
"""What makes others is given up before them."""


def _request(app: App, given: Mapping[str, str]) -> DocumentState:
    id = needed(given, "id")
    for state in app.store.states_of([("archives", id)]):
        if stands_for_source(state):
            return state
    raise NotFound(f"no source has the document {one_line(id, 100)!r}")


def _called(request: DocumentState) -> str:
    return one_line(source_name(request.source or request.id), 80)


def _to_retry(app: App, request: DocumentState, *, reset: bool) -> list[Key]:
    """What failed of a source, was cancelled, or waits; its request first, which brings the rest."""
    own = [_key(request)] if reset or request.status != Status.PROCESSED else []
    found = (one for status in (*GIVEN_UP, Status.PENDING) for one in _with(app, request.source, status))
    # What was never begun waits for others to be finished; hurrying it would be too early.
    return list(dict.fromkeys([*own, *(_key(one) for one in found if one.round or one.failed_batch)]))


def _scheduled(app: App, request: DocumentState) -> list[Key]:
    """What was given up, and is to be tried again at a time."""
    found = (one for status in GIVEN_UP for one in _with(app, request.source, status))
    return [_key(one) for one in found if one.retry_at is not None]


def _with(app: App, source: str | None, status: str) -> Iterator[DocumentState]:
    after = ("", "")
    while page := app.store.find_states(status=status, source=source, after=after, limit=PAGE):
        after = (page[-1].collection, page[-1].id)
        yield from (one for one in page if one.collection in _IN_ORDER)


def _key(state: DocumentState) -> Key:
    return state.collection, state.id


@change
class RetrySubmitted:
    """Have all that failed of a source tried again now: field `id`; with `reset`, the source is fetched anew."""

    name: ClassVar[str] = "retry-submitted"

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        request, reset = _request(app, given), ticked(given, "reset")
        keys = _to_retry(app, request, reset=reset)
        count = touched(schedule(app, keys, app.store.now(), reset=reset, dry_run=True))
        said = [f"{counted(count, 'document')} will be tried again now." if count else _why_nothing(request)]
        if count and reset:
            said.append("The source is fetched anew, and rounds are counted from the beginning.")
        if count and not app.store.workers():
            said.append(f"No worker is alive to do it. Start one: {worker_command(app.store)}")
        return Plan(
            title=f"Retry {_called(request)}?",
            button="Retry it now",
            touches=count,
            sentences=tuple(said),
            undo="cancel it, as long as it is not done.",
            back=document_path("archives", request.id),
            long=count > LONG,
        )

    def do(self, app: App, given: Mapping[str, str], operation: Operation, *, who: str, via: str) -> str:
        request, reset = _request(app, given), ticked(given, "reset")
        keys = _to_retry(app, request, reset=reset)
        count = touched(schedule(app, keys, app.store.now(), reset=reset))
        log_action(app, "retry", {"source": request.source, "reset": reset}, count, who=who, via=via)
        return f"{counted(count, 'document')} will be tried again now."


def _why_nothing(request: DocumentState) -> str:
    if request.status == Status.PROCESSED:
        return "Nothing of it failed or waits. To fetch it anew all the same, reset it."
    return "A worker has it just now."


@change
class CancelSubmitted:
    """Give up what is not finished of a source: field `id`."""

    name: ClassVar[str] = "cancel-submitted"

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        request = _request(app, given)
        counts = app.store.document_counts(request.source)
        count = sum(counts.get(name, {}).get(Status.PENDING, 0) for name in _IN_ORDER)
        count += len(_scheduled(app, request))
        are = "is" if count == 1 else "are"
        return Plan(
            title=f"Cancel {_called(request)}?",
            button="Cancel it",
            touches=count,
            sentences=(
                f"{counted(count, 'document')} that {are} not finished will be given up. What is finished stays."
                if count
                else "All of it is finished: there is nothing to cancel.",
            ),
            undo="retry it.",
            back=document_path("archives", request.id),
            long=count > LONG,
        )

    def do(self, app: App, given: Mapping[str, str], operation: Operation, *, who: str, via: str) -> str:
        request = _request(app, given)
        count = touched(unschedule(app, _scheduled(app, request)))
        for collection in _IN_ORDER:
            while states := app.store.states(collection, status=Status.PENDING, source=request.source, limit=PAGE):
                given_up = discard_all(app.store, [_key(one) for one in states])
                count += given_up
                operation.done = count
                if not given_up:
                    break  # others are at it, too
        log_action(app, "cancel", {"source": request.source}, count, who=who, via=via)
        return f"{counted(count, 'document')} given up."
