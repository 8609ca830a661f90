"""Pages of the dead letters of a queue, their number and their kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from onward.app import App
from onward.console import form_fields
from onward.model.ledger import DeadLetter
from onward.model.ledger_views import DeadLetterGroup
from onward.ops.bad_input import NotFound
from onward.ops.queries.dead_letters import failed_queues
from onward.ops.text.format import one_line

PAGE = 50
MOST_ROW = 2**63


def queue_path(queue: str, **filters: str | None) -> str:
    """Return the path of a failed queue's page, with its filters."""
    given = urlencode({name: value for name, value in filters.items() if value})
    return f"/queues/{quote(queue, safe='')}" + (f"?{given}" if given else "")


def letter_path(row: int) -> str:
    """Return the path of a dead letter's page."""
    return f"/letters/{row}"


@dataclass(frozen=True, slots=True)
class QueuePageFilter:
    """The filters of a queue's page; an empty one matches all dead letters."""

    queue: str
    services: tuple[str, ...]
    error_type: str | None = None
    group: str | None = None
    archived: bool = False

    @property
    def filters(self) -> dict[str, str]:
        """Return the filters for a URL or a form."""
        found = {"error_type": self.error_type or "", "group": self.group or ""}
        return {name: value for name, value in found.items() if value}

    def path(self, after: int | None = None) -> str:
        more = {"archived": "yes" if self.archived else None, "after": str(after) if after else None}
        return queue_path(self.queue, **self.filters, **more)


def dead_letter_filter(app: App, queue: str, given: Mapping[str, str]) -> QueuePageFilter:
    """Return the filters of a request; refuse a queue that does not exist."""
    services = failed_queues(app).get(queue)
    if services is None:
        raise NotFound(f"there is no failed queue {one_line(queue, 100)!r}")
    error_type, group = form_fields.text(given, "error_type"), form_fields.text(given, "group")
    return QueuePageFilter(queue, tuple(services), error_type, group, form_fields.ticked(given, "archived"))


def page_of(app: App, asked: QueuePageFilter, after: int) -> tuple[list[DeadLetter], bool]:
    """Return the dead letters after a row, oldest first, and whether there are more."""
    found: list[DeadLetter] = []
    for service in asked.services:
        found += app.store.find_dead_letters(
            service=service,
            fingerprint=asked.group,
            error_type=asked.error_type,
            archived=asked.archived,
            after=after,
            limit=PAGE + 1,
        )
    found.sort(key=lambda one: one.row)
    return found[:PAGE], len(found) > PAGE


@dataclass(frozen=True, slots=True)
class DeadLetterKind:
    """The dead letters of a queue with the same fingerprint."""

    fingerprint: str
    error_type: str
    letters: int


def kinds(app: App, services: tuple[str, ...], *, archived: bool) -> list[DeadLetterKind]:
    """Return the kinds of dead letters of a queue, the most frequent first."""
    groups: dict[str, list[DeadLetterGroup]] = {}
    for one in app.store.dead_letter_groups(archived=archived):
        if one.service in services:
            groups.setdefault(one.fingerprint, []).append(one)
    types = {
        one.fingerprint: one.error_type for name in services for one in app.store.failure_groups(service=name)
    }
    found = [
        DeadLetterKind(fingerprint, types.get(fingerprint, ""), sum(one.dead_letters for one in some))
        for fingerprint, some in groups.items()
    ]
    return sorted(found, key=lambda one: (-one.letters, one.fingerprint))


def count_of(asked: QueuePageFilter, found: list[DeadLetterKind]) -> int:
    """Return the number of dead letters that match, of all pages."""
    return sum(
        one.letters
        for one in found
        if asked.group in (None, one.fingerprint) and asked.error_type in (None, one.error_type)
    )
