"""Dead letters as pages show them: a queue's letters page by page, how many there are, and which are meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from onward.app import App
from onward.console import fields
from onward.facts.finding import NotFound, Unusable
from onward.facts.letters import Choice, choose, letter_at, queues
from onward.facts.wording import one_line
from onward.model.ledger import DeadLetter
from onward.model.recovery import LetterGroup

PAGE = 50
MOST_ROW = 2**63


def queue_path(queue: str, **filters: str | None) -> str:
    """Where a failed queue's page is, with what is given of its filters."""
    given = urlencode({name: value for name, value in filters.items() if value})
    return f"/queues/{quote(queue, safe='')}" + (f"?{given}" if given else "")


def letter_path(row: int) -> str:
    """Where a letter's page is."""
    return f"/letters/{row}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which letters of a queue are asked for; what is empty does not matter."""

    queue: str
    services: tuple[str, ...]
    error_type: str | None = None
    group: str | None = None
    archived: bool = False

    @property
    def filters(self) -> dict[str, str]:
        """As they stand in an address or a form."""
        found = {"error_type": self.error_type or "", "group": self.group or ""}
        return {name: value for name, value in found.items() if value}

    def path(self, after: int | None = None) -> str:
        more = {"archived": "yes" if self.archived else None, "after": str(after) if after else None}
        return queue_path(self.queue, **self.filters, **more)


def wanted(app: App, queue: str, given: Mapping[str, str]) -> Wanted:
    """What somebody asks for of a queue, which must be one."""
    services = queues(app).get(queue)
    if services is None:
        raise NotFound(f"there is no failed queue {one_line(queue, 100)!r}")
    error_type, group = fields.text(given, "error_type"), fields.text(given, "group")
    return Wanted(queue, tuple(services), error_type, group, fields.ticked(given, "archived"))


def page_of(app: App, asked: Wanted, after: int) -> tuple[list[DeadLetter], bool]:
    """The letters behind a row, oldest first, and whether there are more."""
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
class Kind:
    """The letters of a queue that failed alike."""

    fingerprint: str
    error_type: str
    letters: int


def kinds(app: App, services: tuple[str, ...], *, archived: bool) -> list[Kind]:
    """What the letters of a queue failed with, the most frequent first."""
    groups: dict[str, list[LetterGroup]] = {}
    for one in app.store.letter_groups(archived=archived):
        if one.service in services:
            groups.setdefault(one.fingerprint, []).append(one)
    types = {
        one.fingerprint: one.error_type for name in services for one in app.store.failure_groups(service=name)
    }
    found = [
        Kind(fingerprint, types.get(fingerprint, ""), sum(one.letters for one in some))
        for fingerprint, some in groups.items()
    ]
    return sorted(found, key=lambda one: (-one.letters, one.fingerprint))


def count_of(asked: Wanted, found: list[Kind]) -> int:
    """How many letters match, of all pages."""
    return sum(
        one.letters
        for one in found
        if asked.group in (None, one.fingerprint) and asked.error_type in (None, one.error_type)
    )


def chosen(app: App, given: Mapping[str, str], *, archived: bool = False) -> Choice:
    """The letters that a change is about: fields `row`, or `queue` or `all`, with `group` and `error_type`."""
    row = fields.text(given, "row")
    if row is not None:
        if not (row.isascii() and row.isdecimal() and int(row) < MOST_ROW):
            raise Unusable(f"`row` is {one_line(row, 40)!r}; give the number of a letter")
        about = {"row": int(row), "archived": archived}
        return Choice(app, f"letter {int(row)}", (), None, about, archived, int(row))
    everything = fields.ticked(given, "all")
    return choose(
        app,
        None if everything else fields.needed(given, "queue"),
        everything=everything,
        archived=archived,
        group=fields.text(given, "group"),
        error_type=fields.text(given, "error_type"),
    )


def chosen_path(app: App, given: Mapping[str, str], *, archived: bool = False, gone: bool = False) -> str:
    """Where to look after a change of letters; `gone`: a letter's own page is not there any more."""
    row = fields.text(given, "row")
    if row is not None and not gone:
        return letter_path(int(row))
    queue = letter_at(app, int(row)).failed_queue if row is not None else fields.text(given, "queue")
    if queue is None:
        return "/queues"
    # Only a queue that a service has subscribed to is still there when it is empty.
    kept = {one.failed_queue or f"{one.service}.failed" for one in app.store.subscriptions()}
    if queue not in kept and (gone or queue not in queues(app)):
        return "/queues"
    asked = {} if row is not None else {name: fields.text(given, name) for name in ("error_type", "group")}
    return queue_path(queue, **asked, archived="yes" if archived and row is None else None)
