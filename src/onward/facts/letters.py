"""Failed queues and the dead letters in them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from onward.facts.finding import Unusable, fingerprint_of, resolve
from onward.facts.wording import counted, harmless, iso, one_line
from onward.recovery.requeueing import LetterFilter
from onward.recovery.requeueing import letters as find_letters
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App
    from onward.model.ledger import DeadLetter
    from onward.model.recovery import LetterGroup

STRAY_QUEUE = "events.failed"
RAW_SHOWN = 2_000
Counts = dict[str, dict[str, int]]
"""How many ledger rows there are, by service, then state."""


def queues(app: App, counts: Counts | None = None) -> dict[str, list[str]]:
    """Every failed queue, with the services whose letters it holds (an empty name: of none)."""
    counts = app.store.counts() if counts is None else counts
    found: dict[str, list[str]] = {}
    for one in sorted(app.store.subscriptions(), key=lambda one: one.service):
        found.setdefault(one.failed_queue or f"{one.service}.failed", []).append(one.service)
    known = {service for many in found.values() for service in many}
    for service, states in sorted(counts.items()):
        if service not in known and (states.get("dead") or states.get("archived")):
            found.setdefault(f"{service}.failed" if service else STRAY_QUEUE, []).append(service)
    return found


def queue_facts(app: App, name: str, services: list[str], archived: bool) -> dict[str, Any]:
    """What a failed queue holds, for programs."""
    return _queue_facts(
        app, name, services, archived, app.store.letter_groups(archived=archived), app.store.counts()
    )


def all_queue_facts(app: App, archived: bool) -> list[dict[str, Any]]:
    """What every failed queue holds, from one look at the store."""
    groups, counts = app.store.letter_groups(archived=archived), app.store.counts()
    return [
        _queue_facts(app, name, services, archived, groups, counts)
        for name, services in queues(app, counts).items()
    ]


def _queue_facts(
    app: App, name: str, services: list[str], archived: bool, found: list[LetterGroup], counts: Counts
) -> dict[str, Any]:
    groups = [one for one in found if one.service in services]
    frequent = max(groups, key=lambda one: one.letters, default=None)
    example = letter_at(app, frequent.example, archived=archived) if frequent is not None else None
    return {
        "queue": name,
        "service": ", ".join(services),
        "letters": sum(counts.get(one, {}).get("dead", 0) for one in services),
        "oldest": iso(min(one.oldest for one in groups)) if groups else None,
        "newest": iso(max(one.newest for one in groups)) if groups else None,
        "most_frequent_error": error_line(example) if example is not None else None,
        "archived": sum(counts.get(one, {}).get("archived", 0) for one in services),
    }


# -- which letters


@dataclass(frozen=True, slots=True)
class Choice:
    """The dead letters that a command is about."""

    app: App
    name: str
    wanted: tuple[LetterFilter, ...]
    limit: int | None
    about: dict[str, Any]
    """For the action log."""
    archived: bool = False
    row: int | None = None

    def of(self, count: int) -> str:
        """So many of these letters."""
        if self.row is not None:
            return f"Letter {self.row}" if count else "No letter"
        return f"{counted(count, 'letter')} of {self.name}"

    def total(self) -> int:
        """How many there are in the queue, whatever the other filters say."""
        if self.row is not None:
            return 1
        counts, state = self.app.store.counts(), "archived" if self.archived else "dead"
        services = {one.service for one in self.wanted}
        return sum(one.get(state, 0) for name, one in counts.items() if services == {None} or name in services)

    def letters(self) -> Iterator[DeadLetter]:
        if self.row is not None:
            return iter([letter_at(self.app, self.row, archived=self.archived)])
        each = (find_letters(self.app.store, one, archived=self.archived) for one in self.wanted)
        return islice(chain.from_iterable(each), self.limit)


def choose(
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
) -> Choice:
    """The letters of a queue (or service, or one by its number), or of all, that match."""
    if everything == (queue is not None):
        remedy = (
            f"give a failed queue, or --all.\n{_listed(app)}"
            if queue is None
            else "give a queue or --all, not both"
        )
        raise Unusable(remedy)
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
    known = queues(app)
    services: list[str] = []
    if queue is not None:
        services = known.get(queue) or [one for many in known.values() for one in many if one and one == queue]
        if not services and queue.isdecimal() and queue.isascii():
            given = (group, error_type, since, document, limit)
            if any(one is not None for one in given):
                raise Unusable(f"{queue} is one letter; --group, --since, … choose among those of a queue")
            return Choice(app, f"letter {queue}", (), None, about, archived, int(queue))
        if not services:
            raise Unusable(f"there is no failed queue {one_line(queue)!r}.\n{_listed(app)}")
    if error_type is not None:
        _check_error_type(app, error_type, archived)
    wanted = LetterFilter(
        fingerprint=_fingerprint(app, group, archived) if group is not None else None,
        error_type=error_type,
        since=since,
        document=_document(app, document) if document is not None else None,
        limit=limit,
    )
    filters = tuple(replace(wanted, service=one) for one in services) or (wanted,)
    name = (
        "all failed queues" if queue is None else next(one for one, many in known.items() if services[0] in many)
    )
    return Choice(app, name, filters, limit, about, archived)


def _listed(app: App) -> str:
    names = "\n".join(f"  {one_line(name)}" for name in queues(app))
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

    One whose letters have all gone back is none: whoever repeats a command finds nothing left to do.
    """
    if app.store.find_dead_letters(error_type=given, archived=archived, limit=1):
        return
    groups = app.store.letter_groups(archived=archived)
    known = {letter_at(app, one.example, archived=archived).error_type for one in groups} - {""}
    if known and given not in {one.error_type for one in app.store.failure_groups()}:
        there = ", ".join(one_line(one) for one in sorted(known))
        what = "archived letter" if archived else "letter"
        raise Unusable(f"no {what} has the error type {one_line(given)!r}; there are: {there}")


def _document(app: App, given: str) -> tuple[str, str]:
    """A document that may not have come yet: COLLECTION/ID is taken as it is."""
    collection, slash, id = given.strip().partition("/")
    finished = {one.finishes for one in app.store.subscriptions()}
    if slash and (collection in finished or collection in app.store.document_counts()):
        return collection, id
    return resolve(app, given)


def letter_at(app: App, row: int, *, archived: bool | None = None) -> DeadLetter:
    """The dead letter of this number; None: archived or not."""
    for one in (False, True):
        found = app.store.find_dead_letters(after=row - 1, archived=one, limit=1) if row < 2**63 else []
        if found and found[0].row == row:
            if archived in (None, one):
                return found[0]
            there = "is archived; `onward failed archive --restore` brings it back" if one else "is not archived"
            raise Unusable(f"letter {row} {there}")
    raise Unusable(f"there is no dead letter {row}; see `onward failed list`")


# -- what they say


def letter_facts(letter: DeadLetter) -> dict[str, Any]:
    """A whole dead letter."""
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
        "errors": [_error_facts(one) for one in letter.errors],
        "fingerprint": letter.fingerprint,
        "deaths": letter.deaths,
        "round": letter.round,
        "documents": [{"collection": collection, "id": id} for collection, id in letter.documents],
        "raw": base64.b64encode(letter.raw).decode() if letter.raw is not None else None,
    }


def _error_facts(error: dict[str, Any]) -> dict[str, Any]:
    told = {name: redact(value) if isinstance(value, str) else value for name, value in error.items()}
    return told | {"at": iso(error.get("at"))}


def brief_facts(letter: DeadLetter) -> dict[str, Any]:
    """What one line of a list tells."""
    whole = letter_facts(letter)
    names = ("row", "failed_queue", "service_name", "timestamp", "documents", "attempt_count", "round")
    return {name: whole[name] for name in (*names, "abandoned_reason", "error_type", "last_error", "fingerprint")}


def error_line(letter: DeadLetter, most: int = 200) -> str:
    """What a letter failed with last, on one line."""
    return one_line(redact(f"{letter.error_type}: {letter.last_error}".strip(": ")), most) or "no error is known"


def made_visible(data: bytes) -> bytes:
    """Bytes that a terminal can be shown: what would drive it is written as \\x1b."""
    text = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    return "".join(
        one if one in "\n\t" or (one != "\r" and harmless(one)) else f"\\x{ord(one):02x}" for one in text
    ).encode()
