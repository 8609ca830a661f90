"""Which documents a command is about: by id, failure group, collection, status, source or age."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from onward.cli.dates import Span
from onward.cli.opening import NotFound, known, resolve
from onward.cli.output import one_line
from onward.model.documents import Status
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App, DocumentState

PAGE = 500
GIVEN_UP = (Status.FAILED, Status.FAILED_MAX_RETRIES, Status.DISCARDED)
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Filters:
    """What somebody has asked for; everything given must hold."""

    status: str | None = None
    collection: str | None = None
    source: str | None = None
    group: str | None = None
    older_than: float | None = None

    @property
    def given(self) -> bool:
        return any(one is not None for one in self.as_dict().values())

    def as_dict(self) -> dict[str, Any]:
        """For the action log."""
        return {
            "status": self.status,
            "collection": self.collection,
            "source": self.source if self.source is None else redact(self.source),
            "group": self.group,
            "older_than": self.older_than,
        }


def filter_options(command: Command) -> Command:
    """The options that choose documents."""
    for option in reversed(
        (
            click.option(
                "--status",
                type=click.Choice([one.value for one in Status]),
                help="Documents that stand so; `failed` are also those that failed in too many rounds.",
            ),
            click.option("--collection", metavar="NAME", help="Documents of this collection."),
            click.option("--source", metavar="SOURCE", help="Documents of this source; the end of it will do."),
            click.option("--group", metavar="FINGERPRINT", help="Documents of this failure group."),
            click.option(
                "--older-than", type=Span(), metavar="SPAN", help="Not changed for so long: 90s, 10m, 2h, 30d, 4w."
            ),
        )
    ):
        command = option(command)
    return command


def statuses_of(status: str | None, otherwise: Sequence[str | None]) -> Sequence[str | None]:
    """The statuses that one stands for; without one, the usual ones."""
    if status is None:
        return otherwise
    return (Status.FAILED, Status.FAILED_MAX_RETRIES) if status == Status.FAILED else (status,)


def choose(app: App, filters: Filters, statuses: Sequence[str | None]) -> Iterator[DocumentState]:
    """The documents that match and have one of these statuses (None: any), by status, collection and id."""
    if filters.collection is not None:
        check_collection(app, filters.collection)
    source = known(app, filters.source) if filters.source else None
    fingerprint = fingerprint_of(app, filters.group) if filters.group else None
    before = app.store.now() - filters.older_than if filters.older_than is not None else None
    for status in statuses:
        after = ("", "")
        while page := app.store.find_states(
            collection=filters.collection,
            status=status,
            source=source,
            fingerprint=fingerprint,
            before=before,
            after=after,
            limit=PAGE,
        ):
            after = (page[-1].collection, page[-1].id)
            yield from page


def check_collection(app: App, collection: str) -> None:
    """Refuse a collection that has no documents: it is likely misspelt."""
    names = sorted(app.store.document_counts())
    if names and collection not in names:
        raise click.BadParameter(
            f"{collection!r} has no documents; there are: {', '.join(names)}", param_hint="'--collection'"
        )


def fingerprint_of(app: App, given: str) -> str:
    """The failure group that a fingerprint, or the beginning of one, means."""
    given = given.strip()
    if app.store.find_states(fingerprint=given, limit=1) or app.store.failure_group(given) is not None:
        return given
    found = [one.fingerprint for one in app.store.failure_groups() if given and one.fingerprint.startswith(given)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(f"there is no failure group {one_line(given)!r}; see `onward failures list`")
    listed = "\n".join(f"  {one}" for one in found[:10])
    raise NotFound(f"{one_line(given)!r} begins {len(found)} failure groups; give more of one:\n{listed}")


def key_of(app: App, given: str) -> tuple[str, str]:
    """The document that an id, the beginning of one, or COLLECTION/ID means."""
    collection, slash, id = given.strip().partition("/")
    if slash and collection in app.store.document_counts():
        return resolve(app, id, [collection])
    return resolve(app, given)
