"""Finds stores, sources and documents by names or ids in part, and makes commands for them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from onward.model.documents import DocumentKey, DocumentState
from onward.ops.bad_input import BadInput, NotFound
from onward.ops.text.format import SHORT_ID, number, one_line, printable, shell_command, source_name
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward.app import App
    from onward.ledger.store import Store

EMPTY = "Nothing has been ingested yet. Begin with:\n  onward ingest SOURCE…   (a mailbox, a folder or a URL)"
PIPELINE_WORKER = "onward worker"
PIPELINE_SERVICES = ("ingestion", "parsing", "chunking", "embedding", "orchestration", "summarization")
PAGE = 500  # documents that are read or changed at once
LEAST_PREFIX = 4
_SHOWN_MATCHES = 10
_DERIVED = re.compile(r"[0-9a-f]{32}")  # an id of `Document.make_id`: it is shown and accepted by its beginning
_PREFERRED = ("messages", "threads", "archives", "chunks", "summaries", "tasks", "reports")
Item = TypeVar("Item")


def store_file(store: str) -> Path | None:
    """Return the file that holds the store, if it is one."""
    rest = store.partition("://")[2].removeprefix("/")
    return Path(rest) if store.startswith("sqlite:") and rest != ":memory:" else None


def is_server(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


def store_exists(store: str) -> bool:
    """Return whether there is a store; none is created."""
    if (file := store_file(store)) is not None:
        return file.exists()
    if not is_server(store):
        return True
    try:
        from onward.ledger.postgres.inspection import exists
    except ModuleNotFoundError:
        return True  # opening it raises an error that names the package to install
    return exists(store)


def check_store(store: str) -> None:
    if not store_exists(store):
        raise NotFound(f"there is no store at {store_file(store) or redact(store)}.\n{EMPTY}")


def worker_command(store: Store) -> str:
    """Return the command that starts a worker for this store, which may be that of another app."""
    return PIPELINE_WORKER if is_pipeline_store(store) else "onward worker --app MODULE:APP"


def is_pipeline_store(store: Store) -> bool:
    services = {subscription.service.partition(".")[0] for subscription in store.subscriptions()}
    return services <= set(PIPELINE_SERVICES)


def resolve_source(app: App, location: str) -> str:
    """Return the ingested source with this location, or with a location that ends so."""
    from onward.pipeline.sources import known_source

    source = known_source(app, location)
    sources = app.store.sources()
    if source not in sources:
        listed = "\n".join(f"  {source_name(one)}" for one in sorted(sources)) or "  (none)"
        raise NotFound(f"there is no source {one_line(location)!r}. The known ones are:\n{listed}")
    return source


def check_service(app: App, service: str) -> None:
    names = sorted(subscription.service for subscription in app.store.subscriptions())
    if service not in names:
        raise BadInput(f"there is no service {service!r}; there are: {', '.join(names) or '(none)'}")


def check_collection(app: App, collection: str) -> None:
    """Refuse a collection that has no documents: it is likely misspelt."""
    names = sorted(app.store.document_counts())
    if names and collection not in names:
        raise BadInput(f"{collection!r} has no documents; there are: {', '.join(names)}")


def pages(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    remaining = iter(items)
    while page := list(islice(remaining, size)):
        yield page


def all_states(
    store: Store, after: DocumentKey = ("", ""), at_once: int = PAGE, **filters: Any
) -> Iterator[DocumentState]:
    """Yield the documents that match the filters of `find_states`, behind `after`, page by page."""
    while page := store.find_states(after=after, limit=at_once, **filters):
        after = (page[-1].collection, page[-1].id)
        yield from page


def read_bodies(store: Store, keys: Iterable[DocumentKey]) -> Iterator[tuple[DocumentKey, Any]]:
    ids: dict[str, list[str]] = {}
    for collection, id in keys:
        ids.setdefault(collection, []).append(id)
    for collection, some in ids.items():
        for id, _, text in store.read_bodies(collection, some):
            yield (collection, id), json.loads(text)


def resolve(app: App, given: str, among: Sequence[str] = ()) -> DocumentKey:
    """Return the collection and id of the document with this id, beginning of an id, or COLLECTION/ID.

    A thread and its summary share their id, as may an order and its invoice: of such documents the first
    collection wins, and one that a service finishes.
    """
    prefix = printable(given.strip())
    found = _exactly(app, printable(given), among) or _exactly(app, prefix, among)
    collection, slash, rest = prefix.partition("/")
    if not found and slash and not among and collection in app.store.document_counts():
        return resolve(app, printable(given).lstrip().partition("/")[2], [collection])
    if not found and len(prefix) < LEAST_PREFIX:
        raise BadInput(
            f"no document has the id {one_line(prefix)!r}, which is too short for the beginning of one: "
            f"give at least the first {LEAST_PREFIX} characters"
        )
    found = found or [one for one in app.store.ids_like(prefix, limit=1000) if not among or one[0] in among]
    if not found:
        of = f" of {' or '.join(among)}" if among and (rest or len(among) == 1) else ""
        raise NotFound(f"no document{of} has an id that begins with {one_line(prefix)!r}; see `onward documents`")
    ids = sorted({id: name for name, id in reversed(found)}.items())
    if len(ids) > 1:
        lines = [f"{one_line(prefix)!r} begins the ids of {number(len(ids))} documents; give more of one:"]
        lines += [f"  {one_line(id)}  ({name})" for id, name in ids[:_SHOWN_MATCHES]]
        more = len(ids) - _SHOWN_MATCHES
        raise NotFound("\n".join([*lines, *([f"  … and {number(more)} more"] if more > 0 else [])]))
    order, finished = among or _PREFERRED, {subscription.finishes for subscription in app.store.subscriptions()}
    return min(
        found, key=lambda one: (order.index(one[0]) if one[0] in order else len(order), one[0] not in finished)
    )


def _exactly(app: App, id: str, among: Sequence[str]) -> list[DocumentKey]:
    keys = [(name, id) for name in (among or app.store.document_counts())]
    return [(state.collection, state.id) for state in app.store.states_of(keys)]


def short_ids(app: App, ids: Sequence[str]) -> dict[str, str]:
    """Return a unique beginning of each id: 8 characters or more of derived ids, and others whole."""
    shorter = {}
    for id in ids:
        length = SHORT_ID if _DERIVED.fullmatch(id) else len(id)
        while length < len(id) and len({one for _, one in app.store.ids_like(id[:length], limit=4)}) > 1:
            length += 4
        shorter[id] = id[:length]
    return shorter


def show_command(app: App, collection: str, id: str) -> str:
    short = short_ids(app, [id])[id]
    shown = shell_command("onward show", short if short != id else f"{collection}/{id}")
    return shown or "onward documents --json   (its id has characters that nobody can type)"
