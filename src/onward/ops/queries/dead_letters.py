"""Failed queues and the dead letters in them."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from typing import Any

from onward.app import App
from onward.model.ledger import DeadLetter
from onward.ops.bad_input import BadInput
from onward.ops.lookup import resolve
from onward.ops.queries.failure_groups import fingerprint_of
from onward.ops.text.format import iso, one_line
from onward.ops.text.history import last_error_text
from onward.recovery.requeue_dead_letters import DeadLetterFilter, matching_dead_letters
from onward.retry.redact import redact, redact_values


def failed_queues(app: App, counts: dict[str, dict[str, int]] | None = None) -> dict[str, list[str]]:
    """Return every failed queue, and its services; events of no service have an empty service name."""
    counts = app.store.counts() if counts is None else counts
    queues: dict[str, list[str]] = {}
    for subscription in sorted(app.store.subscriptions(), key=lambda subscription: subscription.service):
        queue = subscription.failed_queue or f"{subscription.service}.failed"
        queues.setdefault(queue, []).append(subscription.service)
    subscribed = {service for services in queues.values() for service in services}
    for service, states in sorted(counts.items()):
        if service not in subscribed and (states.get("dead") or states.get("archived")):
            queues.setdefault(f"{service or 'events'}.failed", []).append(service)
    return queues


def failed_queue_facts(app: App, *, archived: bool, queue: str | None = None) -> list[dict[str, Any]]:
    """Return the counts and errors of every failed queue, or of the queue with this name."""
    every, counts = app.store.dead_letter_groups(archived=archived), app.store.counts()
    facts = []
    for name, services in failed_queues(app, counts).items():
        if queue not in (None, name):
            continue
        groups = [group for group in every if group.service in services]
        frequent = max(groups, key=lambda group: group.dead_letters, default=None)
        example = dead_letter_at(app, frequent.example, archived=archived) if frequent is not None else None
        facts.append(
            {
                "queue": name,
                "service": ", ".join(services),
                "dead_letters": sum(counts.get(service, {}).get("dead", 0) for service in services),
                "oldest": iso(min((group.oldest for group in groups), default=None)),
                "newest": iso(max((group.newest for group in groups), default=None)),
                "most_frequent_error": last_error_text(example) if example is not None else None,
                "archived": sum(counts.get(service, {}).get("archived", 0) for service in services),
            }
        )
    return facts


@dataclass(frozen=True, slots=True)
class ChosenDeadLetters:
    """The dead letters that match the filters of a command."""

    app: App
    name: str
    about: dict[str, Any]  # for the action log
    archived: bool
    row: int | None = None
    rows: Sequence[int] = ()  # some that were chosen one by one
    services: Sequence[str] = ()  # none: all
    filter: DeadLetterFilter = field(default_factory=DeadLetterFilter)

    def total(self) -> int:
        """Return the number of dead letters in the queue, without regard to the other filters."""
        if self.row is not None:
            return 1
        counts, state = self.app.store.counts(), "archived" if self.archived else "dead"
        return sum(counts[name].get(state, 0) for name in counts if not self.services or name in self.services)

    def count(self) -> int:
        """Return how many dead letters match; they are read only if a filter needs it."""
        if self.row is not None:
            next(self.letters())  # refuses a number that nothing has
            return 1
        if self.rows:
            return sum(1 for _ in self.letters())
        store, wanted = self.app.store, self.filter
        if wanted.limit is not None or wanted.since is not None or wanted.document is not None:
            return sum(1 for _ in self.letters())
        types = {one.fingerprint: one.error_type for one in store.failure_groups()} if wanted.error_type else {}
        return sum(
            group.dead_letters
            for group in store.dead_letter_groups(archived=self.archived)
            if (not self.services or group.service in self.services)
            and wanted.fingerprint in (None, group.fingerprint)
            and wanted.error_type in (None, types.get(group.fingerprint, ""))
        )

    def letters(self, begun: float | None = None) -> Iterator[DeadLetter]:
        """Yield the dead letters; those that were given up after `begun`, or after now, are left out."""
        if self.row is not None:
            return iter([dead_letter_at(self.app, self.row, archived=self.archived)])
        if self.rows:
            return self._chosen_rows(begun)
        filters = [replace(self.filter, service=service) for service in self.services] or [self.filter]
        store, archived = self.app.store, self.archived
        each = (matching_dead_letters(store, filter, archived=archived, begun=begun) for filter in filters)
        return islice(chain.from_iterable(each), self.filter.limit)

    def _chosen_rows(self, begun: float | None) -> Iterator[DeadLetter]:
        """Yield those of the chosen rows that are still there."""
        for row in sorted(set(self.rows)):
            found = self.app.store.find_dead_letters(after=row - 1, archived=self.archived, limit=1)
            if found and found[0].row == row and (begun is None or found[0].timestamp <= begun):
                yield found[0]


@dataclass(frozen=True, slots=True)
class DeadLetterSelection:
    """Which dead letters are meant: those of a queue, of all queues, or one; narrowed by filters."""

    queue: str | None = None  # a failed queue, a service, or the number of one dead letter
    everything: bool = False
    row: int | None = None
    group: str | None = None
    error_type: str | None = None
    since: float | None = None
    document: str | None = None
    limit: int | None = None
    rows: tuple[int, ...] = ()  # some dead letters, by their numbers

    def find(self, app: App, *, archived: bool = False) -> ChosenDeadLetters:
        """Return the dead letters; refuse names that nothing has."""
        queue, row, filters = self.queue, self.row, asdict(self)
        if rows := filters.pop("rows"):
            about = {"rows": list(rows), "archived": archived}
            return ChosenDeadLetters(app, f"{len(rows)} chosen", about, archived, rows=rows)
        about = {"queue": filters.pop("queue"), "all": filters.pop("everything"), "row": filters.pop("row")}
        about |= {"archived": archived, **filters, "since": iso(self.since)}
        if row is None and self.everything == (queue is not None):
            remedy = f"give a failed queue, or --all.\n{_listed(app)}"
            raise BadInput(remedy if queue is None else "give a queue or --all, not both")
        name, services, queues = "all failed queues", list[str](), failed_queues(app)
        if queue is not None:
            named = [name for names in queues.values() for name in names if name and name == queue]
            services = queues.get(queue) or named
            if not services and queue.isdecimal() and queue.isascii():
                if any(filter is not None for filter in filters.values()):
                    remedy = "--group, --since, … choose among those of a queue"
                    raise BadInput(f"{queue} is one dead letter; {remedy}")
                row = int(queue)
            elif not services:
                raise BadInput(f"there is no failed queue {one_line(queue)!r}.\n{_listed(app)}")
            else:
                name = next(name for name, names in queues.items() if services[0] in names)
        if row is not None:
            return ChosenDeadLetters(app, f"dead letter {row}", about, archived, row)
        if self.error_type is not None:
            _check_error_type(app, self.error_type, archived)
        group = self.group.strip() if self.group is not None else None
        if group is not None and not app.store.find_dead_letters(fingerprint=group, archived=archived, limit=1):
            group = fingerprint_of(app, group)
        wanted = DeadLetterFilter(
            fingerprint=group,
            error_type=self.error_type,
            since=self.since,
            document=_document(app, self.document) if self.document is not None else None,
            limit=self.limit,
        )
        return ChosenDeadLetters(app, name, about, archived, services=services, filter=wanted)


def _listed(app: App) -> str:
    names = "\n".join(f"  {one_line(name)}" for name in failed_queues(app))
    none = "There are none: no service has subscribed, and nothing has failed."
    return f"There are:\n{names}" if names else none


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


def dead_letter_facts(letter: DeadLetter) -> dict[str, Any]:
    event, facts = letter.original_event, asdict(letter)
    if not facts.pop("unread") and event is not None:  # else it is shown as it was sent
        event = event | {"timestamp": iso(event["timestamp"])}
    return facts | {
        "original_event": event,
        "last_error": redact(letter.last_error),
        "timestamp": iso(letter.timestamp),
        "errors": [error_facts(error) for error in letter.errors],
        "documents": [{"collection": collection, "id": id} for collection, id in letter.documents],
        "raw": base64.b64encode(letter.raw).decode() if letter.raw is not None else None,
        "properties": redact_values(letter.properties),
    }


def error_facts(error: dict[str, Any]) -> dict[str, Any]:
    """Return a stored error without secrets."""
    redacted = {name: redact(value) if isinstance(value, str) else value for name, value in error.items()}
    return redacted | {"at": iso(error.get("at"))}


def dead_letter_brief(letter: DeadLetter) -> dict[str, Any]:
    whole = dead_letter_facts(letter)
    names = ("row", "failed_queue", "service_name", "timestamp", "documents", "attempt_count", "round")
    return {name: whole[name] for name in (*names, "abandoned_reason", "error_type", "last_error", "fingerprint")}
