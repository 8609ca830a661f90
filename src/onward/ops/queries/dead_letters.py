"""Failed queues and the dead letters in them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from onward.app import App
from onward.model.ledger import DeadLetter
from onward.model.ledger_views import DeadLetterGroup
from onward.ops.bad_input import BadInput
from onward.ops.lookup import fingerprint_of, resolve
from onward.ops.text.format import iso, one_line
from onward.ops.text.history import last_error_text
from onward.recovery.requeue_dead_letters import DeadLetterFilter, matching_dead_letters
from onward.retry.redact import redact

STRAY_QUEUE = "events.failed"
Counts = dict[str, dict[str, int]]
"""How many ledger rows there are, by service, then state."""


def failed_queues(app: App, counts: Counts | None = None) -> dict[str, list[str]]:
    """Return every failed queue, and its services; events of no service have an empty service name."""
    counts = app.store.counts() if counts is None else counts
    queues: dict[str, list[str]] = {}
    for subscription in sorted(app.store.subscriptions(), key=lambda subscription: subscription.service):
        queue = subscription.failed_queue or f"{subscription.service}.failed"
        queues.setdefault(queue, []).append(subscription.service)
    subscribed = {service for services in queues.values() for service in services}
    for service, states in sorted(counts.items()):
        if service not in subscribed and (states.get("dead") or states.get("archived")):
            queues.setdefault(f"{service}.failed" if service else STRAY_QUEUE, []).append(service)
    return queues


def failed_queue_facts(app: App, *, archived: bool, queue: str | None = None) -> list[dict[str, Any]]:
    """Return the counts and errors of every failed queue, or of the queue with this name."""
    groups, counts = app.store.dead_letter_groups(archived=archived), app.store.counts()
    return [
        _queue_facts(app, name, services, archived, groups, counts)
        for name, services in failed_queues(app, counts).items()
        if queue in (None, name)
    ]


def _queue_facts(
    app: App, name: str, services: list[str], archived: bool, every: list[DeadLetterGroup], counts: Counts
) -> dict[str, Any]:
    groups = [group for group in every if group.service in services]
    frequent = max(groups, key=lambda group: group.dead_letters, default=None)
    example = dead_letter_at(app, frequent.example, archived=archived) if frequent is not None else None
    return {
        "queue": name,
        "service": ", ".join(services),
        "letters": sum(counts.get(service, {}).get("dead", 0) for service in services),
        "oldest": iso(min(group.oldest for group in groups)) if groups else None,
        "newest": iso(max(group.newest for group in groups)) if groups else None,
        "most_frequent_error": last_error_text(example) if example is not None else None,
        "archived": sum(counts.get(service, {}).get("archived", 0) for service in services),
    }


# -- selecting dead letters


@dataclass(frozen=True, slots=True)
class ChosenDeadLetters:
    """The dead letters that match the filters of a command."""

    app: App
    name: str
    filters: tuple[DeadLetterFilter, ...]
    limit: int | None
    about: dict[str, Any]
    """For the action log."""
    archived: bool = False
    row: int | None = None

    def total(self) -> int:
        """Return the number of dead letters in the queue, without regard to the other filters."""
        if self.row is not None:
            return 1
        counts, state = self.app.store.counts(), "archived" if self.archived else "dead"
        services = {filter.service for filter in self.filters}
        return sum(
            states.get(state, 0) for name, states in counts.items() if services == {None} or name in services
        )

    def letters(self) -> Iterator[DeadLetter]:
        if self.row is not None:
            return iter([dead_letter_at(self.app, self.row, archived=self.archived)])
        each = (matching_dead_letters(self.app.store, filter, archived=self.archived) for filter in self.filters)
        return islice(chain.from_iterable(each), self.limit)


def select_dead_letters(
    app: App,
    queue: str | None,
    *,
    everything: bool = False,
    archived: bool = False,
    group: str | None = None,
    error_type: str | None = None,
    since: float | None = None,
    document: str | None = None,
    limit: int | None = None,
) -> ChosenDeadLetters:
    """Select the dead letters of a queue or a service, one by its row, or all; they match every filter."""
    if everything == (queue is not None):
        remedy = (
            f"give a failed queue, or --all.\n{_listed(app)}"
            if queue is None
            else "give a queue or --all, not both"
        )
        raise BadInput(remedy)
    about = {
        "queue": queue,
        "all": everything,
        "archived": archived,
        "group": group,
        "error_type": error_type,
        "since": iso(since),
        "document": document,
        "limit": limit,
    }
    queues = failed_queues(app)
    services: list[str] = []
    if queue is not None:
        services = queues.get(queue) or [
            name for names in queues.values() for name in names if name and name == queue
        ]
        if not services and queue.isdecimal() and queue.isascii():
            filters = (group, error_type, since, document, limit)
            if any(filter is not None for filter in filters):
                raise BadInput(f"{queue} is one dead letter; --group, --since, … choose among those of a queue")
            return ChosenDeadLetters(app, f"dead letter {queue}", (), None, about, archived, int(queue))
        if not services:
            raise BadInput(f"there is no failed queue {one_line(queue)!r}.\n{_listed(app)}")
    if error_type is not None:
        _check_error_type(app, error_type, archived)
    wanted = DeadLetterFilter(
        fingerprint=_fingerprint(app, group, archived) if group is not None else None,
        error_type=error_type,
        since=since,
        document=_document(app, document) if document is not None else None,
        limit=limit,
    )
    each = tuple(replace(wanted, service=service) for service in services) or (wanted,)
    name = (
        "all failed queues"
        if queue is None
        else next(name for name, names in queues.items() if services[0] in names)
    )
    return ChosenDeadLetters(app, name, each, limit, about, archived)


def _listed(app: App) -> str:
    names = "\n".join(f"  {one_line(name)}" for name in failed_queues(app))
    return (
        f"There are:\n{names}" if names else "There are none: no service has subscribed, and nothing has failed."
    )


def _fingerprint(app: App, given: str, archived: bool) -> str:
    given = given.strip()
    if app.store.find_dead_letters(fingerprint=given, archived=archived, limit=1):
        return given
    return fingerprint_of(app, given)


def _check_error_type(app: App, given: str, archived: bool) -> None:
    """Refuse an error type that nothing has ever failed with: it is likely misspelt.

    An error type whose dead letters were all put back is allowed: a repeated command has nothing left to do.
    """
    if app.store.find_dead_letters(error_type=given, archived=archived, limit=1):
        return
    groups = app.store.dead_letter_groups(archived=archived)
    known = {dead_letter_at(app, group.example, archived=archived).error_type for group in groups} - {""}
    if known and given not in {group.error_type for group in app.store.failure_groups()}:
        there = ", ".join(one_line(error_type) for error_type in sorted(known))
        what = "archived dead letter" if archived else "dead letter"
        raise BadInput(f"no {what} has the error type {one_line(given)!r}; there are: {there}")


def _document(app: App, given: str) -> tuple[str, str]:
    """Return the key of a document; COLLECTION/ID need not be stored yet."""
    collection, slash, id = given.strip().partition("/")
    finished = {subscription.finishes for subscription in app.store.subscriptions()}
    if slash and (collection in finished or collection in app.store.document_counts()):
        return collection, id
    return resolve(app, given)


def dead_letter_at(app: App, row: int, *, archived: bool | None = None) -> DeadLetter:
    """Return the dead letter of this row; with `archived` None, whether archived or not."""
    for is_archived in (False, True):
        found = app.store.find_dead_letters(after=row - 1, archived=is_archived, limit=1) if row < 2**63 else []
        if found and found[0].row == row:
            if archived in (None, is_archived):
                return found[0]
            restore = "is archived; `onward failed archive --restore` brings it back"
            raise BadInput(f"dead letter {row} {restore if is_archived else 'is not archived'}")
    raise BadInput(f"there is no dead letter {row}; see `onward failed list`")


# -- facts for programs


def dead_letter_facts(letter: DeadLetter) -> dict[str, Any]:
    """Return everything about a dead letter."""
    return {
        "row": letter.row,
        "failed_queue": letter.failed_queue,
        "original_event": letter.original_event | {"timestamp": iso(letter.original_event["timestamp"])},
        "idempotency_key": letter.idempotency_key,
        "attempt_count": letter.attempt_count,
        "last_error": redact(letter.last_error),
        "error_type": letter.error_type,
        "abandoned_reason": letter.abandoned_reason,
        "service_name": letter.service_name,
        "timestamp": iso(letter.timestamp),
        "errors": [_error_facts(error) for error in letter.errors],
        "fingerprint": letter.fingerprint,
        "deaths": letter.deaths,
        "round": letter.round,
        "documents": [{"collection": collection, "id": id} for collection, id in letter.documents],
        "raw": base64.b64encode(letter.raw).decode() if letter.raw is not None else None,
    }


def _error_facts(error: dict[str, Any]) -> dict[str, Any]:
    redacted = {name: redact(value) if isinstance(value, str) else value for name, value in error.items()}
    return redacted | {"at": iso(error.get("at"))}


def dead_letter_brief(letter: DeadLetter) -> dict[str, Any]:
    """Return the facts that a list shows of a dead letter."""
    whole = dead_letter_facts(letter)
    names = ("row", "failed_queue", "service_name", "timestamp", "documents", "attempt_count", "round")
    return {name: whole[name] for name in (*names, "abandoned_reason", "error_type", "last_error", "fingerprint")}
